package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"plimsoll/internal/cidr"
	"plimsoll/internal/exchange"
)

// maxRateLimits is the most limits of a route, and maxOverrides of a limit.
const (
	maxRateLimits = 8
	maxOverrides  = 100_000
)

// limitKeys is what a limit may count apart.
var limitKeys = []exchange.KeyKind{
	exchange.AddressKey, exchange.HeaderKey, exchange.CookieKey, exchange.PathKey, exchange.QueryKey,
}

// checkLimits checks what limits mean to each other and to their route, whose pattern has values of
// these names.
func (r *Route) checkLimits(s *scope, names []string) {
	if len(r.Limits) > maxRateLimits {
		s.reject("limits", "has %d limits; %d are the most", len(r.Limits), maxRateLimits)
	}
	given := make(map[string]bool)
	for i := range r.Limits {
		given[r.Limits[i].Name] = true
	}
	taken := make(map[string]bool)
	s.items("limits", func(i int, at place) {
		l := &r.Limits[i]
		if l.Name == "" {
			l.Name = strconv.Itoa(i + 1)
			if given[l.Name] {
				s.fail(at, "another limit has the name %q, which this one has by its place; "+
					"name this one too",
					l.Name)
			}
		} else if taken[l.Name] {
			s.fail(s.keyOf(at, "name"), "another limit of the route is named %q; choose another",
				clip(l.Name))
		}
		taken[l.Name] = true
		key, err := exchange.ParseKey(l.Key, limitKeys...)
		if err == nil && key.Kind() == exchange.PathKey && names != nil &&
			!slices.Contains(names, key.Name()) {
			s.fail(s.keyOf(at, "key"), "%s names no value of the pattern %q; %s", l.Key, clip(r.Match),
				s.suggest.advice(key.Name(), names))
		}
		r.useStore(s, at, l)
		if l.MaxWait >= r.Timeout && l.MaxWait > 0 && !s.failed["timeout"] {
			s.fail(s.keyOf(at, "max_wait"), "%s is not shorter than the route's timeout of %s; "+
				"make it shorter",
				l.MaxWait, r.Timeout)
		}
	})
}

// keyOf is the place of a key's value in a mapping, or of the mapping when it lacks the key.
func (s *scope) keyOf(mapping place, name string) place {
	for _, e := range s.entriesOf(mapping) {
		if e.name == name {
			return e.value
		}
	}
	return mapping
}

func (l *RateLimit) check(s *scope) {
	if s.good("name") && !isLimitName(l.Name) {
		s.reject("name", "%q cannot name a limit; use 1 to 64 ASCII characters "+
			"without quotes and backslashes", clip(l.Name))
	}
	if s.good("key") {
		s.key("key", l.Key, limitKeys)
	}
	count := int64(0)
	if s.good("rate") {
		n, _, err := ParseRate(l.Rate)
		if err != nil {
			s.reject("rate", "%v", err)
		}
		count = n
	}
	if s.failed["algorithm"] {
		return
	}
	l.checkMeaning(s)
	l.checkCost(s, count)
	l.checkShared(s, count)
	if s.has("overrides") {
		l.checkOverrides(s)
	}
}

func (l *RateLimit) bucket() bool { return l.Algorithm == "token_bucket" || l.Algorithm == "gcra" }

// checkMeaning refuses keys that mean nothing beside the others. A default that is written out does
// no harm.
func (l *RateLimit) checkMeaning(s *scope) {
	leaky, address, key := l.Algorithm == "leaky_bucket", l.Key == "client_address", s.has("key")
	const (
		noWait    = "has no meaning where nothing waits; remove it, or choose leaky_bucket"
		noAddress = "has no meaning with this key; remove it, or choose client_address"
		noKey     = "has no meaning where all requests count together; remove it, or give a key"
	)
	def := prototype(reflect.TypeFor[RateLimit]()).Interface().(RateLimit)
	for _, c := range []struct {
		name      string
		used      bool
		meaning   bool
		otherwise string
	}{
		{"burst", true, l.bucket(), "has no meaning with " + l.Algorithm +
			"; remove it, or choose token_bucket"},
		{"queue", l.Queue != def.Queue, leaky, noWait},
		{"max_wait", l.MaxWait != def.MaxWait, leaky, noWait},
		{"prefix_v4", l.PrefixV4 != def.PrefixV4, address, noAddress},
		{"prefix_v6", l.PrefixV6 != def.PrefixV6, address, noAddress},
		{"missing", l.Missing != def.Missing, key, noKey},
		{"values", l.Values != def.Values, key, noKey},
		{"overrides", len(l.Overrides) > 0, key, noKey},
	} {
		if s.good(c.name) && c.used && !c.meaning {
			s.reject(c.name, "%s", c.otherwise)
		}
	}
	if leaky && l.MaxWait == 0 && !s.failed["max_wait"] {
		s.reject("max_wait", "leaky_bucket lets requests wait; say for how long at most, such as 1s")
	}
}

