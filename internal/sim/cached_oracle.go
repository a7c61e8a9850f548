package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// shelf is what is known about the answers of the service behind the cache.
type shelf struct {
	w       *world
	answers []*shelved // by serial number
	gone    []outdated
	open    map[string]*fetching // fetches whose heads are awaited, by resource
	doubled map[int]bool         // keys for which there may be two simultaneous fetches: see begins
	parted  bool                 // there is or was more than one cache memory
}

// shelved is an answer of the service.
type shelved struct {
	serial int
	key    int
	scheme string
	passed string // token of the only request that it answers; "" for a fetch
	taken  string // the token of the client that got it, if it is for one client only
	lang   string
	coding string // Accept-Encoding of its request
	varies bool   // it varies by that
	shared bool   // it may be stored
	status int
	size   int
	times  []validity
}

// validity is how long an answer may be served, counted from its head or from a 304.
type validity struct {
	asked, said int64 // when the request arrived, and when the service answered
	fresh       int64 // freshness lifetime from age 0, nanoseconds
	age, dated  int64 // its age by Age, and by Date
	while       int64 // how much longer it may be served during a new fetch,
	failing     int64 // and if that fails
	strict      bool  // no client can ask for it once it is stale
	always      bool  // no-cache: validate before each use
	immutable   bool
}

// outdated records a purge, or a change by an unsafe method.
type outdated struct {
	key      int    // -1 for all
	scheme   string // "" for all
	at, done int64
}

// fetching is a fetch whose head is awaited.
type fetching struct{ conn *cachedConn }

// starts takes the head of an answer on a route with a cache.
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
	if own := h.value("x-own"); own != "" {
		return fmt.Errorf("%s is answered with %d and a field that is not to be stored, %s", q.token, n,
			own)
	}
	return s.mayServe(q, one, h)
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

// mayServe checks that a stored answer may be served to a request (RFC 9111, section 4), for the
// reason and with the age that the gateway states.
func (s *shelf) mayServe(q *request, one *shelved, h *messageHead) error {
	why, told := "", h.value("cache-status")
	for i := range one.times {
		v := &one.times[i]
		if why = s.wrong(q, one, v, h); why == "" {
			return nil
		}
	}
	return fmt.Errorf("%s is answered with %d (%s): %s", q.token, one.serial, told, why)
}

// wrong says why one validity does not allow serving the answer; "" if it does.
func (s *shelf) wrong(q *request, one *shelved, v *validity, h *messageHead) string {
	scenario := s.w.scenario
	// A loop may fetch for another's request, and both may lack the processor for a while.
	slack := int64(10 * time.Millisecond)
	if scenario.Kernel.Stall > 0 {
		slack += int64(min(scenario.Loops, 2)) * int64(scenario.Kernel.StallFor)
	}
	if scenario.Kernel.Fragment > 0 { // a head then travels in several pieces, one after another
		slack += 30 * int64(scenario.Kernel.Latency)
	}
	here, initial := q.since-slack-v.said, v.age // the least time that it has been here
	if scenario.Kernel.WallSteps == 0 {
		initial = max(initial, v.dated)
	}
	age := here + initial
	switch why := s.wrongAge(v, h, age); {
	case s.outdatedFor(q, one, v):
		return "what was purged or outdated"
	case why != "":
		return why
	case here < 0: // it arrived for this request, or for a simultaneous one
		return ""
	}
	limits := q.Cached.limits()
	if scenario.Cache.IgnoreClients {
		limits = clientLimits{age: never}
	}
	late := age - v.fresh
	_, detail, _ := strings.Cut(h.value("cache-status"), "detail=")
	if !strings.Contains(h.value("cache-status"), "; hit") { // it joins a fetch after its head
		switch {
		case late < v.while:
			detail = "stale-while-revalidate"
		case limits.stale > 0:
			detail = "max-stale"
		}
	}
	switch detail {
	case "stale-if-error":
		most := v.failing
		if !v.strict {
			most = max(most, limits.failing)
		}
		switch {
		case scenario.Quiet && scenario.Gateway.InFlight == 0:
			return "what is for failures, and nothing fails"
		case h.value("x-degraded") == "":
			return "what is for failures, and is not marked"
		case v.always || late >= most:
			return fmt.Sprintf("what is stale for %v, for failures", time.Duration(late))
		}
		return ""
	case "max-stale":
		if v.always || limits.again || late >= 0 && (v.strict || late > limits.stale) {
			return fmt.Sprintf("what is stale for %v, for its client", time.Duration(late))
		}
		return ""
	case "stale-while-revalidate":
		late -= v.while
	case "overload":
		return "what is stale, for too much to do"
	}
	switch {
	case v.always:
		return "what is to be validated before each use"
	case limits.again:
		return "what is older than the request, which asks for something new"
	case age > limits.age && !(v.immutable && limits.age == 0 && late < 0):
		return "what is older than its client wants it"
	case late >= 0:
		return fmt.Sprintf("what is stale for %v", time.Duration(late))
	}
	return ""
}

