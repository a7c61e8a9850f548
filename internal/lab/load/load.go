// Package load is the generator. It sends requests over many connections, at the times of a
// schedule or as fast as they are answered, and measures what comes back. It runs a loop per core
// on the reactor, sends prepared bytes, allocates nothing for a request, and measures how busy it
// was itself. It must not know what its figures are used for: a survey, a replay and the command
// line all use it alike.
//
// With a schedule, the loop is open: a request is due when the schedule says, whatever happened to
// the ones before it, and its response time counts from then. A request that finds no free
// connection waits in a bounded backlog, and its time runs. Without a schedule, the loop is closed,
// as in wrk: each connection sends its next request when it has the answer to the last. Over HTTP/2
// the same applies to each stream of a connection.
//
// Requests are written as in HTTP/1.1, whatever the protocol: a script need not know it.
package load

import (
	"context"
	"crypto/tls"
	"time"

	"plimsoll/internal/head"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
	"plimsoll/internal/reactor"
)

// Options are what a run does. The zero value of each field but Target and Script is the default it
// names.
type Options struct {
	Target Target
	Script Script
	// Offered is the schedule as plain data. Arrivals stands in its place for a schedule that is not:
	// it makes that of one of the loops, which together make that of the run. Without either the loop
	// is closed.
	Offered  *pace.Offered
	Arrivals func(loop, loops int) pace.Schedule
	// Duration ends the run: no request is begun after it. A schedule that ends earlier ends the
	// run earlier; 0 leaves it to the schedule, or to the context.
	Duration time.Duration
	// Connections is the most that are open at once, all loops together; 64. They are opened before
	// the run's clock starts.
	Connections int
	// Streams is how many requests a connection carries at once over HTTP/2, less where the target
	// allows less; 0 speaks HTTP/1.1, one after the other. HTTP/2 is agreed on by ALPN with https,
	// and spoken from the first byte with http (RFC 9113, section 3.3).
	Streams int
	// Loops is the number of event loops; one.
	Loops int
	// First and All make this a part of a run that several processes share: its loops are those from
	// First on, of All. Connections and Backlog are then those of all the processes together. All of 0
	// is the whole run.
	First, All int
	// Timeout is how long after its intended start a request counts as failed; 5 s.
	Timeout time.Duration
	// Backlog is how many arrivals may wait for a connection with room, all loops together; when one
	// more comes, the one that has waited longest is NotSent, so that sessions still begin in the
	// schedule's order. 2^20.
	Backlog int
	// PerConnection is how many requests a connection carries before it is closed and another is
	// made; 0 means no limit, 1 is a new connection for each. Lifetime does the same by time.
	PerConnection int
	Lifetime      time.Duration
	// Window is the length of the windows that Observe is given; 250 ms.
	Window time.Duration
	// Observe is given each window when it is over, in order, on one goroutine that is not a
	// loop's; the window is the callee's to keep. It may be nil.
	Observe func(w *measure.Window)
	// Start says when the run's clock starts, by reactor.Clock. It is called once the connections are
	// open, and may wait, but not longer than for ctx; its error ends the run before it has begun. nil
	// starts the clock at once.
	Start func(ctx context.Context) (at int64, err error)
	// Began is told when the run's clock starts, shortly before that. It may be nil.
	Began func(at time.Time)
	// Lateness is how late the 99th percentile of requests may be sent before the run is INVALID; 1
	// ms, or 5 % of the 99th percentile of response times where that is longer: next to an answer
	// that takes a second, 2 ms do not matter.
	Lateness time.Duration
	// Spare leaves the processor to a target that shares it: the loops sleep until a request is
	// due, and send it some 50 µs late, where they would spin for that long.
	Spare bool
	// Seed makes the script's random choices repeatable. Those of the arrivals are the schedule's
	// own.
	Seed uint64
}

// Target is where requests are sent. Resolve makes one.
type Target struct {
	URL string // as it was given
	// Authority is the host, and the port where it is not the scheme's own, as the Host field
	// requires. Path is path and query, beginning with "/".
	Authority, Path string
	// Addresses are those of the host; connections take turns.
	Addresses []reactor.Address
	// TLS is nil for plain http.
	TLS *tls.Config
	// HTTP3 speaks HTTP/3, over QUIC at the UDP port of the same number. It needs TLS. Streams of the
	// options are then its streams, at least one.
	HTTP3 bool
}

// Script is what a run sends. It is immutable and shared by the loops.
type Script interface {
	// Names are the kinds of request, for the results of each.
	Names() []string
	// Requests is how many requests an arrival leads to on average, at least 1: a rate in requests
	// is this many times one in arrivals.
	Requests() float64
	// Player makes the requests of one loop. The same seed, loop and number of loops give the same
	// requests.
	Player(loop, loops int, seed uint64) Player
}

// Player makes requests on one loop. It allocates nothing once every kind of session has been used.
type Player interface {
	// Begin starts the session of the next arrival. It is called once for each arrival of the
	// loop's schedule, in their order, though later than the schedule's Next when no connection is
	// free; an arrival that is never sent is begun and ended too.
	Begin() Session
}

// Session is the requests that one arrival leads to, one after the other. Request and Answer take
// turns, but for a request that fails: Answer is not called then. End comes last, once, however the
// session went. Of an arrival that is never sent Request may be called, to learn its name.
type Session interface {
	// Request appends the next request, head and body, to dst, in the form of HTTP/1.1 with a
	// Content-Length, as Prepare makes it.
	Request(dst []byte) ([]byte, Request)
	// Answer judges an answer that has arrived whole. What a points to is valid during the call
	// only.
	Answer(a *Answer) AnswerVerdict
	// End gives the session back to its player.
	End()
}

// Request is what the generator must know of a request.
type Request struct {
	Name int  // index into Script.Names
	Head bool // the method is HEAD: the answer has no body
	Body bool // Answer wants to see the body
}

// Answer is an answer to be judged.
type Answer struct {
	Status int
	Fields *head.List
	// Body is the whole body where the request asked for it, and at most BodyLimit bytes, less
	// where many large ones arrive at once; Cut says that there was more.
	Body []byte
	Cut  bool
}

// BodyLimit bounds what of a body is held for a check, in bytes.
const BodyLimit = 1 << 20

// AnswerVerdict is what Answer thinks of an answer.
type AnswerVerdict struct {
	Kind measure.Kind // OK, BadStatus or BadAnswer
	// what was wrong, for a person, empty when OK; a constant or made once, as this is on the hot
	// path
	Why  string
	More bool // the session has another request, Think after this answer
	// Think counts to nothing: the next request's intended start is when it is over.
	Think time.Duration
}
