// Command moorings tells what a boat owes for its mooring. It keeps its readers' lock while the
// harbour's office is asked. As soon as a boat moves, its writer waits for them, and whoever comes
// to read after it waits too. Only pprof is shown.
//
// Cured, the readers' lock is held only to look a boat up.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	boats = 5000
	takes = 8 * time.Millisecond // to ask the office
	moves = 3                    // one request in so many moves its boat
)

// mooring is where a boat lies, and since when.
type mooring struct {
	pier, berth int
	since       time.Time
}

// harbour knows where boats lie. Any goroutine may use it.
type harbour struct {
	office *upstream.Upstream
	cured  bool

	mu     sync.RWMutex
	moored map[int]mooring
}

// fee is what a boat owes. The office says what a night costs.
func (h *harbour) fee(ctx context.Context, boat int) (int, error) {
	h.mu.RLock()
	if !h.cured {
		defer h.mu.RUnlock()
	}
	at := h.moored[boat]
	if h.cured {
		h.mu.RUnlock()
	}
	answer, err := h.office.Ask(ctx)
	if err != nil {
		return 0, err
	}
	nights := 1 + int(time.Since(at.since)/(24*time.Hour))
	return nights*len(answer) + 10*at.pier + at.berth, nil
}

// move writes down where a boat lies now.
func (h *harbour) move(boat, pier, berth int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moored[boat] = mooring{pier, berth, time.Now()}
}

func (h *harbour) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	boat := rand.IntN(boats)
	if rand.IntN(moves) == 0 {
		h.move(boat, rand.IntN(9), rand.IntN(80))
		fmt.Fprintln(w, "moved", boat, work.Do(3))
		return
	}
	cents, err := h.fee(r.Context(), boat)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	fmt.Fprintln(w, boat, cents, work.Do(3))
}

func open(p *ward.Patient) (http.Handler, error) {
	office, err := upstream.Start(p, 256, takes)
	if err != nil {
		return nil, err
	}
	h := &harbour{office: office, cured: p.Cured, moored: make(map[int]mooring, boats)}
	for i := range boats {
		h.move(i, i%9, i%80)
	}
	return h, nil
}

func main() { upstream.Main(open) }
