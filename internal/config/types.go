// Package config turns a YAML file into a checked, immutable Config, or into a list of errors that
// each name their file, line and column. It knows the shape and the sense of a configuration and
// nothing of how a gateway is built from one: it must not import any room that serves traffic.
//
// The comments on the fields in types.go and types_answer.go are the reference: docs/config.md is
// generated from them. Each says the effect, the default, and the hazard of getting it wrong. The
// tags are the rules that can be said without code, and the only place of each: the decoder, the
// JSON Schema, the reference and the defaults are all read from them.
//
//	default   the value of a key that is not there; else the zero value, and a pointer stays nil
//	min, max  limits of a number, a duration, a size, or of each value of a mapping of numbers
//	enum      the only values, of a word or of each item of a list
//	required  the key must be there; a list or a mapping must not be empty
//	one       exactly one of the keys of the mapping that carry this must be there
//	scalar    a bare scalar in the place of the mapping stands for this key
//	template  ${variables} of the exchange may be used
//	file      a path, relative to the directory of the configuration file
//	secret    never printed, but for the ${NAME} that it comes from
package config

import "reflect"

// Config is one whole, checked configuration. It is never changed after Load returned it.
type Config struct {
	// Loops is the number of event loops, each on a thread of its own. Default: 0, one for each CPU
	// the process may use. Hazard: more loops than CPUs only adds switching.
	Loops int `yaml:"loops" default:"0" min:"0" max:"1024"`
	// Listeners are the addresses that accept clients. At least one is needed.
	Listeners []Listener `yaml:"listeners" required:"true"`
	// Upstreams are the named services that routes send to.
	Upstreams map[string]*Upstream `yaml:"upstreams"`
	// Classes are the SLA classes by name, P0 to P9: what a request is worth when there is not room
	// for all. Lower ones are served first. Default: P0 is 99.99% of requests within 100ms, P1
	// 99.95% within 500ms, P2 and all others 99% within 5s; P0 and P1 get no static answers.
	Classes map[string]*Class `yaml:"classes"`
	// Routes say what is done with which requests. The most specific match wins, whatever the
	// order; two routes that could both win are an error.
	Routes []Route `yaml:"routes"`
	// Admin is the address of the metrics, the health answers and the JSON API. Default: none.
	Admin *Admin `yaml:"admin"`
	// AccessLog says where a line for every exchange is written. Default: none is written.
	AccessLog *AccessLog `yaml:"access_log"`
	// Drain says how a stop, or an upgrade, treats the exchanges that are under way.
	Drain Drain `yaml:"drain"`

	sources *sources // what is shown instead of what the environment gave
	given   given
}

// Listener is an address that accepts clients.
type Listener struct {
	// Address to listen on: "host:port", ":port", "[v6]:port". Required.
	Address string `yaml:"address" required:"true"`
	// TLS makes this a TLS listener. Default: plain text.
	TLS *ListenerTLS `yaml:"tls"`
	// TrustedProxies are the peers (addresses or CIDR prefixes) whose X-Forwarded-*, X-Real-Ip,
	// Forwarded and X-Request-Id headers are believed. Default: none, so that those headers are
	// removed from every client, before its route is looked up: no condition, split or balancer of
	// any route sees them. Hazard: a prefix that is too wide lets a client choose the address that
	// limits and logs see.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// Backlog is how many finished handshakes the kernel holds for each loop until it accepts them.
	// Default: 4096. Hazard: net.core.somaxconn cuts it silently; plimsoll warns when it does.
	Backlog int `yaml:"backlog" default:"4096" min:"1" max:"65535"`
	// Limits bound what one client, and all clients, of this listener may hold.
	Limits Limits `yaml:"limits"`

	at Position
}

// Position is where the listener begins in its file.
func (l *Listener) Position() Position { return l.at }

// Same says whether two listeners mean the same, wherever they stand in their files.
func (l Listener) Same(as Listener) bool {
	l.at = as.at
	return reflect.DeepEqual(l, as)
}

