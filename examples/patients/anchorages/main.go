// Command anchorages tells where a ship may drop its anchor, for which it asks the office of the
// roads how deep the water is. All requests share one connection to the office, and its mutex is
// held from the question to the answer. Only pprof is shown.
//
// Cured, a connection is taken from those that are free, and the mutex is held only to take it.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	places  = 4000
	patient = 10 * time.Second // at most, for an answer
)

// wire is a connection to the office. One goroutine may use it at a time.
type wire struct {
	net.Conn
	in *bufio.Reader
}

// ask sends a question and reads the answer.
func (w *wire) ask(host, path string) (string, error) {
	if err := w.SetDeadline(time.Now().Add(patient)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(w, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host); err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 512))
	return string(text), err
}

// office is asked for depths. Any goroutine may use it.
type office struct {
	address string
	cured   bool

	mu   sync.Mutex
	free []*wire
}

// take is a connection that is free, or a new one. The caller holds mu.
func (o *office) take() (*wire, error) {
	if last := len(o.free) - 1; last >= 0 {
		w := o.free[last]
		o.free = o.free[:last]
		return w, nil
	}
	c, err := net.DialTimeout("tcp", o.address, patient)
	if err != nil {
		return nil, err
	}
	return &wire{c, bufio.NewReader(c)}, nil
}

// depth is what the office says of a place.
func (o *office) depth(place int) (string, error) {
	o.mu.Lock()
	if !o.cured {
		defer o.mu.Unlock()
	}
	w, err := o.take()
	if o.cured {
		o.mu.Unlock()
	}
	if err != nil {
		return "", err
	}
	answer, err := w.ask(o.address, fmt.Sprintf("/depth?place=%d", place))
	if err != nil {
		w.Close()
		return "", err
	}
	if o.cured {
		o.mu.Lock()
		defer o.mu.Unlock()
	}
	o.free = append(o.free, w)
	return answer, nil
}

func (o *office) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	place := rand.IntN(places)
	depth, err := o.depth(place)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	fmt.Fprintln(w, place, depth, work.Do(4))
}

func open(p *ward.Patient) (http.Handler, error) {
	address := os.Getenv("PATIENT_SERVICE")
	if address == "" {
		return nil, errors.New("PATIENT_SERVICE is not set: give it as HOST:PORT, " +
			"or let bench/patients.py start one")
	}
	return &office{address: address, cured: p.Cured}, nil
}

func main() { ward.Main(open) }
