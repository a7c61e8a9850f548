// Package reference describes services of the kinds that exist in practice: their routes share
// workers, they warm up, pause, scale, refuse, or slow down when they are busy. Each is written
// down once, in virtual time. A server plays it over HTTP, a simulation plays it without sockets,
// and its true load line comes from a long simulation. Tools that measure services are compared
// with that line. The package must know no sockets, no clocks, and nothing of what measures it.
package reference

import "math/rand/v2"

// Service is a service at work: each request's fate is computed in the moment it arrives. It is a
// value of one owner; time is what its callers say it is.
type Service interface {
	// Offer has a request for a route arrive, not before the one offered last, and says when it is
	// answered, in nanoseconds, and with which status. A refusal is answered at once.
	Offer(now int64, route int) (done int64, status int)
}

// The statuses of answers.
const (
	Good        = 200
	TooMany     = 429 // over the rate that a limiter allows
	Unavailable = 503 // no room left to wait in
)

// Route is one of a service's routes and its part of the requests.
type Route struct {
	Path   string  `json:"path"`
	Weight float64 `json:"weight"`
}

// Kind describes a service, how it is surveyed, and what is true of it.
type Kind struct {
	Name string
	// Routes of the mix; the services that have one route have the path "/".
	Routes []Route
	SLO    string
	// New makes one that nobody has asked yet.
	New func(seed uint64) Service
	// Line is the true load line in requests a second under Poisson arrivals, as FindLine computed it
	// over millions of requests, after the service had warmed up or grown as far as it does. 0
	// means that there is none.
	Line float64
	// Says lists the caveats with which a survey is right even when its interval does not contain
	// the line (record.Line.Caveat).
	Says []string
	// Held back from those who tune the survey: other costs, pauses and sizes of the same kinds.
	Held bool
}

// Draw says which route the next request is for.
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

// random is a source of random numbers of a service's own.
func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x94d049bb133111eb)) }
