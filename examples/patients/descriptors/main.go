// Command descriptors may have 64 descriptors open (descriptors-near-limit), and each connection is
// one. The kernel completes the connections beyond, and the service cannot accept them: their
// clients send a request and wait for an answer that never comes.
//
// Cured, the limit is the one that Go raises for itself, as high as the machine allows.
package main

import (
	"fmt"
	"net/http"
	"syscall"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const few = 64

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	if !p.Cured {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{
			Cur: few,
			Max: few,
		}); err != nil {
			return nil, fmt.Errorf("lower the limit of descriptors: %w", err)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// something else is asked, so that clients need many connections
		time.Sleep(8 * time.Millisecond)
		fmt.Fprintln(w, work.Do(6))
	}), nil
}
