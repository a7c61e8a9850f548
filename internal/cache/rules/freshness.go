package rules

import (
	"plimsoll/internal/head"
)

// view is what the rules derive from a response to evaluate it.
type view struct {
	Directives
	stored    Stored
	explicit  bool // the response says how long it is fresh
	chosen    bool // the options say how long, for its status
	validator bool
}

// freshFields are the fields of a response that determine its freshness.
type freshFields struct {
	date, expires, modified int64 // seconds since 1970, or none
	expired                 bool  // an Expires that cannot be read: expired long ago
	age                     int64 // seconds
}

func readFresh(fields *head.List, now int64) freshFields {
	f := freshFields{date: none, expires: none, modified: none, age: none}
	for i := range fields.Len() {
		field := fields.At(i)
		switch {
		case field.ID == head.Date:
			if t, ok := head.ParseDate(field.Value, now); ok && f.date == none {
				f.date = t
			}
		case field.ID != head.Other:
		case is(field.Name, "expires"):
			t, ok := head.ParseDate(field.Value, now)
			if !ok {
				f.expired = true
			} else if f.expires == none || t < f.expires {
				f.expires = t
			}
		case is(field.Name, "last-modified"):
			if t, ok := head.ParseDate(field.Value, now); ok && f.modified == none {
				f.modified = t
			}
		case is(field.Name, "age") && f.age == none:
			// Only the first member of the first line counts; an invalid number counts as absent
			// (section 5.1).
			first, _ := nextMember(field.Value)
			f.age = 0
			if n, ok := parseSeconds(first); ok {
				f.age = n
			}
		}
	}
	f.age = max(f.age, 0)
	return f
}

// read derives the view of a response, whether or not it may be stored.
func (o *Options) read(response *head.Response, at Times) view {
	var v view
	targeted := o.directives(&v.Directives, &response.Fields)
	f := readFresh(&response.Fields, at.Received.Wall)
	s := &v.stored
	s.Status, s.Length, s.set = response.Status, response.Length, v.Set
	s.Received, s.Date, s.LastModified = at.Received.Mono, f.date, f.modified
	if f.date == none {
		s.Date = at.Received.Wall / second
	}
	v.validator = f.modified != none || hasETag(&response.Fields)
	s.InitialAge = initialAge(&f, at)
	v.lifetime(o, &f, targeted)
	v.grace(o)
	return v
}

// initialAge is corrected_initial_age (RFC 9111, section 4.2.3) in nanoseconds.
func initialAge(f *freshFields, at Times) int64 {
	apparent := int64(0)
	if f.date != none {
		apparent = clampSeconds(at.Received.Wall/second-f.date) * second
	}
	delay := max(at.Received.Mono-at.Sent.Mono, 0)
	return max(apparent, f.age*second+min(delay, maxDelta*second))
}

// clampSeconds bounds the difference of two dates so that it fits 64 bits in nanoseconds.
func clampSeconds(n int64) int64 { return min(max(n, 0), maxDelta) }

// lifetime computes freshness_lifetime (RFC 9111, section 4.2.1).
func (v *view) lifetime(o *Options, f *freshFields, targeted bool) {
	s := &v.stored
	v.explicit = true
	switch {
	case v.SMaxAge != none:
		s.Lifetime, s.sharedMaxAge = v.SMaxAge*second, true
	case v.MaxAge != none:
		s.Lifetime = v.MaxAge * second
	case !targeted && f.expired:
		s.Lifetime = 0
	case !targeted && f.expires != none:
		s.Lifetime = clampSeconds(f.expires-s.Date) * second
	default:
		v.explicit = false
		s.Lifetime = v.implicit(o, f)
	}
	if o.Max > 0 {
		s.Lifetime = min(s.Lifetime, o.Max)
	}
	if v.Has(NoCache) {
		s.Lifetime = 0
	}
}

// implicit is how long a response is fresh that does not say so itself: according to its status,
// the time since it was modified (section 4.2.2), or the route.
func (v *view) implicit(o *Options, f *freshFields) int64 {
	s := &v.stored
	for _, t := range o.Statuses {
		if t.Status == s.Status {
			v.chosen = true
			return t.TTL
		}
	}
	if !heuristically(s.Status) && !v.Has(Public) {
		return 0
	}
	if o.Heuristic > 0 && f.modified != none && f.modified < s.Date {
		since := float64(clampSeconds(s.Date-f.modified)) * float64(second)
		return min(int64(since*o.Heuristic), o.HeuristicMax)
	}
	if s.Status >= 400 {
		return 0 // an error is stored only if its status has a time of its own
	}
	return o.Default
}

// grace computes for how long the response may be served after its lifetime.
func (v *view) grace(o *Options) {
	s := &v.stored
	s.StaleWhileRevalidate, s.StaleIfError = o.StaleWhileRevalidate, o.StaleIfError
	if v.StaleWhileRevalidate != none {
		s.StaleWhileRevalidate, s.whileGiven = v.StaleWhileRevalidate*second, true
	}
	if v.StaleIfError != none {
		s.StaleIfError, s.errorGiven = v.StaleIfError*second, true
	}
	if !s.graceAllowed(s.whileGiven) {
		s.StaleWhileRevalidate = 0
	}
	if !s.graceAllowed(s.errorGiven) {
		s.StaleIfError = 0
	}
}

// graceAllowed reports whether a stale answer may be served at all (RFC 9111, section 4.2.4). given
// says that the answer itself explicitly allows it.
func (s *Stored) graceAllowed(given bool) bool {
	if s.set&(MustRevalidate|ProxyRevalidate|NoCache) != 0 {
		return false
	}
	return given || !s.sharedMaxAge
}

// Age is the response's current_age (section 4.2.3) in nanoseconds at a time of the monotonic clock.
func (s *Stored) Age(now int64) int64 { return s.InitialAge + max(now-s.Received, 0) }

// TTL is for how many more nanoseconds the response is fresh; at most 0 if it is stale.
func (s *Stored) TTL(now int64) int64 { return s.Lifetime - s.Age(now) }

// hasETag reports whether there is a valid entity tag.
func hasETag(fields *head.List) bool {
	found := false
	eachNamed(fields, "etag", func(value []byte) { found = found || head.IsTag(value) })
	return found
}
