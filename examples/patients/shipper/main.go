// Command shipper sells tickets for a ferry, and logs each sale. The log is a pipe to a shipper of
// logs, which takes only so many bytes in a second. When the pipe is full, who logs waits in the
// write with the logger's lock, and everybody else waits for that lock. Only pprof is shown.
//
// Cured, lines stand in a queue from which one goroutine writes, and what does not fit is dropped.
package main

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

// The shipper takes so many bytes at a time, and has a pause after each.
const (
	takes = 4096
	pause = 20 * time.Millisecond
)

// role makes this program the shipper.
const role = "PATIENT_SHIPPER"

// ship reads until nobody writes any more.
func ship(lines io.Reader) {
	part := make([]byte, takes)
	for {
		if _, err := io.ReadFull(lines, part); err != nil {
			return
		}
		time.Sleep(pause)
	}
}

// start starts the shipper, and returns where it reads.
func start(p *ward.Patient) (io.Writer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	reads, writes, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	shipper := exec.Command(self)
	shipper.Env = append(os.Environ(), role+"=1")
	shipper.Stdin, shipper.Stderr = reads, os.Stderr
	if err := shipper.Start(); err != nil {
		return nil, err
	}
	reads.Close()
	p.OnEnd(func() {
		writes.Close()
		shipper.Wait()
	})
	return writes, nil
}

// queue is a writer that never waits. Any goroutine may use it.
type queue chan []byte

func (q queue) Write(line []byte) (int, error) {
	select {
	case q <- slices.Clone(line):
	default: // the shipper is behind
	}
	return len(line), nil
}

func (q queue) drain(to io.Writer) {
	for line := range q {
		if _, err := to.Write(line); err != nil {
			return
		}
	}
}

func office(p *ward.Patient) (http.Handler, error) {
	to, err := start(p)
	if err != nil {
		return nil, fmt.Errorf("start the shipper: %w", err)
	}
	if p.Cured {
		q := make(queue, 256)
		go q.drain(to)
		to = q
	}
	log := slog.New(slog.NewJSONHandler(to, nil)).With("service", "tickets", "quay", "north")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passengers, seal := 1+rand.IntN(8), work.Do(4)
		log.Info("sold", "method", r.Method, "path", r.URL.Path, "from", r.RemoteAddr,
			"agent", r.UserAgent(), "passengers", passengers, "seal", seal,
			"headers", r.Header, "protocol", r.Proto, "host", r.Host)
		fmt.Fprintln(w, passengers, seal)
	}), nil
}

func main() {
	if os.Getenv(role) != "" {
		ship(os.Stdin)
		return
	}
	ward.Main(office)
}
