package sim

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/sim/kernel"
)

// cachedConn is the end of a gateway's connection at the service behind the cache.
type cachedConn struct {
	line
	s    *shelf
	r    reader
	head *messageHead
	name string
	over bool
	rng  *rand.Rand
}

// serveCached starts the service behind the cache.
func (w *world) serveCached() {
	s := &shelf{w: w, open: map[string]*fetching{}, doubled: map[int]bool{}}
	w.shelf = s
	conns := 0
	v := &kernel.Service{Accept: func(e *kernel.Endpoint) {
		conns++
		c := &cachedConn{line: e, s: s, name: fmt.Sprintf("connection %d at the cached service", conns)}
		e.Name, e.Changed = c.name, c.changed
		c.r = reader{requests: true, onHead: c.onHead, onBody: func([]byte) error { return nil },
			onEnd: c.onEnd}
		c.changed()
	}}
	w.kernel.Serve(cachedService, v)
}

func (c *cachedConn) changed() {
	for !c.over {
		p := c.Read(1 << 20)
		if len(p) == 0 {
			break
		}
		if err := c.r.feed(p); err != nil {
			c.s.w.violate("%s got what is not a request of its own: %v", c.name, err)
			return
		}
	}
	if ended, _ := c.Ended(); ended {
		c.end(c.Close)
	}
}

func (c *cachedConn) end(how func()) {
	if !c.over {
		c.over = true
		how()
	}
}

func (c *cachedConn) onHead(h *messageHead) error {
	if c.head != nil {
		return fmt.Errorf("%q comes before the answer to the one before", h.first)
	}
	c.head = h
	return nil
}

// onEnd answers the request.
func (c *cachedConn) onEnd(map[string]string) error {
	w, s, h := c.s.w, c.s, c.head
	path, query, _ := strings.Cut(h.words[1], "?")
	key, err := strconv.Atoi(strings.TrimPrefix(path, cachedPath+"k"))
	token := strings.TrimPrefix(query, "t=")
	if err != nil || token != "" && w.asked[token] == nil {
		return fmt.Errorf("nobody has asked for %s", h.first)
	}
	c.rng = w.scenario.stream(ofCached, uint64(len(s.answers)))
	one := &shelved{
		serial: len(s.answers), key: key, scheme: h.value("x-forwarded-proto"), passed: token,
		lang:   h.value("accept-language"),
		coding: h.value("accept-encoding"), times: []validity{{asked: w.kernel.Clock()}},
	}
	s.answers = append(s.answers, one)
	w.trace("%s gets %s, to be answered with %d", c.name, h.first, one.serial)
	if token == "" {
		for _, name := range []string{"x-poison", "x-forwarded-host", "range", "if-match",
			"cache-control", "pragma"} {
			if value := h.value(name); value != "" && value != "shop.test" {
				return fmt.Errorf("a fetch has %s: %s", name, h.value(name))
			}
		}
		personal := h.value("authorization") != "" ||
			h.value("cookie") != "" // requests with credentials wait separately
		what := fmt.Sprint(key, "\n", one.scheme, "\n", one.lang, "\n", one.coding, "\n", personal)
		if err := s.begins(c, key, what); err != nil {
			return err
		}
		w.kernel.After(between(c.rng, 0, w.scenario.Cache.Slow), func() {
			if f := s.open[what]; f != nil && f.conn == c {
				delete(s.open, what)
			}
			c.answer(one)
		})
		return nil
	}
	w.kernel.After(between(c.rng, 0, w.scenario.Cache.Slow), func() { c.answer(one) })
	return nil
}

// lifetime is what an answer says about how long it may be served. Dates are in seconds from the
// time of the answer; 0 leaves the field out.
type lifetime struct {
	text                    string // Cache-Control
	fresh                   time.Duration
	date, expires, modified int
	while, failing          time.Duration // how much longer during a new fetch, and if that fails
	strict                  bool          // clients cannot ask for it once it is stale
	always                  bool          // validate before each use
	immutable               bool
	heuristic               bool
	lone                    bool // must not be stored
}

