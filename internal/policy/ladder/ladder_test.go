package ladder_test

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/exchange/exchangetest"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/ladder"
)

// loop is the engine of exchanges that are on the loop of this number.
type loop struct {
	exchangetest.Engine
	id int
}

// LoopID implements exchange.Engine.
func (l loop) LoopID() int { return l.id }

// refused is an exchange that the gateway has refused.
func refused(on loop, method string, status int, reason exchange.Reason) *exchange.Exchange {
	x := &exchange.Exchange{Request: &head.Request{Method: []byte(method)}, Response: &head.Response{}}
	x.Begin(on)
	x.Refuse(status, reason)
	x.RetryAfter(3)
	return x
}

func policy(t testing.TB, o exchange.StaticOptions) *ladder.Policy {
	t.Helper()
	p, err := ladder.New(ladder.Options{Answer: &o, Loops: 2})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func fields(x *exchange.Exchange) (all []string) {
	for i := range x.Response.Fields.Len() {
		f := x.Response.Fields.At(i)
		all = append(all, string(f.Name)+": "+string(f.Value))
	}
	return all
}

// given is how many answers the policy says it gave.
func given(t *testing.T, p *ladder.Policy) (n float64) {
	t.Helper()
	p.Metrics(func(series int, value float64, labels ...string) {
		if series != 0 || !slices.Equal(labels, []string{"static"}) {
			t.Errorf("series %d with %q", series, labels)
		}
		n += value
	})
	return n
}

func TestTheAnswer(t *testing.T) {
	const text = "Content-Type: text/plain; charset=utf-8"
	for name, c := range map[string]struct {
		options exchange.StaticOptions
		status  int
		fields  []string
	}{
		"text": {
			exchange.StaticOptions{Body: []byte("later")}, 200,
			[]string{"Cache-Control: no-store", text, "X-Degraded: static"},
		},
		"nothing": {
			exchange.StaticOptions{Status: 204}, 204,
			[]string{"Cache-Control: no-store", "X-Degraded: static"},
		},
		"for a cache": {
			exchange.StaticOptions{Headers: map[string]string{"cache-control": "max-age=1", "X-A": "b"}}, 200,
			[]string{"X-A: b", "cache-control: max-age=1", "X-Degraded: static"},
		},
		"typed": {
			exchange.StaticOptions{Body: []byte("[]"), Headers: map[string]string{"Content-Type": "application/json"}}, 200,
			[]string{"Cache-Control: no-store", "Content-Type: application/json", "X-Degraded: static"},
		},
	} {
		x := refused(loop{}, "GET", 503, exchange.BreakerOpen)
		if v := policy(t, c.options).OnResponse(x); v != exchange.Continue {
			t.Errorf("%s: verdict %d", name, v)
		}
		if got := fields(x); x.Response.Status != c.status || !slices.Equal(got, c.fields) {
			t.Errorf("%s: %d %q, want %d %q", name, x.Response.Status, got, c.status, c.fields)
		}
		if string(x.Body) != string(c.options.Body) || x.Response.Length != int64(len(x.Body)) {
			t.Errorf("%s: the body is %q, its length %d", name, x.Body, x.Response.Length)
		}
		if x.Reason != exchange.BreakerOpen {
			t.Errorf("%s: the reason became %v", name, x.Reason)
		}
	}
}

// It acts by whose fault a reason is, so reasons that other rooms declare are in this too.
func TestOnlyFailuresAndShedRequestsGetIt(t *testing.T) {
	p, want := policy(t, exchange.StaticOptions{Status: 203}), 0.0
	for r := exchange.NoReason; int(r) < exchange.Reasons(); r++ {
		x := refused(loop{id: int(r % 2)}, "GET", 403, r)
		p.OnResponse(x)
		degraded := r.Fault() == exchange.UpstreamFault || r.Fault() == exchange.ProtectionFault
		if degraded {
			want++
		}
		if got := x.Response.Status == 203; got != degraded {
			t.Errorf("%q: degraded is %t, want %t", r, got, degraded)
		}
	}
	if n := given(t, p); n != want || n == 0 {
		t.Errorf("%v are counted, want %v", n, want)
	}
}

func TestOnlyGETAndHEADGetIt(t *testing.T) {
	p := policy(t, exchange.StaticOptions{})
	for method, degraded := range map[string]bool{
		"GET": true, "HEAD": true, "POST": false, "PUT": false, "DELETE": false, "PATCH": false, "OPTIONS": false, "get": false,
	} {
		x := refused(loop{}, method, 503, exchange.Overloaded)
		before := fields(x)
		p.OnResponse(x)
		if got := x.Response.Status == 200; got != degraded {
			t.Errorf("%s: degraded is %t, want %t", method, got, degraded)
		}
		if !degraded && !slices.Equal(fields(x), before) {
			t.Errorf("%s: its fields became %q", method, fields(x))
		}
	}
}

func TestBarredClassesDoNotGetIt(t *testing.T) {
	p, err := ladder.New(ladder.Options{Answer: &exchange.StaticOptions{}, Loops: 1, Barred: 1<<0 | 1<<9})
	if err != nil {
		t.Fatal(err)
	}
	for class := range uint8(10) {
		x := refused(loop{}, "GET", 503, exchange.Overloaded)
		x.Class = class
		p.OnResponse(x)
		if got, want := x.Response.Status == 200, class != 0 && class != 9; got != want {
			t.Errorf("P%d: degraded is %t, want %t", class, got, want)
		}
	}
}

func TestBadAnswersAreRefused(t *testing.T) {
	for hint, o := range map[string]exchange.StaticOptions{
		"leave it out":  {Headers: map[string]string{"x-degraded": "no"}},
		"status 101":    {Status: 101},
		"gateway's own": {Headers: map[string]string{"Connection": "close"}},
	} {
		if _, err := ladder.New(ladder.Options{Answer: &o, Loops: 1}); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%+v: %v, want an error with %q", o, err, hint)
		}
	}
}

func TestAPolicyGoesOnCountingWhereTheOneBeforeItWas(t *testing.T) {
	before, after := policy(t, exchange.StaticOptions{}), policy(t, exchange.StaticOptions{})
	before.OnResponse(refused(loop{}, "GET", 503, exchange.Overloaded))
	after.Inherit(before)
	before.OnResponse(refused(loop{id: 1}, "GET", 503, exchange.Overloaded)) // it began before
	after.OnResponse(refused(loop{}, "GET", 503, exchange.Overloaded))
	if n := given(t, after); n != 3 {
		t.Errorf("%v are counted, want 3", n)
	}
}

func TestTheOptionsAreNotChanged(t *testing.T) {
	headers := map[string]string{"X-A": "b"}
	policy(t, exchange.StaticOptions{Headers: headers})
	if len(headers) != 1 {
		t.Errorf("the headers became %v", headers)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	p := policy(t, exchange.StaticOptions{Body: []byte("later")})
	x := refused(loop{}, "GET", 503, exchange.Overloaded)
	for name, reason := range map[string]exchange.Reason{"a success": exchange.NoReason, "a failure": exchange.Overloaded} {
		x.Reason = reason
		if n := testing.AllocsPerRun(100, func() { p.OnResponse(x) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkSuccess(b *testing.B) { benchmark(b, exchange.NoReason) }

func BenchmarkDegraded(b *testing.B) { benchmark(b, exchange.Overloaded) }

func benchmark(b *testing.B, reason exchange.Reason) {
	p := policy(b, exchange.StaticOptions{Body: []byte("later")})
	x := refused(loop{}, "GET", 503, reason)
	b.ReportAllocs()
	for b.Loop() {
		p.OnResponse(x)
	}
}
