package trace_test

import (
	"regexp"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/trace"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func request(parents ...string) *exchange.Exchange {
	x := &exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
	x.Begin(nil)
	for _, v := range parents {
		x.Request.Fields.Add([]byte("Traceparent"), []byte(v))
	}
	x.Request.Fields.Add([]byte("Tracestate"), []byte("congo=t61rcWkgMzE"))
	return x
}

func values(l *head.List, id head.ID) (out []string) {
	for i := range l.Len() {
		if f := l.At(i); f.ID == id {
			out = append(out, string(f.Value))
		}
	}
	return
}

func run(t *testing.T, o trace.Options, x *exchange.Exchange) (parents, states []string) {
	t.Helper()
	p, err := trace.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if v := p.OnRequest(x); v != exchange.Continue {
		t.Fatalf("verdict %d", v)
	}
	return values(&x.Request.Fields, head.Traceparent), values(&x.Request.Fields, head.Tracestate)
}

func TestAValidContextGoesOnUnchanged(t *testing.T) {
	for _, v := range []string{
		parent,
		strings.Replace(parent, "-01", "-00", 1),
		strings.Replace(parent, "-01", "-ff", 1),
		"cc" + parent[2:],
		"01" + parent[2:] + "-what-the-future-brings",
	} {
		parents, states := run(t, trace.Options{}, request(v))
		if len(parents) != 1 || parents[0] != v || len(states) != 1 {
			t.Errorf("%s became %q with state %q", v, parents, states)
		}
	}
}

func TestAnythingElseIsReplacedByANewContext(t *testing.T) {
	begun := regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-00$`)
	for name, x := range map[string]*exchange.Exchange{
		"none":                      request(),
		"empty":                     request(""),
		"short":                     request(parent[:54]),
		"version 00 and longer":     request(parent + "-01"),
		"later version, no dash":    request("01" + parent[2:] + ".x"),
		"version ff":                request("ff" + parent[2:]),
		"upper case":                request(strings.ToUpper(parent)),
		"no digit":                  request(strings.Replace(parent, "b7ad", "b7xd", 1)),
		"flags that are not digits": request(parent[:53] + "0x"),
		"zero trace id":             request("00-" + strings.Repeat("0", 32) + parent[35:]),
		"zero parent id":            request(parent[:36] + strings.Repeat("0", 16) + "-01"),
		"no dash after version":     request("000" + parent[3:]),
		"no dash after trace id":    request(parent[:35] + "0" + parent[36:]),
		"no dash after parent id":   request(parent[:52] + "0" + parent[53:]),
		"two":                       request(parent, parent),
	} {
		parents, states := run(t, trace.Options{}, x)
		if len(parents) != 1 || !begun.MatchString(parents[0]) || strings.HasPrefix(parents[0], parent[:35]) {
			t.Errorf("%s: got %q", name, parents)
		}
		if states != nil {
			t.Errorf("%s: tracestate %q stayed", name, states)
		}
	}
}

func TestIdsAreNeverZero(t *testing.T) {
	parents, _ := run(t, trace.Options{Random: func() uint64 { return 0 }}, request())
	if want := "00-00000000000000000100000000000000-0100000000000000-00"; parents[0] != want {
		t.Errorf("got  %s\nwant %s", parents[0], want)
	}
}

func TestTraceDoesNotAllocate(t *testing.T) {
	p, _ := trace.New(trace.Options{})
	x := request()
	begin := func() {
		x.Begin(nil)
		x.Request.Fields.Reset()
		p.OnRequest(x)
		p.OnRequest(x) // and passes on what it began
	}
	begin()
	if n := testing.AllocsPerRun(100, begin); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPassOn(b *testing.B) {
	p, _ := trace.New(trace.Options{})
	x := request(parent)
	b.ReportAllocs()
	for b.Loop() {
		p.OnRequest(x)
	}
}

func BenchmarkBegin(b *testing.B) {
	p, _ := trace.New(trace.Options{})
	x := request()
	b.ReportAllocs()
	for b.Loop() {
		x.Begin(nil)
		x.Request.Fields.Reset()
		p.OnRequest(x)
	}
}
