package sim

import (
	"maps"
	"slices"
)

// A route limits the simultaneous requests, in all and per client address; so does an upstream. The
// limits hold across reloads: requests that began before one count together with those that begin
// after it. The simulation checks this from outside. A request with a complete answer was surely in
// progress from its arrival at a service until the service had sent the whole answer.

// stay is such a period of a request.
type stay struct {
	q        *request
	from, to int64
	most     int // allowed number of requests at its beginning
}

// bounds are the largest limits of all configurations so far. After a reload that lowers a limit,
// there may be more requests for a while, so smaller limits are not used for judging.
type bounds struct{ inFlight, places int }

// allow records the limits of the n-th configuration.
func (w *world) allow(n int) {
	g := w.began(n).plan
	w.bounds.inFlight = max(w.bounds.inFlight, g.InFlight)
	w.bounds.places = max(w.bounds.places, g.Places)
}

// reaches records that a request has reached a service.
func (q *request) reaches(w *world) {
	q.came, q.said, q.bounds = w.kernel.Clock(), 0, w.bounds
	if q.arrivals == 1 {
		q.first = q.came
	}
}

// isSaid records that a service has sent a whole answer. Answers to earlier tries are ignored.
func (a *arrival) isSaid() {
	if q := a.asks(); a.try == q.arrivals {
		q.said = a.s.w.kernel.Clock()
	}
}

// crowds checks that there were never more simultaneous requests than allowed. Another process
// counts from zero.
func (w *world) crowds() {
	if len(w.gateways) > 1 {
		return
	}
	route, addresses, upstreams := []stay{}, map[int][]stay{}, map[string][]stay{}
	perClient := w.scenario.Gateway.PerClient
	for _, c := range w.people {
		for _, q := range c.requests {
			if !q.live || q.vicious || q.said == 0 || q.Upgrade || q.WebSocket != nil || q.Cached != nil {
				continue
			}
			if q.Path == "/a/" {
				route = append(route, stay{q, q.first, q.said, q.bounds.inFlight})
			}
			if from := c.plan.From; q.Path == "/a/" && !q.trusted { // a trusted one claims an address
				addresses[from] = append(addresses[from], stay{q, q.first, q.said, perClient})
			}
			if names := upstreamsOf[q.Path]; len(names) == 1 {
				upstreams[names[0]] = append(upstreams[names[0]], stay{q, q.came, q.said, q.bounds.places})
			}
		}
	}
	w.crowd("of the route /a/", route)
	for _, from := range slices.Sorted(maps.Keys(addresses)) {
		w.crowd("of "+address(from).String(), addresses[from])
	}
	for _, name := range slices.Sorted(maps.Keys(upstreams)) {
		w.crowd("at upstream "+name, upstreams[name])
	}
}

// crowd checks the number of simultaneous stays.
func (w *world) crowd(where string, stays []stay) {
	for _, s := range stays {
		var names []string
		for _, o := range stays {
			if o.from <= s.from && s.from < o.to {
				names = append(names, o.q.token)
			}
		}
		if s.most > 0 && len(names) > s.most {
			w.violate("%d requests %s are under way at once, when %s reaches a service, and %d may be: %v",
				len(names), where, s.q.token, s.most, names)
		}
	}
}
