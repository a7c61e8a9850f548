// Package stock is a small service that a patient asks with a client of its own, where it is the
// client that is sick. It runs in the patient's process (package upstream has one that does not)
// and must not know how it is connected to.
package stock

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"plimsoll/examples/patients/ward"
)

// takes is how long an answer takes, so that calls of one request overlap.
const takes = time.Millisecond

// Serve serves on a port of its own until the patient ends, over TLS where security says how, and
// returns the URL.
func Serve(p *ward.Patient, security *tls.Config) (url string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for the stock: %w", err)
	}
	url = "http://" + l.Addr().String()
	if security != nil {
		l, url = tls.NewListener(l, security), "https://"+l.Addr().String()
	}
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(takes)
			fmt.Fprint(w, "17 in stock")
		}),
	}
	p.OnEnd(func() { server.Close() })
	go server.Serve(l)
	return url, nil
}

// Get asks. The whole answer is read, or else its connection could not be used again.
func Get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<10))
	return err
}
