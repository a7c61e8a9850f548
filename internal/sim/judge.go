package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// judge checks whether an answer may be given to its request.
func (a *answer) judge() error {
	q, quiet := a.begun, a.c.w.scenario.Quiet
	switch {
	case a.want != "":
		if q.Method != "HEAD" && a.got != len(a.want) {
			return fmt.Errorf("%s is answered %d bytes of %d", q.token, a.got, len(a.want))
		}
	case a.own && a.status == 416 && q.Cached != nil && q.Cached.field("range") != "":
	case a.own && a.status == 308 && strings.HasPrefix(q.Path, "/away/"):
	case a.own && a.status >= 400:
		said := strings.HasPrefix(string(a.body), strconv.Itoa(a.status)+" ")
		if q.Method != "HEAD" && !said {
			return fmt.Errorf("%s is answered %d %q", q.token, a.status, a.body)
		}
		if a.status < 500 && q.Spoiled == 0 && !q.odd && !a.mayGet() {
			return fmt.Errorf("%s, which is a good request, is answered %d %q", q.token, a.status,
				a.body)
		}
		if quiet && !strings.HasPrefix(q.Path, "/nowhere/") && !q.wrongMethod() && !a.c.holdsUp() &&
			!a.keptOut() && !q.wasLeft(a.c.w.scenario.Gateway) {
			return fmt.Errorf("%s fails although nobody misbehaves: %d %q", q.token, a.status,
				a.body)
		}
	case a.own:
		return fmt.Errorf("%s is answered %d %q by nobody", q.token, a.status, a.body)
	}
	if how := q.malformed(); how != "" && (!a.own || a.status < 400) {
		return fmt.Errorf("the malformed %s (%s) is answered %d", q.token, how, a.status)
	}
	return nil
}

// wasLeft reports whether the request failed because services had just left its connections: either
// in all of its tries, or in one that could not be repeated because the gateway had forwarded more
// than it holds.
func (q *request) wasLeft(g GatewayPlan) bool {
	held := 64 << 10 // by default
	if g.HoldBody > 0 {
		held = g.HoldBody - 1
	}
	return q.excused >= mostTries || q.excused > 0 && q.Body > held
}

// holdsUp reports whether the client is slow and there are so few places that others may take its
// own: a full pool is shared between addresses.
func (c *client) holdsUp() bool {
	return c.isSlow() && c.w.scenario.Gateway.isFullWith(len(c.w.scenario.Clients))
}

// isSlow reports whether the client may be slow.
func (c *client) isSlow() bool {
	return c.plan.Pause > 0 || c.plan.ReadRate > 0 || c.plan.ReadWait > 0 || c.http2 != nil
}

// keptOut reports whether the request may have waited for a place forever: slow clients may occupy
// all of them. An address keeps its share of the places as long as its requests take.
func (a *answer) keptOut() bool {
	with := 1
	for _, c := range a.c.w.people {
		if c != a.c && c.isSlow() {
			with++
		}
	}
	return a.status == 503 && a.c.w.scenario.Gateway.isFullWith(with)
}

// isFullWith reports whether a target or an upstream may have fewer places than the number of
// clients. If the limit is adaptive or a reload changes it, there may be only one.
func (g *GatewayPlan) isFullWith(clients int) bool {
	return g.MaxConnections < clients || g.Slots+g.Places > 0 && clients > 1
}

// answeredWith checks the fields of an answer that the gateway has set.
func (q *request) answeredWith(h *messageHead, own bool) error {
	switch {
	case own && h.status() == 308 && h.value("location") != "https://other.test/"+q.token:
		return fmt.Errorf("%s is sent to %q", q.token, h.value("location"))
	case own:
		return nil
	case h.value("x-route") != "yes":
		return fmt.Errorf("the answer to %s comes without what its route adds", q.token)
	case q.Path == "/a/" && (q.id == "" || h.value("x-request-id") != q.id):
		return fmt.Errorf("the answer to %s has the id %q, the request had %q", q.token,
			h.value("x-request-id"), q.id)
	}
	return nil
}

