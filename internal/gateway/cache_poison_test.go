package gateway

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// Nothing that a client sends may reach the service and change what others get, without being part
// of what the response is stored under. The service of these tests is the worst there is: it writes
// all it is sent into its response, head and body, and says that it may be stored.

// reflecting is such a service. The path's first segment says how long its responses are fresh, and
// what they say that they vary by. "/stale" has to be validated once, and its 304s reflect as well.
func reflecting(t *testing.T) *service {
	return newService(t, replying(func(r *http.Request, body string) string {
		seen := sawWords(r, body)
		var fields strings.Builder
		for line := range strings.Lines(seen) {
			if line = strings.TrimSpace(line); line != "" {
				fields.WriteString("X-Saw: " + line + "\r\n")
			}
		}
		// Not "public": that would say that an answer to Authorization is for all (RFC 9111,
		// section 3.5).
		control, status := "max-age=1000", "200 OK"
		switch _, first, _ := strings.Cut(r.URL.Path, "/"); {
		case strings.HasPrefix(first, "stale"):
			fields.WriteString("ETag: \"1\"\r\n")
			control = "max-age=0"
			if r.Header.Get("If-None-Match") != "" {
				control, status = "max-age=1000", "304 Not Modified"
			}
		case strings.HasPrefix(first, "varies"):
			fields.WriteString("Vary: Accept-Encoding, Cookie, User-Agent, X-Unknown-Thing\r\n")
		}
		head := fmt.Sprintf("HTTP/1.1 %s\r\nCache-Control: %s\r\n%s", status, control, fields.String())
		if strings.HasPrefix(status, "304") {
			return head + "\r\n"
		}
		return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(seen), seen)
	}))
}

// marker is in all that an evil client sends where it may choose.
const marker = "evil"

// evilFields are request fields by which caches have been poisoned or services steered, and forms
// of them.
var evilFields = []string{
	"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
	"X-Forwarded-Prefix", "X-Forwarded-Server",
	"X-Forwarded-Scheme", "X-Forwarded-Ssl", "Forwarded", "X-Host", "X-Http-Host-Override",
	"X-Original-Host", "X-Original-Url",
	"X-Rewrite-Url", "X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Real-Ip",
	"X-Client-Ip", "True-Client-Ip",
	"X-Request-Id", "X-Wap-Profile", "X-Middleware-Subrequest", "X-Nextjs-Data", "Rsc",
	"X-Requested-With", "X-Amz-Acl",
	"X-Unknown-Thing", "X_Forwarded_Host", "Accept", "Accept-Language", "Accept-Charset",
	"Accept-Encoding", "Accept-Datetime",
	"User-Agent", "Referer", "Origin", "Cookie", "Authorization", "Proxy-Authorization",
	"Cache-Control", "Pragma", "Range", "If-Range",
	"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Content-Type",
	"Content-Encoding", "Date", "From", "Via",
	"Warning", "Max-Forwards", "Priority", "Early-Data", "Save-Data", "Dnt", "Sec-Fetch-Dest",
	"Sec-Ch-Ua", "Prefer", "Depth",
	"Traceparent", "Tracestate", "Baggage", "X-B3-Traceid", "Surrogate-Capability", "Cdn-Loop", "Te",
	"X-Left-Ms",
	"X-Sla-Class",
}

// evilValues are values for each of them.
var evilValues = []string{marker, marker + ", gzip;q=1", "no-cache, " + marker, "bytes=0-3", `"` +
	marker + `"`, "*", "DELETE", "https"}

// poisonRoutes are of a gateway whose routes have what adds to a request besides.
const poisonRoutes = `
  - {match: /, upstream: origin, request_id: true, trace: true, via: gw, deadline_header: X-Left-Ms,
     cache: {}}
sla_header: X-SLA-Class`

// plainly asks for a path as a client does that says nothing, and fails the test when what it gets has
// anything of another client's.
func (c *talker) plainly(path, after string) {
	c.t.Helper()
	g := c.ask("GET", path)
	all := g.body + fmt.Sprint(g.fields, g.trailers)
	if strings.Contains(strings.ToLower(all), marker) || g.status != 200 {
		c.t.Errorf("%s: after %s a client that asks plainly for %s gets %d\n%s", c.p.name, after,
			path, g.status, all)
	}
	scheme := "http"
	if c.p.tls {
		scheme = "https"
	}
	want := "GET " + path +
		" HTTP/1.1\nHost: a\nVia: 1.1 gw\nX-Forwarded-For: 127.0.0.1\nX-Forwarded-Host: a\n" +
		"X-Forwarded-Proto: " +
		scheme + "\n"
	if saw := ownWords.ReplaceAllString(strings.TrimRight(g.body, "\n")+"\n", ""); saw != want {
		c.t.Errorf("%s: after %s a client that asks plainly for %s gets an answer to\n%s\n"+
			"want one to\n%s", c.p.name, after, path,
			saw, want)
	}
}

// ownWords are what the gateway adds to a request and that differs each time.
var ownWords = regexp.MustCompile(`(?m)^(X-Left-Ms|Traceparent|X-Request-Id|X-Sla-Class): [0-9a-fP-]+\n`)
