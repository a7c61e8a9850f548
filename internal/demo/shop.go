package demo

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// maxOrder is the longest order, in bytes, that the shop reads; buyers send a few words.
const maxOrder = 64 << 10

// Options of one instance of the shop.
type Options struct {
	// Name is sent with each answer as X-Instance.
	Name string
	// ServiceTime is the mean time one request takes. Zero answers at once.
	ServiceTime time.Duration
	// Exponential draws each service time from an exponential distribution, at most ten times the
	// mean; otherwise all are the same.
	Exponential bool
	// Seed of the draws: the same seed gives the same times in the same order.
	Seed uint64
	// SlowFactor multiplies every service time. Zero counts as one.
	SlowFactor float64
}

// Shop is one instance of the shop, an http.Handler.
type Shop struct {
	options Options
	stock   *Stock
	mux     http.ServeMux

	drawing sync.Mutex
	draws   *rand.Rand
}

// NewShop opens an instance that sells from stock.
func NewShop(stock *Stock, o Options) *Shop {
	if o.SlowFactor == 0 {
		o.SlowFactor = 1
	}
	s := &Shop{options: o, stock: stock, draws: rand.New(rand.NewPCG(o.Seed, 0))}
	s.mux.HandleFunc("GET /api/v1/items", s.working(s.list))
	s.mux.HandleFunc("GET /api/v1/items/{id}", s.working(s.show))
	s.mux.HandleFunc("POST /api/v1/items/{id}/buy", s.working(s.buy))
	s.mux.HandleFunc("GET /healthz", s.healthz)
	s.mux.HandleFunc("GET /healthz/deep", s.working(s.healthz))
	return s
}

// ServeHTTP answers one request.
func (s *Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Instance", s.options.Name)
	s.mux.ServeHTTP(w, r)
}

// working makes a request take its service time first, on one of the database's connections. A
// client that leaves ends the wait, and nothing is sold to it.
func (s *Shop) working(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.stock.acquire(r.Context()) != nil {
			return
		}
		err := wait(r.Context(), s.serviceTime())
		s.stock.release()
		if err != nil {
			return
		}
		next(w, r)
	}
}

func (s *Shop) serviceTime() time.Duration {
	t := float64(s.options.ServiceTime) * s.options.SlowFactor
	if s.options.Exponential {
		s.drawing.Lock()
		t *= min(s.draws.ExpFloat64(), 10)
		s.drawing.Unlock()
	}
	return time.Duration(t)
}

func (s *Shop) list(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, s.stock.Items())
}

func (s *Shop) show(w http.ResponseWriter, r *http.Request) {
	item, ok := s.stock.Item(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusNotFound, "no such item")
		return
	}
	answer(w, http.StatusOK, item)
}

func (s *Shop) buy(w http.ResponseWriter, r *http.Request) {
	// The order is read whole before anything is sold: a buyer whose order breaks off has not
	// bought.
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxOrder)); err != nil {
		refuse(w, http.StatusBadRequest, "the order could not be read")
		return
	}
	item, sold := s.stock.Take(r.PathValue("id"))
	switch {
	case sold:
		answer(w, http.StatusOK, item)
	case item.ID == "":
		refuse(w, http.StatusNotFound, "no such item")
	default:
		refuse(w, http.StatusConflict, "sold out")
	}
}

func (s *Shop) healthz(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]string{"status": "ok", "instance": s.options.Name})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A write fails only when the client has gone, and then nobody is left to tell.
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, reason string) {
	answer(w, status, map[string]string{"error": reason})
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
