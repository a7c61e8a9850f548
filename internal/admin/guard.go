package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
)

// guard stands before everything. With a token it requires the token, and that is enough: no
// browser adds it by itself. Without one the address is on loopback, where the caller to fear is a
// browser on this machine that shows somebody else's page. Such a page can send requests here, and
// could read the answers if its own name were made to resolve to 127.0.0.1. So without a token the
// Host must be one that a page cannot have chosen. Whether there is a token or not, a page of
// another site may only link here: it cannot read an answer, but its requests could change
// something, and even those that read cost processor time (profiles) and places (looks at the
// loops).
type guard struct {
	address Address
	next    http.Handler
}

// ServeHTTP implements http.Handler.
func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	if token := g.address.Token(); token != "" {
		if !carries(r, token) {
			h.Set("WWW-Authenticate", `Bearer realm="plimsoll admin"`)
			fail(w, http.StatusUnauthorized,
				"this address requires the header Authorization: Bearer TOKEN, "+
					"with admin.token of the configuration")
			return
		}
	} else if !g.ours(r.Host) {
		fail(w, http.StatusForbidden,
			"the Host "+quoted(r.Host)+" is not this address's own: "+
				"use its IP address, or localhost")
		return
	}
	if foreign(r) && !follows(r) {
		fail(w, http.StatusForbidden,
			"a page of another site may not send requests here: open the address itself")
		return
	}
	g.next.ServeHTTP(w, r)
}

// carries compares in constant time; the hashes make the lengths equal too.
func carries(r *http.Request, token string) bool {
	scheme, given, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	have, want := sha256.Sum256([]byte(strings.TrimSpace(given))), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1
}

// ours says that a Host is not a name which somebody else's DNS could have pointed here: an IP
// address, localhost, this machine's own name, or the one in the configuration. A request without
// one is not a browser's.
func (g guard) ours(host string) bool {
	name := hostName(host)
	if _, err := netip.ParseAddr(name); err == nil || name == "" || name == "localhost" {
		return true
	}
	machine, err := os.Hostname()
	return err == nil && strings.EqualFold(name, machine) || name == hostName(g.address.Address())
}

// hostName is a host without its port and brackets, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// follows says that a person opens this address in a browser, perhaps by a link of another site.
func follows(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// foreign says that a browser sent the request for a page that is not one of ours (Fetch Metadata,
// and Origin for older browsers). Programs send neither field.
func foreign(r *http.Request) bool {
	if site := r.Header.Values("Sec-Fetch-Site"); len(site) > 0 && site[0] != "same-origin" &&
		site[0] != "none" {
		return true
	}
	origin := r.Header.Values("Origin")
	if len(origin) == 0 {
		return false
	}
	page, err := url.Parse(origin[0])
	return err != nil || !strings.EqualFold(page.Host, r.Host)
}
