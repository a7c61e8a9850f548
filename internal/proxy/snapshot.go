package proxy

import (
	"crypto/tls"

	"plimsoll/internal/admission"
	"plimsoll/internal/exchange"
	"plimsoll/internal/http1"
	"plimsoll/internal/http2"
	"plimsoll/internal/policy/forwarded"
	"plimsoll/internal/route"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/tlsio"
	"plimsoll/internal/upstream"
)

// Snapshot is everything that a config decides about exchanges, compiled. It is immutable and
// shared by all loops; a reload installs another one, and exchanges under way finish on the one
// they began on.
type Snapshot struct {
	Table     *route.Table // gives indexes into Routes
	Routes    []Route
	Upstreams []Upstream
	NoRoute   int // the telemetry index of exchanges without a route
	Classes   [telemetry.Classes]Class
	// ClassHeader is the field of the SLA class, nil for none.
	ClassHeader *ClassHeader
	// Claims are the fields that are removed from an untrusted peer's request: ClassHeader's and
	// those of all routes' Deadline.
	Claims forwarded.Names
	// Admission says which requests are refused when a loop falls behind; nil for none.
	Admission *admission.SheddingPlan
	// Gone is called on each loop, once, when no exchange of that loop can use the snapshot any
	// more.
	Gone func()
}

// Class is what an SLA class means to the data plane.
type Class struct {
	// Nanoseconds that an answer may take by the class's objective: see objective.go.
	Latency int64
	// Nanoseconds that an exchange may wait where an upstream's concurrency is limited.
	Patience int64
}

// Route says what is done with the requests that match it.
type Route struct {
	Name  string
	Class uint8 // unless a trusted peer claims another one
	Chain exchange.Chain
	// Index into Snapshot.Upstreams, or exchange.NoUpstream for a route whose chain answers.
	Upstream      int
	Timeout       int64 // nanoseconds from the head to the response's start
	StreamTimeout int64 // nanoseconds that a response may be silent
	TunnelTimeout int64 // nanoseconds that a tunnel may be silent
	WebSocket     WebSocket
	// Bytes of a request's body, at most 64 KB, that are received before a target is picked.
	HoldBody   int64
	Via        string          // the gateway's name in Via; "" for no such field
	PathAsSent bool            // the path is forwarded as it was sent, not in the form that was matched
	Deadline   *DeadlineHeader // nil for none
	GRPCWeb    bool            // calls of gRPC-Web go on as gRPC
	Stat       int             // index of its counters
}

// Upstream is a named service and what the data plane needs to know to talk to it.
type Upstream struct {
	*upstream.Upstream
	Protocol       upstream.Protocol
	TLS            func(host string) (*tls.Config, error) // nil for plain text
	TLSForUpgrades func(host string) (*tls.Config, error) // offers HTTP/1.1 alone; nil where TLS is
	ConnectTimeout int64                                  // nanoseconds, TLS included
	// Nanoseconds that an exchange may wait for a connection.
	PendingTimeout int64
	MaxRequests    uint32 // of one connection, 0 for no bound
	Attempts       uint8  // further tries after the first
	RetryOn        RetryOn
	PerTry         int64                           // nanoseconds until a try is given up, 0 for never
	Limited        bool                            // its targets' concurrency is
	Key            func(*exchange.Exchange) uint64 // what a hashing balancer hashes; nil for others
	Stat           int                             // index of its counters
}

// RetryOn is a set of outcomes.
type RetryOn uint16

// The outcomes after which a request may be tried again.
const (
	RetryConnect RetryOn = 1 << iota
	RetryReset
	RetryTimeout
	Retry502
	Retry503
	Retry504
	// A call's status, where it came without a message.
	RetryGRPCAborted
	RetryGRPCCancelled
	RetryGRPCDeadlineExceeded
	RetryGRPCInternal
	RetryGRPCResourceExhausted
	RetryGRPCUnavailable
)

// Listener is what the data plane knows about an address that accepts clients. It is immutable. A
// reload may replace it for the requests that come later.
type Listener struct {
	Name        string
	TLS         *tls.Config             // nil for plain text
	Limiter     *tlsio.HandshakeLimiter // bounds the handshakes in flight
	Handshake   int64                   // nanoseconds
	Trust       *forwarded.Trust        // which peers are trusted; nil for none
	Head        http1.Limits
	HTTP2       http2.Limits // of heads that come over HTTP/2
	OffersHTTP2 bool         // by ALPN, or to clients without TLS that know it
	HTTP3       bool
	AltSvc      []byte // of responses over TCP: where HTTP/3 is; nil for nowhere
	HeadTimeout int64  // nanoseconds
	IdleTimeout int64
	SendTimeout int64
	PingAfter   int64 // of clients of HTTP/2
	// Bytes a second: of request bodies over bodyWindow, of responses that wait over SendTimeout.
	MinBodyRate int64
	MaxRequests uint32
	Quota       *Quota
}

// leastAcked returns how many bytes of a response that waits for its client must be taken within
// SendTimeout. Otherwise a client that takes a byte now and then could keep the queue, and the
// upstream's connection, for ever.
func (l *Listener) leastAcked() int64 {
	return max(1, int64(float64(l.MinBodyRate)*float64(l.SendTimeout)/1e9))
}
