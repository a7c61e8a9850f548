package access_test

import (
	"net/netip"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/access"
)

func from(client string) *exchange.Exchange {
	x := &exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
	x.Begin(nil)
	if client != "" {
		x.Client = netip.MustParseAddr(client)
	}
	return x
}

func TestTheMostSpecificPrefixDecides(t *testing.T) {
	layers := access.Options{Allow: []string{"10.0.0.0/8", "10.1.2.3", "2001:db8::/32"}, Deny: []string{"10.1.0.0/16", "2001:db8:1::/48"}}
	onlyDeny := access.Options{Deny: []string{"192.0.2.0/24", "::1"}}
	everyoneBut := access.Options{Allow: []string{"0.0.0.0/0"}, Deny: []string{"192.0.2.1"}}
	mapped := access.Options{Allow: []string{"::ffff:192.0.2.0/120"}}
	for _, c := range []struct {
		options access.Options
		client  string
		in      bool
	}{
		{layers, "10.0.0.1", true},
		{layers, "10.1.0.1", false},
		{layers, "10.1.2.3", true},
		{layers, "10.1.2.4", false},
		{layers, "11.0.0.1", false},
		{layers, "2001:db8::1", true},
		{layers, "2001:db8:1::1", false},
		{layers, "2001:db9::1", false},
		{layers, "::ffff:10.0.0.1", true},
		{layers, "::ffff:10.1.0.1", false},
		{layers, "", false},
		{onlyDeny, "192.0.2.255", false},
		{onlyDeny, "::ffff:192.0.2.1", false},
		{onlyDeny, "192.0.3.1", true},
		{onlyDeny, "::1", false},
		{onlyDeny, "::2", true},
		{onlyDeny, "", true},
		{everyoneBut, "192.0.2.1", false},
		{everyoneBut, "192.0.2.2", true},
		{everyoneBut, "::1", false},
		{mapped, "192.0.2.9", true},
		{mapped, "192.0.3.9", false},
	} {
		p, err := access.New(c.options)
		if err != nil {
			t.Fatal(err)
		}
		x := from(c.client)
		verdict := p.OnRequest(x)
		if c.in && (verdict != exchange.Continue || x.Response.Status != 0) {
			t.Errorf("%+v: %q is kept out", c.options, c.client)
		}
		if !c.in && (verdict != exchange.Answered || x.Response.Status != 403 || x.Reason != exchange.Denied) {
			t.Errorf("%+v: %q gets %d, status %d, reason %v", c.options, c.client, verdict, x.Response.Status, x.Reason)
		}
	}
}

func TestBadListsAreRefused(t *testing.T) {
	for hint, o := range map[string]access.Options{
		"allows and denies nothing": {},
		"allowed and denied":        {Allow: []string{"10.0.0.0/8"}, Deny: []string{"::ffff:10.0.0.0/104"}},
		"example.com":               {Allow: []string{"example.com"}},
		"write 10.0.0.0/8":          {Deny: []string{"10.0.0.1/8"}},
	} {
		if _, err := access.New(o); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%+v: %v, want an error with %q", o, err, hint)
		}
	}
}

func TestAccessDoesNotAllocate(t *testing.T) {
	p, err := access.New(access.Options{Allow: []string{"10.0.0.0/8"}, Deny: []string{"10.1.0.0/16"}})
	if err != nil {
		t.Fatal(err)
	}
	in, out := from("10.0.0.1"), from("10.1.0.1")
	p.OnRequest(out)
	if n := testing.AllocsPerRun(100, func() { p.OnRequest(in); p.OnRequest(out) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAccess(b *testing.B) {
	p, _ := access.New(access.Options{Allow: []string{"10.0.0.0/8", "2001:db8::/32"}, Deny: []string{"10.1.0.0/16"}})
	x := from("10.2.3.4")
	b.ReportAllocs()
	for b.Loop() {
		p.OnRequest(x)
	}
}
