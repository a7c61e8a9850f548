package config

// CacheMemory limits the memory for stored responses, for all routes together.
type CacheMemory struct {
	// Memory is how much memory stored responses may take, including the cache's own overhead. When
	// it is full, the least requested responses are evicted. Default: 64MB. A change empties the
	// cache. Hazard: this is part of the process's memory, so any memory limit of the process must
	// have room for it.
	Memory Size `yaml:"memory" default:"64MB" min:"2MB" max:"1TB"`
	// MaxObject is the maximum length of a body that is stored. Longer ones are passed on without
	// storing them. Default: 0B, which means an eighth of memory. That is also the maximum.
	MaxObject Size `yaml:"max_object" default:"0B" min:"0B" max:"1TB"`
	// MaxWaiters is how many requests may wait for one fetch. Further requests go to the service
	// themselves. Default: 100000.
	MaxWaiters int `yaml:"max_waiters" default:"100000" min:"1" max:"10000000"`
	// Redis is a second tier behind the memory, which instances share. A response that is not in
	// memory is looked up there before the service is asked, and a purge applies to all instances.
	// Default: none. A change empties the cache.
	Redis *CacheRedis `yaml:"redis"`

	at Position
}

// CacheRedis keeps stored responses in Redis. An error of Redis, or an invalid value in it, counts
// as a miss. docs/cache.md says what it guarantees. Hazard: anyone who can write to this Redis
// decides what clients get.
type CacheRedis struct {
	// Name of the Redis. Its prefix applies to the cache's keys, but its timeout does not apply
	// here. Required.
	Name string `yaml:"name" required:"true" scalar:"true"`
	// Timeout is how long a request may wait for Redis. After a request has waited that long, no
	// request asks Redis for a quarter of a second. Default: 50ms.
	Timeout Duration `yaml:"timeout" default:"50ms" min:"1ms" max:"10s"`
	// MaxObject is the maximum length of a body that is written to Redis or read from it. Default:
	// 1MB.
	MaxObject Size `yaml:"max_object" default:"1MB" min:"1KB" max:"256MB"`
	// CompressAbove is the maximum length of a body that is written uncompressed. Longer ones are
	// compressed with zstd, unless they are already encoded. Default: 4KB. 0B turns compression
	// off.
	CompressAbove Size `yaml:"compress_above" default:"4KB" min:"0B" max:"256MB"`
	// Queue limits the memory for bodies that wait to be written. Bodies that do not fit are
	// counted and not written. Default: 0B, which means a thirty-second of the cache's memory. That
	// is also the maximum.
	Queue Size `yaml:"queue" default:"0B" min:"0B" max:"1GB"`
	// Lock lets one instance fetch a missing response while the others wait for it, for at most
	// this time. The minimum is 10ms. Default: 0s, each instance fetches for itself.
	Lock Duration `yaml:"lock" default:"0s" min:"0s" max:"1m"`
	// Channel is the Redis channel on which instances tell each other of purges. Default: "", which
	// means the prefix followed by "cache:purges".
	Channel string `yaml:"channel"`
}

// GuardRedis is a set in Redis whose members are the keys that exist.
type GuardRedis struct {
	// Name of the Redis. Required.
	Name string `yaml:"name" required:"true"`
	// Set is the full name of the set: the prefix of the Redis is not added. Required.
	Set string `yaml:"set" required:"true"`
}

// Position is where the key begins in its file.
func (c *CacheMemory) Position() Position { return c.at }

