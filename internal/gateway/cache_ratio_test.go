//go:build !race

package gateway

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sort"
	"strings"
	"testing"

	"github.com/maypok86/otter/v2"
)

// popular is a fixed sequence of requests for keys 0 to keys-1, as they are asked for on the web:
// the k-th with a probability of 1/(k+1).
func popular(keys, n int) []int {
	sums, sum := make([]float64, keys), 0.0
	for k := range keys {
		sum += 1 / float64(k+1)
		sums[k] = sum
	}
	r := rand.New(rand.NewPCG(1, 1))
	asked := make([]int, n)
	for i := range asked {
		asked[i] = sort.SearchFloat64s(sums, r.Float64()*sum)
	}
	return asked
}

// What a whole gateway answers from its memory is no less than the eviction policy alone would have
// it answer, which holds as many responses: nothing around it makes it forget what is hot.
func TestTheHitRatioOfAGatewayIsThatOfThePolicyAlone(t *testing.T) {
	t.Parallel()
	const keys, requests, length, batch = 5000, 25_000, 4000, 250
	body := letters(length)
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nCache-Control: max-age=100000\r\n"+
		"Content-Length: %d\r\n\r\n%s", length, body)
	s := newService(t, replying(func(*http.Request, string) string { return answer }))
	g := serveClean(t, fmt.Sprintf(`
loops: 1
listeners: [{address: "127.0.0.1:0"}]
cache: {memory: 3MB}
upstreams: {s: {targets: [%q]}}
routes: [{match: /, upstream: s, cache: {early_refresh: false}}]
`, s.address()))
	trace, hits := popular(keys, requests), 0
	p := g.dial()
	for at := 0; at < requests; at += batch {
		var b strings.Builder
		for _, key := range trace[at : at+batch] {
			fmt.Fprintf(&b, "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", key)
		}
		p.send(b.String()) // the kernel holds it all
		for range batch {
			r, got := p.response("GET")
			if r.StatusCode != 200 || got != body {
				t.Fatalf("got %d and %d bytes", r.StatusCode, len(got))
			}
			if strings.Contains(r.Header.Get("Cache-Status"), "; hit") {
				hits++
			}
		}
	}
	stats := g.view().memory.Stats()
	// To look a response up twice for one request has the policy take it for one that is asked for
	// more often, and costs half a percent.
	if asked := stats.Hits + stats.Misses; asked != requests {
		t.Errorf("%d requests were looked up %d times", requests, asked)
	}
	held := stats.Entries
	// The policy seeds its hashes again in each cache: one in fifty is a percent behind the others.
	least := 1.0
	for range 9 {
		least = min(least, ratioAlone(trace, held))
	}
	ours := float64(hits) / requests
	t.Logf("%d of %d keys are held; hit ratio %.4f, otter alone %.4f at the least", held, keys,
		ours, least)
	if held < keys/20 || held > keys/5 {
		t.Errorf("%d of %d keys are held: it is to be about a tenth", held, keys)
	}
	// A policy that looks at what was asked for while others use the processors is some tenths behind.
	if ours < least-0.005 {
		t.Errorf("the hit ratio is %.4f, and %.4f with the policy alone", ours, least)
	}
}

// ratioAlone is the hit ratio of the policy alone, where it may hold so many.
func ratioAlone(trace []int, held int64) float64 {
	alone := otter.Must(&otter.Options[int, bool]{
		MaximumWeight: uint64(held), Weigher: func(int, bool) uint32 { return 1 },
		Executor: func(f func()) { f() },
	})
	hits := 0
	for _, key := range trace {
		if _, ok := alone.GetIfPresent(key); ok {
			hits++
		} else {
			alone.Set(key, true)
		}
	}
	return float64(hits) / float64(len(trace))
}
