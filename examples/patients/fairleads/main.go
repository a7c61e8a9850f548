// Command fairleads tells what the mooring lines of a ship have to hold at its berth. The heights
// of its fairleads come from a register of ships, another service, and those of the ships that
// were asked for last are kept. Who looks a ship up locks all that is kept, and when the ship is
// not in there, holds the lock until the register has answered. All others wait meanwhile, also
// those whose ship is kept.
//
// Cured, the lock is held while looking and while storing, and not while the register is asked.
package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	// ships call at the harbour, and half of them are kept.
	ships = 400
	kept  = ships / 2
	// fairleads are what a ship has along its side.
	fairleads = 8
)

func main() { ward.Main(harbour) }

func harbour(p *ward.Patient) (http.Handler, error) {
	address := os.Getenv("PATIENT_SERVICE")
	if address == "" {
		return nil, errors.New("PATIENT_SERVICE is not set: give it as 127.0.0.1:8080")
	}
	m := &moorings{
		heights: make(map[int]heights, kept),
		register: &register{
			url: "http://" + address + "/ships/",
			client: &http.Client{
				Timeout:   10 * time.Second,
				Transport: &http.Transport{MaxIdleConnsPerHost: 1000},
			},
		},
	}
	find := m.heightsOf
	if p.Cured {
		find = m.heightsApart
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ship, tide := rand.IntN(ships), 4*rand.Float64()
		h, err := find(r.Context(), ship)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "ship %d at a tide of %.1f m\n", ship, tide)
		for i, load := range loads(h, tide) {
			fmt.Fprintf(w, "fairlead %d: %.1f kN\n", i+1, load)
		}
		fmt.Fprintf(w, "plan %s\n", work.Do(3))
	}), nil
}

// heights are those of a ship's fairleads above its keel, in metres.
type heights [fairleads]float64

// moorings keep the heights of the ships that were stored last. Any goroutine may look one up.
type moorings struct {
	register *register

	mu      sync.Mutex
	heights map[int]heights
	order   [kept]int // the ships that are kept, the oldest at stored%kept once it is full
	stored  int
}

// heightsOf returns the heights of a ship.
func (m *moorings) heightsOf(ctx context.Context, ship int) (heights, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h, ok := m.heights[ship]; ok {
		return h, nil
	}
	h, err := m.register.ask(ctx, ship)
	if err != nil {
		return heights{}, err
	}
	m.store(ship, h)
	return h, nil
}

// heightsApart returns the heights of a ship. It may ask for a ship twice at the same time.
func (m *moorings) heightsApart(ctx context.Context, ship int) (heights, error) {
	m.mu.Lock()
	h, ok := m.heights[ship]
	m.mu.Unlock()
	if ok {
		return h, nil
	}
	h, err := m.register.ask(ctx, ship)
	if err != nil {
		return heights{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store(ship, h)
	return h, nil
}

// store keeps the heights of a ship, in place of the oldest. It is called with mu locked.
func (m *moorings) store(ship int, h heights) {
	if _, ok := m.heights[ship]; ok {
		return
	}
	if m.stored >= kept {
		delete(m.heights, m.order[m.stored%kept])
	}
	m.heights[ship] = h
	m.order[m.stored%kept] = ship
	m.stored++
}

// register is the register of ships.
type register struct {
	url    string
	client *http.Client
}

// ask returns what the register says of a ship.
func (r *register) ask(ctx context.Context, ship int) (h heights, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprint(r.url, ship), nil)
	if err != nil {
		return h, err
	}
	answer, err := r.client.Do(request)
	if err != nil {
		return h, fmt.Errorf("ask the register: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err != nil {
		return h, fmt.Errorf("read what the register says: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return h, fmt.Errorf("the register answered %s", answer.Status)
	}
	return read(ship, text), nil
}

// read takes the heights out of the register's entry, which it does not print in the clear.
func read(ship int, entry []byte) (h heights) {
	sum := fnv.New64a()
	fmt.Fprint(sum, ship, " ")
	sum.Write(entry)
	for i, bits := 0, sum.Sum64(); i < fairleads; i, bits = i+1, bits>>8 {
		h[i] = 6 + float64(bits&255)/32
	}
	return h
}

// loads are what the line of each fairlead has to hold at a tide: the steeper it is, the more.
func loads(h heights, tide float64) (kilonewtons [fairleads]float64) {
	const toBollard, pull = 12.0, 85.0 // metres along the quay, and kN across it
	for i, height := range h {
		slope := math.Atan2(math.Max(height+tide-5, 0), toBollard)
		kilonewtons[i] = pull / math.Cos(slope)
	}
	return kilonewtons
}
