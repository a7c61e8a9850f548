package config

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"plimsoll/internal/exchange"
)

func (c *CacheMemory) check(s *scope) {
	if s.good("memory") && c.Redis != nil && c.Redis.Queue > c.Memory/32 {
		s.fail(s.within("redis", "queue"), "%d bytes are more than a thirty-second of memory; "+
			"make it at most %d, or give more memory", int64(c.Redis.Queue), int64(c.Memory/32))
	}
	if s.good("memory") && s.good("max_object") && c.MaxObject > c.Memory/8 {
		s.reject("max_object", "%d bytes are more than an eighth of memory; make it at most %d, or "+
			"give more memory",
			int64(c.MaxObject), int64(c.Memory/8))
	}
}

func (c *CacheRedis) check(s *scope) {
	if c.Name != "" {
		s.stores = append(s.stores, storeUse{named{s.at("name"), c.Name}, 0})
	}
	if s.good("channel") && (len(c.Channel) > 200 || strings.ContainsFunc(c.Channel, func(r rune) bool {
		return r <= ' ' || r > '~'
	})) {
		s.reject("channel", "%q cannot name a channel; use at most 200 ASCII characters without blanks",
			clip(c.Channel))
	}
	if s.good("lock") && c.Lock != 0 && c.Lock < Duration(10*time.Millisecond) {
		s.reject("lock", "%s is over before anything is fetched; make it at least 10ms, or 0s for no lock",
			c.Lock)
	}
}

func (g *GuardRedis) check(s *scope) {
	if g.Name != "" {
		s.stores = append(s.stores, storeUse{named{s.at("name"), g.Name}, 0})
	}
}

func (c *RouteCache) check(s *scope) {
	if s.good("jitter") && c.Jitter > 0.5 {
		s.reject("jitter", "%g%% would leave less than half of the freshness; make it at most 50%%",
			float64(c.Jitter)*100)
	}
	if s.good("status_name") && c.StatusName != "" {
		if err := exchange.CheckFieldName(c.StatusName); err != nil || len(c.StatusName) > 64 {
			s.reject("status_name", "%q is not a token of at most 64 characters; use letters, "+
				"digits and any of "+
				"!#$%%&'*+-.^_`|~", clip(c.StatusName))
		}
	}
	if s.good("statuses") {
		for _, status := range slices.Sorted(maps.Keys(c.Statuses)) {
			if code := status.Code(); code < 200 || code > 599 {
				s.reject("statuses", "%q is not the status of a final response; give one from 200 "+
					"to 599", clip(string(status)))
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
				s.reject(list.key, "%s is named twice; a header is part of the key, forwarded or "+
					"dropped", clip(name))
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
			s.reject(key, "%s; use its name as it is sent", err)
		}
	}
}

// guardKeys are the kinds of keys that a guard looks up.
var guardKeys = []exchange.KeyKind{exchange.PathKey, exchange.QueryKey, exchange.HeaderKey}

func (g *Guard) check(s *scope) {
	if s.good("key") {
		s.key("key", g.Key, guardKeys)
	}
	given := 0
	for _, is := range []bool{g.File != "", g.URL != "", g.Redis != nil} {
		if is {
			given++
		}
	}
	if !s.failed["file"] && !s.failed["url"] && !s.failed["redis"] && given != 1 {
		s.fail(s.mapping, "the list of keys is in a file, at a URL or in a Redis; "+
			"give one of file, url and redis")
	}
	if s.good("url") && g.URL != "" {
		if u, err := url.Parse(g.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" ||
			u.Host == "" {
			s.reject("url", "%q is not a URL of http or https, as https://example.com/keys.txt", clip(g.URL))
		}
	}
	if s.good("false_positives") && (g.FalsePositives < 0.0001 || g.FalsePositives > 0.5) {
		s.reject("false_positives", "%g%% is not between 0.01%% and 50%%; choose a share within",
			float64(g.FalsePositives)*100)
	}
}

// checkGuard checks that the route's pattern, whose values have these names, has the one of the key.
func (r *Route) checkGuard(s *scope, names []string) {
	if r.Guard == nil || !s.has("guard") || names == nil {
		return
	}
	key, err := exchange.ParseKey(r.Guard.Key, guardKeys...)
	if err == nil && key.Kind() == exchange.PathKey && !slices.Contains(names, key.Name()) {
		s.reject("guard", "key %s is not in the pattern %s; %s", clip(r.Guard.Key), clip(r.Match),
			s.suggest.advice(key.Name(), names))
	}
}

// checkCache checks that the route has something to store.
func (r *Route) checkCache(s *scope) {
	if r.Cache != nil && r.Upstream == "" && r.Split == nil && s.has("cache") {
		s.reject("cache", "stores what an upstream answers, and the route has none; remove it")
	}
}