// Limits bound what clients of a listener may hold and how slowly they may be.
type Limits struct {
	// MaxConnections is the most connections this listener holds at once; more are closed at once
	// and counted. Default: 0, bounded only by the descriptor limit.
	MaxConnections int `yaml:"max_connections" default:"0" min:"0" max:"100000000"`
	// MaxConnectionsPerAddress is the most connections of one client address (an IPv6 client counts
	// by its /64). Default: 0, no bound. Hazard: many users can share one address behind a
	// carrier's NAT.
	MaxConnectionsPerAddress int `yaml:"max_connections_per_address" default:"0" min:"0" max:"100000000"`
	// RequestLine is the longest request line; a longer one gets 414. Default: 8KB.
	RequestLine Size `yaml:"request_line" default:"8KB" min:"1KB" max:"64KB"`
	// HeaderBytes is the most bytes of a request's header fields; more gets 431. Default: 32KB.
	HeaderBytes Size `yaml:"header_bytes" default:"32KB" min:"1KB" max:"256KB"`
	// HeaderCount is the most header fields of a request; more gets 431. Default: 100.
	HeaderCount int `yaml:"header_count" default:"100" min:"1" max:"1000"`
	// HeadTimeout is how long a client may take from a request's first byte to the end of its head.
	// Default: 10s.
	HeadTimeout Duration `yaml:"head_timeout" default:"10s" min:"10ms" max:"1h"`
	// IdleTimeout is how long a connection may wait for its next request. Default: 75s.
	IdleTimeout Duration `yaml:"idle_timeout" default:"75s" min:"10ms" max:"24h"`
	// MinBodyRate is the slowest a request body may arrive, in bytes a second, over any ten
	// seconds, and the slowest a response that waits may be taken, over send_timeout. Default:
	// 240B. 0 turns it off. Hazard: off, a slow client can hold an upstream connection for ever.
	MinBodyRate Size `yaml:"min_body_rate" default:"240B" min:"0B" max:"1GB"`
	// SendTimeout is how long a client may take none of a response that waits for it, or less than
	// min_body_rate asks for. What its machine has acknowledged counts as taken. It is looked at
	// once in each such time, so it may take twice as long to end a client. Default: 30s.
	SendTimeout Duration `yaml:"send_timeout" default:"30s" min:"10ms" max:"24h"`
	// MaxRequests is the most requests of one connection before it is closed in an orderly way.
	// Default: 0, no bound.
	MaxRequests int `yaml:"max_requests" default:"0" min:"0" max:"1000000000"`
}

// ListenerTLS is how a listener speaks TLS.
type ListenerTLS struct {
	// Certificates are chosen by the name that the client asks for (exact names before wildcards);
	// the first is used when none fits. Files that change are read again. At least one is needed.
	Certificates []Certificate `yaml:"certificates" required:"true"`
	// MinVersion is the lowest TLS version, in quotes: "1.2" or "1.3". Default: "1.2".
	MinVersion string `yaml:"min_version" default:"1.2" enum:"1.2,1.3"`
	// ClientAuth asks clients for a certificate: "none", "request" (checked when given) or
	// "require". Default: "none".
	ClientAuth string `yaml:"client_auth" default:"none" enum:"none,request,require"`
	// ClientCA is the file of the authorities that client certificates must come from. Needed
	// unless client_auth is none.
	ClientCA string `yaml:"client_ca" file:"true"`
	// HandshakeTimeout ends a handshake that takes longer. Default: 10s.
	HandshakeTimeout Duration `yaml:"handshake_timeout" default:"10s" min:"10ms" max:"10m"`
	// MaxHandshakes is the most handshakes that are worked on at once; more wait in order up to the
	// same number again, then are refused. Up to sixteen times as many may be waiting for their
	// clients beside them. Default: 256.
	MaxHandshakes int `yaml:"max_handshakes" default:"256" min:"1" max:"100000"`
	// SessionTickets lets clients resume sessions without a full handshake. Default: true.
	SessionTickets *bool `yaml:"session_tickets" default:"true"`
	// TicketRotation is how often a new ticket key is made; the two before it still open tickets.
	// Default: 8h.
	TicketRotation Duration `yaml:"ticket_rotation" default:"8h" min:"1m" max:"168h"`
}

