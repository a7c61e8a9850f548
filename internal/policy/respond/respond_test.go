package respond_test

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/respond"
)

func request() *exchange.Exchange {
	x := &exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
	x.Begin(nil)
	return x
}

func TestTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		options respond.Options
		status  int
		fields  []string
	}{
		"empty": {respond.Options{}, 200, nil},
		"text":  {respond.Options{Body: []byte("ok")}, 200, []string{"Content-Type: text/plain; charset=utf-8"}},
		"typed": {respond.Options{Status: 503, Body: []byte("{}"),
			Headers: map[string]string{"content-type": "application/json", "Retry-After": "5"}},
			503, []string{"Retry-After: 5", "content-type: application/json"}},
		"no content": {respond.Options{Status: 204}, 204, nil},
		"body, other field": {respond.Options{Body: []byte("ok"), Headers: map[string]string{"X-A": ""}}, 200,
			[]string{"X-A: ", "Content-Type: text/plain; charset=utf-8"}},
	} {
		p, err := respond.New(c.options)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		x := request()
		x.Response.Fields.Add([]byte("X-Old"), []byte("gone"))
		if v := p.OnRequest(x); v != exchange.Answered || x.Reason != exchange.RouteAnswer {
			t.Fatalf("%s: verdict %d, reason %v", name, v, x.Reason)
		}
		var fields []string
		for i := range x.Response.Fields.Len() {
			f := x.Response.Fields.At(i)
			fields = append(fields, string(f.Name)+": "+string(f.Value))
		}
		if x.Response.Status != c.status || !slices.Equal(fields, c.fields) ||
			string(x.Body) != string(c.options.Body) || x.Response.Length != int64(len(x.Body)) {
			t.Errorf("%s: %d %q %q, length %d", name, x.Response.Status, fields, x.Body, x.Response.Length)
		}
	}
}

func TestBadAnswersAreRefused(t *testing.T) {
	for hint, o := range map[string]respond.Options{
		"status 101":          {Status: 101},
		"status 600":          {Status: 600},
		"status -1":           {Status: -1},
		"has no body":         {Status: 204, Body: []byte("a")},
		"304 has no body":     {Status: 304, Body: []byte("a")},
		"gateway's own":       {Headers: map[string]string{"Content-Length": "1"}},
		"control character":   {Headers: map[string]string{"X-A": "a\nb"}},
		"not a name":          {Headers: map[string]string{"": "a"}},
		"a field of requests": {Headers: map[string]string{"host": "a"}},
	} {
		if _, err := respond.New(o); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%+v: %v, want an error with %q", o, err, hint)
		}
	}
}

func TestRespondDoesNotAllocate(t *testing.T) {
	p, _ := respond.New(respond.Options{Body: []byte("ok"), Headers: map[string]string{"X-A": "a"}})
	x := request()
	p.OnRequest(x)
	if n := testing.AllocsPerRun(100, func() { p.OnRequest(x) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRespond(b *testing.B) {
	p, _ := respond.New(respond.Options{Body: []byte("ok")})
	x := request()
	b.ReportAllocs()
	for b.Loop() {
		p.OnRequest(x)
	}
}
