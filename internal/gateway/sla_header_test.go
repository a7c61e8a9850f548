package gateway

import (
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// told is what a service is told in a header: "-" where it is not there, more than once with
// commas.
func told(r *http.Request, name string) string {
	if values := r.Header.Values(name); len(values) > 0 {
		return strings.Join(values, ",")
	}
	return "-"
}

// telling is a service that answers with what it is told in a header.
func telling(name string) script {
	return replying(func(r *http.Request, _ string) string {
		body := told(r, name)
		return "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	})
}

// classed is a config with an SLA header, whose peers are trusted or not.
func classed(address, trusted, more string) string {
	return `
sla_header: X-SLA-Class
listeners: [{address: "127.0.0.1:0", trusted_proxies: ` + trusted + `}]
upstreams: {s: {targets: ["` + address + `"]` + more + `}}
routes:
  - {match: /, upstream: s, sla: P2}
  - {match: /first, when: {headers: {X-SLA-Class: P0}}, respond: {body: chosen}}
  - {match: /hidden, upstream: s, request_headers: {remove: [X-SLA-Class]}}
`
}

const trustLocal = `["127.0.0.1"]`

func TestOnlyATrustedPeerChoosesAClass(t *testing.T) {
	s := newService(t, telling("X-SLA-Class"))
	stranger := serveClean(t, classed(s.address(), "[]", "")).dial()
	g := serveClean(t, classed(s.address(), trustLocal, ""))
	trusted := g.dial()
	ask := func(p *peer, path, fields string) string {
		p.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n")
		r, body := p.response("GET")
		if r.StatusCode != 200 {
			return r.Status
		}
		return body
	}
	for name, c := range map[string]struct {
		p                  *peer
		path, fields, want string
	}{
		"none":            {trusted, "/", "", "P2"},
		"a higher one":    {trusted, "/", "X-SLA-Class: P0\r\n", "P0"},
		"in another case": {trusted, "/", "x-sla-class: P9\r\n", "P9"},
		"twice":           {trusted, "/", "X-SLA-Class: P0\r\nX-SLA-Class: P0\r\n", "P2"},
		"beyond":          {trusted, "/", "X-SLA-Class: P10\r\n", "P2"},
		"in lower case":   {trusted, "/", "X-SLA-Class: p1\r\n", "P2"},
		"nothing":         {trusted, "/", "X-SLA-Class:\r\n", "P2"},
		"an alias":        {trusted, "/", "X_SLA_Class: P0\r\n", "P2"},
		"by a condition":  {trusted, "/first", "X-SLA-Class: P0\r\n", "chosen"},
		"taken out":       {trusted, "/hidden", "X-SLA-Class: P0\r\n", "-"},
		"a stranger's":    {stranger, "/", "X-SLA-Class: P0\r\n", "P2"},
		"its alias":       {stranger, "/", "x_sla-class: P0\r\nX_SLA_CLASS: P0\r\n", "P2"},
		"its condition":   {stranger, "/first", "X-SLA-Class: P0\r\n", "P2"},
	} {
		if got := ask(c.p, c.path, c.fields); got != c.want {
			t.Errorf("%s: the service is told %q, want %q", name, got, c.want)
		}
	}
	g.expectMetrics(
		`plimsoll_claims_ignored_total{claim="class"} 4`,
		`plimsoll_claims_ignored_total{claim="deadline"} 0`,
	)
	if saw := strings.ToLower(s.saw()); strings.Contains(saw, "x_sla") {
		t.Errorf("an alias went on: %s", saw)
	}
}

func TestAClaimedClassGoesFromTrailersToo(t *testing.T) {
	s := newService(t, replying(func(r *http.Request, _ string) string {
		if len(r.Trailer) != 1 || r.Trailer.Get("X-Sum") != "1" {
			t.Errorf("the trailers are %v", r.Trailer)
		}
		return okResponse
	}))
	p := serveClean(t, classed(s.address(), trustLocal, "")).dial()
	p.send("POST / HTTP/1.1\r\nHost: a\r\nTrailer: X-Sum, X-SLA-Class\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"0\r\nX-Sum: 1\r\nX-SLA-Class: P0\r\nx_sla_class: P0\r\n\r\n")
	if r, _ := p.response("POST"); r.StatusCode != 200 {
		t.Errorf("got %d", r.StatusCode)
	}
}

func TestAClaimedClassDecidesTheTurnAndThePatience(t *testing.T) {
	b, came, answer := busyService(t)
	const classes = "{P0: {patience: 60s}, P1: {patience: 60s}, P2: {patience: 60s}, P7: {patience: 20ms}}"
	g := serve(t, "sla_header: X-SLA-Class\n"+strings.Replace(oneAtATime(b.address, classes),
		`"127.0.0.1:0"`, `"127.0.0.1:0", trusted_proxies: `+trustLocal, 1))
	send := func(path, class string) *peer {
		p := g.dial()
		p.send("GET " + path + " HTTP/1.1\r\nHost: a\r\nX-SLA-Class: " + class + "\r\n\r\n")
		return p
	}
	peers := []*peer{send("/1", "P1")}
	<-came
	for i, asked := range [][2]string{{"/0", "P2"}, {"/1", "P1"}, {"/2", "P0"}} {
		peers = append(peers, send(asked[0], asked[1]))
		eventually(t, "the request waits", func() bool { return g.waiting("s") == i+1 })
	}
	send("/0", "P7").expectFailure(503, "overloaded") // it has no patience
	expectOrder(t, came, answer, "/2 /1 /0")
	for _, p := range peers {
		if r, _ := p.response("GET"); r.StatusCode != 200 {
			t.Errorf("got %d", r.StatusCode)
		}
	}
}

func TestAClaimedClassDecidesTheObjectiveTheFallbackAndTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	g := serve(t, `
sla_header: X-SLA-Class
listeners: [{address: "127.0.0.1:0", trusted_proxies: ["127.0.0.1"]}]
upstreams: {s: {targets: ["`+refusing(t)+`"]}}
routes: [{match: /, upstream: s, sla: P2, fallback: {body: later}}]
access_log: {path: `+path+`}
`)
	p := g.dial()
	p.send("GET / HTTP/1.1\r\nHost: a\r\nX-SLA-Class: P3\r\n\r\n")
	p.expectDegraded("GET", 200, "later")
	p.send("GET / HTTP/1.1\r\nHost: a\r\nX-SLA-Class: P0\r\n\r\n")
	p.expectFailure(502, "connect_failed")
	for i, class := range []string{"P3", "P0"} {
		if line := lines(t, path, 2)[i]; !strings.Contains(line, `"class":"`+class+`"`) {
			t.Errorf("the access log has %s, want class %s", line, class)
		}
	}
	g.feed()
	g.scraped(
		`plimsoll_slo_requests_total{class="P0",route="/"} 1`,
		`plimsoll_slo_requests_total{class="P2",route="/"} 0`,
		`plimsoll_slo_requests_total{class="P3",route="/"} 1`,
		`plimsoll_slo_objective{class="P2",route="/"} 0.99`,
		`plimsoll_slo_objective{class="P0",route="/"} 0.9999`,
	)
	if !strings.Contains(g.metrics(), `plimsoll_slo_class_burn{class="P3",window="5m"} `) {
		t.Error("nothing tells the burn of a class that only a peer chose")
	}
}