// wrongAge checks the Age of an answer that is at least as old as least.
func (s *shelf) wrongAge(v *validity, h *messageHead, least int64) string {
	told := h.value("cache-status")
	if !strings.Contains(told, "; hit") && !strings.Contains(told, "; stored") {
		return "" // the service's own answer
	}
	said := int64(h.number("age")) * int64(time.Second)
	// Before, the fetch may have waited or made other tries, for up to its route's timeout.
	most := s.w.kernel.Clock() - v.asked + max(v.age, v.dated) + int64(s.w.scenario.Gateway.Timeout) +
		2*int64(time.Second)
	switch {
	case said < 0:
		return "no Age"
	case said <= least-int64(time.Second):
		return fmt.Sprintf("an Age of %v, and it is %v old at least", time.Duration(said),
			time.Duration(least))
	case said > most && s.w.scenario.Kernel.WallSteps == 0:
		return fmt.Sprintf("an Age of %v, and it is %v old at most", time.Duration(said),
			time.Duration(most))
	}
	return ""
}

// clientLimits are a client's limits for a stored answer, in nanoseconds.
type clientLimits struct {
	age            int64 // maximum age
	stale, failing int64 // how long it may be stale, and how long if the service fails
	again          bool  // the client accepts no stored answer
}

// never is a limit that nothing reaches.
const never = int64(1) << 62

// limits parses the limits of the request.
func (p *CachedPlan) limits() clientLimits {
	l := clientLimits{age: never}
	control := p.field("cache-control")
	name, text, _ := strings.Cut(control, "=")
	n, _ := strconv.Atoi(text)
	for _, of := range []struct {
		name string
		to   *int64
	}{{"max-age", &l.age}, {"max-stale", &l.stale}, {"stale-if-error", &l.failing}} {
		if of.name == name {
			*of.to = int64(n) * int64(time.Second)
		}
	}
	l.again = control == "no-cache" || control == "" && p.field("pragma") == "no-cache"
	return l
}

// outdatedFor reports whether an answer was purged or outdated before the request began.
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

// outdates records that an unsafe request succeeded.
func (s *shelf) outdates(q *request, one *shelved) {
	if q.Method == "POST" && one.status < 400 {
		s.gone = append(s.gone, outdated{one.key, one.scheme, one.times[0].asked, s.w.kernel.Clock()})
	}
}

// begins records a fetch. There may be only one at a time for the same resource, with two
// exceptions. A POST or a purge may have outdated what the first one fetches (whether or not the
// client of the POST knows its answer). Or answers may have begun or ceased to vary meanwhile: the
// second fetch is then for another key.
func (s *shelf) begins(c *cachedConn, key int, what string) error {
	if c.GivenUp() {
		return nil // it is late: the gateway no longer waits for it
	}
	again := s.doubled[key] || len(s.gone) > 0
	if other := s.open[what]; other != nil && other.conn != c && !other.conn.over && !other.conn.GivenUp() &&
		!s.parted && !again && !s.w.replaced {
		return fmt.Errorf("two fetches for %s at a time", strings.ReplaceAll(what, "\n", " "))
	}
	s.open[what] = &fetching{c}
	return nil
}
