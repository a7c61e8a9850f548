package rules

// Action is what to do with a request.
type Action uint8

// The actions.
const (
	// Fetch: nothing suitable is stored. The request goes to the origin in the form made by
	// Forward. Its answer may be stored, and other requests for the key may wait for it.
	Fetch Action = iota
	// Serve: answer with the stored response.
	Serve
	// ServeAndRefresh: answer with the stored response, and revalidate it in the background.
	ServeAndRefresh
	// Revalidate: ask the origin whether the stored response is still valid. A 304 means that it
	// is; any other answer replaces it.
	Revalidate
	// Pass: the request goes to the origin unchanged. No other request waits for it, and its answer
	// is not stored.
	Pass
	// Refuse: answer 504, because the client accepts only stored responses (only-if-cached).
	Refuse
)

// Decision is the result of Decide.
type Decision struct {
	Action Action
	Why    Reason // why the stored response is not simply served; NoReason if it is
	// Age and TTL are those of the response that is served or revalidated, in nanoseconds. TTL is
	// negative if it is stale.
	Age, TTL int64
	// StaleIfError: the stored response may be served if the origin fails, that is, answers 500,
	// 502, 503 or 504 or not at all.
	StaleIfError bool
}

// Circumstances are what a decision depends on besides the request and the stored response.
type Circumstances struct {
	Now      Instant
	Pressure bool // the service is overloaded
	Purged   bool // the stored response was marked stale by a soft purge
	Varies   bool // something is stored under the key, for other values of its varying fields
}

// Decide decides what to do with a request. s and block belong to the stored response whose varying
// fields match the request; s is nil if there is none. Decide does not allocate.
func (o *Options) Decide(r *Request, s *Stored, block []byte, c *Circumstances) Decision {
	switch {
	case !r.Cacheable():
		return Decision{Action: Pass, Why: Method}
	case r.content || r.switching:
		return Decision{Action: Pass, Why: Content}
	case s == nil:
		return o.miss(r, c)
	case r.match && !r.matchHolds(s, block, c.Now.Wall):
		return Decision{Action: Pass, Why: Precondition}
	}
	d := Decision{Age: s.Age(c.Now.Mono)}
	d.TTL = s.Lifetime - d.Age
	if c.Purged {
		d.TTL = min(d.TTL, 0)
	}
	why := o.unfit(r, s, &d)
	if why == NoReason {
		return d.with(Serve, NoReason)
	}
	return o.stale(r, s, c, d, why)
}

func (d Decision) with(a Action, why Reason) Decision {
	d.Action, d.Why = a, why
	return d
}

// miss decides for a request that nothing stored answers.
func (o *Options) miss(r *Request, c *Circumstances) Decision {
	switch {
	case r.Has(OnlyIfCached):
		return Decision{Action: Refuse, Why: Refused}
	case r.Has(NoStore):
		return Decision{Action: Pass, Why: RequestNoStore}
	case r.isHead:
		return Decision{Action: Pass, Why: HeadMiss}
	case r.match:
		return Decision{Action: Pass, Why: Precondition}
	case r.rangeLines > 0:
		return Decision{Action: Pass, Why: RangeMiss}
	}
	why := Miss
	if c.Varies {
		why = VaryMiss
	}
	return Decision{Action: Fetch, Why: why}
}

// reloads reports whether the client wants no cached response.
func (o *Options) reloads(r *Request) bool { return r.Has(NoCache) && !o.IgnoreClients }

// unfit returns the reason why the stored response may not simply be served; NoReason if it may
// (RFC 9111, section 4, and section 5.2.1 for the client's directives).
func (o *Options) unfit(r *Request, s *Stored, d *Decision) Reason {
	switch {
	case s.set&NoCache != 0:
		return NeverFresh
	case o.reloads(r):
		return RequestReload
	case d.TTL <= 0:
		return Stale
	case o.IgnoreClients:
		return NoReason
	case r.MaxAge != none && d.Age > r.MaxAge*second && !(s.set&Immutable != 0 && r.MaxAge == 0):
		// A plain reload sends max-age=0. A fresh immutable response is not revalidated for that
		// (RFC 8246).
		return RequestMaxAge
	case r.MinFresh != none && d.TTL < r.MinFresh*second:
		return RequestMaxAge
	}
	return NoReason
}

// stale decides for a request whose stored response is not simply served.
func (o *Options) stale(r *Request, s *Stored, c *Circumstances, d Decision, why Reason) Decision {
	if why == Stale {
		if a, reason := o.serveStale(r, s, c, &d); reason != NoReason {
			return d.with(a, reason)
		}
	}
	switch {
	case r.Has(OnlyIfCached):
		return d.with(Refuse, Refused)
	case r.Has(NoStore):
		return d.with(Pass, RequestNoStore)
	}
	d.StaleIfError = o.survives(r, s, &d)
	return d.with(Revalidate, why)
}

// serveStale returns how a stale response may be served, and why (section 4.2.4); NoReason if it
// may not.
func (o *Options) serveStale(r *Request, s *Stored, c *Circumstances, d *Decision) (Action, Reason) {
	late := -d.TTL
	if !o.IgnoreClients {
		// A client that accepts no age at all, or requires some remaining freshness, does not get a
		// stale response.
		if r.MinFresh != none && r.MinFresh > 0 {
			return 0, NoReason
		}
		takes := r.Has(AnyStale) || r.MaxStale != none && late <= r.MaxStale*second
		if takes && s.graceAllowed(false) && !c.Purged {
			return Serve, ClientAllows
		}
		if r.MaxAge != none && d.Age > r.MaxAge*second {
			return 0, NoReason
		}
	}
	if late < s.StaleWhileRevalidate {
		return ServeAndRefresh, Revalidating
	}
	if c.Pressure && late < o.StaleUnderPressure && s.graceAllowed(false) {
		return Serve, Pressure
	}
	return 0, NoReason
}

// survives reports whether the stored response may be served if the origin fails (RFC 5861, section
// 4).
func (o *Options) survives(r *Request, s *Stored, d *Decision) bool {
	late := max(-d.TTL, 0)
	if s.set&NoCache != 0 {
		return false
	}
	if late < s.StaleIfError {
		return true
	}
	return !o.IgnoreClients && r.StaleIfError != none && late < r.StaleIfError*second && s.graceAllowed(false)
}

// Failing reports whether a status of the origin counts as a failure for stale-if-error.
func Failing(status int) bool {
	return status == 500 || status == 502 || status == 503 || status == 504
}
