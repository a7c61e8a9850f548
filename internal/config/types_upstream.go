package config

// Upstream is a named service.
type Upstream struct {
	// Targets are the service's addresses: "host:port", "unix:/path", or {address, weight}. A host
	// name is resolved again when its TTL runs out, and each of its addresses becomes a target. At
	// least one is required.
	Targets []Target `yaml:"targets" required:"true"`
	// Balance says how a target is chosen: "p2c" (the better of two random targets, by requests in
	// flight and latency), "round_robin" (smooth, weighted), "least_requests", "random", or {hash:
	// KEY}, where KEY is "client_address", "header:NAME", "cookie:NAME" or "path:NAME". Default:
	// "p2c".
	Balance Balance `yaml:"balance"`
	// Health takes targets that do not work out of use. Default: passive ejection only, with its
	// defaults.
	Health Health `yaml:"health"`
	// Pool limits the connections to each target.
	Pool Pool `yaml:"pool"`
	// Breaker stops sending requests to a failing target for a while. Default: none. {} gives one
	// that opens when more than 40% of at least 20 requests failed in 5s.
	Breaker *Breaker `yaml:"breaker"`
	// Concurrency limits how many requests are at each target at once: {mode, limit, min, max,
	// max_latency}, or just a mode. It protects a service from more load than it can carry. With
	// "adaptive", it finds the limit by itself. Default: none, only the number of connections
	// limits requests.
	Concurrency *Concurrency `yaml:"concurrency"`
	// MaxConcurrency limits how many requests are at all targets together, over all loops. It is
	// for what the targets share, such as a database behind them or a licence. Requests over the
	// limit wait as with concurrency, for the same time. Default: 0, no limit. Hazard: each
	// instance of the gateway applies this limit separately, although all instances share what it
	// protects.
	MaxConcurrency int `yaml:"max_concurrency" default:"0" min:"0" max:"1000000"`
	// Retry says which failed requests are retried.
	Retry Retry `yaml:"retry"`
	// TLS turns on TLS for the connections to the targets. Default: plain text.
	TLS *UpstreamTLS `yaml:"tls"`
	// Protocol is the protocol of the connections to the targets: "http1", "h2" (HTTP/2 over TLS),
	// "h2c" (HTTP/2 without TLS, by prior knowledge) or "auto" (over TLS, what the target chooses
	// by ALPN). gRPC needs HTTP/2. Default: "auto" with tls, "http1" without. Hazard: HTTP/2
	// carries many requests on one connection, so one lost packet delays all of them.
	Protocol string `yaml:"protocol" enum:"auto,http1,h2,h2c"`
	// SlowStart is how long it takes until a target that is new or back in use gets its full share
	// of requests. Default: 0s, at once.
	SlowStart Duration `yaml:"slow_start" default:"0s" min:"0s" max:"1h"`
	// LoadLine is a file that plimsoll survey --export wrote for one of the targets. The gateway's
	// estimate of what the targets can carry starts with it, until there is enough traffic.
	// Default: none. Hazard: a file from another mix of requests or another machine misleads the
	// estimate. If the gateway notices that, it gives the file less weight.
	LoadLine string `yaml:"load_line" file:"true"`

	// Line is what LoadLine held when the configuration was loaded.
	Line []byte `yaml:"-"`

	at Position
}