var lifetimes = []lifetime{
	{text: "max-age=1", fresh: time.Second}, {text: "max-age=1", fresh: time.Second},
	{text: "max-age=2", fresh: 2 * time.Second},
	{text: "public, s-maxage=1, max-age=100", fresh: time.Second, strict: true},
	{text: "max-age=60", fresh: time.Minute}, {text: "public, max-age=60", fresh: time.Minute},
	{text: "max-age=0, must-revalidate", strict: true},
	{text: "max-age=1, must-revalidate", fresh: time.Second, strict: true},
	{text: "no-cache, max-age=60", always: true, strict: true},
	{text: "max-age=1, stale-while-revalidate=2", fresh: time.Second, while: 2 * time.Second},
	{text: "max-age=1, stale-if-error=3", fresh: time.Second, failing: 3 * time.Second},
	{text: "s-maxage=1, stale-if-error=2", fresh: time.Second, failing: 2 * time.Second, strict: true},
	{text: "max-age=1, must-revalidate, stale-if-error=9, stale-while-revalidate=9", fresh: time.Second,
		strict: true},
	{text: "private, max-age=60", lone: true}, {text: "no-store", lone: true}, {text: "max-age=0"},
	{text: "max-age=60, max-age=1", fresh: time.Second}, {text: "max-age=nonsense"},
	{text: "max-age=2, immutable", fresh: 2 * time.Second, immutable: true},
	{text: `max-age=2, no-cache="x-own, x-else"`, fresh: 2 * time.Second},
	{text: "max-age=60, private=X-Own", fresh: time.Minute},
	{date: -1, expires: 1, fresh: 2 * time.Second}, {date: 1, expires: 3, fresh: 2 * time.Second},
	{date: 1, expires: -60}, {text: "max-age=1", date: -1, expires: 60, fresh: time.Second},
	{text: "max-age=3", date: -2, fresh: 3 * time.Second},
	{date: -1, modified: -21, fresh: 2 * time.Second, heuristic: true},
	{text: "public", date: -1, modified: -3600, fresh: maxHeuristic, heuristic: true},
	{date: -1, modified: 3600, heuristic: true},
}

// survivors are the lifetimes with a time in which they may be served if the service fails.
var survivors = slices.DeleteFunc(slices.Clone(lifetimes), func(l lifetime) bool {
	return l.failing == 0
})

// maxHeuristic is the configuration's heuristic_max; heuristic is 10%.
const maxHeuristic = 2 * time.Second

// fields are the header lines of an answer with this lifetime; own is the answer's own word.
func (l *lifetime) fields(own string) string {
	text := ""
	if l.text != "" {
		text = "Cache-Control: " + l.text + "\r\n"
	}
	if strings.Contains(strings.ToLower(l.text), "x-own") {
		text += "X-Own: " + own + "\r\n"
	}
	for _, d := range []struct {
		name string
		in   int
	}{{"Date", l.date}, {"Expires", l.expires}, {"Last-Modified", l.modified}} {
		if d.in != 0 {
			at := time.Now().Add(time.Duration(d.in) * time.Second)
			text += d.name + ": " + at.UTC().Format(http.TimeFormat) + "\r\n"
		}
	}
	return text
}

// validity is how long an answer to a request of that time may be served.
func (l *lifetime) validity(asked, said int64, age int) validity {
	return validity{
		asked: asked, said: said, fresh: int64(l.fresh), while: int64(l.while), failing: int64(l.failing),
		strict: l.strict, always: l.always, immutable: l.immutable,
		age: int64(max(age, 0)) * int64(time.Second), dated: int64(max(-l.date, 0)) * int64(time.Second),
	}
}

// fails reports whether the service fails now.
func (s *shelf) fails() bool {
	from := s.w.scenario.Cache.Fails
	return from > 0 && s.w.kernel.Clock() >= int64(from)
}

func (c *cachedConn) drawLifetime() lifetime {
	r := c.rng
	life := lifetimes[r.IntN(len(lifetimes))]
	if c.s.w.scenario.Cache.Fails > 0 && r.IntN(2) == 0 {
		life = survivors[r.IntN(len(survivors))]
	}
	return life
}

// answer answers a request.
func (c *cachedConn) answer(one *shelved) {
	if c.over {
		return
	}
	w, r, h := c.s.w, c.rng, c.head
	if c.s.fails() {
		one.status = 503
		c.says(one, "Cache-Control: no-store\r\n")
		return
	}
	life, age := c.drawLifetime(), 0
	if r.IntN(6) == 0 {
		age = r.IntN(3)
	}
	old := c.validates(h, one)
	if old != nil && (life.text == "" || life.heuristic) {
		life = lifetimes[0] // what this 304 leaves out keeps its old value
	}
	fields := life.fields(strconv.Itoa(one.serial))
	if age > 0 {
		fields += fmt.Sprintf("Age: %d\r\n", age)
	}
	v := &one.times[0]
	*v = life.validity(v.asked, w.kernel.Clock(), age)
	if old != nil {
		c.s.trace304(c, old, *v, fields)
		return
	}
	one.shared, one.status, one.size = !life.lone, 200, r.IntN(1+r.IntN(1+w.scenario.Cache.Longest))
	switch r.IntN(16) {
	case 0:
		fields, one.shared = fields+"Set-Cookie: a=b\r\n", false
	case 1:
		fields, one.shared = fields+"Vary: *\r\n", false
	case 2, 3, 4:
		fields, one.varies = fields+"Vary: Accept-Encoding\r\n", true
	case 5:
		one.status = 404
	case 6:
		one.status = []int{500, 503}[r.IntN(2)]
		if w.scenario.Quiet {
			one.status = 404
		}
	}
	if life.heuristic && one.status >= 500 && life.text != "public" {
		v.fresh = 0
	}
	if h.value("authorization") != "" && !strings.Contains(life.text, "public") &&
		!strings.Contains(life.text, "must-revalidate") && !strings.Contains(life.text, "s-maxage") ||
		h.value("cookie") != "" {
		one.shared = false
	}
	c.says(one, fields)
}

