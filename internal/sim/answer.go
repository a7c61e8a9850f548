package sim

import "fmt"

// answer is what has arrived of an answer to a request, and what the rest must be.
type answer struct {
	c      *client  // its client
	begun  *request // the request it answers; nil before its head, and for an interim answer
	own    bool     // the gateway made it
	status int
	got    int
	size   int
	want   string // the required body of the gateway's own answer; "" for an error
	body   []byte // of an error's answer
	tail   bool   // it ends with a trailer
	serial string // seed of its body, on a route with a cache
	offset int    // where the received part begins in that body
}

// startsWith takes the head of the answer to a request.
func (a *answer) startsWith(q *request, h *messageHead) error {
	c, status := a.c, h.status()
	*a = answer{c: c, begun: q, status: status, own: h.value("x-token") == "" && h.value("x-serial") == ""}
	if a.own && status == 200 {
		a.want = ownAnswers[q.Path]
	}
	if status < 400 || !a.own {
		c.admitted()
	}
	if !a.own && q.Cached == nil && h.value("x-token") != q.token {
		return fmt.Errorf("the answer to %s is that to %s", q.token, h.value("x-token"))
	}
	if a.size = h.number("x-size"); a.own {
		a.size = h.number("content-length")
	}
	if err := q.answeredWith(h, a.own); err != nil {
		return err
	}
	if err := a.stepsDown(h); err != nil {
		return err
	}
	if !a.own && q.Cached != nil {
		return c.w.shelf.starts(a, h)
	}
	chunked := c.http2 != nil || h.value("transfer-encoding") == "chunked"
	a.tail = h.value("x-ends") == "tail" && chunked
	return nil
}

// goesOn takes a part of the body.
func (a *answer) goesOn(p []byte) error {
	if a.want != "" {
		if end := a.got + len(p); end > len(a.want) || string(p) != a.want[a.got:end] {
			return fmt.Errorf("%s is answered what its route does not say, at byte %d",
				a.begun.token, a.got)
		}
	} else if a.own {
		a.body = append(a.body, p...)
	} else if a.serial != "" {
		if !noiseOf(a.serial).is(a.offset+a.got, p) {
			return fmt.Errorf("the answer to %s is not that of %s, at byte %d", a.begun.token,
				a.serial, a.got)
		}
	} else if !noiseOf(a.begun.token+"down").is(a.got, p) {
		return fmt.Errorf("the answer to %s is not what the service sent, at byte %d",
			a.begun.token, a.got)
	}
	a.got += len(p)
	if a.got > a.size && a.size >= 0 {
		return fmt.Errorf("the answer to %s has %d bytes, more than the %d that it announces",
			a.begun.token, a.got, a.size)
	}
	return nil
}

// isOver takes the end of the answer.
func (a *answer) isOver(trailers map[string]string) error {
	q, tail := a.begun, trailers["x-tail"]
	switch {
	case tail == "" && a.tail && q.Method != "HEAD":
		return fmt.Errorf("the answer to %s has lost its trailer", q.token)
	case tail != "" && tail != q.token:
		return fmt.Errorf("the answer to %s ends with the trailer of %s", q.token, tail)
	case q.answered:
		return fmt.Errorf("%s is answered twice", q.token)
	}
	q.live = !a.own
	if q.answered = true; !a.c.isPlain() {
		q.status = a.status
	}
	if !a.bodiless() && a.got != a.size {
		return fmt.Errorf("the answer to %s passes for whole with %d bytes of %d", q.token, a.got,
			a.size)
	}
	return a.judge()
}

// bodiless reports whether an answer with its status and method has no body.
func (a *answer) bodiless() bool {
	status := a.status
	return a.begun.Method == "HEAD" || status == 204 || status == 304 || status == 101
}