// Class is an SLA class.
type Class struct {
	// Availability is the share of the class's requests that must get a good answer in time. It
	// must be below 100%: the rest is the error budget. Default: that of the class, see classes.
	Availability *Percent `yaml:"availability"`
	// Latency is how long an answer may take. Default: that of the class, see classes.
	Latency *Duration `yaml:"latency" min:"1ms" max:"10m"`
	// Patience is how long a request may wait for its turn at an overloaded service, if the
	// upstream limits its concurrency. The upstream's pool.pending_timeout applies too if it is
	// shorter. Default: the latency. Hazard: if it is longer than clients wait, the service is busy
	// with answers that nobody reads.
	Patience *Duration `yaml:"patience" min:"1ms" max:"10m"`
	// Degrade lists what requests of the class may get if there is no live answer: "cache" is a
	// stored answer that is fresh, "stale" is a stored answer that is not, and "static" is the
	// fallback of the route. They are tried in this order, in whatever order they are listed.
	// "cache" and "stale" need a route with cache, and are served as far as the service and that
	// cache allow it. "static" needs a route with fallback. What the cache serves while nothing
	// fails is not affected: all classes get it. Default: [] for P0, [cache, stale] for P1, [cache,
	// stale, static] for all others. Hazard: a client that ignores X-Degraded takes a static answer
	// with status 200 for a good one.
	Degrade []string `yaml:"degrade" enum:"cache,stale,static"`
}

// Concurrency limits how many requests are at each target of an upstream at once. Further requests
// wait in the gateway, by SLA class, and clients take turns within a class. Each request waits for
// at most the patience of its class. When a client's oldest request has waited for half of it, the
// client's newest requests go first. A request that would clearly have to wait longer than its
// patience is refused at once.
type Concurrency struct {
	// Mode is "adaptive", "aimd" or "fixed". With "adaptive", the limit follows what the target can
	// serve without a queue of its own, and is found from passing traffic alone. With "aimd", it
	// grows by one while answers are fast, and shrinks when they fail or are slower than
	// max_latency. Default: "adaptive".
	Mode string `yaml:"mode" default:"adaptive" enum:"adaptive,aimd,fixed" scalar:"true"`
	// Limit is the limit with mode fixed, where it is required. With the other modes, it is the
	// initial limit. Default: 20. Hazard: a service that works on hundreds of requests at once, and
	// takes long for each, loses requests until the limit has grown.
	Limit int `yaml:"limit" default:"20" min:"1" max:"100000"`
	// Min is the lowest value that the limit can take. Default: 1.
	Min int `yaml:"min" default:"1" min:"1" max:"100000"`
	// Max is the highest value that the limit can take. Default: 10000.
	Max int `yaml:"max" default:"10000" min:"1" max:"100000"`
	// MaxLatency is how long an answer may take on average, with mode aimd. Default: 500ms.
	MaxLatency Duration `yaml:"max_latency" default:"500ms" min:"1ms" max:"10m"`
}

// Breaker stops sending requests to a target or an upstream that fails. While it is closed, all
// requests pass. While it is open, for open_for, none do. Then it is half-open, and a few trials
// pass. If they succeed, it is ramping: the share of requests that pass rises to all of them over
// ramp. A request that no target's breaker lets through gets 503 with Retry-After.
type Breaker struct {
	// Scope is "target" (one breaker for each target) or "upstream" (one for all targets). Default:
	// "target".
	Scope string `yaml:"scope" default:"target" enum:"target,upstream"`
	// ConsecutiveFailures opens the breaker after this many failures in a row: connection failures,
	// broken answers, timeouts and any 5xx. Default: 0, off.
	ConsecutiveFailures int `yaml:"consecutive_failures" default:"0" min:"0" max:"1000000"`
	// FailureRatio opens the breaker when more than this share of the requests in the window
	// failed. Default: 40%, or off if another rule is given. 0% turns it off.
	FailureRatio *Percent `yaml:"failure_ratio"`
	// SlowRatio opens the breaker when more than this share of the requests in the window took
	// longer than slow_over. Default: 0%, off.
	SlowRatio Percent `yaml:"slow_ratio" default:"0%"`
	// SlowOver is the time to the response's head above which a request is slow. Required with
	// slow_ratio. Default: 0s.
	SlowOver Duration `yaml:"slow_over" default:"0s" min:"0s" max:"1h"`
	// Window is the period over which the two ratios are measured. Default: 5s.
	Window Duration `yaml:"window" default:"5s" min:"100ms" max:"1h"`
	// MinRequests is how many requests the window must contain before a ratio counts. Default: 20.
	MinRequests int `yaml:"min_requests" default:"20" min:"1" max:"1000000"`
	// Adaptive opens the breaker when a score of P99 latency, failures and saturation is above a
	// threshold. The threshold adapts. Default: none. {} gives one with its defaults.
	Adaptive *AdaptiveBreaker `yaml:"adaptive"`
	// OpenFor is how long the breaker stays open. Default: 20s.
	OpenFor Duration `yaml:"open_for" default:"20s" min:"10ms" max:"24h"`
	// Trials is how many requests are tried at a time when open_for is over. The same number must
	// succeed. Default: 3.
	Trials int `yaml:"trials" default:"3" min:"1" max:"64"`
	// Ramp is how long it takes, after successful trials, to go from a tenth of the requests to all
	// of them. Default: 10s.
	Ramp Duration `yaml:"ramp" default:"10s" min:"0s" max:"1h"`
}