// checkCost checks that a request can pass at all. A count of 0 is one that is wrong itself.
func (l *RateLimit) checkCost(s *scope, count int64) {
	if s.failed["cost"] {
		return
	}
	l.checkCostHeader(s)
	most := l.mostCost()
	switch {
	case l.Algorithm == "leaky_bucket":
	case s.good("burst") && l.bucket() && *l.Burst < most:
		s.reject("burst", "a burst of %d and a cost of %d let nothing pass; "+
			"make it at least the cost", *l.Burst, most)
	case !l.bucket() && count > 0 && count < int64(most):
		s.reject("cost", "a cost of %d and a rate of %s let nothing pass; make it at most %d",
			most, l.Rate, count)
	}
}

// mostCost is what the most expensive request costs.
func (l *RateLimit) mostCost() int { return max(l.Cost.Tokens, l.Cost.Max) }

// checkCostHeader checks what the keys of a cost mean to each other and to the limit.
func (l *RateLimit) checkCostHeader(s *scope) {
	c := &l.Cost
	switch {
	case c.Header == "" && c.Max == 0:
	case c.Header == "":
		s.fail(s.within("cost", "max"), "has no meaning where no header says a cost; name one, or remove it")
	case !isToken(c.Header):
		s.fail(s.within("cost", "header"), "%q is not the name of a header; use letters, digits and hyphens",
			clip(c.Header))
	case c.Max == 0:
		s.fail(s.within("cost", "header"), "requests say their cost; say by max how much that can be")
	case c.Max < c.Tokens:
		s.fail(s.within("cost", "max"), "%d is less than what a usual request costs, "+
			"%d; make it at least that",
			c.Max, c.Tokens)
	case l.Algorithm == "sliding_log":
		s.fail(s.within("cost", "header"), "sliding_log counts requests alike; remove it, "+
			"or choose sliding_window")
	case l.Shared != nil:
		s.fail(s.within("cost", "header"), "a shared limit counts requests alike; remove it, "+
			"or do not share the limit")
	}
}

func (l *RateLimit) checkOverrides(s *scope) {
	if len(l.Overrides) > maxOverrides {
		s.reject("overrides", "has %d values; %d are the most", len(l.Overrides), maxOverrides)
	}
	key, err := exchange.ParseKey(l.Key, limitKeys...)
	seen := make(map[string]string)
	s.entries("overrides", func(name string, at, value place) {
		same, problem := name, ""
		if err == nil {
			same, problem = l.overrideValue(key.Kind(), name)
		}
		if problem != "" {
			s.fail(at, "%s", problem)
		} else if first, again := seen[same]; again {
			s.fail(at, "%q is the same value as %q; keep one", clip(name), clip(first))
		}
		seen[same] = name
		o := l.Overrides[name]
		count, _, err := ParseRate(o.Rate)
		switch {
		case err != nil && o.Rate != "":
			s.fail(value, "%v", err)
		case o.Burst != nil && !l.bucket():
			s.fail(value, "a burst has no meaning with %s; remove it", l.Algorithm)
		case o.Burst != nil && *o.Burst < l.mostCost(),
			err == nil && l.Algorithm != "leaky_bucket" && !l.bucket() && count < int64(l.mostCost()):
			s.fail(value, "less than a request's cost of %d lets nothing pass; give more", l.mostCost())
		}
	})
}

// overrideValue is the form in which a value of the key is told from others, or what is wrong with
// it.
func (l *RateLimit) overrideValue(kind exchange.KeyKind, name string) (same, problem string) {
	wrong := name == ""
	switch kind {
	case exchange.AddressKey:
		network, err := cidr.Network(name, l.PrefixV4, l.PrefixV6)
		if err != nil {
			return "", err.Error()
		}
		return network.String(), ""
	case exchange.HeaderKey:
		wrong = wrong || exchange.CheckFieldValue(name) != nil
	case exchange.CookieKey:
		wrong = wrong || strings.ContainsFunc(name, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || strings.ContainsRune(`;",\`, r)
		})
	case exchange.PathKey:
		wrong = wrong || !isPath("/"+name)
	}
	if wrong {
		return "", strconv.Quote(clip(name)) + " cannot be a value of " + l.Key + "; correct it, or remove it"
	}
	return name, ""
}

// isLimitName reports whether a name can be a string of a structured field (RFC 9651, section
// 3.3.3).
func isLimitName(name string) bool {
	return name != "" && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' || r > '~' || r == '"' || r == '\\'
	})
}
