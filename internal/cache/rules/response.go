package rules

import "plimsoll/internal/head"

// Stored is what the rules must know about a stored response. It has no pointers, so that large
// numbers of them cost the garbage collector nothing. Durations and times on the monotonic clock
// are in nanoseconds, dates in seconds since 1970.
type Stored struct {
	Received   int64 // when it arrived, on the monotonic clock
	InitialAge int64 // its age at that time: corrected_initial_age (RFC 9111, section 4.2.3)
	Lifetime   int64 // for how long it is fresh, counted from age 0; 0 for never

	StaleWhileRevalidate, StaleIfError int64 // how long it may be served after the lifetime

	Date         int64 // the origin's Date, or when the response arrived
	LastModified int64 // none if it is absent or invalid
	Length       int64 // bytes of its body once that is complete; head.Unknown before
	Status       int

	set Directive // directives of the response
	// sharedMaxAge says that the lifetime comes from s-maxage, which forbids stale answers except
	// as the answer itself allows; whileGiven and errorGiven say that it does.
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

// ETag returns the entity tag in the block that AppendBlock made; nil if there is none.
func (s *Stored) ETag(block []byte) []byte { return s.etag.of(block) }

// ModifiedText returns Last-Modified as it was in the response; nil if it was absent or invalid.
func (s *Stored) ModifiedText(block []byte) []byte {
	if s.LastModified == none {
		return nil
	}
	return s.modified.of(block)
}

// Times are when a request was sent and when the head of its response had arrived.
type Times struct{ Sent, Received Instant }

// Judge decides whether the response to a request may be stored (RFC 9111, section 3). If it may,
// the reason is MayStore and the Stored is valid. The response may still not be used as stored
// before its body has arrived completely.
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

// refuses returns the reason not to store a response; NoReason if there is none.
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
	case status == 425: // it concerns only its connection (RFC 8470, section 5.2)
		return TooEarly
	case d.Has(MustUnderstand) && !understood(status):
		return Unknown
	}
	return NoReason
}

// heuristically reports whether responses with a status may be stored without saying so explicitly
// (RFC 9110, section 15.1).
func heuristically(status int) bool {
	switch status {
	case 200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501:
		return true
	}
	return false
}

// understood reports whether this cache knows the caching requirements of a status: it is one of
// RFC 9110's, of which only 206 and 304 have special requirements.
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

// withholds reports whether no-cache or private names the field.
func (v *view) withholds(lower string) bool {
	for _, name := range v.withheld {
		if is(name, lower) {
			return true
		}
	}
	return false
}
