package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"plimsoll/internal/policy/cache"
	"plimsoll/internal/policy/cache/tier"
)

// Purge says which stored responses to purge. Exactly one of URL, Prefix, Tag and All must be set.
type Purge struct {
	URL    string // of the response: scheme, host, port unless it is the default, path and query
	Prefix string // the beginning of the URLs, including the scheme
	Tag    string // a word of Surrogate-Key
	All    bool
	// Soft makes responses stale instead of forgetting them: they are revalidated, and may be
	// served where stale responses may be.
	Soft bool
}

// PurgeResult is the result of a purge.
type PurgeResult struct {
	// Entries is how many entries the purge has found in this instance. It is absent for purges of
	// a URL or a tag, which do not search: their entries are checked when they are next requested.
	Entries *int `json:"entries,omitempty"`
	// Shared says whether the purge is in the cache's Redis, and so in all instances that are
	// connected to it. It is absent if there is no Redis.
	Shared *bool `json:"shared,omitempty"`
	// Problem says why Shared is false.
	Problem string `json:"problem,omitempty"`
}

// sharedPurgeTime is how long a purge waits for Redis.
const sharedPurgeTime = 3 * time.Second

// PurgeCache forgets stored responses, or makes them stale. When it returns, the purge is in effect
// on all loops, for fetches under way and, unless the result says otherwise, in Redis. It returns
// ErrUnknown if no route stores anything.
func (g *Gateway) PurgeCache(p Purge) (done PurgeResult, err error) {
	v := g.view()
	all, err := v.purges(p)
	if err != nil {
		return done, err
	}
	for _, one := range all {
		if one.Kind != tier.Prefix && one.Kind != tier.All {
			err = v.memory.Apply(one)
		} else {
			var n int
			n, err = v.memory.PurgePrefix(one.Name, one.Soft)
			done.Entries = &n
		}
		if err != nil {
			return done, err
		}
	}
	if second := v.memory.Tier(); second != nil {
		ctx, cancel := context.WithTimeout(context.Background(), sharedPurgeTime)
		defer cancel()
		err := second.Purge(ctx, all)
		shared := err == nil
		if done.Shared = &shared; !shared {
			done.Problem = err.Error()
		}
	}
	return done, nil
}

// purges converts a purge to purges of the cache.
func (v *inForce) purges(p Purge) ([]tier.Purge, error) {
	given := 0
	for _, is := range []bool{p.URL != "", p.Prefix != "", p.Tag != "", p.All} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, errors.New("say what to purge: one of url, prefix, tag and all")
	case v.memory == nil:
		return nil, fmt.Errorf("%w cache: no route stores responses", ErrUnknown)
	case p.Tag != "":
		return []tier.Purge{{Kind: tier.Tag, Soft: p.Soft, Name: []byte(p.Tag)}}, nil
	case p.URL != "":
		return v.urlPurges(p)
	case p.All:
		return []tier.Purge{{Kind: tier.All, Soft: p.Soft}}, nil
	case !strings.Contains(p.Prefix, "://"):
		return nil, fmt.Errorf("prefix %q does not begin with a scheme, as "+
			"https://example.com/images/", p.Prefix)
	}
	return []tier.Purge{{Kind: tier.Prefix, Soft: p.Soft, Name: cache.Prefix(p.Prefix)}}, nil
}

// urlPurges is the purges of a URL in every form in which a route may have stored it.
func (v *inForce) urlPurges(p Purge) (all []tier.Purge, err error) {
	u, err := url.Parse(p.URL)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return nil, fmt.Errorf("url %q is not a whole URL, as https://example.com/a?b=c", p.URL)
	}
	seen := map[string]bool{}
	for _, one := range v.policies {
		c, ok := one.is.(*cache.Policy)
		if !ok {
			continue
		}
		uri, err := c.URI(u)
		if err != nil {
			return nil, err
		}
		if !seen[string(uri)] {
			seen[string(uri)] = true
			all = append(all, tier.Purge{Kind: tier.URI, Soft: p.Soft, Name: uri})
		}
	}
	return all, nil
}
