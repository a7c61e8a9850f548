package config

import (
	"reflect"
	"slices"

	"plimsoll/internal/exchange"
)

func (c *RouteConcurrency) check(s *scope) {
	if s.good("key") {
		s.key("key", c.Key, limitKeys)
	}
	if s.failed["max"] || s.failed["key"] || s.failed["max_per_value"] {
		return
	}
	switch {
	case c.Max == 0 && c.MaxPerValue == 0 && c.Key == "":
		s.fail(s.mapping, "bounds nothing; give max, or key and max_per_value, or remove it")
	case c.Key == "" && c.MaxPerValue > 0:
		s.reject("max_per_value", "has no meaning where all requests count together; "+
			"remove it, or give a key")
	case c.Key != "" && c.MaxPerValue == 0:
		s.reject("key", "counts what nothing bounds; give max_per_value, or remove it")
	case c.Max > 0 && c.MaxPerValue > c.Max:
		s.reject("max_per_value", "%d can never be reached, since max is %d; make it at most that",
			c.MaxPerValue, c.Max)
	}
	def := prototype(reflect.TypeFor[RouteConcurrency]()).Interface().(RouteConcurrency)
	const noKey = "has no meaning without a key; remove it, or give one"
	if c.Key == "" && s.good("missing") && c.Missing != def.Missing {
		s.reject("missing", noKey)
	}
	if c.Key == "" && s.good("values") && c.Values != def.Values {
		s.reject("values", noKey)
	}
}

// checkConcurrency checks that the route's pattern, whose values have these names, has the one of
// the key.
func (r *Route) checkConcurrency(s *scope, names []string) {
	if r.Concurrency == nil || !s.has("concurrency") || names == nil {
		return
	}
	key, err := exchange.ParseKey(r.Concurrency.Key, limitKeys...)
	if err == nil && key.Kind() == exchange.PathKey && !slices.Contains(names, key.Name()) {
		s.fail(s.keyOf(s.at("concurrency"), "key"), "%s names no value of the pattern %q; %s",
			clip(r.Concurrency.Key), clip(r.Match), s.suggest.advice(key.Name(), names))
	}
}
