package forwarded_test

import (
	"net/netip"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/forwarded"
)

func trust(t testing.TB, list ...string) *forwarded.Trust {
	t.Helper()
	set, err := forwarded.NewTrust(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// from is a request from a peer with header fields given as name, value, name, value …
func from(set *forwarded.Trust, peer string, fields ...string) *exchange.Exchange {
	x := &exchange.Exchange{Request: &head.Request{Scheme: []byte("http"), Host: []byte("shop.example")}, Response: &head.Response{}}
	x.Begin(nil)
	if peer != "" {
		x.Peer = netip.AddrPortFrom(netip.MustParseAddr(peer), 4711)
	}
	x.PeerTrusted = set.Contains(x.Peer.Addr())
	for i := 0; i < len(fields); i += 2 {
		x.Request.Fields.Add([]byte(fields[i]), []byte(fields[i+1]))
	}
	return x
}

func TestTheClientIsTheRightMostAddressThatIsNotTrusted(t *testing.T) {
	set := trust(t, "10.0.0.0/8", "2001:db8::/32")
	const for1, std = "X-Forwarded-For", "Forwarded"
	for _, c := range []struct {
		peer   string
		fields []string
		want   string
	}{
		{"192.0.2.1", nil, "192.0.2.1"},
		{"192.0.2.1", []string{for1, "1.1.1.1"}, "192.0.2.1"},
		{"192.0.2.1", []string{std, "for=1.1.1.1"}, "192.0.2.1"},
		{"::ffff:192.0.2.1", nil, "192.0.2.1"},
		{"fe80::1%eth0", nil, "fe80::1"},
		{"10.0.0.1", nil, "10.0.0.1"},
		{"10.0.0.1", []string{for1, "1.1.1.1"}, "1.1.1.1"},
		{"::ffff:10.0.0.1", []string{for1, "1.1.1.1"}, "1.1.1.1"},
		{"2001:db8::9", []string{for1, "2606::1"}, "2606::1"},
		{"10.0.0.1", []string{for1, "::ffff:1.1.1.1"}, "1.1.1.1"},
		{"10.0.0.1", []string{for1, "6.6.6.6, 1.1.1.1"}, "1.1.1.1"},
		{"10.0.0.1", []string{for1, "6.6.6.6, 1.1.1.1, 10.0.0.3,10.0.0.2"}, "1.1.1.1"},
		{"10.0.0.1", []string{for1, "6.6.6.6", for1, "1.1.1.1", "Accept", "*/*", for1, "10.0.0.2"}, "1.1.1.1"},
		{"10.0.0.1", []string{for1, "10.9.9.9, 10.0.0.2"}, "10.9.9.9"},
		{"10.0.0.1", []string{for1, "1.1.1.1, ,"}, "1.1.1.1"},
		{"10.0.0.1", []string{for1, ""}, "10.0.0.1"},
		{"10.0.0.1", []string{for1, "1.1.1.1:5000"}, "1.1.1.1"},
		{"10.0.0.1", []string{for1, "[2606::1]:5000"}, "2606::1"},
		{"10.0.0.1", []string{for1, "[2606::1]"}, "2606::1"},
		{"10.0.0.1", []string{for1, "complete, \"rubbish, 1.1.1.1"}, "1.1.1.1"},
		{"10.0.0.1", []string{for1, "1.1.1.1", std, "for=2.2.2.2"}, "1.1.1.1"},
		{"10.0.0.1", []string{std, "for=1.1.1.1"}, "1.1.1.1"},
		{"10.0.0.1", []string{std, `For="[2606::1]:47011";proto=https`}, "2606::1"},
		{"10.0.0.1", []string{std, `for=6.6.6.6, proto=http; by="a,b;c" ; for="1.1.1.1:80", for=10.0.0.2`}, "1.1.1.1"},
		{"10.0.0.1", []string{std, `for="6.6.6.6, for=1.1.1.1`}, "1.1.1.1"},
	} {
		x := from(set, c.peer, c.fields...)
		before := x.PeerTrusted
		forwarded.ResolveClient(x, set)
		if x.Client.String() != c.want || x.PeerTrusted != before {
			t.Errorf("%s with %q: client %s, want %s (trusted %v, before %v)", c.peer, c.fields, x.Client, c.want, x.PeerTrusted, before)
		}
	}
}

func TestAReportThatMakesNoSenseIsNotBelieved(t *testing.T) {
	set := trust(t, "10.0.0.0/8")
	for _, field := range []string{"X-Forwarded-For", "Forwarded"} {
		for _, v := range []string{
			"unknown", "1.1.1.1, unknown", "1.1.1.1, garbage, 10.0.0.2", "1.1.1", "1.1.1.1.1", "01.1.1.1", "1.1.1.1:", "1.1.1.1:123456",
			"1.1.1.1:8a", "[1.1.1.1]", "[2606::1", "[2606::1]80", "fe80::1%eth0", "[]", "\"", strings.Repeat("1", 60),
			strings.Repeat("10.0.0.2,", 32) + "10.0.0.2", strings.Repeat(",", 40),
		} {
			if field == "Forwarded" {
				v = "for=" + strings.ReplaceAll(v, ",", ",for=")
			}
			x := from(set, "10.0.0.1", field, v)
			forwarded.ResolveClient(x, set)
			if x.Client.String() != "10.0.0.1" || x.PeerTrusted {
				t.Errorf("%s: %q: client %s, trusted %v", field, v, x.Client, x.PeerTrusted)
			}
		}
	}
	for _, v := range []string{"proto=http", "for", "for=_hidden", `for="unknown"`, "by=1.1.1.1;proto=https", ";"} {
		x := from(set, "10.0.0.1", "Forwarded", v)
		forwarded.ResolveClient(x, set)
		if x.Client.String() != "10.0.0.1" || x.PeerTrusted {
			t.Errorf("%q: client %s, trusted %v", v, x.Client, x.PeerTrusted)
		}
	}
}

// A stranger's words stand left of the address that the trusted proxy appended, and must not make
// its report worthless: else they could hide behind the proxy's own address.
func TestAClientCannotSpoilTheReport(t *testing.T) {
	set := trust(t, "10.0.0.0/8")
	for _, v := range []string{"unknown", "10.0.0.9", "\"", "\\", strings.Repeat(",", 100), strings.Repeat("10.0.0.2,", 99), "[", "\"a, b"} {
		for field, said := range map[string]string{"X-Forwarded-For": "192.0.2.66", "Forwarded": "for=192.0.2.66"} {
			x := from(set, "10.0.0.1", field, v+", "+said)
			forwarded.ResolveClient(x, set)
			if x.Client.String() != "192.0.2.66" || !x.PeerTrusted {
				t.Errorf("%s: %.30q: client %s, trusted %v", field, v, x.Client, x.PeerTrusted)
			}
		}
	}
}

func FuzzResolveClient(f *testing.F) {
	set := trust(f, "10.0.0.0/8")
	f.Add("unknown", "1.1.1.1, 10.0.0.2")
	f.Add("\"", `for="[2606::1]:1";proto=http`)
	f.Fuzz(func(t *testing.T, left, report string) {
		for field, said := range map[string]string{"X-Forwarded-For": "192.0.2.66", "Forwarded": `for="192.0.2.66:80"`} {
			x := from(set, "10.0.0.1", field, left, field, left+","+said)
			if forwarded.ResolveClient(x, set); x.Client.String() != "192.0.2.66" {
				t.Fatalf("%s: %q makes the client %s", field, left, x.Client)
			}
			x = from(set, "10.0.0.1", field, report)
			forwarded.ResolveClient(x, set)
			if !x.Client.IsValid() || x.Client.Is4In6() || x.Client.Zone() != "" || !x.PeerTrusted && x.Client != x.Peer.Addr() {
				t.Fatalf("%s: %q makes the client %s, trusted %v", field, report, x.Client, x.PeerTrusted)
			}
		}
	})
}

func TestAPeerWithoutAnAddressIsNotTrusted(t *testing.T) {
	set := trust(t, "0.0.0.0/0", "::/0")
	x := from(set, "", "X-Forwarded-For", "1.1.1.1")
	forwarded.ResolveClient(x, set)
	if x.PeerTrusted || x.Client.IsValid() {
		t.Errorf("trusted %v, client %v", x.PeerTrusted, x.Client)
	}
}

func TestTrustRefusesWhatIsNotAPrefix(t *testing.T) {
	if _, err := forwarded.NewTrust([]string{"10.0.0.0/8", "proxy.example"}); err == nil || !strings.Contains(err.Error(), "proxy.example") {
		t.Errorf("got %v", err)
	}
}

func TestResolveClientDoesNotAllocate(t *testing.T) {
	set := trust(t, "10.0.0.0/8")
	for _, x := range []*exchange.Exchange{
		from(set, "192.0.2.1"),
		from(set, "10.0.0.1", "X-Forwarded-For", "6.6.6.6, 2606::1, 10.0.0.7, [2606::2]:80"),
		from(set, "10.0.0.1", "Forwarded", `for=1.1.1.1, for="[2606::1]:47011";proto=https, for=10.0.0.3`),
	} {
		if n := testing.AllocsPerRun(100, func() { forwarded.ResolveClient(x, set) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func BenchmarkResolveClient(b *testing.B) {
	set := trust(b, "10.0.0.0/8")
	for name, x := range map[string]*exchange.Exchange{
		"direct":  from(set, "192.0.2.1"),
		"trusted": from(set, "10.0.0.1", "X-Forwarded-For", "192.0.2.66"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				forwarded.ResolveClient(x, set)
			}
		})
	}
}
