package config

// RateLimit sets how many requests pass in a given time, for each value of a key.
type RateLimit struct {
	// Name of the limit in metrics, in the admin API and in the RateLimit fields of responses. A
	// reload keeps the counts of a limit whose name, key, prefixes, algorithm and values are
	// unchanged. Default: its position in the list, "1" for the first.
	Name string `yaml:"name"`
	// Rate is how many requests pass in a given time: "N/s", "N/m", "N/h" and "N/d" are per second,
	// minute, hour and day. "N/DURATION" sets another time, such as "20/10s". Required.
	Rate string `yaml:"rate" required:"true"`
	// Algorithm says how requests are counted. "token_bucket" lets a burst pass at once, then the
	// rate. "gcra" does the same, but its burst is 1 by default, so requests keep their distance.
	// "leaky_bucket" makes requests wait for their turn. "fixed_window" counts in fixed windows,
	// and lets up to twice the number pass around the edge of two. "sliding_window" also counts a
	// weighted share of the previous window. "sliding_log" is exact and takes memory for each
	// request. Default: "token_bucket".
	Algorithm string `yaml:"algorithm" default:"token_bucket" enum:"token_bucket,gcra,leaky_bucket,fixed_window,sliding_window,sliding_log"`
	// Burst is how many requests may come at once after a quiet time, with token_bucket and gcra.
	// Default: with token_bucket, the number in rate. With gcra, the cost of one request.
	Burst *int `yaml:"burst" min:"1" max:"1000000000"`
	// Cost of a request: a number, or {tokens, header, max} if trusted peers say what their
	// requests cost. It is subtracted from what the rate and the burst allow. Default: 1.
	Cost RequestCost `yaml:"cost"`
	// Key is the part of a request whose values are counted separately: "client_address",
	// "header:NAME", "cookie:NAME", "path:NAME" or "query:NAME". Default: none, all requests of the
	// route count together. Hazard: clients choose their headers. A limit on a header that nobody
	// verifies affects only honest clients.
	Key string `yaml:"key"`
	// PrefixV4 is how many leading bits of a client's IPv4 address count. Default: 32.
	PrefixV4 int `yaml:"prefix_v4" default:"32" min:"1" max:"32"`
	// PrefixV6 is how many leading bits of a client's IPv6 address count. Default: 64, which is the
	// smallest network that a provider gives to a customer. Hazard: with 128, a single machine has
	// more addresses than any limit can count.
	PrefixV6 int `yaml:"prefix_v6" default:"64" min:"1" max:"128"`
	// Missing says what happens to requests without the key: they count "together", as one value,
	// or "pass", and the limit does not apply to them. Default: "together".
	Missing string `yaml:"missing" default:"together" enum:"together,pass"`
	// Values is how many values are counted separately, rounded up to a power of two. Each takes 31
	// bytes. When all are in use, new values share buckets with others. Each shared bucket has the
	// limit's rate. Default: 0, which means 65536, or with sliding_log as many as fit in 32MB. A
	// change resets the counts.
	Values int `yaml:"values" default:"0" min:"0" max:"16777216"`
	// Queue is how many requests of one value may wait with leaky_bucket. More get 429. Default:
	// 100.
	Queue int `yaml:"queue" default:"100" min:"1" max:"1000000"`
	// MaxWait is how long a request may wait with leaky_bucket. One that would have to wait longer
	// gets 429 at once. Required with leaky_bucket, and must be shorter than the route's timeout.
	// Default: 0s.
	MaxWait Duration `yaml:"max_wait" default:"0s" min:"0s" max:"24h"`
	// Overrides give single values of the key another limit: a rate, or {rate, burst}. Write an
	// address as its network, such as 192.0.2.7 or 2001:db8:1:2::/64. With sliding_log, each
	// override takes 8 bytes for each request in its rate, from the start, and all overrides of a
	// limit may take 1GB together.
	Overrides map[string]RateOverride `yaml:"overrides"`
	// DryRun counts the requests that the limit would refuse, and lets them pass. Default: false.
	DryRun bool `yaml:"dry_run" default:"false"`
	// Headers says which responses carry the RateLimit and RateLimit-Policy fields
	// (draft-ietf-httpapi-ratelimit-headers-11): "refused" (only those to refused requests),
	// "always" or "never". Default: "refused". Retry-After is in every refusal.
	Headers string `yaml:"headers" default:"refused" enum:"refused,always,never"`
	// Shared makes all instances count together, in Redis. It cannot be used with leaky_bucket and
	// sliding_log. docs/protection-limits.md says what the modes guarantee. Default: each instance
	// counts on its own.
	Shared *SharedLimit `yaml:"shared"`
}