// RouteCache stores the route's responses and answers requests from them, as RFC 9111 specifies for
// a shared cache. The service's Cache-Control decides, and these keys add to it. Requests for the
// same missing response wait for one fetch. docs/cache.md explains it.
type RouteCache struct {
	// TTL is how long a response without freshness information of its own is fresh, if its status
	// is cacheable by default (200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501). Default: 0s,
	// such a response is not stored.
	TTL Duration `yaml:"ttl" default:"0s" min:"0s" max:"8760h"`
	// Statuses set this time for single statuses, such as {404: 5s}. They override ttl. Default:
	// none.
	Statuses map[Status]Duration `yaml:"statuses" min:"1ms" max:"8760h"`
	// MaxTTL is the maximum time for which any response is fresh, whatever the service says.
	// Default: 0s, no limit.
	MaxTTL Duration `yaml:"max_ttl" default:"0s" min:"0s" max:"8760h"`
	// Heuristic lets a response without freshness information be fresh for this share of the time
	// since its Last-Modified. 10% is usual. It overrides ttl. Default: 0%, off.
	Heuristic Percent `yaml:"heuristic" default:"0%"`
	// HeuristicMax is the maximum time that heuristic can give. Default: 24h.
	HeuristicMax Duration `yaml:"heuristic_max" default:"24h" min:"1s" max:"8760h"`
	// StaleWhileRevalidate is how long a stale response may be served while it is fetched again. A
	// stale-while-revalidate of the response overrides it (RFC 5861). Default: 0s.
	StaleWhileRevalidate Duration `yaml:"stale_while_revalidate" default:"0s" min:"0s" max:"8760h"`
	// StaleIfError is how long a stale response may be served if the service fails, to requests
	// whose class has "stale" in degrade. A stale-if-error of the response overrides it (RFC 5861).
	// Default: 0s.
	StaleIfError Duration `yaml:"stale_if_error" default:"0s" min:"0s" max:"8760h"`
	// StaleUnderPressure is how long a stale response may be served if the request for a fresh one
	// was shed by a concurrency limit (of the route or the upstream), a breaker or admission. It
	// also needs a class that has "stale" in degrade. Default: 0s.
	StaleUnderPressure Duration `yaml:"stale_under_pressure" default:"0s" min:"0s" max:"8760h"`
	// IgnoreClientDirectives ignores the request's Cache-Control and Pragma, except no-store and
	// only-if-cached. Clients then cannot put load on the service by reloading. Default: false.
	IgnoreClientDirectives bool `yaml:"ignore_client_directives" default:"false"`
	// SetCookie says what to do with a response that sets a cookie: "refuse" does not store it,
	// "strip" stores it without the cookie, "keep" stores it with the cookie. Default: "refuse".
	// Hazard: with keep, all clients get a cookie that was meant for one.
	SetCookie string `yaml:"set_cookie" default:"refuse" enum:"refuse,strip,keep"`
	// Targeted lists the response fields that override Cache-Control, in order of precedence (RFC
	// 9213). Surrogate-Control is read in its own syntax. Default: [CDN-Cache-Control].
	Targeted []string `yaml:"targeted"`
	// Key says which parts of a request identify its stored response.
	Key CacheKey `yaml:"key"`
	// Wait is how long a request waits for another request's fetch before it goes to the service
	// itself. Default: 10s.
	Wait Duration `yaml:"wait" default:"10s" min:"1ms" max:"1h"`
	// Jitter is the share, up to 50%, by which a response's freshness may be shortened at random.
	// It keeps responses that were stored together from becoming stale together. Default: 5%.
	Jitter Percent `yaml:"jitter" default:"5%"`
	// EarlyRefresh fetches frequently requested responses again shortly before they become stale,
	// so that no client has to wait for them. Default: true.
	EarlyRefresh bool `yaml:"early_refresh" default:"true"`
	// StatusName is the name of this cache in the Cache-Status field of responses (RFC 9211), a
	// token. Default: "plimsoll". "" sends no such field.
	StatusName string `yaml:"status_name" default:"plimsoll"`
}

// Guard refuses requests for keys that do not exist, with 404 and the reason unknown_key, before
// the cache or the service is asked. It keeps the list of existing keys as a Bloom filter. A key in
// the list always passes. Until the list has been read, all requests pass. docs/cache.md explains
// it.
type Guard struct {
	// Key is the value that is looked up: "path:NAME" (a value of the route's pattern),
	// "query:NAME" or "header:NAME". Requests without it pass. Required.
	Key string `yaml:"key" required:"true"`
	// File lists the keys that exist, one per line. Exactly one of file, url and redis is required.
	// Default: none.
	File string `yaml:"file" file:"true"`
	// URL returns such a list. Its ETag tells whether the list has changed. Default: none.
	URL string `yaml:"url"`
	// Redis holds such a list as a set. It is read in small steps. Default: none.
	Redis *GuardRedis `yaml:"redis"`
	// Every is how often the list is checked for changes. Default: 5m.
	Every Duration `yaml:"every" default:"5m" min:"1s" max:"24h"`
	// FalsePositives is the share of requests for nonexistent keys that pass nevertheless, from
	// 0.01% to 50%. Default: 1%, which takes about 1.4 bytes of memory per key. Halving the share
	// takes 0.2 bytes more.
	FalsePositives Percent `yaml:"false_positives" default:"1%"`
	// MaxKeys is the maximum number of keys in a list. A longer list is refused, and the last one
	// stays in use. While a list is being read, it takes 8 bytes of memory per key. Default:
	// 50000000.
	MaxKeys int `yaml:"max_keys" default:"50000000" min:"1" max:"500000000"`
	// KeepAdded is how long a key that was added over the admin API passes, even if the list does
	// not have it. Default: 24h.
	KeepAdded Duration `yaml:"keep_added" default:"24h" min:"1s" max:"8760h"`
}

// CacheKey says which parts of a request identify its stored response, in addition to scheme, host
// and path. When a response is fetched to be stored, the service gets only those header fields of
// the request that are part of the key, those in forward, and Accept-Encoding, Authorization and
// Cookie. All others are removed, so that no client can change what others get.
type CacheKey struct {
	// Headers lists header fields that are part of the key, in addition to Accept, Accept-Language
	// and Origin. Default: none.
	Headers []string `yaml:"headers"`
	// Forward lists header fields that reach the service and are not part of the key. Default:
	// none. Hazard: a response that depends on one of them is given to all clients.
	Forward []string `yaml:"forward"`
	// Drop lists header fields to remove: they neither reach the service nor become part of the
	// key. These are not removed unless they are listed here: Accept, Accept-Language, Origin,
	// Authorization, Cookie and Accept-Encoding. Default: none.
	Drop []string `yaml:"drop"`
	// SortQuery sorts the query parameters by name. Default: false.
	SortQuery bool `yaml:"sort_query" default:"false"`
	// DropQuery lists query parameters to remove, both from the key and from the request to the
	// service. A "*" at the end matches any rest: "utm_*". Default: none.
	DropQuery []string `yaml:"drop_query"`
}
