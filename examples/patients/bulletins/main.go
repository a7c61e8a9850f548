// Command bulletins takes the positions of ships and hands them on to who has subscribed to them.
// It keeps its mutex while it hands a position on, and a subscriber takes none while he writes down
// the one before. Only pprof is shown.
//
// Cured, each subscriber has a queue, and nobody waits for him.
package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/examples/patients/upstream"
	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	ships   = 3000
	waiting = 4096                   // positions in a queue
	takes   = 4 * time.Millisecond   // to write positions down
	reports = 2                      // one request in so many has a new position
	pause   = 100 * time.Millisecond // when they could not be written down
)

// position is where a ship is.
type position struct{ ship, north, east int }

// subscriber has positions written down, as many at once as there are.
type subscriber struct {
	positions chan position
	archive   *upstream.Upstream
	missed    atomic.Int64
}

func (s *subscriber) run(ctx context.Context) {
	for {
		select {
		case <-s.positions:
		case <-ctx.Done():
			return
		}
		for range len(s.positions) {
			<-s.positions
		}
		if _, err := s.archive.Ask(ctx); err != nil {
			s.missed.Add(1)
			time.Sleep(pause)
		}
	}
}

// hub knows the last position of each ship, and who wants to know. Any goroutine may use it.
type hub struct {
	mu          sync.Mutex
	last        map[int]position
	subscribers []*subscriber
}

// publish writes a position down, and hands it on.
func (h *hub) publish(p position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last[p.ship] = p
	for _, s := range h.subscribers {
		if cap(s.positions) == 0 {
			s.positions <- p
			continue
		}
		select {
		case s.positions <- p:
		default:
			s.missed.Add(1)
		}
	}
}

// find returns the last position of a ship.
func (h *hub) find(ship int) position {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last[ship]
}

func (h *hub) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	ship := rand.IntN(ships)
	if rand.IntN(reports) == 0 {
		h.publish(position{ship, rand.IntN(90 * 60), rand.IntN(180 * 60)})
	}
	p := h.find(ship)
	fmt.Fprintln(w, p.ship, p.north, p.east, work.Do(3))
}

func open(p *ward.Patient) (http.Handler, error) {
	archive, err := upstream.Start(p, 64, takes)
	if err != nil {
		return nil, err
	}
	room := 0
	if p.Cured {
		room = waiting
	}
	h := &hub{last: make(map[int]position, ships)}
	for range 3 {
		s := &subscriber{positions: make(chan position, room), archive: archive}
		h.subscribers = append(h.subscribers, s)
		go s.run(p.Context)
	}
	return h, nil
}

func main() { upstream.Main(open) }
