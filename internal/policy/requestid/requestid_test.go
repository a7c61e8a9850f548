package requestid_test

import (
	"regexp"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/requestid"
)

func request(trusted bool, ids ...string) *exchange.Exchange {
	x := &exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
	x.Begin(nil)
	x.PeerTrusted = trusted
	x.Request.Fields.Add([]byte("Accept"), []byte("*/*"))
	for _, id := range ids {
		x.Request.Fields.Add([]byte("x-request-id"), []byte(id))
	}
	return x
}

// values are those of all fields called X-Request-Id.
func values(l *head.List) (out []string) {
	for i := range l.Len() {
		if f := l.At(i); f.ID == head.XRequestID {
			out = append(out, string(f.Value))
		}
	}
	return
}

func policy(t *testing.T) *requestid.Policy {
	t.Helper()
	p, err := requestid.New(requestid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestATrustedPeersSaneNameIsKept(t *testing.T) {
	for _, id := range []string{"a", "0123-abcd", "!~", strings.Repeat("x", 128)} {
		x := request(true, id)
		policy(t).OnRequest(x)
		if got := values(&x.Request.Fields); string(x.ID) != id || len(got) != 1 || got[0] != id {
			t.Errorf("%q became %q, forwarded as %q", id, x.ID, got)
		}
	}
}

func TestEveryOtherNameIsReplaced(t *testing.T) {
	shape := regexp.MustCompile(`^[0-9a-f]{32}$`)
	for name, x := range map[string]*exchange.Exchange{
		"none":                    request(true),
		"an untrusted peer's":     request(false, "mine"),
		"empty":                   request(true, ""),
		"too long":                request(true, strings.Repeat("x", 129)),
		"with a space":            request(true, "a b"),
		"with obs-text":           request(true, "a\xe4"),
		"two":                     request(true, "a", "b"),
		"an empty one and a sane": request(true, "", "b"),
	} {
		policy(t).OnRequest(x)
		got := values(&x.Request.Fields)
		if !shape.MatchString(string(x.ID)) || len(got) != 1 || got[0] != string(x.ID) {
			t.Errorf("%s: the name is %q, forwarded as %q", name, x.ID, got)
		}
	}
}

func TestNamesDiffer(t *testing.T) {
	p, seen := policy(t), map[string]bool{}
	for range 1000 {
		x := request(false)
		p.OnRequest(x)
		if seen[string(x.ID)] {
			t.Fatalf("%s came twice", x.ID)
		}
		seen[string(x.ID)] = true
	}
}

func TestTheClientIsToldTheName(t *testing.T) {
	x := request(true, "abc")
	p := policy(t)
	p.OnRequest(x)
	x.Response.Fields.Add([]byte("X-Request-ID"), []byte("the upstream's"))
	p.OnResponse(x)
	if got := values(&x.Response.Fields); len(got) != 1 || got[0] != "abc" {
		t.Errorf("got %q", got)
	}
}

func TestAnExchangeThatWasNeverNamedStaysSo(t *testing.T) {
	x := request(true)
	policy(t).OnResponse(x)
	if got := values(&x.Response.Fields); got != nil {
		t.Errorf("got %q", got)
	}
}

func TestRequestIDDoesNotAllocate(t *testing.T) {
	p, x := policy(t), request(false)
	run := func() {
		x.Begin(nil)
		x.Request.Fields.Reset()
		x.Response.Fields.Reset()
		p.OnRequest(x)
		p.OnResponse(x)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRequestID(b *testing.B) {
	p, _ := requestid.New(requestid.Options{})
	x := request(false)
	b.ReportAllocs()
	for b.Loop() {
		x.Begin(nil)
		x.Request.Fields.Reset()
		p.OnRequest(x)
	}
}
