package cache_test

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/head"
)

// suspects are request fields by which caches have been poisoned, or servers steered: each one that
// an origin reflects, obeys or fails over must not change what others get.
var suspects = []string{
	"X-Forwarded-Host", "X-Forwarded-Scheme", "X-Forwarded-Proto", "X-Forwarded-Port",
	"X-Forwarded-Prefix", "X-Forwarded-Server", "X-Forwarded-For",
	"X-Forwarded-SSL", "Forwarded", "X-Host", "X-HTTP-Host-Override", "X-Original-Host",
	"X-Original-URL", "X-Rewrite-URL", "X-Original-URI",
	"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Real-Ip", "X-Client-Ip",
	"True-Client-IP", "CF-Connecting-IP",
	"X-Cluster-Client-IP", "X-Wap-Profile", "Front-End-Https", "X-Url-Scheme", "X-Proto", "X-Scheme",
	"X-Backend", "X-Amz-Server-Side-Encryption",
	"X-Middleware-Prefetch", "X-Middleware-Subrequest", "X-Nextjs-Data", "Rsc",
	"Next-Router-State-Tree", "X-Requested-With", "X-Timer",
	"X-Api-Version", "X-Amz-Website-Redirect-Location", "X-Oversized-Header", "X_Forwarded_Host",
	"x_forwarded-proto", "Zuul", "Fastly-Host",
	"Fastly-SSL", "Surrogate-Capability", "Max-Forwards", "Via", "Warning", "DNT", "Save-Data",
	"Sec-CH-UA", "Sec-Fetch-Dest", "Priority",
	"Device-Memory", "Viewport-Width", "Accept-Charset", "Accept", "Accept-Language", "Accept-Encoding",
	"User-Agent", "Referer", "Origin",
	"Cookie", "Authorization", "Proxy-Authorization", "Cache-Control", "Pragma", "Range", "If-Range",
	"If-None-Match", "If-Modified-Since",
	"If-Match", "If-Unmodified-Since", "Content-Type", "Content-Length", "Content-Encoding", "Expect",
	"Upgrade", "TE", "Trailer", "Date",
	"Access-Control-Request-Method", "X-Request-Id", "Traceparent", "Tracestate", "Baggage",
	"X-B3-TraceId", "Early-Data", "From", "Keep-Alive",
	"Prefer", "Depth", "A-IM", "Negotiate", "\u00e9", strings.Repeat("x", 300),
}

// reflecting is an origin that writes everything that it is sent into its answer, and says that all
// may have it.
func reflecting(vary string) func(*request) *response {
	return func(q *request) *response {
		fields := []string{"Cache-Control: public, max-age=60"}
		if vary != "" {
			fields = append(fields, "Vary: "+vary)
		}
		seen := slices.Clone(q.fields)
		slices.Sort(seen)
		return &response{status: 200, fields: fields, body: q.method + " " + q.path + "?" + q.query +
			"\n" + strings.Join(seen, "\n")}
	}
}

func TestNoFieldOfARequestChangesWhatOthersGet(t *testing.T) {
	names := slices.Clone(suspects)
	for _, name := range head.Text {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if name == "Host" || name == "Accept-Encoding" {
			continue // the codec has one valid host, which is in the key; for the other see below
		}
		// Authorization may change an answer that says that it is for all: RFC 9111, section 3.5.
		origin := reflecting("")
		if name == "Authorization" {
			origin = func(q *request) *response {
				p := reflecting("")(q)
				p.fields = []string{"Cache-Control: max-age=60"}
				return p
			}
		}
		for _, value := range []string{"evil", "gzip", "evil, br;q=0.1", "no-cache", "bytes=0-3",
			`"evil"`, "*", "0"} {
			g := newGate(t, rules.Options{})
			g.origin = origin
			clean := origin(&request{method: "GET", path: "/"}).body
			g.do(&request{path: "/", fields: []string{name + ": " + value}})
			victim := g.do(&request{path: "/"})
			if victim.body != clean || victim.status != 200 {
				t.Errorf("%s: %s: the next client gets %d %q", name, value, victim.status, victim.body)
			}
			if t.Failed() {
				break
			}
		}
	}
}

