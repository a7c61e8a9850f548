package cache

import (
	"fmt"
	"net/url"
	"strings"

	"plimsoll/internal/head"
)

// Prefix is the common prefix of the keys of all URLs that begin with prefix, such as
// "https://example.com/a".
func Prefix(prefix string) []byte { return append([]byte{0}, prefix...) }

// URI is the URI's part of the keys under which the route stores responses for a URL. Any goroutine
// may call it.
func (p *Policy) URI(u *url.URL) ([]byte, error) {
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	canonical := p.o.Outdating.Canonical(path)
	if canonical == nil {
		return nil, fmt.Errorf("the path %q has no canonical form, so nothing can be stored for it", path)
	}
	h := head.Request{Scheme: []byte(strings.ToLower(u.Scheme)), Host: []byte(strings.ToLower(u.Host))}
	if u.RawQuery != "" || u.ForceQuery {
		h.Query = []byte(u.RawQuery)
	}
	return p.o.Rules.Key.AppendURI(nil, "", &h, canonical), nil
}
