package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// plan is what is sent.
type plan struct {
	address     string
	tls         *tls.Config
	request     []byte
	rate        float64
	total       int
	connections int
	timeout     time.Duration
}

// result is what came of it.
type result struct {
	Sent   int `json:"sent"`
	OK     int `json:"ok"`
	Failed int `json:"failed"`
	// Kinds counts the failures: "connect", "write", "timeout", "reset", "closed" (the connection
	// ended without an answer), "cut" (it ended within one), "malformed", and "status 503" for a
	// status that is not 2xx.
	Kinds map[string]int `json:"kinds"`
	// Goodbyes counts answers with Connection: close. They are not failures: the client was told.
	Goodbyes int `json:"goodbyes"`
	// Late counts requests that were sent more than 10 ms after their time, because their
	// connection was still busy or this program was short of CPU. When it is a large share, the
	// rate was not held.
	Late int `json:"late"`
	// P50, P99 and Max are milliseconds from the time a request was to be sent to its whole answer,
	// of those that were OK.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

// send sends the plan's requests. Request i is due at i/rate, and belongs to connection i modulo
// connections, so that the schedule depends on nothing the server does. It returns when all are
// answered or failed, or ctx has ended.
func send(ctx context.Context, p plan) result {
	var (
		all   sync.WaitGroup
		start = time.Now()
		parts = make([]*sender, p.connections)
	)
	for i := range parts {
		parts[i] = &sender{plan: p, kinds: map[string]int{}}
		all.Go(func() { parts[i].run(ctx, start, i) })
	}
	all.Wait()
	r := result{Kinds: map[string]int{}}
	var took []time.Duration
	for _, s := range parts {
		for kind, n := range s.kinds {
			r.Kinds[kind] += n
			r.Failed += n
		}
		r.Goodbyes += s.goodbyes
		r.Late += s.late
		took = append(took, s.took...)
	}
	r.OK = len(took)
	r.Sent = r.OK + r.Failed
	slices.Sort(took)
	if n := len(took); n > 0 {
		ms := func(rank int) float64 { return float64(took[rank]) / 1e6 }
		r.P50, r.P99, r.Max = ms((n-1)/2), ms((n*99+99)/100-1), ms(n-1)
	}
	return r
}

// sender owns one connection; one goroutine runs it.
type sender struct {
	plan
	conn     net.Conn
	reader   *bufio.Reader
	kinds    map[string]int
	goodbyes int
	late     int
	took     []time.Duration
}

func (s *sender) run(ctx context.Context, start time.Time, first int) {
	defer s.hangUp()
	due := time.NewTimer(0)
	defer due.Stop()
	for i := first; i < s.total; i += s.connections {
		at := start.Add(time.Duration(float64(i) / s.rate * float64(time.Second)))
		due.Reset(time.Until(at))
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		}
		if time.Since(at) > 10*time.Millisecond {
			s.late++
		}
		if kind := s.one(ctx); kind != "" {
			s.kinds[kind]++
			s.hangUp()
			continue
		}
		s.took = append(s.took, time.Since(at))
	}
}

// one sends a request and reads its answer; it returns the kind of failure, or nothing. A failure
// is never tried again.
func (s *sender) one(ctx context.Context) string {
	if s.conn == nil && s.dial(ctx) != nil {
		return "connect"
	}
	if err := s.conn.SetDeadline(time.Now().Add(s.timeout)); err != nil {
		return "write"
	}
	if _, err := s.conn.Write(s.request); err != nil {
		return failure(err, "write")
	}
	if _, err := s.reader.Peek(1); err != nil {
		return failure(err, "closed")
	}
	response, err := http.ReadResponse(s.reader, nil)
	if err != nil {
		return failure(err, "malformed")
	}
	defer response.Body.Close()
	if _, err = io.Copy(io.Discard, response.Body); err != nil {
		return failure(err, "cut")
	}
	if response.StatusCode/100 != 2 {
		return "status " + strconv.Itoa(response.StatusCode)
	}
	if response.Close {
		s.goodbyes++
		s.hangUp()
	}
	return ""
}

func (s *sender) dial(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if s.tls != nil {
		s.conn, err = (&tls.Dialer{Config: s.tls}).DialContext(ctx, "tcp", s.address)
	} else {
		s.conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
	}
	if err != nil {
		// A dialer's failure leaves an interface that is not nil around a nil connection.
		s.conn = nil
		return err
	}
	s.reader = bufio.NewReader(s.conn)
	return nil
}

func (s *sender) hangUp() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// failure names an error's kind; other is its kind when it is none of the known ones.
func failure(err error, other string) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case isReset(err):
		return "reset"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "cut"
	}
	return other
}

// isReset tells a connection that the peer threw away from one that it closed.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
