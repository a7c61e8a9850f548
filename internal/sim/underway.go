package sim

import (
	"maps"
	"slices"
)

// How many requests are under way at once is bounded by a route, for each client's address, and by
// an upstream. The bounds hold over reloads: what began before one counts together with what begins
// after it. The simulation sees that from outside. A request whose answer came whole was surely
// under way from when it reached a service until that had said all of the answer.

// stay is such a time of a request.
type stay struct {
	q        *request
	from, to int64
	most     int // requests there may be when it begins
}

// bounds are the largest numbers of the configurations that have come into force until now. After
// a reload that lowers one there may be more for a while, so no smaller ones are judged by.
type bounds struct{ inFlight, places int }

// allow notes what the n-th configuration allows.
func (w *world) allow(n int) {
	g := w.began(n).plan
	w.bounds.inFlight = max(w.bounds.inFlight, g.InFlight)
	w.bounds.places = max(w.bounds.places, g.Places)
}

// reaches notes that a request has reached a service.
func (q *request) reaches(w *world) {
	q.came, q.said, q.bounds = w.kernel.Clock(), 0, w.bounds
	if q.arrivals == 1 {
		q.first = q.came
	}
}

// isSaid notes that a service has said all of an answer. Who was asked before a later try is late.
func (a *arrival) isSaid() {
	if q := a.asks(); a.try == q.arrivals {
		q.said = a.s.w.kernel.Clock()
	}
}

// crowds checks that no more requests were under way at once than may be. Another process counts
// from zero.
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
			if from := c.plan.From; q.Path == "/a/" && !q.trusted { // who is trusted claims an address
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

// crowd checks the number of those that were there at once.
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
