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

// Purge says which stored responses are to go; one of the first four is given.
type Purge struct {
	URL    string // of the response: scheme, host with its port unless that is the scheme's, path and query
	Prefix string // of the URLs, from the scheme on
	Tag    string // a word of Surrogate-Key
	All    bool
	// Soft makes them stale instead of forgetting them: they are revalidated, and may be served
	// where what is stale may be.
	Soft bool
}

// PurgeResult is what a purge has done.
type PurgeResult struct {
	// Entries is how many were found in this instance, of a purge that looks for them: those of a
	// URL or a tag are found out when they are asked for, and it is absent.
	Entries *int `json:"entries,omitempty"`
	// Shared says whether the cache's Redis has the purge, and with it all instances that are
	// connected to it; it is absent where there is none.
	Shared *bool `json:"shared,omitempty"`
	// Problem says why Shared is false.
	Problem string `json:"problem,omitempty"`
}

// sharedPurgeTime is how long a purge waits for Redis.
const sharedPurgeTime = 3 * time.Second

// PurgeCache forgets stored responses, or makes them stale. When it returns that holds on all
// loops, and for what is being fetched, and unless the result says otherwise in Redis too.
// ErrUnknown means that no route stores anything.
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

// purges says a purge in the terms of the cache.
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

// urlPurges are of a URL in every form in which a route may have stored it.
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