// Certificate is a certificate chain and its private key, as PEM files.
type Certificate struct {
	// Cert is the PEM file of the chain, the leaf first. Required.
	Cert string `yaml:"cert" required:"true" file:"true"`
	// Key is the PEM file of the leaf's private key. Required.
	Key string `yaml:"key" required:"true" file:"true"`
}

// Upstream is a named service.
type Upstream struct {
	// Targets are the service's addresses: "host:port", "unix:/path", or {address, weight}. At
	// least one is needed. A name is resolved again as its TTL runs out, and every address it has
	// becomes a target.
	Targets []Target `yaml:"targets" required:"true"`
	// Balance says how a target is chosen: "p2c" (the better of two random ones, by outstanding
	// requests and latency), "round_robin" (smooth, weighted), "least_requests", "random", or
	// {hash: KEY} with KEY one of "client_address", "header:NAME", "cookie:NAME", "path:NAME".
	// Default: "p2c".
	Balance Balance `yaml:"balance"`
	// Health takes targets out that do not work. Default: passive ejection only, at its defaults.
	Health Health `yaml:"health"`
	// Pool bounds the connections to each target.
	Pool Pool `yaml:"pool"`
	// Breaker stops sending to targets that fail, for a while. Default: none; {} for one that opens
	// when more than 40% of at least 20 requests failed in 5s.
	Breaker *Breaker `yaml:"breaker"`
	// Concurrency limits how many requests are at each target at once: {mode, limit, min, max}, or a
	// mode alone. It protects a service from more than it can carry, and needs no number: "adaptive"
	// finds it. Default: none, as many as there may be connections.
	Concurrency *Concurrency `yaml:"concurrency"`
	// Retry says which failed requests are tried again.
	Retry Retry `yaml:"retry"`
	// TLS makes the connections to the targets TLS. Default: plain text.
	TLS *UpstreamTLS `yaml:"tls"`
	// SlowStart is the time over which a target that is new or back gets its full share. Default:
	// 0s, at once.
	SlowStart Duration `yaml:"slow_start" default:"0s" min:"0s" max:"1h"`

	at Position
}

// Class is an SLA class.
type Class struct {
	// Availability is the share of the class's requests that must get a good answer in time.
	// Default: the class's, see classes.
	Availability *Percent `yaml:"availability"`
	// Latency is how long an answer may take. Default: the class's, see classes.
	Latency *Duration `yaml:"latency" min:"1ms" max:"10m"`
	// Patience is how long a request may wait for its turn at a service that is overloaded, where
	// the upstream limits its concurrency. Default: the latency. Hazard: more than what clients
	// wait for keeps the service busy with answers that nobody reads.
	Patience *Duration `yaml:"patience" min:"1ms" max:"10m"`
	// Degrade lists what the class's requests may get where the live answer cannot be had: "static"
	// is the fallback of their route. "cache" and "stale" come with the cache, and are errors until
	// then. Default: [] for P0 and P1, [static] for all others. Hazard: to a client that does not
	// look at X-Degraded, a static answer with status 200 is a good one.
	Degrade []string `yaml:"degrade" enum:"cache,stale,static"`
}

// Concurrency limits how many requests are at each target of an upstream at once. Those that find
// no place wait in the gateway, by SLA class, clients in turn, each for at most its class's
// patience; newer ones go first when the oldest have waited for half of it.
type Concurrency struct {
	// Mode is "adaptive" (the limit follows what the target can serve without a queue of its own,
	// found from passing traffic alone), "aimd" (the limit grows by one while answers are quick, and
	// shrinks when they fail or are slower than max_latency) or "fixed". Default: "adaptive".
	Mode string `yaml:"mode" default:"adaptive" enum:"adaptive,aimd,fixed" scalar:"true"`
	// Limit is the number for mode fixed, and where the others begin. Default: 20.
	Limit int `yaml:"limit" default:"20" min:"1" max:"100000"`
	// Min is the least that a limit may become. Default: 1.
	Min int `yaml:"min" default:"1" min:"1" max:"100000"`
	// Max is the most that a limit may become. Default: 10000.
	Max int `yaml:"max" default:"10000" min:"1" max:"100000"`
	// MaxLatency is, for mode aimd, how long an answer may take on average. Default: 500ms.
	MaxLatency Duration `yaml:"max_latency" default:"500ms" min:"1ms" max:"10m"`
}

