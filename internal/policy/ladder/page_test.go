package ladder_test

import (
	"io"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/policy/ladder"
)

// filled is a policy with an answer that is filled in.
func filled(t testing.TB, body, contentType string) *ladder.Policy {
	t.Helper()
	p, err := ladder.New(ladder.Options{Loops: 1, Answer: &exchange.StaticOptions{Body: []byte(body),
		Headers: map[string]string{"Content-Type": contentType, "X-Asked": "${host}${query}"}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// bodyOf reads the answer's body.
func bodyOf(t testing.TB, x *exchange.Exchange, most int) string {
	t.Helper()
	if x.Source == nil {
		return string(x.Body)
	}
	var all strings.Builder
	for {
		data, err := x.Source.Next(most)
		all.Write(data)
		if err == io.EOF {
			return all.String()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnAnswerIsFilledInForEachRequest(t *testing.T) {
	p := filled(t, `{"asked": "${host}", "literal": "$${host}"}`, "application/json")
	for _, host := range []string{"a", `b"`, strings.Repeat("c", 300)} {
		x := refused(loop{}, "GET", 503, exchange.Overloaded)
		x.Request.Host, x.Request.Query = []byte(host), []byte("\r\nX-Evil: 1")
		p.OnResponse(x)
		want := `{"asked": "` + strings.ReplaceAll(host, `"`, `\"`) + `", "literal": "${host}"}`
		if got := bodyOf(t, x, 7); got != want || x.Response.Length != int64(len(want)) {
			t.Errorf("got %q of length %d, want %q", got, x.Response.Length, want)
		}
		if got := string(x.Response.Fields.Find([]byte("X-Asked")).Value); got != host+"  X-Evil: 1" {
			t.Errorf("X-Asked is %q", got)
		}
		if x.Step != exchange.StepStatic || x.Reason != exchange.Overloaded {
			t.Errorf("step %v, reason %v", x.Step, x.Reason)
		}
		x.CloseSource()
	}
}

// Answers of exchanges that are under way at once have memory of their own.
func TestAnswersThatAreReadLaterStayAsTheyWere(t *testing.T) {
	p := filled(t, "for ${host}", "text/plain")
	var all []*exchange.Exchange
	for _, host := range []string{"a", "b", "c"} {
		x := refused(loop{}, "GET", 503, exchange.Overloaded)
		x.Request.Host = []byte(host)
		p.OnResponse(x)
		all = append(all, x)
	}
	for i, x := range all {
		if got, want := bodyOf(t, x, 100), "for "+string(rune('a'+i)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		x.CloseSource()
	}
}

func TestBodiesThatCannotBeFilledInAreRefused(t *testing.T) {
	for hint, o := range map[string]ladder.Options{
		"put it in quotes": {Answer: &exchange.StaticOptions{Body: []byte("[${query}]"),
			Headers: map[string]string{"content-type": "application/json"}}},
		"name that": {Answer: &exchange.StaticOptions{Body: []byte("${query}"),
			Headers: map[string]string{"Content-Type": "text/${query}"}}},
		"has no body":   {Answer: &exchange.StaticOptions{Status: 204, Body: []byte("${query}")}},
		"gateway's own": {Answer: &exchange.StaticOptions{Headers: map[string]string{"Connection": "${query}"}}},
	} {
		if _, err := ladder.New(o); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%+v: %v, want an error with %q", o.Answer, err, hint)
		}
	}
}

func TestAFileWithoutVariablesIsGivenAsItIs(t *testing.T) {
	const script = "<script>f(`${query}`)</script>"
	p, err := ladder.New(ladder.Options{Loops: 1, Plain: true, Answer: &exchange.StaticOptions{
		Body: []byte(script), Headers: map[string]string{"Content-Type": "text/html"}}})
	if err != nil {
		t.Fatal(err)
	}
	x := refused(loop{}, "GET", 503, exchange.Overloaded)
	p.OnResponse(x)
	if got := bodyOf(t, x, 1000); got != script {
		t.Errorf("got %q", got)
	}
}

// An answer of the cache is marked and counted, and not replaced.
func TestAnAnswerOfTheCacheIsMarked(t *testing.T) {
	p, err := ladder.New(ladder.Options{Loops: 1, Stored: true,
		Answer: &exchange.StaticOptions{Body: []byte("later")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []exchange.Step{exchange.StepCache, exchange.StepStale} {
		x := refused(loop{}, "GET", 200, exchange.Overloaded)
		x.Response.Fields.Add([]byte("x-degraded"), []byte("of the service"))
		x.Step = step
		p.OnResponse(x)
		got := string(x.Response.Fields.Find([]byte("X-Degraded")).Value)
		if got != step.String() || string(x.Body) == "later" {
			t.Errorf("%v is marked %q, with the body %q", step, got, x.Body)
		}
	}
	counted := map[string]float64{}
	p.Metrics(func(_ int, value float64, labels ...string) { counted[labels[0]] = value })
	if len(counted) != 3 || counted["cache"] != 1 || counted["stale"] != 1 || counted["static"] != 0 {
		t.Errorf("counted are %v", counted)
	}
}

func TestFillingInAllocatesNothing(t *testing.T) {
	p := filled(t, strings.Repeat("some text ", 500)+"${host}", "text/plain")
	x := refused(loop{}, "GET", 503, exchange.Overloaded)
	x.Request.Host = []byte("a")
	n := testing.AllocsPerRun(100, func() {
		x.Begin(loop{})
		x.Refuse(503, exchange.Overloaded)
		p.OnResponse(x)
		x.CloseSource()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
