package rules

import "plimsoll/internal/head"

// Stored is what the rules have to know of a stored response. It has no pointers, so that many of
// them cost the garbage collector nothing. Durations and times on the monotonic clock are
// nanoseconds, dates seconds since 1970.
type Stored struct {
	Received   int64 // when it came, on the monotonic clock
	InitialAge int64 // its age then: corrected_initial_age (RFC 9111, section 4.2.3)
	Lifetime   int64 // for how long it is fresh, counted from age 0; 0 for never

	StaleWhileRevalidate, StaleIfError int64 // past the lifetime

	Date         int64 // the origin's, or when it came
	LastModified int64 // none where it is not there, or cannot be read
	Length       int64 // bytes of its body, once that is whole; head.Unknown before
	Status       int

	set Directive // of the response
	// sharedMaxAge: the lifetime is s-maxage's, which forbids stale answers but for what the answer
	// itself allows; graceGiven says that it does.
	sharedMaxAge bool
	whileGiven   bool
	errorGiven   bool

	etag, modified span // ETag's and Last-Modified's values in the block of fields
}

// span is a part of a block.
type span struct{ at, end uint32 }

func (s span) of(block []byte) []byte {
	if s.end == 0 || int(s.end) > len(block) {
		return nil
	}
	return block[s.at:s.end:s.end]
}

// ETag is the entity tag in the block that AppendBlock made, nil where there is none.
func (s *Stored) ETag(block []byte) []byte { return s.etag.of(block) }

// ModifiedText is Last-Modified as it stood in the response, nil where there was none that can be
// read.
func (s *Stored) ModifiedText(block []byte) []byte {
	if s.LastModified == none {
		return nil
	}
	return s.modified.of(block)
}

// Times are when a request was sent and when the head of its response had come.
type Times struct{ Sent, Received Instant }

// Judge says whether the response to a request may be stored (RFC 9111, section 3), MayStore when
// it may, and then what to know of it. What it says of a response is not yet so for its body: that
// has to arrive whole.
func (o *Options) Judge(r *Request, response *head.Response, at Times) (Stored, Reason) {
	if !r.get {
		return Stored{}, NotGet
	}
	if r.Has(NoStore) {
		return Stored{}, RequestNoStore
	}
	v := o.read(response, at)
	if why := o.refuses(r, response, &v); why != NoReason {
		return Stored{}, why
	}
	s := v.stored
	s.Length = response.Length
	return s, MayStore
}

// refuses gives the reason not to store a response, NoReason when there is none.
func (o *Options) refuses(r *Request, response *head.Response, v *view) Reason {
	if why := refusesStatus(response.Status, &v.Directives); why != NoReason {
		return why
	}
	switch {
	case v.Has(Malformed):
		return Unreadable
	case v.Has(NoStore) && !v.Has(MustUnderstand):
		return NoStoreSaid
	case v.Has(Private):
		return PrivateSaid
	case r.authorized && o.Key.treatment("authorization") != Drop && !v.Has(Public) &&
		!v.Has(MustRevalidate) && v.SMaxAge == none:
		return Authorized
	}
	varies, why := o.varies(&response.Fields)
	switch {
	case why != NoReason:
		return why
	case r.cookie && o.Key.treatment("cookie").personal() && !varies.has("cookie"):
		return WithCookie
	case o.SetCookie == RefuseSetCookie && response.Fields.Has(head.SetCookie) && !v.withholds("set-cookie"):
		return SetsCookie
	case !v.explicit && !v.Has(Public) && !v.chosen && !heuristically(response.Status):
		return NotForStatus
	}
	s := &v.stored
	if s.Lifetime == 0 && !v.validator && s.StaleWhileRevalidate == 0 && s.StaleIfError == 0 {
		return NotFresh
	}
	return NoReason
}

func refusesStatus(status int, d *Directives) Reason {
	switch {
	case status < 200:
		return Informational
	case status == 206:
		return Partial
	case status == 304:
		return Validation
	case status == 425: // it says something of its connection alone (RFC 8470, section 5.2)
		return TooEarly
	case d.Has(MustUnderstand) && !understood(status):
		return Unknown
	}
	return NoReason
}

// heuristically says whether responses of a status may be stored that do not say so (RFC 9110,
// section 15.1).
func heuristically(status int) bool {
	switch status {
	case 200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501:
		return true
	}
	return false
}

// understood says whether the requirements of caching for a status are known here: it is one of
// RFC 9110's, none of which asks a cache for more than others do but 206 and 304.
func understood(status int) bool {
	switch {
	case status >= 200 && status <= 205, status >= 300 && status <= 303, status == 305, status == 307,
		status == 308:
		return true
	case status >= 400 && status <= 417, status == 421, status == 422, status == 426:
		return true
	case status >= 500 && status <= 505:
		return true
	}
	return false
}

// withholds says whether no-cache or private names the field.
func (v *view) withholds(lower string) bool {
	for _, name := range v.withheld {
		if is(name, lower) {
			return true
		}
	}
	return false
}