// arrivedWith checks the fields of a request that the gateway must remove or set.
func (q *request) arrivedWith(h *messageHead) error {
	for name, value := range h.fields {
		if strings.Contains(value, claimed) && !q.trusted {
			return fmt.Errorf("%s arrives with its client's own claim in %s", q.token, name)
		}
	}
	switch {
	case h.value("x_real_ip") != "":
		return fmt.Errorf("%s arrives with its client's own claim in x_real_ip", q.token)
	case h.value("x-hop") != "":
		return fmt.Errorf("%s arrives with a field that Connection names", q.token)
	case h.number("x-config") < 0:
		return fmt.Errorf("%s arrives without what its route adds", q.token)
	case q.Path == "/a/" && h.value("x-request-id") == "":
		return fmt.Errorf("%s arrives without an id", q.token)
	}
	q.id = h.value("x-request-id")
	return nil
}

// classes are the classes of the routes that are not P1.
var classes = map[string]string{"/a/": "P0", "/read/": "P2"}

// toldAs checks the class and the deadline that a service is told about a request, under a
// configuration.
func (q *request) toldAs(h *messageHead, g GatewayPlan) error {
	class, told := q.class(), h.value("x-class")
	if told != class || h.value("x_class") != "" {
		return fmt.Errorf("%s arrives with the class %q and %q, want %s", q.token, told,
			h.value("x_class"), class)
	}
	left := h.value("x-left")
	if q.Path != "/a/" {
		if left != "" && !q.trusted {
			return fmt.Errorf("%s arrives with its client's own deadline %s", q.token, left)
		}
		return nil
	}
	longest := g.Timeout.Milliseconds()
	if claim, err := strconv.ParseInt(q.Left, 10, 64); err == nil && q.trusted {
		longest = min(longest, claim)
	}
	if n, err := strconv.ParseInt(left, 10, 64); err != nil || n < 1 || n > longest {
		return fmt.Errorf("%s arrives with %q ms left, want 1 to %d", q.token, left, longest)
	}
	return nil
}

// mayRefuse are the statuses below 500 with which the gateway may refuse a good request: no route
// (after a reload removed it), and slowness.
var mayRefuse = map[int]bool{404: true, 408: true}

// isPlain reports whether it speaks plain text where TLS is expected. That is not a request.
func (c *client) isPlain() bool { return c.plan.Plain && c.meetsTLS() }

func (c *client) speaksTLS() bool { return !c.plan.Plain && c.meetsTLS() }

// meetsTLS reports whether its listener expects TLS.
func (c *client) meetsTLS() bool { return c.plan.Listener == 1 && c.w.scenario.Gateway.TLS }

// mayGet reports whether the gateway itself may answer the request with this status below 500.
func (a *answer) mayGet() bool {
	q := a.begun
	switch g := a.c.w.scenario.Gateway; a.status {
	case 400:
		return q.Torn || a.c.isPlain()
	case 405:
		return q.wrongMethod()
	case 429:
		return (g.Rate > 0 || g.InFlight > 0) && q.Path == "/a/"
	case 413:
		return g.MaxBody > 0 && q.Body > g.MaxBody
	}
	return mayRefuse[a.status]
}

// wrongMethod reports whether the request's route is for another method.
func (q *request) wrongMethod() bool {
	return q.Path == "/read/" && q.Method != "GET" && q.Method != "HEAD"
}

// admission identifies what a listener limits: the connections of one address, or of all.
type admission struct {
	listener int
	from     int // 0 for all addresses
}

// admitted counts a client that is served, and checks its listener's limits. Another process, and a
// listener that a reload brings back, start from zero.
func (c *client) admitted() {
	w, g := c.w, c.w.scenario.Gateway
	if w.recounted || c.counted || c.GivenUp() { // it may read data sent before it was given up
		return
	}
	c.counted = true
	w.admit(c, admission{c.plan.Listener, 0}, g.MaxClients)
	w.admit(c, admission{c.plan.Listener, c.plan.From}, g.PerAddress)
}

func (w *world) admit(c *client, at admission, most int) {
	over := func(c *client) bool { return c.done || c.GivenUp() }
	w.served[at] = append(slices.DeleteFunc(w.served[at], over), c)
	if n := len(w.served[at]); most > 0 && n > most {
		var names []string
		for _, c := range w.served[at] {
			names = append(names, c.name)
		}
		w.violate("a listener serves %d connections, its bounds allow %d: %v", n, most, names)
	}
}
