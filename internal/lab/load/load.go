// Package load is the load generator. It sends requests over many connections, either at the times
// of a schedule or as fast as answers come back, and measures the answers. It runs one event loop
// per core on the reactor, sends prepared bytes, makes no allocation per request, and measures how
// busy it was itself. It must not know what its results are used for: a survey, a replay and the
// command line all use it the same way.
//
// With a schedule, the loop is open: a request is due when the schedule says, whatever happened to
// earlier requests, and its response time counts from then. A request that finds no free connection
// waits in a bounded backlog while its time runs. Without a schedule, the loop is closed, as in
// wrk: each connection sends its next request after the answer to its last. Over HTTP/2 the same
// applies to each stream of a connection.
//
// Requests are written in HTTP/1.1 form, whatever the protocol: a script need not know the
// protocol.
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

// Options configure a run. For each field except Target and Script, the zero value means the
// default that its comment names.
type Options struct {
	Target Target
	Script Script
	// Offered is the schedule as plain data. Arrivals replaces it for a schedule that plain data
	// cannot describe: it returns the schedule of one loop, and the schedules of all loops together
	// make that of the run. Without Offered and Arrivals the loop is closed.
	Offered  *pace.Offered
	Arrivals func(loop, loops int) pace.Schedule
	// Duration ends the run: no request starts after it. A schedule that ends earlier ends the run
	// earlier. 0 leaves the end to the schedule or to the context.
	Duration time.Duration
	// Connections is the maximum number of open connections, over all loops; default 64. They are
	// opened before the run's clock starts.
	Connections int
	// Streams is how many requests a connection carries at once over HTTP/2, or fewer if the target
	// allows fewer. 0 speaks HTTP/1.1, one request after the other. HTTP/2 is negotiated by ALPN
	// with https, and spoken from the first byte with http (RFC 9113, section 3.3).
	Streams int
	// Loops is the number of event loops; default 1.
	Loops int
	// First and All make this one part of a run that several processes share. Its loops are
	// numbered from First, out of All. Connections and Backlog are then totals over all the
	// processes. All of 0 is the whole run.
	First, All int
	// Timeout is how long after its intended start a request counts as failed; default 5 s.
	Timeout time.Duration
	// Backlog is how many arrivals may wait for a connection with room, over all loops; default
	// 2^20. When one more comes, the one that has waited longest becomes NotSent, so that sessions
	// still begin in the schedule's order.
	Backlog int
	// PerConnection is how many requests a connection carries before it is closed and replaced. 0
	// means no limit, 1 a new connection for each request. Lifetime does the same by time.
	PerConnection int
	Lifetime      time.Duration
	// Window is the length of the windows passed to Observe; default 250 ms.
	Window time.Duration
	// Observe is called with each window when it is over, in order, on one goroutine that is not a
	// loop's. Observe may keep the window. It may be nil.
	Observe func(w *measure.Window)
	// Start returns when the run's clock starts, by reactor.Clock. It is called once the
	// connections are open. It may wait, but must return when ctx ends; its error ends the run
	// before it starts. nil starts the clock at once.
	Start func(ctx context.Context) (at int64, err error)
	// Began is called with the start of the run's clock, shortly before it. It may be nil.
	Began func(at time.Time)
	// Lateness is how late the 99th percentile of requests may be sent before the run is INVALID.
	// The default is 1 ms, or 5 % of the 99th percentile of response times if that is longer: next
	// to an answer that takes a second, 2 ms do not matter.
	Lateness time.Duration
	// Spare leaves the processor to a target that shares it: the loops sleep until a request is due
	// and send it about 50 µs late, instead of spinning for those 50 µs.
	Spare bool
	// Seed makes the script's random choices repeatable. The schedule has its own seed.
	Seed uint64
}

// Target is where requests are sent. Resolve makes one.
type Target struct {
	URL string // as given
	// Authority is the host, with the port if it is not the scheme's default, as the Host field
	// requires. Path is the path and query, beginning with "/".
	Authority, Path string
	// Addresses are the addresses of the host. Connections use them in turn.
	Addresses []reactor.Address
	// TLS is nil for plain http.
	TLS *tls.Config
	// HTTP3 speaks HTTP/3 over QUIC, at the UDP port of the same number. It needs TLS.
	// Options.Streams then counts HTTP/3 streams, at least one.
	HTTP3 bool
}

// Script is what a run sends. It is immutable and shared by the loops.
type Script interface {
	// Names are the kinds of request, for the results of each.
	Names() []string
	// Requests is how many requests an arrival leads to on average, at least 1: a rate in requests
	// is a rate in arrivals times this.
	Requests() float64
	// Player makes the requests of one loop. The same seed, loop and number of loops give the same
	// requests.
	Player(loop, loops int, seed uint64) Player
}

// Player makes requests on one loop. It allocates nothing once every kind of session has been used.
type Player interface {
	// Begin starts the session of the next arrival. It is called once per arrival of the loop's
	// schedule, in order, but later than the schedule's Next when no connection is free. An arrival
	// that is never sent is begun and ended too.
	Begin() Session
}

// Session is the requests of one arrival, one after the other. Request and Answer alternate, except
// that Answer is not called for a request that fails. End comes last, once, however the session
// went. For an arrival that is never sent, Request may be called to learn its name.
type Session interface {
	// Request appends the next request, head and body, to dst. The form is HTTP/1.1 with a
	// Content-Length, as Prepare makes it.
	Request(dst []byte) ([]byte, Request)
	// Answer judges a complete answer. The memory that a points to is valid only during the call.
	Answer(a *Answer) AnswerVerdict
	// End returns the session to its player.
	End()
}

// Request is what the generator must know about a request.
type Request struct {
	Name int  // index into Script.Names
	Head bool // the method is HEAD: the answer has no body
	Body bool // Answer needs the body
}

// Answer is an answer to be judged.
type Answer struct {
	Status int
	Fields *head.List
	// Body is the whole body if the request asked for it, up to BodyLimit bytes, or less when many
	// large bodies arrive at once. Cut reports that the body was longer.
	Body []byte
	Cut  bool
}

// BodyLimit is the maximum number of bytes of a body kept for a check.
const BodyLimit = 1 << 20

// AnswerVerdict is a script's verdict on an answer.
type AnswerVerdict struct {
	Kind measure.Kind // OK, BadStatus or BadAnswer
	// What was wrong, in words; empty when OK. Use a constant or a string made once: this is the
	// hot path.
	Why  string
	More bool // the session has another request, Think after this answer
	// Think counts towards no response time: the next request's intended start is the end of Think.
	Think time.Duration
}
