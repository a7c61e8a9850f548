package gateway

import (
	"fmt"
	"strings"
	"testing"
)

// claimNames are fields by which a client could say for whom it speaks, or which request this is.
// The gateway knows two of them by their prefix only.
var claimNames = []string{
	"X-Real-Ip", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
	"X-Forwarded-Prefix", "X-Forwarded-User", "X-Forwarded-Client-Cert", "Forwarded", "X-Request-Id",
}

// claimValue is a value of such a field that makes sense, so that a trusted proxy's is believed.
func claimValue(name string) string {
	if name == "Forwarded" {
		return "for=10.0.0.1"
	}
	return "10.0.0.1"
}

// spellings are the ways to write a name that a server may read as the same.
func spellings(name string) []string {
	return []string{
		name, strings.ToLower(name), strings.ToUpper(name),
		strings.ReplaceAll(name, "-", "_"), strings.Replace(name, "-", "_", 1),
	}
}

// What a stranger claims of itself must not choose a route, whatever the route does.
func TestAStrangersClaimsChooseNoRoute(t *testing.T) {
	actions := map[string]string{
		"respond":  "respond: {status: 403, body: in}",
		"redirect": "redirect: {to: /in, status: 302}",
		"upstream": "upstream: s",
	}
	for action, text := range actions {
		t.Run(action, func(t *testing.T) {
			s := newService(t, answering(okResponse))
			var routes strings.Builder
			for _, name := range claimNames {
				const line = "  - {match: /%s, when: {headers: {%s: %s}}, %s}\n"
				fmt.Fprintf(&routes, line, name, name, claimValue(name), text)
				alias := strings.ReplaceAll(name, "-", "_")
				fmt.Fprintf(&routes, line, name+"/alias", alias, claimValue(name), text)
			}
			config := func(trusted string) string {
				return `
listeners: [{address: "127.0.0.1:0", trusted_proxies: ` + trusted + `}]
upstreams: {s: {targets: ["` + s.address() + `"]}}
routes:
` + routes.String()
			}
			stranger := serveClean(t, config("[]")).dial()
			proxy := serveClean(t, config(`["127.0.0.1"]`)).dial()
			get := func(p *peer, path, name, value string) int {
				p.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n" + name + ": " + value + "\r\n\r\n")
				r, _ := p.response("GET")
				return r.StatusCode
			}
			for _, name := range claimNames {
				for _, spelt := range spellings(name) {
					for _, path := range []string{"/" + name, "/" + name + "/alias"} {
						if status := get(stranger, path, spelt, claimValue(name)); status != 404 {
							t.Errorf("a stranger's %s got %d at %s, want 404", spelt, status, path)
						}
					}
				}
				if get(proxy, "/"+name, name, claimValue(name)) == 404 {
					t.Errorf("a trusted proxy's %s got 404", name)
				}
			}
		})
	}
}

// A route that asks for the absence of a claim takes a stranger's request, whatever it sent: what
// is forwarded has none.
func TestAStrangersClaimsCountAsAbsent(t *testing.T) {
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
routes:
  - {match: /, when: {headers: {X-Real-Ip: "", X-Forwarded-User: ""}}, respond: {body: in}}
`)
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\nX-Real-Ip: 10.0.0.1\r\nX-Forwarded-User: root\r\n\r\n")
	if r, body := p.response("GET"); r.StatusCode != 200 {
		t.Errorf("got %d %q, want 200", r.StatusCode, body)
	}
}

// A claim that is removed must not choose the upstream or the target: the key is what the gateway
// knows.
func TestAStrangersClaimsSteerNoBalancerAndNoSplit(t *testing.T) {
	a, b := newBackend(t, "a"), newBackend(t, "b")
	g := serveClean(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams:
  both: {targets: ["`+a.address+`", "`+b.address+`"], balance: {hash: "header:X-Real-Ip"}}
  by-peer: {targets: ["`+a.address+`", "`+b.address+`"], balance: {hash: "header:X-Forwarded-For"}}
  a: {targets: ["`+a.address+`"]}
  b: {targets: ["`+b.address+`"]}
routes:
  - {match: /hash, upstream: both}
  - {match: /peer, upstream: by-peer}
  - {match: /split, split: {weights: {a: 1, b: 1}, sticky: "header:X-Request-Id"}}
`)
	p := g.dial()
	ask := func(path string) map[string]int {
		seen := map[string]int{}
		for range 100 {
			p.send("GET " + path + " HTTP/1.1\r\nHost: a\r\nX-Real-Ip: 10.0.0.1\r\n" +
				"X-Forwarded-For: 10.0.0.1\r\nX-Request-Id: same\r\n\r\n")
			_, body := p.response("GET")
			seen[body]++
		}
		return seen
	}
	for _, path := range []string{"/hash", "/split"} {
		if seen := ask(path); len(seen) != 2 {
			t.Errorf("%s: a stranger's claim kept all requests on one: %v", path, seen)
		}
	}
	if seen := ask("/peer"); len(seen) != 1 {
		t.Errorf("/peer: the gateway's own X-Forwarded-For is not a key: %v", seen)
	}
}
