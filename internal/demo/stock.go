package demo

import (
	"context"
	"strconv"
	"sync/atomic"
)

// Item is one thing on sale.
type Item struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Cents int    `json:"cents"`
	Left  int64  `json:"left"`
}

// Stock is what the shop has to sell. All instances of a shop share one, as they would share a
// database. Any goroutine may use it.
type Stock struct {
	shelves []shelf
	byID    map[string]*shelf
	// connections holds a token for each connection to the database that is free; nil is as many as
	// are asked for.
	connections chan struct{}
}

type shelf struct {
	item Item
	left atomic.Int64
}

// NewStock fills a shop's shelves with each of its items (ids "1" to "8") count times. A count
// below zero counts as zero.
func NewStock(count int64) *Stock {
	names := []struct {
		name  string
		cents int
	}{
		{"brass sextant", 18900},
		{"oilskin coat", 12900},
		{"ship's biscuit", 350},
		{"storm lantern", 4900},
		{"harbour chart", 1900},
		{"marlinspike", 2400},
		{"sea chest", 24900},
		{"pea coat", 16900},
	}
	s := &Stock{shelves: make([]shelf, len(names)), byID: make(map[string]*shelf, len(names))}
	for i, n := range names {
		sh := &s.shelves[i]
		sh.item = Item{ID: strconv.Itoa(i + 1), Name: n.name, Cents: n.cents}
		sh.left.Store(max(count, 0))
		s.byID[sh.item.ID] = sh
	}
	return s
}

// Connect bounds how many requests of all instances use the stock at once, as a database's
// connections do; the others wait their turn. It is called before anybody uses the stock.
func (s *Stock) Connect(connections int) {
	s.connections = make(chan struct{}, connections)
	for range connections {
		s.connections <- struct{}{}
	}
}

// acquire waits for a free connection, which release gives back, or for the context's end.
func (s *Stock) acquire(ctx context.Context) error {
	if s.connections == nil {
		return ctx.Err()
	}
	select {
	case <-s.connections:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Stock) release() {
	if s.connections != nil {
		s.connections <- struct{}{}
	}
}

// Items lists what is on sale, with what is left of each at this moment.
func (s *Stock) Items() []Item {
	items := make([]Item, len(s.shelves))
	for i := range s.shelves {
		items[i] = s.shelves[i].now()
	}
	return items
}

// Item finds one item; ok is false when there is none with this id.
func (s *Stock) Item(id string) (item Item, ok bool) {
	sh := s.byID[id]
	if sh == nil {
		return Item{}, false
	}
	return sh.now(), true
}

// Take sells one piece. Of any number of buyers at once, exactly as many succeed as there are
// pieces: the count is taken down only from the value that was seen, and never below zero.
// item.Left is what was left after this sale; sold is false when there is no such item or none left
// of it.
func (s *Stock) Take(id string) (item Item, sold bool) {
	sh := s.byID[id]
	if sh == nil {
		return Item{}, false
	}
	for {
		left := sh.left.Load()
		if left == 0 {
			return sh.now(), false
		}
		if sh.left.CompareAndSwap(left, left-1) {
			item = sh.item
			item.Left = left - 1
			return item, true
		}
	}
}

func (sh *shelf) now() Item {
	item := sh.item
	item.Left = sh.left.Load()
	return item
}
