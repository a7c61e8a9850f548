package config

// CacheMemory is the memory that stored responses take, for all routes together.
type CacheMemory struct {
	// Memory is how much memory stored responses may take, with what the cache needs to manage
	// them. Default: 64MB. The least requested responses are evicted first. A change empties the
	// cache. Hazard: the memory is the process's, whose limit must have room for it.
	Memory Size `yaml:"memory" default:"64MB" min:"2MB" max:"1TB"`
	// MaxObject is the longest body that is stored; longer ones pass through. Default: 0B, an
	// eighth of memory, which is also the most.
	MaxObject Size `yaml:"max_object" default:"0B" min:"0B" max:"1TB"`
	// MaxWaiters is how many requests may wait for one fetch; further ones go to the service
	// themselves. Default: 100000.
	MaxWaiters int `yaml:"max_waiters" default:"100000" min:"1" max:"10000000"`
	// Redis is a second tier behind the memory, which instances share: what is not in the memory is
	// looked up there before the service is asked, and a purge applies to all instances. Default:
	// none. A change empties the cache.
	Redis *CacheRedis `yaml:"redis"`

	at Position
}

// CacheRedis keeps stored responses in a Redis. An error of Redis, or an invalid value in it,
// counts as a miss. docs/cache.md says what it promises. Hazard: who can write to the Redis decides
// what clients get.
type CacheRedis struct {
	// Name of the Redis, whose prefix its keys have. Required. Its timeout does not count here.
	Name string `yaml:"name" required:"true" scalar:"true"`
	// Timeout is how long a request waits for Redis at most. After a request has waited that long,
	// none asks Redis for a quarter of a second. Default: 50ms.
	Timeout Duration `yaml:"timeout" default:"50ms" min:"1ms" max:"10s"`
	// MaxObject is the longest body that is written to Redis and read from it. Default: 1MB.
	MaxObject Size `yaml:"max_object" default:"1MB" min:"1KB" max:"256MB"`
	// CompressAbove is the longest body that is written as it is; longer ones are compressed with
	// zstd, unless they have an encoding already. Default: 4KB. 0B compresses none.
	CompressAbove Size `yaml:"compress_above" default:"4KB" min:"0B" max:"256MB"`
	// Queue bounds the memory of bodies that wait to be written; those that do not fit are counted
	// and not written.
	// Default: 0B, a thirty-second of the cache's memory, which is also the most.
	Queue Size `yaml:"queue" default:"0B" min:"0B" max:"1GB"`
	// Lock lets one instance fetch a missing response while the others wait for it, for this long
	// at most. Default: 0s, each instance fetches for itself.
	Lock Duration `yaml:"lock" default:"0s" min:"0s" max:"1m"`
	// Channel is the channel on which instances tell each other of purges. Default: "", the prefix
	// followed by "cache:purges".
	Channel string `yaml:"channel"`
}

// GuardRedis is a set in a Redis whose members are the keys that exist.
type GuardRedis struct {
	// Name of the Redis. Required.
	Name string `yaml:"name" required:"true"`
	// Set is the full name of the set: the prefix of the Redis is not added to it. Required.
	Set string `yaml:"set" required:"true"`
}

// Position is where the key begins in its file.
func (c *CacheMemory) Position() Position { return c.at }