// AdaptiveBreaker computes a score from 0 to 1 from the latency, errors and saturation of a
// service.
type AdaptiveBreaker struct {
	// LatencyOver is the P99 latency above which latency counts. Default: 500ms.
	LatencyOver Duration `yaml:"latency_over" default:"500ms" min:"1ms" max:"1h"`
	// LatencyWeight is the weight of latency. The three weights must add up to 1. Default: 0.3.
	LatencyWeight *float64 `yaml:"latency_weight" default:"0.3" min:"0" max:"1"`
	// ErrorWeight is the weight of the share of failures. Default: 0.2.
	ErrorWeight *float64 `yaml:"error_weight" default:"0.2" min:"0" max:"1"`
	// SaturationWeight is the weight of the share of max_connections that is in use. Default: 0.5.
	SaturationWeight *float64 `yaml:"saturation_weight" default:"0.5" min:"0" max:"1"`
	// Threshold is the initial threshold: the breaker opens when the score is above it. Default:
	// 0.3.
	Threshold *float64 `yaml:"threshold" default:"0.3" min:"0.2" max:"0.6"`
}

// Position is where the upstream's mapping begins in its file.
func (u *Upstream) Position() Position { return u.at }

// Target is one address of an upstream.
type Target struct {
	// Address is "host:port", "[v6]:port" or "unix:/path". Required.
	Address string `yaml:"address" required:"true" scalar:"true"`
	// Weight is this target's share of requests, relative to the other targets. Default: 1. 0 takes
	// it out of use.
	Weight *int `yaml:"weight" default:"1" min:"0" max:"1000"`
}

// Balance says how a target is chosen.
type Balance struct {
	// Policy is "p2c", "round_robin", "least_requests", "random" or "hash". Default: "p2c".
	Policy string `yaml:"policy" default:"p2c" enum:"p2c,round_robin,least_requests,random,hash" scalar:"true"`
	// Hash is the value that is hashed: "client_address", "header:NAME", "cookie:NAME" or
	// "path:NAME". It is required with policy hash, and implies that policy.
	Hash string `yaml:"hash"`
}

// Health says how targets that do not work are found.
type Health struct {
	// Active checks each target at an interval. Default: none.
	Active *ActiveHealth `yaml:"active"`
	// Passive watches the real traffic. Default: on, with its defaults. {disabled: true} turns it
	// off.
	Passive PassiveHealth `yaml:"passive"`
	// Panic is the minimum share of usable targets. If fewer are usable, all targets are used
	// again, because a wrong health check is more likely than so many failures. If the active
	// checks have found every target down, nothing is left to try, and requests get 503 at once.
	// Default: 30%. 0% turns it off.
	Panic *Percent `yaml:"panic" default:"30%"`
}