// The gateway offers the origin codings that it chooses, so all that is left of Accept-Encoding is
// a choice of these, which an honest origin says that it varies by.
func TestAcceptEncodingIsWhatTheGatewaySays(t *testing.T) {
	for sent, want := range map[string]string{
		"gzip, br, zstd": "br, gzip, zstd", "br;q=0.1, GZIP;q=1.0, evil": "gzip, br;q=0.9", "evil": "",
		"*": "br, gzip, zstd", "*;q=0": "", "gzip;q=0, *": "br, zstd",
		"gzip;q=0.000": "", "x-gzip": "gzip", "": "", "gzip ; q=0.5": "gzip", "identity;q=0, br": "br",
		"gzip;q=0, gzip": "gzip", "gzip;q=0.3, br;q=0.3": "br, gzip",
		"zstd;q=0.1, br;q=0.2, gzip;q=0.3": "gzip, br;q=0.9, zstd;q=0.8",
		"identity;q=1, gzip;q=.1":          "", "identity;q=1, gzip;q=0.1": "", "identity;q=0.5, gzip, br;q=0.4": "gzip",
	} {
		g := newGate(t, rules.Options{})
		g.origin = reflecting("Accept-Encoding")
		g.do(&request{path: "/", fields: []string{"Accept-Encoding: " + sent}})
		got := (&response{fields: g.asked[0].fields}).get("Accept-Encoding")
		if got != want {
			t.Errorf("%q is forwarded as %q, want %q", sent, got, want)
		}
	}
	g := newGate(t, rules.Options{})
	g.origin = reflecting("Accept-Encoding")
	g.do(&request{path: "/", fields: []string{"Accept-Encoding: br;q=0.8, gzip;q=0.8"}})
	if g.do(&request{path: "/", fields: []string{"Accept-Encoding: gzip",
		"accept-encoding: br"}}); len(g.asked) != 1 {
		t.Error("clients that accept the same get two copies")
	}
	if g.do(&request{path: "/", fields: []string{"Accept-Encoding: gzip"}}); len(g.asked) != 2 {
		t.Error("a client gets a coding that it does not accept")
	}
}

// Who forbids that content is transformed gets, and is fetched, what there is without codings.
func TestNoTransformAsksForNoCoding(t *testing.T) {
	g := newGate(t, rules.Options{})
	g.origin = reflecting("Accept-Encoding")
	g.do(&request{path: "/", fields: []string{"Accept-Encoding: gzip"}})
	g.do(&request{path: "/", fields: []string{"Accept-Encoding: gzip", "Cache-Control: x, No-Transform"}})
	if len(g.asked) != 2 {
		t.Fatalf("the origin was asked %d times, want 2: what is stored for gzip answers", len(g.asked))
	}
	if got := (&response{fields: g.asked[1].fields}).get("Accept-Encoding"); got != "" {
		t.Errorf("the origin is asked for %q", got)
	}
	if g.do(&request{path: "/"}); len(g.asked) != 2 {
		t.Error("who takes no coding gets another copy")
	}
}

func TestEncodedContentVariesThoughTheOriginDoesNotSaySo(t *testing.T) {
	g := newGate(t, rules.Options{})
	g.origin = func(q *request) *response {
		if (&response{fields: q.fields}).has("Accept-Encoding") {
			return &response{status: 200, fields: []string{"Cache-Control: max-age=60",
				"Content-Encoding: gzip"}, body: "zipped"}
		}
		return &response{status: 200, fields: []string{"Cache-Control: max-age=60"}, body: "plain"}
	}
	g.do(&request{path: "/", fields: []string{"Accept-Encoding: gzip"}})
	if p := g.do(&request{path: "/"}); p.body != "plain" {
		t.Errorf("a client that accepts no coding gets %q", p.body)
	}
}