// RequestCost is how much of a limit a request uses up.
type RequestCost struct {
	// Tokens is the cost of a request that does not give its own. Default: 1.
	Tokens int `yaml:"tokens" default:"1" min:"1" max:"1000000" scalar:"true"`
	// Header is the name of a header field, such as X-Cost, in which the trusted peers of a
	// listener (trusted_proxies) give the cost of a request, from 1 to max. A larger number counts
	// as max, and anything else as tokens. The field is ignored if it comes from other clients. It
	// cannot be used with sliding_log or with shared. Default: none.
	Header string `yaml:"header"`
	// Max is the maximum cost that header can give. Required with header. Default: 0.
	Max int `yaml:"max" default:"0" min:"0" max:"1000000"`
}

// SharedLimit makes the instances of a gateway count together. Limits with the same route, name,
// algorithm, key and prefixes share their counts.
type SharedLimit struct {
	// Redis is the name of the Redis that keeps the counts. Required.
	Redis string `yaml:"redis" required:"true" scalar:"true"`
	// Mode is "exact" or "leased". "exact" asks Redis for each decision. "leased" takes batches of
	// requests from Redis and decides locally. Few requests then wait for Redis, but each instance
	// may let up to a batch pass beyond the limit. Default: "exact".
	Mode string `yaml:"mode" default:"exact" enum:"exact,leased"`
	// Batch is the maximum number of requests in a lease, with mode leased. Default: 0, which means
	// a tenth of the burst, or, with windows, of the number in rate.
	Batch int `yaml:"batch" default:"0" min:"0" max:"10000"`
	// Unavailable says what happens to a request if Redis does not answer in time: "local" (this
	// instance's own limit decides: see instances), "allow" (it passes) or "deny" (it gets 503).
	// Default: "local". Hazard: with deny, an outage of Redis is an outage of the route.
	Unavailable string `yaml:"unavailable" default:"local" enum:"local,allow,deny"`
	// Instances is how many instances share the limit while Redis is unavailable, with local. Each
	// lets an equal part of it pass. Default: 1, each instance lets the whole limit pass.
	Instances int `yaml:"instances" default:"1" min:"1" max:"100000"`
}

// RouteConcurrency limits how many requests of a route are in flight at once, over all loops of
// this instance. A request counts from when the rate limits let it pass until the exchange is over,
// retries and waiting included. Tunnels and event streams count until they end. Requests over the
// limit are refused at once and never wait. At least one of max and max_per_value is required. To
// protect a target from more than it can carry, use the upstream's concurrency: it finds the limit
// by itself, and lets requests wait by class.
type RouteConcurrency struct {
	// Max is the maximum number of requests of the route. One more gets 503 with the reason
	// route_full. Default: 0, no limit.
	Max int `yaml:"max" default:"0" min:"0" max:"1000000" scalar:"true"`
	// Key is the part of a request whose values max_per_value limits separately: "client_address"
	// (IPv6 clients by their /64), "header:NAME", "cookie:NAME", "path:NAME" or "query:NAME".
	// Default: none. Hazard: many users can share one address, and clients choose their headers.
	Key string `yaml:"key"`
	// MaxPerValue is the maximum number of requests of each value of the key. One more gets 429
	// with the reason client_full. Default: 0, no limit.
	MaxPerValue int `yaml:"max_per_value" default:"0" min:"0" max:"65535"`
	// Missing says what happens to requests without the key: they count "together", as one value,
	// or "pass", and count only towards max. Default: "together".
	Missing string `yaml:"missing" default:"together" enum:"together,pass"`
	// Values is how many values are counted separately, rounded up to a power of two. Each takes 4
	// bytes. When many more than a tenth of them have requests in flight, some values count
	// together. Default: 65536. A change resets the counts of values.
	Values int `yaml:"values" default:"65536" min:"2" max:"16777216"`
}

// RateOverride is the limit of one value.
type RateOverride struct {
	// Rate of this value, in the form of the limit's rate. Required.
	Rate string `yaml:"rate" required:"true" scalar:"true"`
	// Burst of this value. Default: the limit's burst, scaled by the ratio of the rates.
	Burst *int `yaml:"burst" min:"1" max:"1000000000"`
}
