package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// shelf is what is known of the answers of the service behind the cache.
type shelf struct {
	w       *world
	answers []*shelved // by serial number
	gone    []outdated
	open    map[string]*fetching // fetches whose heads are awaited, by what they ask for
	doubled map[int]bool         // keys for which there may be two fetches at a time: see begins
	parted  bool                 // there is, or was, more than one memory
}

// shelved is an answer of the service.
type shelved struct {
	serial int
	key    int
	scheme string
	passed string // the token of the one request that it answers; "" for that of a fetch
	taken  string // likewise, of an answer that is for one client: who had it
	lang   string
	coding string // Accept-Encoding of its request
	varies bool   // by that
	shared bool   // it may be stored
	status int
	size   int
	times  []validity
}

// validity is for how long an answer may be served, from its head or from a 304 on.
type validity struct {
	asked, said int64 // when the request had come, and when the service answered
	fresh       int64 // from said on, nanoseconds; less than 0 where it was stale before
	grace       int64 // and how much longer in a case of need
	always      bool  // no-cache: to be validated before each use
}

// outdated is that something was purged, or changed by an unsafe method.
type outdated struct {
	key      int    // -1 for all
	scheme   string // "" for all
	at, done int64
}

// fetching is a fetch whose head is awaited.
type fetching struct{ conn *cachedConn }

// asksAgain says whether the client wants nothing that is older than its request.
func (q *request) asksAgain() bool {
	c := q.Cached
	return c.field("cache-control") == "no-cache" || c.field("pragma") == "no-cache" &&
		c.field("cache-control") == ""
}

// starts takes the head of an answer to a request of a route with a cache.
func (s *shelf) starts(a *answer, h *messageHead) error {
	q, n := a.begun, h.number("x-serial")
	if n < 0 || n >= len(s.answers) {
		return fmt.Errorf("%s is answered with the number %d", q.token, n)
	}
	one := s.answers[n]
	a.serial, a.size = fmt.Sprintf("serial%d", n), one.size
	if err := s.framed(a, h, one); err != nil {
		return err
	}
	if one.key != q.Cached.Key {
		return fmt.Errorf("%s asks for key %d and is answered with %d, which is key %d", q.token,
			q.Cached.Key, n, one.key)
	}
	if one.passed != "" {
		if one.passed != q.token {
			return fmt.Errorf("%s is answered with %d, which was for %s", q.token, n, one.passed)
		}
		s.outdates(q, one)
		return nil
	}
	if q.Method == "POST" {
		return fmt.Errorf("%s is a POST and is answered with %d, which was fetched", q.token, n)
	}
	if one.lang != q.Cached.field("accept-language") {
		return fmt.Errorf("%s is answered with %d in the language %q", q.token, n, one.lang)
	}
	if one.varies && one.coding != q.Cached.field("accept-encoding") {
		return fmt.Errorf("%s is answered with %d for the coding %q", q.token, n, one.coding)
	}
	if !one.shared {
		if one.taken != "" {
			return fmt.Errorf("%s and %s are both answered with %d, which is for one alone",
				one.taken, q.token, n)
		}
		one.taken = q.token
		return nil
	}
	return s.mayServe(q, one)
}

// framed checks status, length and range.
func (s *shelf) framed(a *answer, h *messageHead, one *shelved) error {
	q := a.begun
	switch {
	case a.status == 304:
		if q.Cached.field("if-none-match") == "" && q.Cached.field("if-modified-since") == "" {
			return fmt.Errorf("%s is answered 304 and has no condition", q.token)
		}
	case a.status == 206 && one.passed == "":
		span, size, _ := strings.Cut(strings.TrimPrefix(h.value("content-range"), "bytes "), "/")
		first, last, _ := strings.Cut(span, "-")
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || size != strconv.Itoa(one.size) || to < from || to >= one.size ||
			q.Cached.field("range") == "" {
			return fmt.Errorf("%s is answered the range %q of %d, which has %d bytes", q.token,
				h.value("content-range"), one.serial, one.size)
		}
		a.offset, a.size = from, to+1-from
	case a.status == 416 && one.passed == "":
		return nil
	case a.status != one.status:
		return fmt.Errorf("%s is answered %d with %d, whose status was %d", q.token, a.status,
			one.serial, one.status)
	}
	if a.status != 304 && h.value("etag") != strconv.Quote("s"+strconv.Itoa(one.serial)) {
		return fmt.Errorf("%s is answered with %d and the tag %s", q.token, one.serial, h.value("etag"))
	}
	if n := h.number("content-length"); n >= 0 && n != a.size && a.status != 304 {
		return fmt.Errorf("%s is answered with %d and the length %d, want %d", q.token, one.serial, n, a.size)
	}
	return nil
}

// mayServe says whether a stored answer may be served to a request (RFC 9111, section 4).
func (s *shelf) mayServe(q *request, one *shelved) error {
	w := s.w
	slack := int64(10*time.Millisecond + w.scenario.Kernel.StallFor)
	ignores := w.scenario.Cache.IgnoreClients
	oldest := int64(1 << 62)
	if text, is := strings.CutPrefix(q.Cached.field("cache-control"), "max-age="); is && !ignores {
		seconds, _ := strconv.Atoi(text)
		oldest = int64(seconds) * int64(time.Second)
	}
	why := ""
	for _, v := range one.times {
		late := q.since - slack - v.said
		switch {
		case s.outdatedFor(q, one, &v):
			why = "what was purged or outdated"
		case late < 0: // it came for this request, or for one that came with it
			return nil
		case q.asksAgain() && !ignores && v.grace == 0:
			why = "what is older than the request, which asks for something new"
		case late > oldest && v.grace == 0:
			why = "what is older than its client wants it"
		case v.always:
			why = "what is to be validated before each use"
		case late < v.fresh+v.grace || q.Cached.field("cache-control") == "max-stale=5" && !ignores &&
			late < v.fresh+int64(5*time.Second):
			return nil
		default:
			why = fmt.Sprintf("what is stale for %v", time.Duration(late-v.fresh))
		}
	}
	return fmt.Errorf("%s is answered with %d: %s", q.token, one.serial, why)
}

// outdatedFor says whether an answer was purged, or outdated, before the request came.
func (s *shelf) outdatedFor(q *request, one *shelved, v *validity) bool {
	if s.parted {
		return false
	}
	for _, o := range s.gone {
		if (o.key < 0 || o.key == one.key) && (o.scheme == "" || o.scheme == one.scheme) &&
			v.asked < o.at && q.since > o.done {
			return true
		}
	}
	return false
}

// outdates notes that an unsafe request has succeeded.
func (s *shelf) outdates(q *request, one *shelved) {
	if q.Method == "POST" && one.status < 400 {
		s.gone = append(s.gone, outdated{one.key, one.scheme, one.times[0].asked, s.w.kernel.Clock()})
	}
}

// begins notes a fetch, of which there may be one at a time for the same thing. There may be two
// where a POST or a purge has outdated what the first one fetches (whether or not the client of the
// POST has heard of it), and where answers begin or cease to vary meanwhile: the second is then for
// another key.
func (s *shelf) begins(c *cachedConn, key int, what string) error {
	if c.GivenUp() {
		return nil // it comes late: the gateway waits for it no longer
	}
	again := s.doubled[key] || len(s.gone) > 0
	if other := s.open[what]; other != nil && other.conn != c && !other.conn.over && !other.conn.GivenUp() &&
		!s.parted && !again && !s.w.replaced {
		return fmt.Errorf("two fetches for %s at a time", strings.ReplaceAll(what, "\n", " "))
	}
	s.open[what] = &fetching{c}
	return nil
}