// ActiveHealth checks at an interval whether each target is healthy.
type ActiveHealth struct {
	// Path of the light check. A target that answers 2xx or 3xx is healthy. Either path or grpc is
	// required.
	Path string `yaml:"path" one:"true"`
	// GRPC makes the checks calls of grpc.health.v1.Health/Check over HTTP/2, whatever the
	// upstream's protocol: {service, deep_service}, or just the service. Only a target that answers
	// SERVING is healthy. A server without the health service is not. Default: none.
	GRPC *GRPCHealth `yaml:"grpc" one:"true"`
	// Host header of the checks. Default: the target's address.
	Host string `yaml:"host"`
	// Interval of the light check. Default: 3s.
	Interval Duration `yaml:"interval" default:"3s" min:"100ms" max:"24h"`
	// Timeout of the light check. Default: 1s.
	Timeout Duration `yaml:"timeout" default:"1s" min:"10ms" max:"10m"`
	// DeepPath is the path of the deep check, which may test what the service depends on. Default:
	// none.
	DeepPath string `yaml:"deep_path"`
	// DeepInterval is the interval of the deep check. Default: 5m.
	DeepInterval Duration `yaml:"deep_interval" default:"5m" min:"1s" max:"24h"`
	// DeepTimeout is the timeout of the deep check. Default: 5s.
	DeepTimeout Duration `yaml:"deep_timeout" default:"5s" min:"10ms" max:"10m"`
	// UnhealthyAfter is how many failures in a row take a target out of use. Default: 3.
	UnhealthyAfter int `yaml:"unhealthy_after" default:"3" min:"1" max:"100"`
	// HealthyAfter is how many successes in a row bring a target back. Default: 2.
	HealthyAfter int `yaml:"healthy_after" default:"2" min:"1" max:"100"`
}

// GRPCHealth names the services whose health the gRPC checks ask for.
type GRPCHealth struct {
	// Service that the light check asks for. Default: none, the check asks for the server as a
	// whole.
	Service string `yaml:"service" scalar:"true"`
	// DeepService is the service that the deep check asks for. Default: none, no deep check.
	DeepService string `yaml:"deep_service"`
}

// PassiveHealth ejects targets whose answers to real traffic are bad.
type PassiveHealth struct {
	// Disabled turns passive ejection off. Default: false.
	Disabled bool `yaml:"disabled" default:"false"`
	// ConsecutiveFailures is how many failures in a row eject a target: connection failures, broken
	// answers, timeouts, and 502, 503 or 504. Default: 5. 0 turns this rule off.
	ConsecutiveFailures *int `yaml:"consecutive_failures" default:"5" min:"0" max:"10000"`
	// SuccessRateDeviations ejects a target whose success rate is more than this many standard
	// deviations below the mean of the other targets. Rates are compared over 10s, if at least 3
	// targets had at least 100 requests each. Default: 1.9. 0 turns this rule off.
	SuccessRateDeviations *float64 `yaml:"success_rate_deviations" default:"1.9" min:"0" max:"10"`
	// EjectFor is how long the first ejection lasts. Each further ejection in a row lasts this much
	// longer, up to ten times as long. Default: 10s.
	EjectFor Duration `yaml:"eject_for" default:"10s" min:"100ms" max:"1h"`
	// MaxEjected is the maximum share of an upstream's targets that may be ejected at once. One
	// target may always be ejected, unless it is the only one. Default: 50%.
	MaxEjected *Percent `yaml:"max_ejected" default:"50%"`
}

