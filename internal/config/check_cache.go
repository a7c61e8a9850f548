package config

import (
	"slices"
	"strings"

	"plimsoll/internal/exchange"
)

func (c *CacheMemory) check(s *scope) {
	if s.good("memory") && s.good("max_object") && c.MaxObject > c.Memory/8 {
		s.reject("max_object", "%d bytes are more than an eighth of memory; make it at most %d, or give more memory",
			int64(c.MaxObject), int64(c.Memory/8))
	}
}

func (c *RouteCache) check(s *scope) {
	if s.good("jitter") && c.Jitter > 0.5 {
		s.reject("jitter", "%g%% would leave less than half of the freshness; make it at most 50%%", float64(c.Jitter)*100)
	}
	if s.good("status_name") && c.StatusName != "" {
		if err := exchange.CheckFieldName(c.StatusName); err != nil || len(c.StatusName) > 64 {
			s.reject("status_name", "%q is not a token of at most 64 characters: letters, digits and any of "+
				"!#$%%&'*+-.^_`|~", clip(c.StatusName))
		}
	}
	if s.good("statuses") {
		for status := range c.Statuses {
			if status < 200 || status > 599 {
				s.reject("statuses", "%d is not the status of a final response; give one from 200 to 599", status)
			}
		}
	}
	if s.good("targeted") {
		s.fieldNames("targeted", c.Targeted)
	}
}

func (k *CacheKey) check(s *scope) {
	lists := []struct {
		key   string
		names []string
	}{{"headers", k.Headers}, {"forward", k.Forward}, {"drop", k.Drop}}
	var seen []string
	for _, list := range lists {
		if !s.good(list.key) {
			continue
		}
		s.fieldNames(list.key, list.names)
		for _, name := range list.names {
			lower := strings.ToLower(name)
			if slices.Contains(seen, lower) {
				s.reject(list.key, "%s is named twice; a header is part of the key, forwarded or dropped", clip(name))
			}
			seen = append(seen, lower)
		}
	}
	for _, name := range k.DropQuery {
		if name == "" || name == "*" {
			s.reject("drop_query", "%q drops every parameter or none; name some", clip(name))
		}
	}
}

// fieldNames checks the names of header fields in a list.
func (s *scope) fieldNames(key string, names []string) {
	for _, name := range names {
		if err := exchange.CheckFieldName(name); err != nil {
			s.reject(key, "%s", err)
		}
	}
}

// checkCache checks that the route has something to store.
func (r *Route) checkCache(s *scope) {
	if r.Cache != nil && r.Upstream == "" && r.Split == nil && s.has("cache") {
		s.reject("cache", "stores what an upstream answers, and the route has none; remove it")
	}
}
