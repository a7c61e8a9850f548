// Command piers is a control: it has no disease. It tells which pier a ship is sent to, for which
// it asks a pilot office. It has two thousand goroutines, one for each berth, which mostly wait;
// what it remembers grows until it is as much as it may be; and an admission of 4096 stands before
// the office, which is never all taken. Connections to the office are kept, and the processors are
// the bottleneck.
package main

import (
	"context"
	"errors"
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
	berths     = 2000
	remembered = 20_000 // visits, and then the oldest is forgotten
	ships      = 1_000_000
	admitted   = 4096
	takes      = 4 * time.Millisecond
)

// question is what a berth is asked: how well a ship of that draught would lie there.
type question struct {
	draught int
	answer  chan<- int
}

// berth is looked after by one goroutine.
type berth struct {
	depth int
	asked chan question
}

// run answers until ctx ends.
func (b *berth) run(ctx context.Context) {
	for {
		select {
		case q := <-b.asked:
			q.answer <- max(0, b.depth-q.draught)
		case <-ctx.Done():
			return
		}
	}
}

// visit is what is remembered of a ship.
type visit struct {
	berth int
	notes [192]byte
}

// memory keeps the last visits. Any goroutine may use it.
type memory struct {
	mu     sync.RWMutex
	visits map[int]*visit
	order  [remembered]int // a ring of ships
	next   int
}

func (m *memory) find(ship int) *visit {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.visits[ship]
}

// keep remembers a visit, and forgets the oldest when there are too many.
func (m *memory) keep(ship int, v *visit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.visits[ship] == nil {
		delete(m.visits, m.order[m.next]) // no ship is 0
		m.order[m.next] = ship
		m.next = (m.next + 1) % remembered
	}
	m.visits[ship] = v
}

// harbour sends ships to piers.
type harbour struct {
	berths    []*berth
	memory    *memory
	office    *upstream.Upstream
	admission chan struct{}
	ended     context.Context
}

// lie asks a berth how well a ship would lie there.
func (h *harbour) lie(ctx context.Context, at, draught int) (int, error) {
	answer := make(chan int, 1)
	select {
	case h.berths[at].asked <- question{draught, answer}:
		return <-answer, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-h.ended.Done():
		return 0, errors.New("the harbour is closed")
	}
}

func (h *harbour) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ship := 1 + rand.IntN(ships)
	h.admission <- struct{}{}
	_, err := h.office.Ask(r.Context())
	<-h.admission
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	at := rand.IntN(berths)
	if last := h.memory.find(ship); last != nil {
		at = last.berth
	}
	room, err := h.lie(r.Context(), at, 2+ship%7)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	v, notes := &visit{berth: at}, work.Do(4)
	copy(v.notes[:], notes)
	h.memory.keep(ship, v)
	fmt.Fprintln(w, ship, at, room, notes)
}

func open(p *ward.Patient) (http.Handler, error) {
	office, err := upstream.Start(p, admitted, takes)
	if err != nil {
		return nil, err
	}
	h := &harbour{office: office, admission: make(chan struct{}, admitted), ended: p.Context,
		memory: &memory{visits: make(map[int]*visit, remembered)}}
	for i := range berths {
		b := &berth{depth: 3 + i%9, asked: make(chan question)}
		h.berths = append(h.berths, b)
		go b.run(p.Context)
	}
	return h, nil
}

func main() { upstream.Main(open) }