// validates returns the answer that a request validates, if the service says that it is still good;
// otherwise nil.
func (c *cachedConn) validates(h *messageHead, one *shelved) *shelved {
	n, err := strconv.Atoi(strings.Trim(h.value("if-none-match"), `"s`))
	if err != nil || one.passed != "" || n >= len(c.s.answers) || c.rng.IntN(2) == 0 {
		return nil
	}
	return c.s.answers[n]
}

// trace304 sends a 304: an answer is still good.
func (s *shelf) trace304(c *cachedConn, old *shelved, v validity, fields string) {
	old.times = append(old.times, v)
	c.head = nil
	s.w.trace("%s says that %d is still good", c.name, old.serial)
	c.Write(fmt.Appendf(nil, "HTTP/1.1 304 Fine\r\nETag: \"s%d\"\r\n%s\r\n", old.serial, fields))
}

// says sends an answer, in drawn pieces and with a drawn framing.
func (c *cachedConn) says(one *shelved, fields string) {
	r, w := c.rng, c.s.w
	if one.varies || c.head.words[0] == "POST" && one.status < 400 {
		c.s.doubled[one.key] = true
	}
	head := fmt.Sprintf("HTTP/1.1 %d Fine\r\nX-Serial: %d\r\nETag: \"s%d\"\r\n%s", one.status,
		one.serial, one.serial, fields)
	text, last := noiseOf(fmt.Sprintf("serial%d", one.serial)).bytes(0, one.size), false
	toHEAD := c.head.words[0] == "HEAD"
	whole := len(text)
	vicious := r.Float64() < w.scenario.Cache.Vices
	if vicious {
		switch r.IntN(5) {
		case 0:
			c.end(c.Reset)
			return
		case 1:
			c.end(c.Close)
			return
		case 2:
			if one.passed == "" && c.head.value("if-none-match") == "" {
				c.head = nil
				c.Write([]byte("HTTP/1.1 304 Unasked\r\nETag: \"nonsense\"\r\n\r\n"))
				return
			}
		case 3: // it breaks off
			whole = r.IntN(1 + len(text))
			last = true
		case 4: // it falls silent
			whole = r.IntN(1 + len(text))
		}
	}
	chunked := r.IntN(2) == 0
	if chunked && !toHEAD {
		head += "Transfer-Encoding: chunked\r\n\r\n"
	} else {
		head += fmt.Sprintf("Content-Length: %d\r\n\r\n", one.size)
	}
	if toHEAD {
		text, whole, chunked = nil, 0, false
	}
	out := []byte(head)
	var pieces [][]byte
	for at := 0; at < whole; {
		n := 1 + r.IntN(whole-at)
		if chunked {
			out = fmt.Appendf(out, "%x\r\n%s\r\n", n, text[at:at+n])
		} else {
			out = append(out, text[at:at+n]...)
		}
		at += n
		if r.IntN(3) == 0 {
			pieces, out = append(pieces, out), nil
		}
	}
	broken := whole < len(text) || vicious && chunked
	if chunked && !broken {
		out = append(out, "0\r\n\r\n"...)
	}
	if len(out) > 0 || len(pieces) == 0 {
		pieces = append(pieces, out)
	}
	c.next(pieces, func() {
		switch {
		case last && broken:
			c.end([]func(){c.Close, c.Reset}[r.IntN(2)])
		case !broken:
			c.head = nil
		}
	})
}

// next sends the pieces one by one.
func (c *cachedConn) next(pieces [][]byte, then func()) {
	if c.over {
		return
	}
	c.Write(pieces[0])
	if len(pieces) == 1 {
		then()
		return
	}
	c.s.w.kernel.After(between(c.rng, 0, c.s.w.scenario.Cache.Slow/4+1), func() { c.next(pieces[1:], then) })
}