// Pool limits the connections to each target.
type Pool struct {
	// MaxConnections is the maximum number of connections to one target, over all loops. Default:
	// 1024. An HTTP/2 connection carries many requests and stays on its loop. With protocol h2 or
	// h2c, each loop may therefore have one, even if this number is lower. Hazard: with protocol
	// auto and fewer connections than loops, requests on a loop without a connection wait until one
	// is closed, or until they have waited too long.
	MaxConnections int `yaml:"max_connections" default:"1024" min:"1" max:"1000000"`
	// MaxPending is how many requests may wait for a connection to an upstream, on each loop. More
	// get 503. Default: 1024.
	MaxPending int `yaml:"max_pending" default:"1024" min:"0" max:"1000000"`
	// PendingTimeout is how long a request may wait for a connection. After that, it gets 503.
	// Default: 5s.
	PendingTimeout Duration `yaml:"pending_timeout" default:"5s" min:"1ms" max:"10m"`
	// MaxIdle is the maximum number of idle connections to one target, over all loops. Default:
	// 1024. Hazard: if more requests than this are in flight, connections are opened and closed all
	// the time.
	MaxIdle int `yaml:"max_idle" default:"1024" min:"0" max:"1000000"`
	// IdleTimeout is how long an idle connection is kept. Default: 55s. Hazard: keep it shorter
	// than the service's own idle timeout. Otherwise requests are sent on connections that the
	// service is closing.
	IdleTimeout Duration `yaml:"idle_timeout" default:"55s" min:"10ms" max:"24h"`
	// MaxRequests is the maximum number of requests on one connection. After that, it is closed.
	// Default: 0, no limit.
	MaxRequests int `yaml:"max_requests" default:"0" min:"0" max:"1000000000"`
	// ConnectTimeout is the maximum time to open a connection, TLS included. It also limits how
	// long a request waits for a place in the accept queue of a target on a unix socket. If it gets
	// none, that counts as a connection that took too long. Default: 2s.
	ConnectTimeout Duration `yaml:"connect_timeout" default:"2s" min:"1ms" max:"10m"`
}

// Retry says which failed requests are retried. A retry goes to another target if there is one.
type Retry struct {
	// Attempts is how many times a request may be retried. Default: 1. 0 turns retries off.
	Attempts *int `yaml:"attempts" default:"1" min:"0" max:"5"`
	// On lists the outcomes that are retried: "connect" (the connection was refused, or was not
	// made in time), "reset" (the connection broke before the response's head was complete),
	// "timeout" (per_try_timeout), and the statuses "502", "503" and "504". Default: connect,
	// reset. A request that is not idempotent is retried only if nothing of it was sent. The gRPC
	// statuses "grpc-aborted", "grpc-cancelled", "grpc-deadline-exceeded", "grpc-internal",
	// "grpc-resource-exhausted" and "grpc-unavailable" are retried if a call ends with one before
	// its first message, and its client has sent no more than hold_body. Hazard: the service may
	// have executed such a call, and the gateway cannot tell which methods are safe to repeat. Give
	// methods that are not safe an upstream of their own.
	On []string `yaml:"on" default:"connect,reset" enum:"connect,reset,timeout,502,503,504,grpc-aborted,grpc-cancelled,grpc-deadline-exceeded,grpc-internal,grpc-resource-exhausted,grpc-unavailable"`
	// PerTryTimeout is how long one try may wait for a response head, from when the target has the
	// whole request. Default: 0s, only the route's timeout applies.
	PerTryTimeout Duration `yaml:"per_try_timeout" default:"0s" min:"0s" max:"1h"`
	// Budget limits the retries to a share of the upstream's requests in the last second. After a
	// time without failures, at most half of that may come at once. Ten retries per second are
	// always allowed. Default: 20%. Hazard: a high budget turns a service's bad minute into a retry
	// storm.
	Budget *Percent `yaml:"budget" default:"20%"`
}

// UpstreamTLS configures TLS for connections that the gateway opens.
type UpstreamTLS struct {
	// CA is the file with the certificates of the authorities that may issue the servers'
	// certificates. Default: the system's.
	CA string `yaml:"ca" file:"true"`
	// ServerName is the name that the gateway asks for (SNI) and verifies. Default: the target's
	// host.
	ServerName string `yaml:"server_name"`
	// Cert is the PEM file with the gateway's client certificate. Default: none.
	Cert string `yaml:"cert" file:"true"`
	// Key is the PEM file with the private key of cert. Required with cert.
	Key string `yaml:"key" file:"true"`
	// InsecureSkipVerify accepts any certificate. Default: false. Hazard: anyone on the network
	// path can read and change the traffic.
	InsecureSkipVerify bool `yaml:"insecure_skip_verify" default:"false"`
}
