// Command lock holds a mutex while it waits for a disk: one request at a time gets on, whatever the
// processor could do.
//
// Cured, the mutex is held only for the map that it is there for.
package main

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

// disk is how long a write takes.
const disk = 2 * time.Millisecond

// ledger counts orders and writes each down.
type ledger struct {
	cured bool

	mu     sync.Mutex
	orders map[string]int
}

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	l := &ledger{cured: p.Cured, orders: map[string]int{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, l.order(r.URL.Path), work.Do(6))
	}), nil
}

// order counts an order of something and returns how many there were.
func (l *ledger) order(what string) int {
	l.mu.Lock()
	if !l.cured {
		write() // the disease: nobody else gets on meanwhile
	}
	l.orders[what]++
	n := l.orders[what]
	l.mu.Unlock()
	if l.cured {
		write()
	}
	return n
}

// write stands for a disk.
func write() { time.Sleep(disk) }