// Breaker stops sending to what fails. It is closed (everything passes), open (nothing does, for
// open_for), half-open (a few trials do) and, when these succeed, ramping (a share that rises to
// everything over ramp). A request that no target's breaker lets through gets 503 with Retry-After.
type Breaker struct {
	// Scope is "target" (each target has a breaker) or "upstream" (one for all of them). Default:
	// "target".
	Scope string `yaml:"scope" default:"target" enum:"target,upstream"`
	// ConsecutiveFailures open it: connection failures, broken answers, timeouts and any 5xx.
	// Default: 0, off.
	ConsecutiveFailures int `yaml:"consecutive_failures" default:"0" min:"0" max:"1000000"`
	// FailureRatio opens it when more than this share of the requests in the window failed. Default:
	// 40%, unless another rule is given; 0% is off.
	FailureRatio *Percent `yaml:"failure_ratio"`
	// SlowRatio opens it when more than this share of the requests in the window took longer than
	// slow_over. Default: 0%, off.
	SlowRatio Percent `yaml:"slow_ratio" default:"0%"`
	// SlowOver is the time to the response's head above which a request is slow. Needed with
	// slow_ratio. Default: 0s.
	SlowOver Duration `yaml:"slow_over" default:"0s" min:"0s" max:"1h"`
	// Window is how far the two ratios look back. Default: 5s.
	Window Duration `yaml:"window" default:"5s" min:"100ms" max:"1h"`
	// MinRequests is how many requests the window must have before a ratio means anything. Default:
	// 20.
	MinRequests int `yaml:"min_requests" default:"20" min:"1" max:"1000000"`
	// Adaptive opens it by a score of P99 latency, failures and saturation, against a threshold that
	// learns. Default: none; {} for its defaults.
	Adaptive *AdaptiveBreaker `yaml:"adaptive"`
	// OpenFor is how long nothing is sent. Default: 20s.
	OpenFor Duration `yaml:"open_for" default:"20s" min:"10ms" max:"24h"`
	// Trials is how many requests may be tried at a time when that is over; as many must succeed.
	// Default: 3.
	Trials int `yaml:"trials" default:"3" min:"1" max:"64"`
	// Ramp is the time from a tenth of the requests to all of them after trials that succeeded.
	// Default: 10s.
	Ramp Duration `yaml:"ramp" default:"10s" min:"0s" max:"1h"`
}

// AdaptiveBreaker weighs what is seen of a service into a score from 0 to 1.
type AdaptiveBreaker struct {
	// LatencyOver is the P99 above which latency counts. Default: 500ms.
	LatencyOver Duration `yaml:"latency_over" default:"500ms" min:"1ms" max:"1h"`
	// LatencyWeight of the three, which add up to 1. Default: 0.3.
	LatencyWeight *float64 `yaml:"latency_weight" default:"0.3" min:"0" max:"1"`
	// ErrorWeight of the share of failures. Default: 0.2.
	ErrorWeight *float64 `yaml:"error_weight" default:"0.2" min:"0" max:"1"`
	// SaturationWeight of the share of connections, or of the concurrency limit, in use. Default: 0.5.
	SaturationWeight *float64 `yaml:"saturation_weight" default:"0.5" min:"0" max:"1"`
	// Threshold is the score above which it opens at first. Default: 0.3.
	Threshold *float64 `yaml:"threshold" default:"0.3" min:"0.2" max:"0.6"`
}

// Position is where the upstream's mapping begins in its file.
func (u *Upstream) Position() Position { return u.at }

// Target is one address of an upstream.
type Target struct {
	// Address is "host:port", "[v6]:port" or "unix:/path". Required.
	Address string `yaml:"address" required:"true" scalar:"true"`
	// Weight is this target's share against the others'. Default: 1. 0 takes it out of use.
	Weight *int `yaml:"weight" default:"1" min:"0" max:"1000"`
}

