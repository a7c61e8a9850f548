// Command pool passes requests on to a slow backend through a pool of connections of a given size:
// the server of pool.yaml. The backend is in the same process, on a port of its own: it takes 20 ms
// for a request, and does 60 at once, as a database with 60 connections does.
package main

import (
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"plimsoll/examples/experiments/servers/catalog"
)

const (
	takes  = 20 * time.Millisecond
	atOnce = 60
)

func main() {
	size := flag.Int("pool", 10, "connections to the backend")
	listen, metrics := catalog.Addresses()
	catalog.Metrics(metrics)
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.Serve(backend, slow())) }()
	client := &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{MaxConnsPerHost: *size, MaxIdleConnsPerHost: *size},
	}
	url := "http://" + backend.Addr().String()
	log.Fatal(http.ListenAndServe(
		listen,
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, url, nil)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			answer, err := client.Do(ask)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			defer answer.Body.Close()
			// The error cannot be reported to a client that has gone.
			_, _ = io.Copy(w, answer.Body)
		}),
	))
}

// slow is the backend.
func slow() http.Handler {
	working := make(chan struct{}, atOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case working <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		defer func() { <-working }()
		time.Sleep(takes)
		// The error cannot be reported to a client that has gone.
		_, _ = io.WriteString(w, "found\n")
	})
}
