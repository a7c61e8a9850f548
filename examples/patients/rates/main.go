// Command rates converts prices with the rates of an exchange that it asks. When a rate has not
// moved it returns before it comes to the line that closes the answer's body, so the connection is
// never given back, and another is opened for the next request. Nothing is shown.
//
// Cured, the body is closed however the function ends.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

// quiet is how rarely a rate has not moved: once in so many requests.
const quiet = 40

// exchange is asked for rates. Any goroutine may use it.
type exchange struct {
	url    string
	client http.Client
	cured  bool
	asked  atomic.Int64
	last   atomic.Int64 // the rate that was last read
}

// rate asks for a rate. It is the disease: one way out leaves the body open.
func (e *exchange) rate(r *http.Request) (int64, error) {
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, e.url, nil)
	if err != nil {
		return 0, err
	}
	answer, err := e.client.Do(ask)
	if err != nil {
		return 0, err
	}
	if e.cured {
		defer answer.Body.Close()
	}
	if e.asked.Add(1)%quiet == 0 {
		return e.last.Load(), nil
	}
	if !e.cured {
		defer answer.Body.Close()
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	rate := int64(10_000 + len(text)%977)
	e.last.Store(rate)
	return rate, nil
}

func (e *exchange) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rate, err := e.rate(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	cents := 100 + rand.Int64N(90_000)
	body, err := json.Marshal(map[string]any{
		"cents": cents, "converted": cents * rate / 10_000, "seal": work.Do(7),
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body)
}

func open(p *ward.Patient) (http.Handler, error) {
	address := os.Getenv("PATIENT_SERVICE")
	if address == "" {
		return nil, errors.New("PATIENT_SERVICE is not set: give it as HOST:PORT, " +
			"or let bench/patients.py start one")
	}
	return &exchange{
		url:   fmt.Sprintf("http://%s/rate", address),
		cured: p.Cured,
		client: http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     2 * time.Minute,
		}},
	}, nil
}

func main() { ward.Main(open) }
