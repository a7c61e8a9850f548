package config

import (
	"maps"
	"slices"
	"strings"
)

// storeUse is a mention of a Redis, and what the route of a limit allows it to take.
type storeUse struct {
	named
	timeout Duration // of the route; 0 where it is not a limit
}

func (r *Redis) check(s *scope) {
	r.at = s.begins()
	seen := make(map[string]bool)
	s.items("addresses", func(i int, at place) {
		address := r.Addresses[i]
		switch err := checkTarget(address); {
		case strings.HasPrefix(address, "unix:"):
			s.fail(at, "%q is a socket of this machine, which other instances cannot share; write host:port",
				clip(address))
		case err != nil:
			s.fail(at, "%v", err)
		case seen[address]:
			s.fail(at, "%s is an address twice; keep one", address)
		}
		seen[address] = true
	})
	if s.good("username") && r.Username != "" && r.Password == "" && !s.failed["password"] {
		s.reject("username", "a username without a password cannot authenticate; add the "+
			"password, or remove it")
	}
	if s.good("prefix") && (len(r.Prefix) > 100 || strings.ContainsFunc(r.Prefix, func(c rune) bool {
		return c <= ' ' || c > '~' || c == '{' || c == '}'
	})) {
		s.reject("prefix", "%q cannot begin a key; use at most 100 ASCII characters without "+
			"blanks and braces",
			clip(r.Prefix))
	}
}

func (l *SharedLimit) check(s *scope) {
	if s.good("batch") && l.Batch > 0 && l.Mode != "leased" && !s.failed["mode"] {
		s.reject("batch", "has no meaning where each decision asks Redis; remove it, or choose mode: leased")
	}
	if s.good("instances") && l.Instances > 1 && l.Unavailable != "local" && !s.failed["unavailable"] {
		s.reject("instances", "has no meaning with unavailable: %s; remove it, or choose local",
			l.Unavailable)
	}
}

// checkShared checks what sharing asks of the limit. A count of 0 is one that is wrong itself.
func (l *RateLimit) checkShared(s *scope, count int64) {
	if !s.good("shared") {
		return
	}
	if l.Algorithm == "leaky_bucket" || l.Algorithm == "sliding_log" {
		s.reject("shared", "%s cannot be shared; choose token_bucket, gcra, fixed_window or sliding_window, "+
			"or remove shared", l.Algorithm)
		return
	}
	whole := count
	switch {
	case s.failed["burst"] || s.failed["cost"] || count == 0:
		return
	case l.bucket() && l.Burst != nil:
		whole = int64(*l.Burst)
	case l.Algorithm == "gcra":
		whole = int64(l.Cost.Tokens)
	}
	if whole /= int64(l.Cost.Tokens); int64(l.Shared.Batch) > whole {
		s.fail(s.within("shared", "batch"), "a batch of %d of a limit that lets %d requests pass at once; "+
			"make it at most that", l.Shared.Batch, whole)
	}
}

// useStore notes that a limit of the route names a Redis, to be looked up when all are known.
func (r *Route) useStore(s *scope, limit place, l *RateLimit) {
	if l.Shared == nil || l.Shared.Redis == "" || s.failed["timeout"] {
		return
	}
	at, ok := s.resolve(s.keyOf(limit, "shared"))
	if !ok {
		return
	}
	s.stores = append(s.stores, storeUse{named{s.keyOf(at, "redis"), l.Shared.Redis}, r.Timeout})
}

// checkStores checks the names of stores, and whether limits use them as they can be.
func (c *Config) checkStores(s *scope) {
	s.entries("redis", func(name string, key, _ place) {
		if !isName(name) {
			s.fail(key, "%q cannot name a Redis; use 1 to 200 characters that can be printed", clip(name))
		}
	})
	if s.has("redis") && c.Redis == nil {
		return
	}
	known := slices.Sorted(maps.Keys(c.Redis))
	for _, use := range s.stores {
		if s.errs.full() {
			return
		}
		store, ok := c.Redis[use.name]
		switch {
		case !ok:
			s.fail(use.at, "no Redis is named %q; %s", clip(use.name), s.suggest.advice(use.name, known))
		case store != nil && use.timeout > 0 && store.Timeout >= use.timeout:
			s.fail(use.at, "the timeout of this Redis, %s, is not shorter than that of the "+
				"route, %s; make it shorter",
				store.Timeout, use.timeout)
		}
	}
}
