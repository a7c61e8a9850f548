package config

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
	// Concurrency limits how many requests are at each target at once: {mode, limit, min, max}, or
	// a mode alone. It protects a service from more than it can carry, and needs no number:
	// "adaptive" finds it. Default: none, as many as there may be connections.
	Concurrency *Concurrency `yaml:"concurrency"`
	// MaxConcurrency is how many requests may be at all targets together, over all loops. It is for
	// what the targets share: a database behind them, a licence. Those beyond wait as with
	// concurrency, and for as long. Default: 0, no bound. Hazard: what it protects is shared by all
	// instances of the gateway, and each of them has this bound for itself.
	MaxConcurrency int `yaml:"max_concurrency" default:"0" min:"0" max:"1000000"`
	// Retry says which failed requests are tried again.
	Retry Retry `yaml:"retry"`
	// TLS makes the connections to the targets TLS. Default: plain text.
	TLS *UpstreamTLS `yaml:"tls"`
	// Protocol is what connections to the targets speak: "http1", "h2" (HTTP/2 over TLS), "h2c"
	// (HTTP/2 without TLS, by prior knowledge) or "auto" (with TLS, what the target picks by ALPN).
	// gRPC needs HTTP/2. Default: "auto" with tls, "http1" without. Hazard: HTTP/2 has many
	// requests on one connection, so that one lost packet delays all of them.
	Protocol string `yaml:"protocol" enum:"auto,http1,h2,h2c"`
	// SlowStart is the time over which a target that is new or back gets its full share. Default:
	// 0s, at once.
	SlowStart Duration `yaml:"slow_start" default:"0s" min:"0s" max:"1h"`
	// LoadLine is a file that plimsoll survey --export wrote for one of the targets. The estimate
	// of what they can carry starts with it, until there is enough traffic. Default: none. Hazard:
	// a line of another mix or machine misleads the estimate; where that shows, it counts for less.
	LoadLine string `yaml:"load_line" file:"true"`

	// Line is what LoadLine held when the configuration was loaded.
	Line []byte `yaml:"-"`

	at Position
}

// Class is an SLA class.
type Class struct {
	// Availability is the share of the class's requests that must get a good answer in time, below
	// 100%: what may fail is the error budget. Default: the class's, see classes.
	Availability *Percent `yaml:"availability"`
	// Latency is how long an answer may take. Default: the class's, see classes.
	Latency *Duration `yaml:"latency" min:"1ms" max:"10m"`
	// Patience is how long a request may wait for its turn at a service that is overloaded, where
	// the upstream limits its concurrency. Default: the latency. Hazard: if it is longer than
	// clients wait, the service is kept busy with answers that nobody reads.
	Patience *Duration `yaml:"patience" min:"1ms" max:"10m"`
	// Degrade lists what the class's requests may get where the live answer cannot be had: "cache"
	// is a stored answer that is fresh, "stale" one that is not, as far as the service and the
	// cache of their route allow it, and "static" is the fallback of their route. They are tried in
	// this order, however they are listed. A route without cache has neither of the first two, and
	// one without fallback not the third. This does not concern what the cache serves while nothing
	// fails: all classes get that. Default: [] for P0, [cache, stale] for P1, [cache, stale,
	// static] for all others. Hazard: to a client that does not look at X-Degraded, a static answer
	// with status 200 is a good one.
	Degrade []string `yaml:"degrade" enum:"cache,stale,static"`
}