// Balance is how a target is chosen.
type Balance struct {
	// Policy is "p2c", "round_robin", "least_requests", "random" or "hash". Default: "p2c".
	Policy string `yaml:"policy" default:"p2c" enum:"p2c,round_robin,least_requests,random,hash" scalar:"true"`
	// Hash is what is hashed: "client_address", "header:NAME", "cookie:NAME" or "path:NAME". Needed
	// with, and implies, policy hash.
	Hash string `yaml:"hash"`
}

// Health is how targets that do not work are found.
type Health struct {
	// Active asks each target at an interval. Default: none.
	Active *ActiveHealth `yaml:"active"`
	// Passive watches the traffic itself. Default: on, with its defaults; {disabled: true} turns it
	// off.
	Passive PassiveHealth `yaml:"passive"`
	// Panic is the share of targets that must be usable; under it all are used again, because a
	// wrong health check is likelier than so many failures. When the active checks have found every
	// target down there is nothing left to try, and requests get 503 at once. Default: 30%. 0%
	// turns it off.
	Panic *Percent `yaml:"panic" default:"30%"`
}

// ActiveHealth asks each target whether it is well.
type ActiveHealth struct {
	// Path of the light check. Required. 2xx and 3xx are well.
	Path string `yaml:"path" required:"true"`
	// Host header of the checks. Default: the target's address.
	Host string `yaml:"host"`
	// Interval of the light check. Default: 3s.
	Interval Duration `yaml:"interval" default:"3s" min:"100ms" max:"24h"`
	// Timeout of the light check. Default: 1s.
	Timeout Duration `yaml:"timeout" default:"1s" min:"10ms" max:"10m"`
	// DeepPath of the deep check, which may exercise what the service depends on. Default: none.
	DeepPath string `yaml:"deep_path"`
	// DeepInterval of the deep check. Default: 5m.
	DeepInterval Duration `yaml:"deep_interval" default:"5m" min:"1s" max:"24h"`
	// DeepTimeout of the deep check. Default: 5s.
	DeepTimeout Duration `yaml:"deep_timeout" default:"5s" min:"10ms" max:"10m"`
	// UnhealthyAfter is how many failures in a row take a target out. Default: 3.
	UnhealthyAfter int `yaml:"unhealthy_after" default:"3" min:"1" max:"100"`
	// HealthyAfter is how many successes in a row bring it back. Default: 2.
	HealthyAfter int `yaml:"healthy_after" default:"2" min:"1" max:"100"`
}

// PassiveHealth ejects targets whose answers to real traffic are bad.
type PassiveHealth struct {
	// Disabled turns passive ejection off. Default: false.
	Disabled bool `yaml:"disabled" default:"false"`
	// ConsecutiveFailures (a connection failure, a broken answer, a timeout, or 502, 503, 504) that
	// eject a target. Default: 5. 0 turns this rule off.
	ConsecutiveFailures *int `yaml:"consecutive_failures" default:"5" min:"0" max:"10000"`
	// SuccessRateDeviations is how many standard deviations under its peers' mean success rate a
	// target's must be, over an interval of 10s with at least 100 requests on at least 3 targets,
	// to be ejected. Default: 1.9. 0 turns it off.
	SuccessRateDeviations *float64 `yaml:"success_rate_deviations" default:"1.9" min:"0" max:"10"`
	// EjectFor is the first ejection's length; each further one in a row is longer by as much, to
	// ten times. Default: 10s.
	EjectFor Duration `yaml:"eject_for" default:"10s" min:"100ms" max:"1h"`
	// MaxEjected is the largest share of an upstream's targets that may be ejected at once; one
	// target may always be unless it is the only one. Default: 50%.
	MaxEjected *Percent `yaml:"max_ejected" default:"50%"`
}

