package load_test

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

// numbered is a script whose requests carry their arrival's number.
type numbered struct {
	to   load.Target
	next int
}

func (s *numbered) Names() []string                        { return []string{"numbered"} }
func (s *numbered) Requests() float64                      { return 1 }
func (s *numbered) Player(_, _ int, _ uint64) load.Player  { return s }
func (s *numbered) Begin() load.Session                    { return s }
func (s *numbered) Answer(*load.Answer) load.AnswerVerdict { return load.AnswerVerdict{} }
func (s *numbered) End()                                   {}

func (s *numbered) Request(b []byte) ([]byte, load.Request) {
	b = fmt.Appendf(b, "GET /%d HTTP/1.1\r\nHost: %s\r\n\r\n", s.next, s.to.Authority)
	s.next++
	return b, load.Request{}
}

// A server that answers at once stalls for half a second while requests continue at a constant
// rate. The server records when it answered each request, which determines how many response times
// exceed any limit. The generator's results must agree, or it was blind during the stall.
func TestAStallWeighsAsMuchAsItLasted(t *testing.T) {
	const (
		n        = 300
		distance = 4 * ms
		stallAt  = 80 // the request that begins the stall
		stall    = 500 * ms
	)
	var mu sync.Mutex
	var once sync.Once
	answered := make([]int64, n) // by arrival, on the generator's clock (reactor.Clock)
	release, begun := make(chan struct{}), int64(0)
	s := serve(t, func(i int64, r *http.Request, c net.Conn) bool {
		if i >= stallAt {
			once.Do(func() {
				begun = reactor.Clock()
				time.AfterFunc(time.Duration(stall), func() { close(release) })
			})
			<-release
		}
		var number int
		fmt.Sscanf(r.URL.Path, "/%d", &number)
		mu.Lock()
		answered[number] = reactor.Clock()
		mu.Unlock()
		return send(okAnswer)(i, r, c)
	})
	o := get(t, s.url())
	o.Script, o.Connections, o.Arrivals = &numbered{to: o.Target}, 8, every(n, distance)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: n})
	mu.Lock()
	defer mu.Unlock()
	ended := answered[stallAt]
	start := answered[0]
	for i, a := range answered {
		start = min(start, a-int64(i)*distance) // the least that an answer took beyond its due time is next to nothing
	}
	// An answer may be on its way to the generator when the connection's next one is recorded.
	most := float64(o.Connections + 1)
	for _, limit := range []int64{100 * ms, 200 * ms, 300 * ms, 400 * ms, 450 * ms} {
		expected := 0
		for i, a := range answered {
			if a-start-int64(i)*distance > limit {
				expected++
			}
		}
		got := totals.Response.Over(limit)
		if got < float64(expected)-most || got > float64(expected)+most {
			t.Errorf("%v response times are over %d ms, by the server's own notes it must be %d", got, limit/ms, expected)
		}
		// On a busy machine the stall is longer; at most the requests after its start count.
		least := min((ended-begun-limit)/distance, n-stallAt)
		if got < float64(least)-most {
			t.Errorf("%v response times are over %d ms; a stall of %d ms alone makes %d of them", got, limit/ms, (ended-begun)/ms, least)
		}
	}
	// If service times counted from the due time, some 50 would be that long.
	if covered := totals.Service.Over(300 * ms); covered > 16 {
		t.Errorf("%v service times are over 300 ms: 8 connections can have waited for the server", covered)
	}
}
