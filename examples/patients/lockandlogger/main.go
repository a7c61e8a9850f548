// Command lockandlogger is sick in two ways. A mutex is held while it waits for a disk, which is
// the bottleneck; and it writes a line for each rule that it tries on each thing in a cart, which
// is the bottleneck when the lock has been fixed.
//
// --cure first holds the mutex only for the map, --cure second writes no lines, --cure both does
// both.
package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	disk   = 2 * time.Millisecond // how long a write takes
	things = 50                   // in a cart
	rules  = 12                   // that are tried on each, to find its price
)

var cures = ward.Cures()

func main() { ward.Main(shop) }

// cart counts orders.
type cart struct {
	mu     sync.Mutex
	orders map[string]int
	log    *slog.Logger
}

func shop(p *ward.Patient) (http.Handler, error) {
	unlocked, quiet := cures(p)
	c := cart{
		orders: map[string]int{},
		log:    slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{AddSource: true})),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !quiet {
			c.price(r)
		}
		n := 0
		if unlocked {
			n = c.count(r.URL.Path, func() {})
			write()
		} else {
			n = c.count(r.URL.Path, write)
		}
		fmt.Fprintln(w, n, work.Do(3))
	}), nil
}

// count counts an order of something, and does more while nobody else may.
func (c *cart) count(what string, more func()) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	more()
	c.orders[what]++
	return c.orders[what]
}

// write stands for a disk.
func write() { time.Sleep(disk) }

// price says a lot.
func (c *cart) price(r *http.Request) {
	for i := range things * rules {
		c.log.Info("rule tried", "method", r.Method, "path", r.URL.Path, "client", r.RemoteAddr,
			"agent", r.UserAgent(),
			"thing", i/rules, "rule", i%rules, "price", i*100, "currency", "EUR", "applied", false)
	}
}
