package gateway

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"plimsoll/internal/policy/cache"
)

// Purge says which stored responses are to go; one of the first four is given.
type Purge struct {
	URL    string // of the response: scheme, host with its port unless that is the scheme's, path and query
	Prefix string // of the URLs, from the scheme on
	Tag    string // a word of Surrogate-Key
	All    bool
	// Soft makes them stale instead of forgetting them: they are revalidated, and may be served where what
	// is stale may be.
	Soft bool
}

// PurgeResult is what a purge has done.
type PurgeResult struct {
	// Entries is how many were found, of a purge that looks for them: those of a URL or a tag are found
	// out when they are asked for, and it is absent.
	Entries *int `json:"entries,omitempty"`
}

// PurgeCache forgets stored responses, or makes them stale. When it returns that holds on all loops, and
// for what is being fetched. ErrUnknown means that no route stores anything.
func (g *Gateway) PurgeCache(p Purge) (PurgeResult, error) {
	given := 0
	for _, is := range []bool{p.URL != "", p.Prefix != "", p.Tag != "", p.All} {
		if is {
			given++
		}
	}
	if given != 1 {
		return PurgeResult{}, errors.New("say what to purge: one of url, prefix, tag and all")
	}
	v := g.view()
	if v.memory == nil {
		return PurgeResult{}, fmt.Errorf("%w cache: no route stores responses", ErrUnknown)
	}
	switch {
	case p.Tag != "":
		v.memory.PurgeTag([]byte(p.Tag), p.Soft)
		return PurgeResult{}, nil
	case p.URL != "":
		return PurgeResult{}, v.purgeURL(p)
	case p.Prefix != "" && !strings.Contains(p.Prefix, "://"):
		return PurgeResult{}, fmt.Errorf("prefix %q does not begin with a scheme, as "+
			"https://example.com/images/", p.Prefix)
	}
	n, err := v.memory.PurgePrefix(cache.Prefix(p.Prefix), p.Soft)
	return PurgeResult{&n}, err
}

// purgeURL purges a URL under every form in which a route may have stored it.
func (v *inForce) purgeURL(p Purge) error {
	u, err := url.Parse(p.URL)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return fmt.Errorf("url %q is not a whole URL, as https://example.com/a?b=c", p.URL)
	}
	for _, one := range v.policies {
		if c, ok := one.is.(*cache.Policy); ok {
			if err := c.PurgeURL(u, p.Soft); err != nil {
				return err
			}
		}
	}
	return nil
}