func TestWhatIsDroppedFromTheQueryIsNotForwarded(t *testing.T) {
	key := func(o rules.KeyOptions) rules.Options {
		k, err := rules.NewKey(o)
		if err != nil {
			t.Fatal(err)
		}
		return rules.Options{Key: k}
	}
	drop := rules.KeyOptions{DropQuery: []string{"utm_*", "fbclid"}}
	both := rules.KeyOptions{DropQuery: []string{"utm_*"}, SortQuery: true}
	for _, c := range []struct {
		o          rules.KeyOptions
		sent, seen string
	}{
		{rules.KeyOptions{}, "b=1&a=2&utm_x=3", "b=1&a=2&utm_x=3"},
		{drop, "b=1&utm_source=evil&a=2", "b=1&a=2"},
		{drop, "utm_source=evil", ""},
		{drop, "utm_source=evil&&fbclid", ""},
		{drop, "a=1;utm_source=evil", "a=1;utm_source=evil"},
		{drop, "utm%5fsource=evil", "utm%5fsource=evil"},
		{drop, "a=utm_source", "a=utm_source"},
		{both, "b=2&a=1&b=1&utm_x=3&a", "a=1&a&b=2&b=1"},
	} {
		g := newGate(t, key(c.o))
		g.origin = reflecting("")
		g.do(&request{path: "/", query: c.sent})
		if got := g.asked[0].query; got != c.seen {
			t.Errorf("of %q the origin sees %q, want %q", c.sent, got, c.seen)
		}
		// A client that shares the key sends what gives the same bytes to the origin.
		if p := g.do(&request{path: "/", query: c.sent + "&utm_late=1"}); !strings.HasPrefix(p.body,
			"GET /?"+g.asked[len(g.asked)-1].query+"\n") {
			t.Errorf("%q with another parameter gets %q", c.sent, p.body)
		}
	}
}

// An origin sees neither, so their answers are the same.
func TestAnEmptyFieldIsKeyedAsNone(t *testing.T) {
	var k rules.Key
	key := func(fields ...string) string {
		return string(k.AppendFields(nil, (&request{method: "GET", path: "/", fields: fields}).head()))
	}
	if key() != key("Accept: ") || key() == key("Accept: a") {
		t.Errorf("%q, %q, %q", key(), key("Accept: "), key("Accept: a"))
	}
}

func TestKeysThatDifferNeverLookAlike(t *testing.T) {
	k, err := rules.NewKey(rules.KeyOptions{Fields: map[string]rules.Treatment{"x-a": rules.Keyed,
		"x-b": rules.Keyed}})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, space := range []string{"", "a", "ab"} {
		for _, path := range []string{"/", "/a", "/ab", "/a/b"} {
			for _, query := range []string{"-", "", "a", "a=b", "x-a:1"} {
				for _, fields := range [][]string{nil, {"X-A: 1"}, {"X-B: 1"}, {"X-A: 1",
					"X-B: 1"}, {"X-A: 1,x-b:1"}, {"X-A: x-b:1"}} {
					h := (&request{method: "GET", path: path, fields: fields}).head()
					if query != "-" {
						h.Query = []byte(query)
					}
					key := string(k.AppendFields(k.AppendURI(nil, space, h, h.Path), h))
					what := say("%q %q %q %q", space, path, query, fields)
					if other, ok := seen[key]; ok {
						t.Errorf("%s and %s have the same key", what, other)
					}
					seen[key] = what
				}
			}
		}
	}
}

func TestKeyOptionsThatCannotBeMeant(t *testing.T) {
	for _, name := range []string{"X-Upper", "a b", "", "range", "if-none-match", "cache-control",
		"x_forwarded_host", "host"} {
		o := rules.KeyOptions{Fields: map[string]rules.Treatment{name: rules.Keyed}}
		if _, err := rules.NewKey(o); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
	many := map[string]rules.Treatment{}
	for i := range 40 {
		many[say("x-%d", i)] = rules.Keyed
	}
	if _, err := rules.NewKey(rules.KeyOptions{Fields: many}); err == nil {
		t.Error("40 keyed fields are taken")
	}
}
