package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// arrival is a request that has reached a service, as far as it has arrived, in any protocol
// version.
type arrival struct {
	s     *service
	rng   *rand.Rand // source of what is drawn for its answer
	head  *messageHead
	token string
	want  int // bytes of the body
	got   int
	whole bool // the body is complete
	try   int  // the request's number of arrivals, including this one
}

// startsWith takes a request's head. excused says that the service does nothing for it and tells
// the gateway so.
func (a *arrival) startsWith(h *messageHead, excused bool) error {
	w := a.s.w
	path, _, _ := strings.Cut(h.words[1], "?")
	a.head, a.token = h, path[strings.LastIndexByte(path, '/')+1:]
	a.want, a.got, a.whole = h.number("x-size"), 0, false
	q := w.asked[a.token]
	if q == nil {
		return fmt.Errorf("nobody has asked for %s", h.first)
	}
	if q.Query != strings.HasSuffix(h.words[1], "?page=2&next=/a/c0r0") {
		return fmt.Errorf("%s arrives with the target %s", a.token, h.words[1])
	}
	if via := h.value("via") != ""; via != w.scenario.Gateway.Via {
		return fmt.Errorf("%s arrives with Via %q", a.token, h.value("via"))
	}
	if err := q.arrivedWith(h); err != nil {
		return err
	}
	n := h.number("x-config")
	if plan := w.began(n).plan; plan.Claims {
		if err := q.toldAs(h, plan); err != nil {
			return err
		}
	}
	if excused {
		q.excused++
	}
	if err := q.reached(h, w.began(n).plan.Attempts); err != nil {
		return err
	}
	a.try = q.arrivals
	q.reaches(w)
	if !w.mayGet(a.s.plan.Address, path, n) {
		return fmt.Errorf("%s began under configuration %d, in which this is not a target", a.token, n)
	}
	a.rng = w.scenario.stream(ofAnswers, hashOf(a.token)<<20|uint64(q.arrivals))
	return nil
}

// asks is the client's request.
func (a *arrival) asks() *request { return a.s.w.asked[a.token] }

// isHasty draws whether the service answers before it has the body.
func (a *arrival) isHasty() bool {
	plan := a.s.plan
	vicious := a.rng.Float64() < plan.Vices/3
	hasty := a.rng.IntN(40) == 0 && !a.s.w.scenario.Quiet
	return vicious || hasty || a.rng.Float64() < plan.Early
}

// goesOn takes a part of the body.
func (a *arrival) goesOn(p []byte) error {
	if !noiseOf(a.token+"up").is(a.got, p) {
		return fmt.Errorf("the body of %s is not what its client sent, at byte %d", a.token, a.got)
	}
	a.got += len(p)
	a.asks().moved = a.s.w.kernel.Clock()
	return nil
}

// isOver takes the end of the body.
func (a *arrival) isOver(trailers map[string]string) error {
	g := a.s.w.scenario.Gateway
	switch q := a.asks(); {
	case q.Torn && q.Chunked:
		return fmt.Errorf("the body of %s, which was cut off, passes for whole", a.token)
	case g.MaxBody > 0 && a.got > g.MaxBody:
		return fmt.Errorf("%s arrives whole with %d bytes, more than max_body", a.token, a.got)
	case q.hasTrailers() && len(trailers) > 1:
		return fmt.Errorf("%s arrives with the trailers %v", a.token, trailers)
	case q.hasTrailers() && trailers["x-sum"] != a.token:
		return fmt.Errorf("%s arrives without its trailer", a.token)
	}
	if want := max(0, a.want); a.got != want {
		return fmt.Errorf("the body of %s passes for whole with %d bytes of %d", a.token, a.got, want)
	}
	a.whole = true
	return nil
}

func (a *arrival) toHEAD() bool { return a.head.words[0] == "HEAD" }

// draws draws the status of a good answer and the size of its body.
func (a *arrival) draws() (status, size int) {
	r := a.rng
	if sheds := a.s.plan.Sheds; sheds > 0 && r.Float64() < sheds {
		a.asks().vicious = true
		return 503, r.IntN(100)
	}
	size = r.IntN(1 + r.IntN(1+r.IntN(400_000)))
	switch r.IntN(25) {
	case 0:
		return 204, 0
	case 1:
		return 304, 0
	case 2:
		return 404, size
	}
	return 200, size
}