// Pool bounds the connections to each target.
type Pool struct {
	// MaxConnections to one target, over all loops. Default: 1024.
	MaxConnections int `yaml:"max_connections" default:"1024" min:"1" max:"1000000"`
	// MaxPending is how many requests may wait for a connection of an upstream on one loop; more
	// get 503. Default: 1024.
	MaxPending int `yaml:"max_pending" default:"1024" min:"0" max:"1000000"`
	// PendingTimeout is how long a request may wait for a connection; then it gets 503. Default:
	// 5s.
	PendingTimeout Duration `yaml:"pending_timeout" default:"5s" min:"1ms" max:"10m"`
	// MaxIdle connections kept for one target, over all loops. Default: 512.
	MaxIdle int `yaml:"max_idle" default:"512" min:"0" max:"1000000"`
	// IdleTimeout after which an unused connection is closed. Default: 55s. Hazard: keep it under
	// the service's own, or requests meet connections that are just closing.
	IdleTimeout Duration `yaml:"idle_timeout" default:"55s" min:"10ms" max:"24h"`
	// MaxRequests of one connection before it is closed. Default: 0, no bound.
	MaxRequests int `yaml:"max_requests" default:"0" min:"0" max:"1000000000"`
	// ConnectTimeout, TLS included. Default: 2s. It also bounds the wait for a place in the accept
	// queue of a target on a unix socket: a request that gets none counts as a connect that took
	// too long.
	ConnectTimeout Duration `yaml:"connect_timeout" default:"2s" min:"1ms" max:"10m"`
}

// Retry says which failed requests are tried again, on another target where there is one.
type Retry struct {
	// Attempts is how many times a request may be tried again. Default: 1. 0 turns retries off.
	Attempts *int `yaml:"attempts" default:"1" min:"0" max:"5"`
	// On lists the outcomes that are tried again: "connect" (no connection, refused or not made in
	// time), "reset" (the connection broke before the response's head was whole), "timeout"
	// (per_try_timeout), and statuses "502", "503", "504". Default: connect, reset. A request that
	// is not idempotent is tried again only when nothing of it was written.
	On []string `yaml:"on" default:"connect,reset" enum:"connect,reset,timeout,502,503,504"`
	// PerTryTimeout ends one try that has had no response head, counted from when the request is
	// with the target whole. Default: 0s, only the route's timeout counts.
	PerTryTimeout Duration `yaml:"per_try_timeout" default:"0s" min:"0s" max:"1h"`
	// Budget is the share of an upstream's requests that may be retries, over ten seconds; ten a
	// second are always allowed. Default: 20%. Hazard: a high budget turns a service's bad minute
	// into a storm.
	Budget *Percent `yaml:"budget" default:"20%"`
}

// UpstreamTLS is how connections to targets speak TLS.
type UpstreamTLS struct {
	// CA is the file of the authorities that targets' certificates must come from. Default: the
	// system's.
	CA string `yaml:"ca" file:"true"`
	// ServerName is the name that is asked for and checked. Default: the target's host.
	ServerName string `yaml:"server_name"`
	// Cert is the PEM file of this gateway's client certificate. Default: none.
	Cert string `yaml:"cert" file:"true"`
	// Key is the PEM file of cert's private key. Needed with cert.
	Key string `yaml:"key" file:"true"`
	// InsecureSkipVerify accepts any certificate. Default: false. Hazard: anyone on the path can
	// read and change traffic.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify" default:"false"`
}

