package rules

import "plimsoll/internal/head"

// Request is what the rules have to know of a request. It borrows from the head that it was read
// from, and is valid as long as that is. Reading one allocates nothing.
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

// Read takes in a request.
func (r *Request) Read(h *head.Request) {
	*r = Request{Head: h}
	r.reset()
	r.get, r.isHead = string(h.Method) == "GET", string(h.Method) == "HEAD"
	r.content = h.Length != 0
	for i := range h.Fields.Len() {
		r.field(h.Fields.At(i))
	}
	if len(r.withheld) > 0 {
		r.Set |= NoCache // a request has no fields to withhold
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

// Own makes the request the cache's own, for a refresh in the background: what the client said of its
// copy does not count for that.
func (r *Request) Own() { r.reset() }

// Personal says whether a request has credentials that reach the origin without being part of the
// key, so that the answer to it, and how asking ends, may be for its client alone.
func (o *Options) Personal(r *Request) bool {
	return r.authorized && o.Key.treatment("authorization").personal() ||
		r.cookie && o.Key.treatment("cookie").personal()
}

// Cacheable says whether the method is one that a stored response can answer.
func (r *Request) Cacheable() bool { return r.get || r.isHead }

// Unsafe says whether the method may change what the origin has (RFC 9110, section 9.2.1). Methods
// that nobody knows may.
func (r *Request) Unsafe() bool {
	switch string(r.Head.Method) {
	case "GET", "HEAD", "OPTIONS", "TRACE", "QUERY", "PROPFIND", "REPORT", "SEARCH":
		return false
	}
	return true
}
