// Package reference describes services of the kinds that exist in practice: their routes share
// workers, they warm up, pause, scale, refuse, or slow down under load. Each is written once, in
// virtual time. A server plays it over HTTP, a simulation plays it without sockets, and its true
// load line comes from a long simulation. Tools that measure services are compared with that line.
// The package must not know sockets, clocks, or what measures it.
package reference

import "math/rand/v2"

// Service is a running service: it computes the fate of each request at the moment of its arrival.
// It has one owner, and its callers supply the time.
type Service interface {
	// Offer lets a request for a route arrive, not before the last one. It returns when it is
	// answered, in nanoseconds, and the status. A refusal is answered at once.
	Offer(now int64, route int) (done int64, status int)
}

// Statuses of answers.
const (
	Good        = 200
	TooMany     = 429 // over a limiter's rate
	Unavailable = 503 // no room to wait
)

// Route is one of a service's routes and its share of the requests.
type Route struct {
	Path   string  `json:"path"`
	Weight float64 `json:"weight"`
}

// Kind describes a service, how it is surveyed, and the true result.
type Kind struct {
	Name string
	// Routes of the mix; a service with one route has the path "/".
	Routes []Route
	SLO    string
	// New makes a service that has had no requests yet.
	New func(seed uint64) Service
	// Line is the true load line in requests a second under Poisson arrivals. FindLine computed it
	// over millions of requests, after the service had warmed up or grown completely. 0 means that
	// there is no line.
	Line float64
	// Says lists the caveats with which a survey is correct even if its interval does not contain
	// the line (record.Line.Caveat).
	Says []string
	// Held kinds are withheld from whoever tunes the survey. They are the same kinds with other
	// costs, pauses and sizes.
	Held bool
}

// Draw draws the route of the next request.
func (k *Kind) Draw(r *rand.Rand) int {
	if len(k.Routes) < 2 {
		return 0
	}
	sum := 0.0
	for _, route := range k.Routes {
		sum += route.Weight
	}
	at := r.Float64() * sum
	for i, route := range k.Routes {
		if at -= route.Weight; at < 0 {
			return i
		}
	}
	return len(k.Routes) - 1
}

// random is a service's own source of random numbers.
func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x94d049bb133111eb)) }
