package rules

// Action is what is done with a request.
type Action uint8

// The actions.
const (
	// Fetch: nothing that could answer is stored. The request goes to the origin in the form that
	// Forward gives it, its answer may be stored, and other requests for the key may wait for it.
	Fetch Action = iota
	// Serve: what is stored answers.
	Serve
	// ServeAndRefresh: what is stored answers, and is revalidated beside it.
	ServeAndRefresh
	// Revalidate: the origin is asked whether what is stored is still good. A 304 says so; another
	// answer takes its place.
	Revalidate
	// Pass: the request goes to the origin unchanged, nobody waits for it, nothing of it is stored.
	Pass
	// Refuse: 504, for the client wants nothing that is not stored.
	Refuse
)

// Decision is what Decide decided.
type Decision struct {
	Action Action
	Why    Reason // why it is not simply served; NoReason where it is
	// Age and TTL are of what is served or revalidated, nanoseconds; TTL is negative where it is stale.
	Age, TTL int64
	// StaleIfError: should the origin fail, with 500, 502, 503 or 504 or without an answer, then
	// what is stored may be served.
	StaleIfError bool
}

// Circumstances are what a decision depends on beside the request and what is stored.
type Circumstances struct {
	Now      Instant
	Pressure bool // the service behind has too much to do
	Purged   bool // what is stored was marked stale by hand (a soft purge)
	Varies   bool // something is stored under the key, but for other values of what it varies by
}

// Decide says what to do with a request. s and block are of the response that is stored for it, whose
// varying fields match; s is nil where there is none. Nothing is allocated.
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

// reloads says whether the client wants nothing that a cache has.
func (o *Options) reloads(r *Request) bool { return r.Has(NoCache) && !o.IgnoreClients }

// unfit gives the reason why what is stored may not simply be served, NoReason when it may (RFC
// 9111, section 4, and section 5.2.1 for what clients ask).
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
		// A plain reload sends max-age=0. What is immutable is not revalidated for that while it is
		// fresh (RFC 8246).
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

// serveStale says how a stale response may be served, and why (section 4.2.4); NoReason when it may
// not.
func (o *Options) serveStale(r *Request, s *Stored, c *Circumstances, d *Decision) (Action, Reason) {
	late := -d.TTL
	if !o.IgnoreClients {
		// A client that takes no age at all, or wants a rest of freshness, is not given something
		// stale.
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

// survives says whether what is stored may be served when the origin fails (RFC 5861, section 4).
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

// Failing says whether a status of the origin counts as a failure for stale-if-error.
func Failing(status int) bool {
	return status == 500 || status == 502 || status == 503 || status == 504
}
