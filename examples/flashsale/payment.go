package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// bank is the payment service: another server, on the loopback interface, that takes a millisecond.
type bank struct {
	url    string
	server *http.Server
}

// payTime is what a payment takes.
const payTime = time.Millisecond

func openBank() (*bank, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the payment service cannot listen: %w", err)
	}
	b := &bank{"http://" + l.Addr().String(), &http.Server{ReadHeaderTimeout: 5 * time.Second}}
	b.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20))
		timer := time.NewTimer(payTime)
		defer timer.Stop()
		select {
		case <-timer.C:
			io.WriteString(w, "paid-4711")
		case <-r.Context().Done():
		}
	})
	go func() {
		if err := b.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fmt.Println("the payment service ended:", err)
		}
	}()
	return b, nil
}

func (b *bank) close() { b.server.Close() }

// payments is the client of the payment service.
type payments struct {
	url    string
	client *http.Client
}

// idleConnections is more than the requests that are ever under way at once.
const idleConnections = 512

// newPayments makes the client. On the first day it is the default one, which keeps two idle
// connections to a host: all others are made again for each request. Its timeout is there from the
// first day.
func newPayments(url string, changed bool) payments {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if changed {
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = idleConnections, idleConnections
	}
	return payments{url, &http.Client{Transport: transport, Timeout: 5 * time.Second}}
}

func (p payments) pay(ctx context.Context, b *basket) (receipt string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url,
		bytes.NewReader(b.order))
	if err != nil {
		return "", err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	return string(text), err
}