// Route is a match, an SLA class, a chain of policies and one action: exactly one of upstream,
// split, respond, redirect.
type Route struct {
	// Name in logs and metrics, no two routes alike. Default: the match, with " #2" and so on where
	// routes share it.
	Name string `yaml:"name"`
	// Match is a pattern of Go's ServeMux: "[METHOD ][HOST]/[PATH]" with {name}, {rest...} and {$};
	// a host may begin with "*.". Required.
	Match string `yaml:"match" required:"true"`
	// When adds conditions on header fields and query values, all of which must hold. Routes of the
	// same pattern are tried in order, and at most one of them may have no condition.
	When When `yaml:"when"`
	// SLA is the class, P0 (the most precious) to P9; see classes. Default: P1.
	SLA string `yaml:"sla" default:"P1" enum:"P0,P1,P2,P3,P4,P5,P6,P7,P8,P9"`

	// Upstream to send to, by its name.
	Upstream string `yaml:"upstream" one:"true"`
	// Split sends shares of the route's requests to several upstreams.
	Split *Split `yaml:"split" one:"true"`
	// Respond answers at once.
	Respond *Respond `yaml:"respond" one:"true"`
	// Redirect sends the client elsewhere.
	Redirect *Redirect `yaml:"redirect" one:"true"`

	// Timeout is how long an exchange may take from its request to the start of its response; while
	// a request body is on its way, it counts from the last bytes of it that moved: that came from
	// the client, or that the target's machine has acknowledged, give or take a quarter. While the
	// client does not take what is queued for it, the response is not read, and it counts from when
	// the client does. Default: 60s. Then the client gets 504.
	Timeout Duration `yaml:"timeout" default:"60s" min:"1ms" max:"24h"`
	// StreamTimeout is how long an upstream's response may be silent once it has begun. Default:
	// 60s.
	StreamTimeout Duration `yaml:"stream_timeout" default:"60s" min:"1ms" max:"24h"`
	// TunnelTimeout is how long a tunnel (a WebSocket, or what else the upstream switched to) may
	// be silent in both directions. Default: 1h.
	TunnelTimeout Duration `yaml:"tunnel_timeout" default:"1h" min:"1ms" max:"24h"`
	// MaxBody is the longest request body; a longer one gets 413. Default: 0B, no bound.
	MaxBody Size `yaml:"max_body" default:"0B" min:"0B" max:"1TB"`
	// HoldBody is how much of a request body is received before a connection to the upstream is
	// taken, so that slow clients do not occupy those; the rest of a longer body is streamed, and
	// everything is while a loop holds 32MB. Default: 64KB. 0B streams from the first byte. Hazard:
	// a client that waits for an answer before it sends the rest of its body waits in vain; set 0B
	// on its route.
	HoldBody Size `yaml:"hold_body" default:"64KB" min:"0B" max:"64KB"`
	// StripPrefix takes a leading part off the path before it is forwarded. Default: none.
	StripPrefix string `yaml:"strip_prefix"`
	// Rewrite replaces the path; it may use the pattern's {name} values and ${variables}. Default:
	// none.
	Rewrite string `yaml:"rewrite" template:"true"`
	// ForwardPath says in which form an unchanged path is forwarded: "canonical" is the form that
	// was matched, without "." and ".." segments and empty ones and with only the encodings that
	// are needed; "as_sent" is what the client sent. Both are matched by the canonical form.
	// Default: "canonical". With as_sent a path with "." or ".." segments, encoded or not, gets
	// 400. Hazard: the service may still read a path differently from the gateway, and so serve
	// with "/a//admin" what another route protects; use as_sent only for services that sign or
	// store paths byte for byte. It excludes rewrite and strip_prefix.
	ForwardPath string `yaml:"forward_path" default:"canonical" enum:"canonical,as_sent"`
	// Via is the name by which this gateway adds itself to the Via header of requests and
	// responses (RFC 9110, section 7.6.3), a token such as "edge-1". Default: none, Via is passed
	// on as it came.
	Via string `yaml:"via"`
	// RequestHeaders are changed before the request is forwarded. Values may use ${variables}.
	// Names that are removed or set also go from the request's trailers.
	RequestHeaders HeaderOps `yaml:"request_headers"`
	// ResponseHeaders are changed before the response goes to the client. Values may use
	// ${variables}. Names that are removed or set also go from the response's trailers and from
	// interim (1xx) responses.
	ResponseHeaders HeaderOps `yaml:"response_headers"`
	// RequestID keeps a trusted peer's X-Request-Id or makes one, forwards it and returns it.
	// Default: false.
	RequestID bool `yaml:"request_id" default:"false"`
	// Trace passes traceparent on, or begins one. Default: false.
	Trace bool `yaml:"trace" default:"false"`
	// Access allows and denies client addresses. Default: everyone.
	Access *Access `yaml:"access"`
	// CORS answers preflights and adds the response headers that browsers ask for. Default: none.
	CORS *CORS `yaml:"cors"`
	// Mirror sends a copy of each request to a second upstream, whose answers are thrown away.
	// Default: none.
	Mirror *Mirror `yaml:"mirror"`
	// Fallback answers where the upstream failed or the request was shed. Default: none. The class
	// must allow the step static; see degrade of classes.
	Fallback *Fallback `yaml:"fallback"`

	at Position
}

// Position is where the route begins in its file.
func (r *Route) Position() Position { return r.at }

