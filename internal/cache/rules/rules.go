// Package rules decides what a shared HTTP cache may do: what it may store, whether what it has
// stored answers a request, what it asks the origin, and what the answer then is. It is RFC 9111
// with RFC 5861 (stale responses), RFC 8246 (immutable), RFC 9110's validators and ranges, RFC 9211
// (Cache-Status) and RFC 9213 (targeted fields), as functions of a request, a stored response and a
// time. It stores nothing, reads no clock and knows no connection.
//
// Where the RFCs leave a choice, this is what is chosen:
//
//   - Only answers to GET are stored. HEAD is answered from them, and what it needs to be revalidated
//     is asked for with GET. What the origin answers to HEAD updates them.
//   - A partial answer (206) is passed on and not stored. A range is served from a stored whole
//     answer; several ranges in one request get the whole, with 200.
//   - A Range, or a precondition that no cache evaluates, on something not stored passes the cache.
//   - Freshness that contradicts itself is the shortest that it says; freshness that cannot be read
//     is none. Cache-Control that cannot be read at all keeps an answer from being stored.
//   - s-maxage forbids stale answers, as RFC 9111 has it, but for what stale-while-revalidate and
//     stale-if-error of the same answer allow: an origin that writes these means them.
//   - no-cache and private with field names are obeyed by not storing these fields.
//   - A trailer is not stored. Warning, which is obsolete, is not made.
//
// Time is counted on the monotonic clock from the moment an answer came. The wall clock is used only
// then, to compare it with the origin's Date, so that no step of it makes a stale answer fresh.
package rules

import "math"

// Instant is one moment, read from both of a machine's clocks.
type Instant struct {
	Mono int64 // nanoseconds of a clock that never steps, such as reactor.Clock
	Wall int64 // nanoseconds since 1970, of the clock that can be set
}

const (
	second = int64(1e9)
	// maxDelta is the value to which longer times are reduced, in seconds (RFC 9111, section
	// 1.2.2). Sums of a few such times fit 64 bits in nanoseconds.
	maxDelta = int64(1) << 31
	// none is the value of an absent time or duration.
	none = int64(math.MinInt64)
)

// SetCookie says what happens to an answer that has Set-Cookie and could otherwise be stored.
type SetCookie uint8

// The choices for Set-Cookie.
const (
	RefuseSetCookie SetCookie = iota // not stored: a cookie is usually for one client
	StripSetCookie                   // stored without the field, which only the first client gets
	KeepSetCookie                    // stored with the field, as RFC 9111 allows: every client gets it
)

// StatusTTL is for how long answers with one status are fresh if they do not say it themselves.
type StatusTTL struct {
	Status int
	TTL    int64 // nanoseconds, more than 0
}

// Options are the choices for one route. They are immutable. The zero value means a cache that
// stores what origins declare as fresh, without heuristics.
type Options struct {
	// Targeted names the fields that take precedence over Cache-Control and Expires if they are
	// present (RFC 9213), in order of precedence: "CDN-Cache-Control". Surrogate-Control, which is
	// not a structured field, is read in its own syntax.
	Targeted []string
	// Heuristic is the share of the time since Last-Modified for which an answer without explicit
	// freshness is fresh; 0.1 is usual, 0 means no heuristics. HeuristicMax is the upper limit of
	// that time in nanoseconds; 0 also means no heuristics.
	Heuristic    float64
	HeuristicMax int64
	// Default is for how many nanoseconds an answer without any indication of freshness is fresh,
	// if its status may be stored without explicit permission; 0 means not at all.
	Default int64
	// Statuses are such times for single statuses, such as a few seconds for 404. They override
	// Default and heuristics.
	Statuses []StatusTTL
	// Max is the longest time for which anything is fresh, in nanoseconds; 0 for no limit.
	Max int64
	// StaleWhileRevalidate and StaleIfError apply to answers that do not have these directives (RFC
	// 5861), in nanoseconds.
	StaleWhileRevalidate, StaleIfError int64
	// StaleUnderPressure is for how many nanoseconds after its lifetime an answer may be served to
	// relieve an overloaded service (Circumstances.Pressure).
	StaleUnderPressure int64
	// IgnoreClients ignores the request's Cache-Control and Pragma, except for no-store and
	// only-if-cached, so that clients that reload cannot put load on the origin.
	IgnoreClients bool
	// SetCookie says what happens to answers that set cookies.
	SetCookie SetCookie
	// Key says which parts of a request belong to the key, and what is forwarded.
	Key Key
}
