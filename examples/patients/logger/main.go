// Command logger writes a line for each rule that it tries on each thing in a cart, with the place
// in the code, and more than half of its processor time goes into lines that nobody reads.
//
// Cured, it writes one line for every hundredth request.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	things = 50 // in a cart
	rules  = 10 // that are tried on each, to find its price
)

var path = flag.String("log", os.DevNull, "where lines are written")

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	file, err := os.OpenFile(*path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--log: %w", err)
	}
	p.OnEnd(func() { file.Close() })
	log := slog.New(slog.NewTextHandler(file, &slog.HandlerOptions{
		AddSource: true,
		Level:     slog.LevelDebug,
	}))
	var requests atomic.Uint64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.Cured {
			for i := range things * rules {
				log.Debug("rule tried", "method", r.Method, "path", r.URL.Path, "client",
					r.RemoteAddr, "agent", r.UserAgent(),
					"thing", i/rules, "rule", i%rules, "price", i*100, "currency", "EUR", "applied",
					false)
			}
		} else if requests.Add(1)%100 == 0 {
			log.Info("cart priced", "method", r.Method, "path", r.URL.Path, "things", things)
		}
		fmt.Fprintln(w, work.Do(3))
	}), nil
}