// Concurrency limits how many requests are at each target of an upstream at once. Those that find
// no place wait in the gateway, by SLA class, clients in turn, each for at most its class's
// patience; newer ones go first when the oldest have waited for half of it, and a request that
// would clearly wait for longer is refused at once.
type Concurrency struct {
	// Mode is "adaptive" (the limit follows what the target can serve without a queue of its own,
	// found from passing traffic alone), "aimd" (the limit grows by one while answers are quick,
	// and shrinks when they fail or are slower than max_latency) or "fixed". Default: "adaptive".
	Mode string `yaml:"mode" default:"adaptive" enum:"adaptive,aimd,fixed" scalar:"true"`
	// Limit is the number for mode fixed, and where the others begin. Default: 20. Hazard: a
	// service that works on hundreds at once and takes long for each loses requests until the limit
	// has grown.
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
	// FailureRatio opens it when more than this share of the requests in the window failed.
	// Default: 40%, unless another rule is given; 0% is off.
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
	// Adaptive opens it by a score of P99 latency, failures and saturation, against a threshold
	// that learns. Default: none; {} for its defaults.
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
	// SaturationWeight of the share of max_connections in use. Default: 0.5.
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
	// Path of the light check. 2xx and 3xx are well. Either path or grpc is required.
	Path string `yaml:"path" one:"true"`
	// GRPC makes the checks calls of grpc.health.v1.Health/Check over HTTP/2, whatever the
	// upstream's protocol: {service, deep_service}, or the service alone. SERVING is well, and
	// everything else is not: a server that lacks the health service too. Default: none.
	GRPC *GRPCHealth `yaml:"grpc" one:"true"`
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

// GRPCHealth names what is asked for in checks by gRPC.
type GRPCHealth struct {
	// Service that the light check asks for. Default: none, which asks for the server as a whole.
	Service string `yaml:"service" scalar:"true"`
	// DeepService that the deep check asks for. Default: none, no deep check.
	DeepService string `yaml:"deep_service"`
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
	// MaxConnections to one target, over all loops. Default: 1024. A connection that carries many
	// requests (HTTP/2) stays on its loop, so with protocol h2 or h2c each loop may have one,
	// however few these are. Hazard: with protocol auto and fewer connections than loops, requests
	// of loops without one wait until one is closed, or their patience is over.
	MaxConnections int `yaml:"max_connections" default:"1024" min:"1" max:"1000000"`
	// MaxPending is how many requests may wait for a connection of an upstream on one loop; more
	// get 503. Default: 1024.
	MaxPending int `yaml:"max_pending" default:"1024" min:"0" max:"1000000"`
	// PendingTimeout is how long a request may wait for a connection; then it gets 503. Default:
	// 5s.
	PendingTimeout Duration `yaml:"pending_timeout" default:"5s" min:"1ms" max:"10m"`
	// MaxIdle connections kept for one target, over all loops. Default: 1024. Hazard: a load of more
	// requests at once than these opens and closes connections all the time.
	MaxIdle int `yaml:"max_idle" default:"1024" min:"0" max:"1000000"`
	// IdleTimeout after which an unused connection is closed. Default: 55s. Hazard: keep it under
	// the service's own, or requests meet connections that are just closing.
	IdleTimeout Duration `yaml:"idle_timeout" default:"55s" min:"10ms" max:"24h"`
	// MaxRequests of one connection before it is closed. Default: 0, no bound.
	MaxRequests int `yaml:"max_requests" default:"0" min:"0" max:"1000000000"`
	// ConnectTimeout is how long it may take to make a connection, TLS included. Default: 2s. It
	// also bounds the wait for a place in the accept queue of a target on a unix socket: a request
	// that gets none counts as a connection that took too long.
	ConnectTimeout Duration `yaml:"connect_timeout" default:"2s" min:"1ms" max:"10m"`
}

// Retry says which failed requests are tried again, on another target where there is one.
type Retry struct {
	// Attempts is how many times a request may be tried again. Default: 1. 0 turns retries off.
	Attempts *int `yaml:"attempts" default:"1" min:"0" max:"5"`
	// On lists the outcomes that are tried again: "connect" (no connection, refused or not made in
	// time), "reset" (the connection broke before the response's head was whole), "timeout"
	// (per_try_timeout), and statuses "502", "503", "504". Default: connect, reset. A request that
	// is not idempotent is tried again only when nothing of it was written. The statuses of gRPC,
	// "grpc-aborted", "grpc-cancelled", "grpc-deadline-exceeded", "grpc-internal",
	// "grpc-resource-exhausted" and "grpc-unavailable", hold for calls that end with them before
	// any message, and have sent no more than hold_body. Hazard: such a call may have been carried
	// out, and no rule tells which methods may be called twice; give those that may not an upstream
	// of their own.
	On []string `yaml:"on" default:"connect,reset" enum:"connect,reset,timeout,502,503,504,grpc-aborted,grpc-cancelled,grpc-deadline-exceeded,grpc-internal,grpc-resource-exhausted,grpc-unavailable"`
	// PerTryTimeout ends one try that has had no response head, counted from when the request is
	// with the target whole. Default: 0s, only the route's timeout counts.
	PerTryTimeout Duration `yaml:"per_try_timeout" default:"0s" min:"0s" max:"1h"`
	// Budget is how many retries there may be, as a share of the upstream's requests in the last
	// second. At most half of that comes at once after a time without failures. Ten a second are
	// always allowed. Default: 20%. Hazard: a high budget turns a service's bad minute into a
	// storm.
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
