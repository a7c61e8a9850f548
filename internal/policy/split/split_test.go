package split_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/split"
)

func policy(t testing.TB, o split.Options) *split.Policy {
	t.Helper()
	p, err := split.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func request() *exchange.Exchange {
	x := &exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
	x.Begin(nil)
	return x
}

// even goes over the whole range of numbers in n equal steps, so that shares come out to the
// request.
func even(n uint64) func() uint64 {
	i := uint64(0)
	return func() uint64 { i++; return (i - 1) * (math.MaxUint64 / n) }
}

func TestWeightsAreExact(t *testing.T) {
	const draws = 1000
	p := policy(t, split.Options{Shares: []split.Share{{7, 50}, {2, 949}, {4, 0}, {3, 1}}, Random: even(draws)})
	counts := map[int]int{}
	for range draws {
		x := request()
		if v := p.OnRequest(x); v != exchange.Continue {
			t.Fatalf("verdict %d", v)
		}
		counts[x.Upstream]++
	}
	for upstream, want := range map[int]int{2: 949, 3: 1, 7: 50} {
		if got := counts[upstream]; got < want-1 || got > want+1 {
			t.Errorf("upstream %d got %d of %d, want %d", upstream, got, draws, want)
		}
	}
	if len(counts) != 3 {
		t.Errorf("got %v", counts)
	}
}

func TestDrawsFollowTheWeights(t *testing.T) {
	const draws = 100_000
	source := rand.New(rand.NewPCG(1, 2))
	p := policy(t, split.Options{Shares: []split.Share{{0, 95}, {1, 5}}, Random: source.Uint64})
	seconds := 0
	for range draws {
		x := request()
		p.OnRequest(x)
		seconds += x.Upstream
	}
	if sigma := math.Sqrt(draws * 0.05 * 0.95); math.Abs(float64(seconds)-draws*0.05) > 4*sigma {
		t.Errorf("%d of %d went to a share of 5 %%", seconds, draws)
	}
}

func TestAClientStaysWhereItIs(t *testing.T) {
	shares := []split.Share{{0, 70}, {1, 30}}
	never := func() uint64 { t.Error("a request with a key was drawn"); return 0 }
	for sticky, identify := range map[string]func(*exchange.Exchange, int){
		"client_address": func(x *exchange.Exchange, i int) {
			x.Client = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		},
		"header:X-User": func(x *exchange.Exchange, i int) {
			x.Request.Fields.Add([]byte("x-user"), fmt.Appendf(nil, "user-%d", i))
		},
		"cookie:session": func(x *exchange.Exchange, i int) {
			x.Request.Fields.Add([]byte("Cookie"), fmt.Appendf(nil, "a=1; session=s%d", i))
		},
	} {
		p := policy(t, split.Options{Shares: shares, Sticky: sticky, Random: never})
		const clients = 2000
		seconds := 0
		for i := range clients {
			first, again := request(), request()
			identify(first, i)
			identify(again, i)
			p.OnRequest(first)
			p.OnRequest(again)
			if first.Upstream != again.Upstream {
				t.Fatalf("%s: client %d was moved", sticky, i)
			}
			seconds += first.Upstream
		}
		if sigma := math.Sqrt(clients * 0.3 * 0.7); math.Abs(float64(seconds)-clients*0.3) > 4*sigma {
			t.Errorf("%s: %d of %d clients are on a share of 30 %%", sticky, seconds, clients)
		}
	}
}

func TestRaisingAnUpstreamsWeightMovesNobodyAway(t *testing.T) {
	before := policy(t, split.Options{Shares: []split.Share{{0, 95}, {1, 5}}, Sticky: "client_address"})
	after := policy(t, split.Options{Shares: []split.Share{{1, 20}, {0, 80}}, Sticky: "client_address"})
	for i := range 3000 {
		x := request()
		x.Client = netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		before.OnRequest(x)
		was := x.Upstream
		after.OnRequest(x)
		if was == 1 && x.Upstream != 1 {
			t.Fatalf("client %d was on the second upstream and is no more", i)
		}
	}
}

func TestARequestWithoutTheKeyIsDrawn(t *testing.T) {
	for _, sticky := range []string{"client_address", "header:X-User", "cookie:session"} {
		draws := 0
		p := policy(t, split.Options{Shares: []split.Share{{0, 1}, {5, 1}}, Sticky: sticky,
			Random: func() uint64 { draws++; return math.MaxUint64 }})
		x := request()
		x.Request.Fields.Add([]byte("X-User"), nil)
		x.Request.Fields.Add([]byte("Cookie"), []byte("session="))
		p.OnRequest(x)
		if draws != 1 || x.Upstream != 5 {
			t.Errorf("%s: %d draws, upstream %d", sticky, draws, x.Upstream)
		}
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	one := []split.Share{{0, 1}}
	for hint, o := range map[string]split.Options{
		"no upstream has a weight": {Shares: []split.Share{{0, 0}, {1, 0}}},
		"twice":                    {Shares: []split.Share{{1, 1}, {0, 1}, {1, 2}}},
		"0 to 1000":                {Shares: []split.Share{{0, 1001}}},
		"weight of -1":             {Shares: []split.Share{{0, -1}}},
		"cannot be an index":       {Shares: []split.Share{{-1, 1}}},
		`"path:id"`:                {Shares: one, Sticky: "path:id"},
		`"header:"`:                {Shares: one, Sticky: "header:"},
		`"cookie"`:                 {Shares: one, Sticky: "cookie"},
		`"client_address:x"`:       {Shares: one, Sticky: "client_address:x"},
	} {
		if _, err := split.New(o); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%+v: %v, want an error with %q", o, err, hint)
		}
	}
	if _, err := split.New(split.Options{}); err == nil {
		t.Error("a split of nothing is accepted")
	}
}

func TestSplitDoesNotAllocate(t *testing.T) {
	shares := []split.Share{{0, 95}, {1, 5}}
	x := request()
	x.Client = netip.MustParseAddr("192.0.2.1")
	x.Request.Fields.Add([]byte("X-User"), []byte("ann"))
	x.Request.Fields.Add([]byte("Cookie"), []byte("a=1; session=abc"))
	long := strings.Repeat("X-Long", 10) // conversions of more than 32 bytes would show
	x.Request.Fields.Add([]byte(long), []byte("ann"))
	for _, sticky := range []string{"", "client_address", "header:X-User", "header:" + long, "cookie:session", "cookie:" + long} {
		p := policy(t, split.Options{Shares: shares, Sticky: sticky})
		if n := testing.AllocsPerRun(100, func() { p.OnRequest(x) }); n != 0 {
			t.Errorf("%s: %v allocations", sticky, n)
		}
	}
}

func BenchmarkSplit(b *testing.B) {
	p := policy(b, split.Options{Shares: []split.Share{{0, 95}, {1, 5}}})
	x := request()
	b.ReportAllocs()
	for b.Loop() {
		p.OnRequest(x)
	}
}
