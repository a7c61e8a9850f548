package forwarded_test

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/forwarded"
)

// forward runs all three parts and returns the request's fields as "Name: value" lines.
func forward(t testing.TB, o forwarded.Options, set *forwarded.Trust, x *exchange.Exchange) []string {
	t.Helper()
	p, err := forwarded.New(o)
	if err != nil {
		t.Fatal(err)
	}
	forwarded.ResolveClient(x, set)
	forwarded.DropClaims(x, nil)
	if v := p.OnRequest(x); v != exchange.Continue {
		t.Fatalf("verdict %d", v)
	}
	var lines []string
	for i := range x.Request.Fields.Len() {
		f := x.Request.Fields.At(i)
		line := string(f.Name) + ": " + string(f.Value)
		if f.Line != nil && string(f.Line) != line+"\r\n" {
			t.Errorf("%s has the line %q", line, f.Line)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestWhatUpstreamsAreTold(t *testing.T) {
	set := trust(t, "10.0.0.0/8", "2001:db8::/32")
	plain, standard := forwarded.Options{}, forwarded.Options{Forwarded: true}
	for name, c := range map[string]struct {
		options forwarded.Options
		peer    string
		fields  []string
		want    []string
	}{
		"a plain request": {plain, "192.0.2.1", []string{"Accept", "*/*"},
			[]string{"Accept: */*", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.example"}},
		"a mapped peer": {plain, "::ffff:192.0.2.1", nil,
			[]string{"X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.example"}},
		"a peer without an address": {standard, "", []string{"X-Forwarded-For", "1.1.1.1"},
			[]string{"X-Forwarded-Proto: http", "X-Forwarded-Host: shop.example", `Forwarded: for=unknown;host="shop.example";proto=http`}},
		"a trusted peer that says nothing": {plain, "10.0.0.1", nil,
			[]string{"X-Forwarded-For: 10.0.0.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.example"}},
		"a trusted peer's report": {plain, "10.0.0.1",
			[]string{"X-Forwarded-For", "6.6.6.6, 1.1.1.1", "X-Forwarded-Proto", "https",
				"X-Forwarded-Host", "www.example", "X-Real-Ip", "1.1.1.1", "X-Forwarded-Port",
				"443", "Forwarded", "for=1.1.1.1"},
			[]string{"X-Forwarded-Proto: https", "X-Forwarded-Host: www.example",
				"X-Real-Ip: 1.1.1.1", "X-Forwarded-Port: 443", "Forwarded: for=1.1.1.1",
				"X-Forwarded-For: 6.6.6.6, 1.1.1.1, 10.0.0.1"}},
		"a trusted peer's report in several fields": {plain, "10.0.0.1",
			[]string{"X-Forwarded-For", "6.6.6.6", "X-Forwarded-For", "", "x-forwarded-for", "1.1.1.1"},
			[]string{"X-Forwarded-For: 6.6.6.6, 1.1.1.1, 10.0.0.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.example"}},
		"a trusted peer's rubbish": {plain, "10.0.0.1", []string{"X-Forwarded-For", "unknown",
			"X-Forwarded-Proto", "https", "X-Real-Ip", "1.1.1.1"},
			[]string{"X-Forwarded-For: 10.0.0.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.example"}},
		"Forwarded begun": {standard, "192.0.2.1", []string{"Forwarded", "for=1.1.1.1"},
			[]string{"X-Forwarded-For: 192.0.2.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.example", `Forwarded: for=192.0.2.1;host="shop.example";proto=http`}},
		"Forwarded continued": {standard, "2001:db8::1", []string{"Forwarded", "for=1.1.1.1", "Forwarded", "for=10.0.0.2"},
			[]string{"X-Forwarded-For: 2001:db8::1", "X-Forwarded-Proto: http", "X-Forwarded-Host: shop.example",
				`Forwarded: for=1.1.1.1, for=10.0.0.2, for="[2001:db8::1]";host="shop.example";proto=http`}},
	} {
		if got := forward(t, c.options, set, from(set, c.peer, c.fields...)); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

// HAZARDS: forwarded trust, header aliases. Whatever a stranger says of itself, in whatever
// spelling, goes.
func TestAStrangersClaimsAreRemovedInEverySpelling(t *testing.T) {
	set := trust(t, "10.0.0.0/8")
	var claims []string
	for _, name := range []string{
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Real-Ip", "Forwarded",
		"X-Forwarded-Server", "X-Forwarded-Ssl", "X-Forwarded-Client-Cert", "X-Forwarded-User", "X-Forwarded-Method", "X-Forwarded-Uri",
	} {
		claims = append(claims, name, "evil", strings.ToLower(name), "evil", strings.ToUpper(name), "evil",
			strings.ReplaceAll(name, "-", "_"), "evil", strings.Replace(name, "-", "_", 1), "evil")
	}
	x := from(set, "192.0.2.1", claims...)
	x.Request.Fields.Add([]byte("X-Forwarding"), []byte("kept"))
	x.Request.Fields.Add([]byte("X-Forwarded"), []byte("kept"))
	got := forward(t, forwarded.Options{}, set, x)
	want := []string{"X-Forwarding: kept", "X-Forwarded: kept", "X-Forwarded-For: 192.0.2.1",
		"X-Forwarded-Proto: http", "X-Forwarded-Host: shop.example"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestOnlyATrustedPeersRequestIDStays(t *testing.T) {
	set := trust(t, "10.0.0.0/8")
	for peer, kept := range map[string]bool{"192.0.2.1": false, "10.0.0.1": true} {
		x := from(set, peer, "X-Request-Id", "some")
		forward(t, forwarded.Options{}, set, x)
		if x.Request.Fields.Has(head.XRequestID) != kept {
			t.Errorf("from %s: kept %v, want %v", peer, !kept, kept)
		}
	}
}

// A chain of policies adds fields that look like claims; they are the gateway's own by then.
func TestThePolicyRemovesNothing(t *testing.T) {
	set := trust(t)
	x := from(set, "192.0.2.1")
	forwarded.DropClaims(x, nil)
	x.Request.Fields.Add([]byte("X-Request-Id"), []byte("made by a policy"))
	p, _ := forwarded.New(forwarded.Options{})
	p.OnRequest(x)
	if got := string(x.Request.Fields.Value(head.XRequestID)); got != "made by a policy" {
		t.Errorf("X-Request-Id is %q", got)
	}
}

func TestTheSchemeAndTheConnectionsTextAreUsed(t *testing.T) {
	set := trust(t)
	x := from(set, "192.0.2.1")
	x.Request.Scheme, x.PeerText = []byte("https"), []byte("the kept text")
	got := forward(t, forwarded.Options{}, set, x)
	if want := []string{"X-Forwarded-For: the kept text", "X-Forwarded-Proto: https",
		"X-Forwarded-Host: shop.example"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestAHostThatCannotBeQuotedIsLeftOutOfForwarded(t *testing.T) {
	set := trust(t)
	x := from(set, "192.0.2.1")
	x.Request.Host = []byte(`a";for=evil;x="`)
	forward(t, forwarded.Options{Forwarded: true}, set, x)
	if got := string(x.Request.Fields.Value(head.Forwarded)); got != "for=192.0.2.1;proto=http" {
		t.Errorf("got %q", got)
	}
}

func TestForwardedDoesNotAllocate(t *testing.T) {
	set := trust(t, "10.0.0.0/8")
	p, _ := forwarded.New(forwarded.Options{Forwarded: true})
	for _, peer := range []string{"192.0.2.1", "10.0.0.1"} {
		x := from(set, peer)
		address, host := x.Peer, x.Request.Host
		run := func() {
			x.Begin(nil)
			x.Peer, x.Request.Host = address, host
			x.PeerTrusted = set.Contains(address.Addr())
			x.Request.Fields.Reset()
			x.Request.Fields.Add(fieldFor, fieldValue)
			forwarded.ResolveClient(x, set)
			forwarded.DropClaims(x, nil)
			p.OnRequest(x)
		}
		run()
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%s: %v allocations", peer, n)
		}
	}
}

var fieldFor, fieldValue = []byte("X-Forwarded-For"), []byte("6.6.6.6, 1.1.1.1")

// The budget is 60 ns for the usual case, the default on every proxying route: the difference of
// the two figures.
func BenchmarkForwarded(b *testing.B) {
	set := trust(b)
	p, _ := forwarded.New(forwarded.Options{})
	few := []string{"Host", "shop.example", "User-Agent", "wrk"}
	browser := append(slices.Clone(few), "Accept", "*/*", "Accept-Language", "de", "Accept-Encoding", "gzip", "Sec-Fetch-Dest", "empty",
		"Sec-Fetch-Mode", "cors", "Sec-Fetch-Site", "same-origin", "Referer",
		"https://shop.example/", "Cookie", "a=1", "Dnt", "1", "Priority", "u=4")
	for name, fields := range map[string][]string{"few": few, "browser": browser} {
		x := from(set, "192.0.2.1", fields...)
		x.PeerText = []byte("192.0.2.1")
		var received []head.Field
		for i := range x.Request.Fields.Len() {
			received = append(received, *x.Request.Fields.At(i))
		}
		receive := func() {
			x.Request.Fields.Reset()
			for i := range received {
				x.Request.Fields.Append(received[i])
			}
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				receive()
				forwarded.DropClaims(x, nil)
				p.OnRequest(x)
			}
		})
		b.Run(name+"/without the policy", func(b *testing.B) {
			for b.Loop() {
				receive()
			}
		})
	}
}