// When are conditions on a request beside its pattern.
type When struct {
	// Headers: name to the exact value; "*" for any value, "" for absent.
	Headers map[string]string `yaml:"headers"`
	// Query: name to the exact value; "*" for any value, "" for absent.
	Query map[string]string `yaml:"query"`
}

// Split sends shares of a route's requests to several upstreams.
type Split struct {
	// Weights of the upstreams by name. At least one must be above 0. Required.
	Weights map[string]int `yaml:"weights" required:"true" min:"0" max:"1000"`
	// Sticky keeps a client on one upstream by a hash of "client_address", "header:NAME" or
	// "cookie:NAME". Default: none, each request is drawn independently.
	Sticky string `yaml:"sticky"`
}

// HeaderOps change header fields: remove first, then set, then add.
type HeaderOps struct {
	// Add appends fields.
	Add map[string]string `yaml:"add" template:"true"`
	// Set replaces fields, or adds them.
	Set map[string]string `yaml:"set" template:"true"`
	// Remove takes fields out.
	Remove []string `yaml:"remove"`
}

// Access allows and denies client addresses; the most specific prefix decides.
type Access struct {
	// Allow lists addresses and CIDR prefixes. Default: empty, which allows everyone whom deny does
	// not name. When it is not empty, an address that no prefix names is denied.
	Allow []string `yaml:"allow"`
	// Deny lists addresses and CIDR prefixes. Default: empty.
	Deny []string `yaml:"deny"`
}

// CORS is what browsers are told about requests from other origins.
type CORS struct {
	// Origins allowed: exact ("https://a.example"), with one leading wildcard label
	// ("https://*.a.example"), or "*". Required.
	Origins []string `yaml:"origins" required:"true"`
	// Methods allowed. Default: GET, HEAD, POST.
	Methods []string `yaml:"methods" default:"GET,HEAD,POST"`
	// Headers that requests may carry. Default: none beyond the safelisted.
	Headers []string `yaml:"headers"`
	// Expose lists response headers that scripts may read. Default: none beyond the safelisted.
	Expose []string `yaml:"expose"`
	// Credentials allows cookies. Default: false. It cannot be combined with the origin "*".
	Credentials bool `yaml:"credentials" default:"false"`
	// MaxAge is how long a browser may remember a preflight. Default: 10m.
	MaxAge Duration `yaml:"max_age" default:"10m" min:"0s" max:"24h"`
}

// Mirror sends copies of requests to a second upstream.
type Mirror struct {
	// Upstream that gets the copies. Required.
	Upstream string `yaml:"upstream" required:"true"`
	// Share of requests that are copied. Default: 100%.
	Share *Percent `yaml:"share" default:"100%"`
	// MaxBody is the longest body that is copied; requests with longer ones are not mirrored, and
	// counted. Default: 64KB.
	MaxBody Size `yaml:"max_body" default:"64KB" min:"0B" max:"16MB"`
}

// Admin is the listener for people and machines that run the gateway.
type Admin struct {
	// Address to listen on. Required. Off loopback, a token is demanded.
	Address string `yaml:"address" required:"true"`
	// Token that requests must carry as "Authorization: Bearer TOKEN". Default: none, which only a
	// loopback address may have.
	Token string `yaml:"token" secret:"true"`
}

// AccessLog writes one line for each exchange.
type AccessLog struct {
	// Path of the file, or "stdout". Required. The directory must exist.
	Path string `yaml:"path" required:"true"`
	// Format: "json" or "combined". Default: "json".
	Format string `yaml:"format" default:"json" enum:"json,combined"`
	// MaxSize after which the file is rotated. Default: 100MB. 0B never rotates.
	MaxSize *Size `yaml:"max_size" default:"100MB" min:"0B" max:"1TB"`
	// Keep is how many rotated files are kept. Default: 5.
	Keep *int `yaml:"keep" default:"5" min:"0" max:"1000"`
}

// Drain is how a stop treats the exchanges under way.
type Drain struct {
	// Timeout after which exchanges under way are cut. Default: 30s.
	Timeout Duration `yaml:"timeout" default:"30s" min:"0s" max:"24h"`
}