// RouteCache stores the route's responses and answers from them, as RFC 9111 defines for a shared
// cache: it obeys the service's Cache-Control, and the keys below say the rest. Requests for the
// same missing response wait for one fetch. docs/cache.md explains it.
type RouteCache struct {
	// TTL is how long a response is fresh that has no freshness of its own, if its status is
	// cacheable by default (200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501). Default: 0s,
	// such a response is not stored.
	TTL Duration `yaml:"ttl" default:"0s" min:"0s" max:"8760h"`
	// Statuses are such times for single statuses, as {404: 5s}; they override ttl. Default: none.
	Statuses map[Status]Duration `yaml:"statuses" min:"1ms" max:"8760h"`
	// MaxTTL bounds how long any response is fresh, whatever the service says. Default: 0s, no
	// bound.
	MaxTTL Duration `yaml:"max_ttl" default:"0s" min:"0s" max:"8760h"`
	// Heuristic is the share of the time since Last-Modified for which a response without other
	// freshness is fresh; 10% is usual. It overrides ttl. Default: 0%, none.
	Heuristic Percent `yaml:"heuristic" default:"0%"`
	// HeuristicMax bounds heuristic. Default: 24h.
	HeuristicMax Duration `yaml:"heuristic_max" default:"24h" min:"1s" max:"8760h"`
	// StaleWhileRevalidate is how long a stale response is still served while it is fetched again,
	// unless the response says so itself (RFC 5861). Default: 0s.
	StaleWhileRevalidate Duration `yaml:"stale_while_revalidate" default:"0s" min:"0s" max:"8760h"`
	// StaleIfError is how long a stale response is served when the service fails, unless the
	// response says so itself (RFC 5861), to requests whose class has "stale" in degrade. Default:
	// 0s.
	StaleIfError Duration `yaml:"stale_if_error" default:"0s" min:"0s" max:"8760h"`
	// StaleUnderPressure is how long a stale response is served when the request for a fresh one
	// was shed: by a limit or a bound of concurrency, a breaker or admission. Likewise for classes
	// that have "stale" in degrade. Default: 0s.
	StaleUnderPressure Duration `yaml:"stale_under_pressure" default:"0s" min:"0s" max:"8760h"`
	// IgnoreClientDirectives ignores the request's Cache-Control and Pragma, except no-store and
	// only-if-cached, so that clients cannot put load on the service by reloading. Default: false.
	IgnoreClientDirectives bool `yaml:"ignore_client_directives" default:"false"`
	// SetCookie says what is done with a response that sets a cookie: "refuse" does not store it,
	// "strip" stores it without the cookie, "keep" with it. Default: "refuse". Hazard: with keep
	// all clients get the cookie that was meant for one.
	SetCookie string `yaml:"set_cookie" default:"refuse" enum:"refuse,strip,keep"`
	// Targeted names the fields that override Cache-Control where a response has them, the first
	// one first (RFC 9213); Surrogate-Control is read in its own syntax. Default:
	// [CDN-Cache-Control].
	Targeted []string `yaml:"targeted"`
	// Key says which parts of a request its response is stored under.
	Key CacheKey `yaml:"key"`
	// Wait is how long a request waits for another one's fetch before it goes to the service
	// itself. Default: 10s.
	Wait Duration `yaml:"wait" default:"10s" min:"1ms" max:"1h"`
	// Jitter is the share by which a response's freshness may be shortened, so that responses that
	// were stored together do not become stale together. Default: 5%.
	Jitter Percent `yaml:"jitter" default:"5%"`
	// EarlyRefresh fetches frequently requested responses again shortly before they become stale,
	// so that no client waits for them. Default: true.
	EarlyRefresh bool `yaml:"early_refresh" default:"true"`
	// StatusName is the name of this cache in the response's Cache-Status (RFC 9211), a token.
	// Default: "plimsoll". "" sends none.
	StatusName string `yaml:"status_name" default:"plimsoll"`
}

// Guard refuses requests for keys that do not exist, with 404 and the reason unknown_key, before
// the cache or the service is asked. It keeps a Bloom filter of the keys that exist. A key of the
// list always passes. Until the list is read, everything passes. docs/cache.md explains it.
type Guard struct {
	// Key is what is looked up: "path:NAME", a value of the route's pattern, "query:NAME" or
	// "header:NAME". Requests without it pass. Required.
	Key string `yaml:"key" required:"true"`
	// File lists the keys that exist, one per line. Default: none; give one of file, url and redis.
	File string `yaml:"file" file:"true"`
	// URL answers with such a list; its ETag tells whether it has changed. Default: none.
	URL string `yaml:"url"`
	// Redis has such a list as a set, which is read in small steps. Default: none.
	Redis *GuardRedis `yaml:"redis"`
	// Every is how often the list is checked for changes. Default: 5m.
	Every Duration `yaml:"every" default:"5m" min:"1s" max:"24h"`
	// FalsePositives is the share of keys that do not exist and pass nevertheless. Default: 1%,
	// which takes about 1.4 bytes of memory per key; half the share takes 0.2 bytes more.
	FalsePositives Percent `yaml:"false_positives" default:"1%"`
	// MaxKeys bounds the keys of a list; a longer list is refused, and the last one stays. Reading
	// takes 8 bytes of memory per key while it lasts. Default: 50000000.
	MaxKeys int `yaml:"max_keys" default:"50000000" min:"1" max:"500000000"`
	// KeepAdded is how long a key that was added over the admin API passes although the list does
	// not have it. Default: 24h.
	KeepAdded Duration `yaml:"keep_added" default:"24h" min:"1s" max:"8760h"`
}

// CacheKey says which parts of a request its response is stored under, beside scheme, host and
// path. A field of the request that is neither part of the key nor named here does not reach the
// service when a response is fetched to be stored, so that no client can change what others get.
type CacheKey struct {
	// Headers are headers that are part of the key, beside Accept, Accept-Language and Origin.
	// Default: none.
	Headers []string `yaml:"headers"`
	// Forward are headers that reach the service and are not part of the key. Default: none.
	// Hazard: a response that depends on one of them is given to all clients.
	Forward []string `yaml:"forward"`
	// Drop are headers that are removed: they neither reach the service nor are part of the key, as
	// these do by default: Accept, Accept-Language, Origin, Authorization, Cookie, Accept-Encoding.
	// Default: none.
	Drop []string `yaml:"drop"`
	// SortQuery sorts the query's parameters by name. Default: false.
	SortQuery bool `yaml:"sort_query" default:"false"`
	// DropQuery names parameters of the query that are removed, from the key and from what the
	// service gets; a "*" at the end matches any rest: "utm_*". Default: none.
	DropQuery []string `yaml:"drop_query"`
}
