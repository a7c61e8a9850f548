package rules

import (
	"net/url"
	"strings"

	"plimsoll/internal/head"
)

// Outdated is a URI whose stored responses must not be used any longer.
type Outdated struct {
	Path  string // as in the reference, not yet canonical
	Query string
	// HasQuery distinguishes an empty query ("?") from none.
	HasQuery bool
}

// Invalidates reports whether the answer to a request invalidates what is stored for its URI (RFC
// 9111, section 4.4): the method is unsafe and the request did not fail.
func Invalidates(r *Request, status int) bool {
	return r.Unsafe() && status >= 200 && status < 400
}

// Locations returns the URIs, besides the request's own, that an answer invalidates if Invalidates
// is true: those in Location and Content-Location that have the same origin. So an origin cannot
// remove what belongs to another.
func Locations(h *head.Request, fields *head.List) []Outdated {
	var out []Outdated
	base := url.URL{Scheme: string(h.Scheme), Host: string(h.Host)}
	base.Path, base.RawPath = pathOf(h)
	for i := range fields.Len() {
		f := fields.At(i)
		if f.ID != head.Location && !is(f.Name, "content-location") || len(f.Value) == 0 {
			continue
		}
		ref, err := url.Parse(string(f.Value))
		if err != nil {
			continue
		}
		to := base.ResolveReference(ref)
		if to.User != nil || !strings.EqualFold(to.Scheme, base.Scheme) || origin(to) != origin(&base) {
			continue
		}
		path := to.EscapedPath()
		if path == "" {
			path = "/"
		}
		out = append(out, Outdated{Path: path, Query: to.RawQuery, HasQuery: to.RawQuery != "" ||
			to.ForceQuery})
	}
	return out
}

// pathOf returns the request's path, decoded and as it is.
func pathOf(h *head.Request) (path, raw string) {
	raw = string(h.Path)
	path, err := url.PathUnescape(raw)
	if err != nil {
		return raw, ""
	}
	return path, raw
}

// origin is a URL's host in lower case, with its port.
func origin(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case strings.EqualFold(u.Scheme, "https"):
		port = "443"
	default:
		port = "80"
	}
	return strings.ToLower(u.Hostname()) + ":" + port
}
