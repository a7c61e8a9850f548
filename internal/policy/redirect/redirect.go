// Package redirect sends the client elsewhere. It is an action, the last in its route's chain, so
// that access lists, request ids and CORS hold for it too.
//
// A client's path or query may choose where on a site the client is sent, but never to which site.
// The host of the location is written out or is ${host}. A location on the same site begins with
// exactly one "/". Bytes that are not allowed in a URI are encoded, so that they cannot end the
// field (open redirect, response splitting).
//
// It must not know what else is at the location.
package redirect

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// Options of the policy.
type Options struct {
	// To is the location, a text for exchange.CompilePath. It begins with "/", "${path}",
	// "http://", "https://" or "${scheme}://". A final "?", as left by an empty ${query}, is
	// removed.
	To string
	// Status is 301, 302, 303, 307 or 308. Default: 308, which keeps the method and the body, and
	// which caches keep.
	Status int
	// PathNames are the names in the route's pattern.
	PathNames []string
}

// Policy redirects.
type Policy struct {
	status int
	to     *exchange.Template
}

var _ exchange.RequestPolicy = (*Policy)(nil)

// New checks the location and the status.
func New(o Options) (*Policy, error) {
	p := &Policy{status: o.Status}
	switch p.status {
	case 0:
		p.status = http.StatusPermanentRedirect
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, fmt.Errorf("a redirect with status %d; give 301, 302, 303, 307 or 308", p.status)
	}
	if err := checkSite(o.To); err != nil {
		return nil, fmt.Errorf("redirect %q: %w", o.To, err)
	}
	var err error
	if p.to, err = exchange.CompilePath(o.To, o.PathNames); err != nil {
		return nil, fmt.Errorf("redirect %q: %w", o.To, err)
	}
	return p, nil
}

// checkSite returns an error if the location's text does not fix the site.
func checkSite(to string) error {
	for _, scheme := range []string{"http://", "https://", "${scheme}://"} {
		rest, ok := strings.CutPrefix(to, scheme)
		if !ok {
			continue
		}
		host, _, _ := strings.Cut(rest, "${path}") // which begins with a slash
		if end := strings.IndexAny(host, "/?#"); end >= 0 {
			host = host[:end]
		}
		plain := strings.ReplaceAll(host, "${host}", "h")
		switch {
		case plain == "":
			return errors.New("it has no host")
		case strings.ContainsAny(plain, "{}$"):
			return errors.New("its host may hold no variable but ${host}, or a client could choose the site")
		case strings.Contains(plain, "@"):
			return errors.New("its host has an @; leave out what is before it")
		}
		return nil
	}
	if strings.HasPrefix(to, "//") {
		return errors.New("it begins with two slashes; write the scheme before them")
	}
	if !strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "${path}") {
		return errors.New("it begins with neither /, http://, https://, ${scheme}:// nor ${path}")
	}
	return nil
}

var locationName = []byte(head.Text[head.Location])

// OnRequest answers.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	location := x.Render(p.to)
	for len(location) > 1 && location[0] == '/' && location[1] == '/' {
		location = location[1:] // from "/${path}": two slashes would make the first segment a host
	}
	if n := len(location); n > 0 && location[n-1] == '?' {
		location = location[:n-1]
	}
	x.Answer(p.status, exchange.RouteAnswer, nil)
	f := x.Response.Fields.Extend(head.Location)
	f.Name, f.Value = locationName, location
	return exchange.Answered
}
