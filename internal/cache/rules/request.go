package rules

import "plimsoll/internal/head"

// Request is what the rules must know about a request. It aliases the head that it was read from,
// and is valid as long as that is. Read does not allocate.
type Request struct {
	Directives
	Head *head.Request

	get, isHead  bool
	content      bool // a body is announced
	switching    bool // Upgrade or Expect: not one request and one answer
	noneMatch    bool // If-None-Match is there
	match        bool // If-Match is there
	authorized   bool
	cookie       bool
	pragma       bool   // Pragma: no-cache
	cacheControl bool   // Cache-Control is there
	dates        int    // lines of If-Modified-Since
	since        []byte // If-Modified-Since
	unmodified   []byte // If-Unmodified-Since
	ranges       []byte // Range, nil where there is none
	rangeLines   int
	ifRange      []byte
}

// Read reads a request.
func (r *Request) Read(h *head.Request) {
	*r = Request{Head: h}
	r.reset()
	r.get, r.isHead = string(h.Method) == "GET", string(h.Method) == "HEAD"
	r.content = h.Length != 0
	for i := range h.Fields.Len() {
		r.field(h.Fields.At(i))
	}
	if len(r.withheld) > 0 {
		r.Set |= NoCache // field names in no-cache have no meaning in requests
	}
	if r.pragma && !r.cacheControl {
		r.Set |= NoCache // RFC 9111, section 5.4
	}
}

func (r *Request) field(f *head.Field) {
	switch f.ID {
	case head.CacheControl:
		r.cacheControl = true
		r.add(f.Value)
	case head.Authorization:
		r.authorized = true
	case head.Cookie:
		r.cookie = true
	case head.Range:
		r.ranges = f.Value
		r.rangeLines++
	case head.Upgrade, head.Expect:
		r.switching = true
	case head.Other:
		r.other(f)
	}
}

func (r *Request) other(f *head.Field) {
	switch n := f.Name; len(n) {
	case len("pragma"):
		for list := f.Value; is(n, "pragma") && len(list) > 0; {
			var member []byte
			member, list = nextMember(list)
			r.pragma = r.pragma || is(member, "no-cache")
		}
	case len("if-match"):
		r.match = r.match || is(n, "if-match")
		if is(n, "if-range") {
			r.ifRange = f.Value
		}
	case len("if-none-match"):
		r.noneMatch = r.noneMatch || is(n, "if-none-match")
	case len("if-modified-since"):
		if is(n, "if-modified-since") {
			r.since = f.Value
			r.dates++
		}
	case len("if-unmodified-since"):
		if is(n, "if-unmodified-since") {
			r.unmodified = f.Value
			r.match = true
		}
	}
}

// Own makes the request the cache's own, for a refresh in the background: the client's cache
// directives do not count for it.
func (r *Request) Own() { r.reset() }

// Personal reports whether a request has credentials that reach the origin without being part of
// the key, so that its answer, or its failure, may be only for its client.
func (o *Options) Personal(r *Request) bool {
	return r.authorized && o.Key.treatment("authorization").personal() ||
		r.cookie && o.Key.treatment("cookie").personal()
}

// Cacheable reports whether a stored response can answer the method.
func (r *Request) Cacheable() bool { return r.get || r.isHead }

// Unsafe reports whether the method may change the origin's state (RFC 9110, section 9.2.1).
// Unknown methods count as unsafe.
func (r *Request) Unsafe() bool {
	switch string(r.Head.Method) {
	case "GET", "HEAD", "OPTIONS", "TRACE", "QUERY", "PROPFIND", "REPORT", "SEARCH":
		return false
	}
	return true
}
