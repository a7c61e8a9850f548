package cache_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/cache/rules"
)

// The cases here are those of the public test suite for HTTP caches (cache-tests.fyi) that concern
// a shared cache, in its names where it has one, and with its expectations. Where the suite only
// asks how a cache behaves, what is expected is what RFC 9111 has, or what package rules says it
// chose.

// dated replaces "@N" in a field's value by the HTTP-date N seconds from now.
func (g *gate) dated(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		if seconds, ok := strings.CutPrefix(value, "@"); ok {
			n, err := strconv.Atoi(seconds)
			if err != nil {
				g.Fatal(err)
			}
			value = g.date(time.Duration(n) * time.Second)
		}
		out[i] = name + ": " + value
	}
	return out
}

func split(fields string) []string {
	if fields == "" {
		return nil
	}
	return strings.Split(fields, " | ")
}

// suiteOptions are what the suite expects of a cache that stores all that it may.
func suiteOptions(t *testing.T) rules.Options {
	t.Helper()
	k, err := rules.NewKey(rules.KeyOptions{Fields: map[string]rules.Treatment{
		"foo": rules.Negotiated, "bar": rules.Negotiated, "baz": rules.Negotiated,
		"accept-language": rules.Negotiated, "other": rules.Plain,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return rules.Options{
		Key: k, Targeted: []string{"CDN-Cache-Control", "Surrogate-Control"}, SetCookie: rules.KeepSetCookie,
		Heuristic: 0.1, HeuristicMax: int64(24 * time.Hour),
	}
}

// reused are cases of one response and one request more, three seconds later.
var reused = []struct {
	name   string
	status int // 0 for 200
	fields string
	cached bool
}{
	{"freshness-none", 0, "", false},
	{"freshness-max-age", 0, "Cache-Control: max-age=3600", true},
	{"freshness-max-age-0", 0, "Cache-Control: max-age=0", false},
	{"freshness-max-age-max", 0, "Cache-Control: max-age=2147483648", true},
	{"freshness-max-age-max-plus", 0, "Cache-Control: max-age=99999999999", true},
	{"more digits than fit", 0, "Cache-Control: max-age=99999999999999999999999999", true},
	{"freshness-max-age-age", 0, "Date: @0 | Cache-Control: max-age=3600 | Age: 7200", false},
	{"freshness-max-age-date", 0, "Date: @-7200 | Cache-Control: max-age=3600", false},
	{"freshness-max-age-expires", 0, "Cache-Control: max-age=3600 | Expires: @-7200 | Date: @0", true},
	{"freshness-max-age-expires-invalid", 0, "Cache-Control: max-age=3600 | Expires: 0 | Date: @0", true},
	{"freshness-max-age-0-expires", 0, "Cache-Control: max-age=0 | Expires: @3600 | Date: @0", false},
	{"freshness-max-age-extension", 0, "Cache-Control: foobar, max-age=3600", true},
	{"freshness-max-age-case-insenstive", 0, "Cache-Control: MaX-aGe=3600", true},
	{"freshness-max-age-negative", 0, "Cache-Control: max-age=-3600", false},
	{"freshness-s-maxage-shared", 0, "Cache-Control: s-maxage=3600", true},
	{"freshness-max-age-s-maxage-shared-longer", 0, "Cache-Control: max-age=3600, s-maxage=1", false},
	{"freshness-max-age-s-maxage-shared-longer-multiple", 0,
		"Cache-Control: max-age=3600 | Cache-Control: s-maxage=1", false},
	{"freshness-max-age-s-maxage-shared-shorter", 0, "Cache-Control: max-age=1, s-maxage=3600", true},
	{"freshness-max-age-s-maxage-shared-shorter-expires", 0,
		"Expires: @-10 | Cache-Control: max-age=0, s-maxage=3600", true},

	{"freshness-max-age-quoted", 0, `Cache-Control: max-age="3600"`, true},
	{"freshness-max-age-single-quoted", 0, "Cache-Control: max-age='3600'", false},
	{"freshness-max-age-ignore-quoted", 0, `Cache-Control: extension="max-age=3600", max-age=1`, false},
	{"freshness-max-age-ignore-quoted-rev", 0, `Cache-Control: max-age=1, extension="max-age=3600"`, false},
	{"a quoted comma", 0, `Cache-Control: extension="a, no-store, b\", no-store", max-age=3600`, true},
	{"a member without a name", 0, `Cache-Control: max-age=3600, =5`, false},
	{"semicolons", 0, `Cache-Control: public; max-age=3600`, false},
	{"a quotation without an end", 0, `Cache-Control: max-age=3600, extension="a, b`, false},
	{"freshness-max-age-leading-zero", 0, "Cache-Control: max-age=003600", true},
	{"freshness-max-age-decimal-five", 0, "Cache-Control: max-age=3600.5", false},
	{"freshness-max-age-space-before-equals", 0, "Cache-Control: max-age =3600", false},
	{"freshness-max-age-space-after-equals", 0, "Cache-Control: max-age= 3600", false},
	{"freshness-max-age-a100", 0, "Cache-Control: max-age=a3600", false},
	{"freshness-max-age-100a", 0, "Cache-Control: max-age=3600a", false},
	{"freshness-max-age-two-stale-fresh-sameline", 0, "Cache-Control: max-age=1, max-age=1800", false},
	{"freshness-max-age-two-fresh-stale-sepline", 0,
		"Cache-Control: max-age=1800 | Cache-Control: max-age=1", false},
	{"freshness-max-age-multiple-line", 0, "Cache-Control: max-age=3600 | Cache-Control: max-age=1800", true},

	{"age-parse-nonnumeric", 0, "Date: @0 | Cache-Control: max-age=3600 | Age: abc", true},
	{"age-parse-suffix", 0, "Date: @0 | Cache-Control: max-age=3600 | Age: 7200,0", false},
	{"age-parse-prefix", 0, "Date: @0 | Cache-Control: max-age=3600 | Age: 0,7200", true},
	{"age-parse-suffix-twoline", 0, "Date: @0 | Cache-Control: max-age=3600 | Age: 7200 | Age: 0", false},
	{"age-parse-prefix-twoline", 0, "Date: @0 | Cache-Control: max-age=3600 | Age: 0 | Age: 7200", true},
	{"an age beyond all", 0, "Cache-Control: max-age=3600 | Age: 99999999999999999999999", false},

	{"freshness-expires-future", 0, "Expires: @2592000 | Date: @0", true},
	{"freshness-expires-past", 0, "Expires: @-2592000 | Date: @0", false},
	{"freshness-expires-present", 0, "Expires: @0 | Date: @0", false},
	{"freshness-expires-old-date", 0, "Expires: @300 | Date: @400", false},
	{"freshness-expires-invalid", 0, "Expires: 0 | Date: @0", false},
	{"freshness-expires-invalid-date", 0, "Date: foo | Expires: @10", true},
	{"freshness-expires-age-slow-date", 0, "Date: @-10 | Expires: @10 | Age: 25", false},
	{"freshness-expires-age-fast-date", 0, "Date: @10 | Expires: @20 | Age: 15", false},
	{"freshness-expires-far-future", 0, "Expires: Sun, 21 Nov 2286 04:46:39 GMT | Date: @0", true},
	{"freshness-expires-rfc850", 0, "Expires: Thursday, 18-Aug-50 02:01:18 GMT | Date: @0", true},
	{"freshness-expires-ansi-c", 0, "Expires: Thu Aug  8 02:01:18 2050 | Date: @0", true},
	{"freshness-expires-invalid-aest", 0, "Expires: Thu, 18 Aug 2050 02:01:18 AEST | Date: @0", false},
	{"freshness-expires-invalid-2-digit-year", 0, "Expires: Thu, 18 Aug 50 02:01:18 GMT | Date: @0", false},
	{"freshness-expires-invalid-multiple-spaces", 0,
		"Expires: Thu, 18  Aug  2050 02:01:18 GMT | Date: @0", false},
	{"freshness-expires-invalid-1-digit-hour", 0, "Expires: Thu, 18 Aug 2050 2:01:18 GMT | Date: @0", false},
	{"a date that does not exist", 0, "Expires: Fri, 30 Feb 2050 02:01:18 GMT | Date: @0", false},
	{"two Expires, one past", 0, "Expires: @3000 | Expires: @-3000", false},

	{"cc-resp-private-shared", 0, "Cache-Control: private, max-age=3600", false},
	{"cc-resp-no-store-case-insensitive", 0, "Cache-Control: No-StOrE", false},
	{"cc-resp-no-store-fresh", 0, "Cache-Control: max-age=10000, no-store | Expires: @10000 | Date: @0",
		false},
	{"cc-resp-no-cache", 0, "Cache-Control: max-age=10000, no-cache | Expires: @10000 | Date: @0", false},
	{"no-store with an argument", 0, "Cache-Control: max-age=10000, no-store=1", false},
	{"private without names", 0, `Cache-Control: max-age=10000, private=""`, false},
	{"private with what is not a name", 0, `Cache-Control: max-age=10000, private="a b"`, false},
	{"status-599-must-understand", 599, "Cache-Control: max-age=3600, must-understand", false},
	{"must-understand over no-store", 0, "Cache-Control: max-age=3600, must-understand, no-store", true},
	{"no-store where it is not understood", 599,
		"Cache-Control: max-age=3600, must-understand, no-store", false},

	{"heuristic-200-cached", 200, "Last-Modified: @-86400 | Date: @0", true},
	{"heuristic-201-not_cached", 201, "Last-Modified: @-86400 | Date: @0", false},
	{"heuristic-202-not_cached", 202, "Last-Modified: @-86400 | Date: @0", false},
	{"heuristic-203-cached", 203, "Last-Modified: @-86400 | Date: @0", true},
	{"heuristic-204-cached", 204, "Last-Modified: @-86400 | Date: @0", true},
	{"heuristic-403-not_cached", 403, "Last-Modified: @-86400 | Date: @0", false},
	{"heuristic-404-cached", 404, "Last-Modified: @-86400 | Date: @0", true},
	{"heuristic-405-cached", 405, "Last-Modified: @-86400 | Date: @0", true},
	{"heuristic-410-cached", 410, "Last-Modified: @-86400 | Date: @0", true},
	{"heuristic-414-cached", 414, "Last-Modified: @-86400 | Date: @0", true},
	{"heuristic-501-cached", 501, "Last-Modified: @-86400 | Date: @0", true},
	{"heuristic-502-not_cached", 502, "Last-Modified: @-86400 | Date: @0", false},
	{"heuristic-503-not_cached", 503, "Last-Modified: @-86400 | Date: @0", false},
	{"heuristic-599-not_cached", 599, "Last-Modified: @-86400 | Date: @0", false},
	{"heuristic-599-cached", 599, "Last-Modified: @-86400 | Date: @0 | Cache-Control: public", true},
	{"heuristic-delta-5", 0, "Last-Modified: @-5 | Date: @0", false},
	{"heuristic-delta-60", 0, "Last-Modified: @-60 | Date: @0", true},
	{"modified in the future", 0, "Last-Modified: @600 | Date: @0", false},
	{"pragma-response-no-cache", 0, "Cache-Control: max-age=3600 | Pragma: no-cache", true},

	{"status-299-fresh", 299, "Expires: @100000 | Date: @0", true},
	{"status-301-fresh", 301, "Expires: @100000 | Date: @0", true},
	{"status-302-fresh", 302, "Expires: @100000 | Date: @0", true},
	{"status-302-stale", 302, "Expires: @-5000 | Date: @0", false},
	{"status-400-fresh", 400, "Expires: @100000 | Date: @0", true},
	{"status-499-fresh", 499, "Expires: @100000 | Date: @0", true},
	{"status-503-fresh", 503, "Expires: @100000 | Date: @0", true},
	{"status-599-stale", 599, "Expires: @-5000 | Date: @0", false},
	{"206 is not stored", 206, "Cache-Control: max-age=3600 | Content-Range: bytes 0-3/10", false},
	{"304 for nothing", 304, "Cache-Control: max-age=3600", false},

	{"vary-star", 0, "Cache-Control: max-age=3600 | Vary: *", false},
	{"vary-syntax-empty-star-lines", 0, "Cache-Control: max-age=3600 | Vary:  | Vary: *", false},
	{"vary-syntax-foo-star", 0, "Cache-Control: max-age=3600 | Vary: Foo, *", false},
	{"vary-syntax-star-foo", 0, "Cache-Control: max-age=3600 | Vary: *, Foo", false},
	{"a Vary that is not a list of names", 0, "Cache-Control: max-age=3600 | Vary: a b", false},

	{"cdn-max-age", 0, "CDN-Cache-Control: max-age=3600", true},
	{"cdn-max-age-max-plus", 0, "CDN-Cache-Control: max-age=99999999999", true},
	{"cdn-max-age-age", 0, "Date: @0 | CDN-Cache-Control: max-age=3600 | Age: 7200", false},
	{"cdn-max-age-space-before-equals", 0, "Cache-Control: max-age=1 | CDN-Cache-Control: max-age =100",
		false},
	{"cdn-max-age-space-after-equals", 0,
		"Cache-Control: max-age=1 | CDN-Cache-Control: max-age= 100", false},
	{"cdn-max-age-0", 0, "CDN-Cache-Control: max-age=0", false},
	{"cdn-max-age-extension", 0, "CDN-Cache-Control: foobar, max-age=3600", true},
	{"cdn-max-age-case-insensitive", 0, "CDN-Cache-Control: MaX-aGe=3600", false},
	{"cdn-max-age-expires", 0, "CDN-Cache-Control: max-age=3600 | Expires: @-10000 | Date: @0", true},
	{"cdn-max-age-0-expires", 0, "CDN-Cache-Control: max-age=0 | Expires: @10000 | Date: @0", false},
	{"cdn-max-age-short-cc-max-age", 0, "Cache-Control: max-age=1 | CDN-Cache-Control: max-age=3600", true},
	{"cdn-max-age-long-cc-max-age", 0, "Cache-Control: max-age=3600 | CDN-Cache-Control: max-age=1", false},
	{"cdn-private", 0, "CDN-Cache-Control: private | Cache-Control: max-age=10000", false},
	{"cdn-no-cache", 0, "CDN-Cache-Control: no-cache | Cache-Control: max-age=10000", false},
	{"cdn-no-store-cc-fresh", 0, "Cache-Control: max-age=10000 | CDN-Cache-Control: no-store", false},
	{"cdn-fresh-cc-nostore", 0, "Cache-Control: no-store | CDN-Cache-Control: max-age=10000", true},
	{"cdn-cc-invalid-sh-type-unknown", 0,
		"CDN-Cache-Control: max-age=10000, &&&&& | Cache-Control: no-store", false},
	{"cdn-cc-invalid-sh-type-wrong", 0, `CDN-Cache-Control: max-age="10000" | Cache-Control: no-store`, false},
	{"an empty targeted field", 0, "CDN-Cache-Control:  | Cache-Control: max-age=3600", true},
	{"a directive that is off", 0, "CDN-Cache-Control: max-age=3600, no-store=?0", true},
	{"a directive over two lines", 0, "CDN-Cache-Control: max-age=3600 | CDN-Cache-Control: no-store", false},
	{"a targeted decimal", 0, "CDN-Cache-Control: max-age=36.5 | Cache-Control: no-store", false},
	{"surrogate-max-age", 0, "Surrogate-Control: max-age=3600", true},
	{"surrogate-max-age-long-cc-max-age", 0,
		"Cache-Control: max-age=3600 | Surrogate-Control: max-age=1", false},
	{"surrogate-no-store", 0, "Surrogate-Control: no-store | Cache-Control: max-age=3600", false},
	{"surrogate-max-age-other-target", 0,
		"Surrogate-Control: max-age=3600;other | Cache-Control: max-age=1", false},
	{"surrogate time with a grace", 0, "Surrogate-Control: max-age=3600+600", true},

	{"other-set-cookie", 0, "Cache-Control: max-age=3600 | Set-Cookie: a=b", true},
	{"other-fresh-content-disposition-attachment", 0,
		"Cache-Control: max-age=3600 | Content-Disposition: attachment", true},
}

func TestWhatIsReused(t *testing.T) {
	for _, c := range reused {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, suiteOptions(t))
			answer := &response{status: max(c.status, 0), fields: g.dated(split(c.fields)), body: "body"}
			if c.status == 0 {
				answer.status = 200
			}
			g.origin = func(*request) *response { return answer }
			g.do(&request{path: "/"})
			g.pass(3 * time.Second)
			p := g.do(&request{path: "/"})
			if cached := len(g.asked) == 1; cached != c.cached {
				t.Errorf("reused: %v, want %v (%s)", cached, c.cached, p.get("Cache-Status"))
			}
			if p.status != answer.status || p.body != answer.body {
				t.Errorf("answered with %d %q", p.status, p.body)
			}
		})
	}
}

// steps are cases of several requests. A request is "METHOD /path | field | field"; what the origin
// answers stands behind "<", and what is expected behind ">": "hit", "miss", "validated" (the
// origin was asked with validators), a status, or a field that is there or, behind "!", is not.
var steps = []struct {
	name  string
	steps []string
}{
	{"vary-match", []string{"GET / | Foo: 1 < Cache-Control: max-age=60 | Vary: Foo > miss",
		"GET / | Foo: 1 > hit"}},
	{"vary-no-match", []string{"GET / | Foo: 1 < Cache-Control: max-age=60 | Vary: Foo > miss",
		"GET / | Foo: 2 > miss"}},
	{"vary-omit", []string{"GET / | Foo: 1 < Cache-Control: max-age=60 | Vary: Foo > miss", "GET / > miss"}},
	{"vary-omit-stored", []string{"GET / < Cache-Control: max-age=60 | Vary: Foo > miss",
		"GET / | Foo: 1 > miss", "GET / > hit"}},
	{"vary-invalidate", []string{
		"GET / | Foo: 1 < Cache-Control: max-age=60 | Vary: Foo > miss",
		"GET / | Foo: 2 < Cache-Control: max-age=60 | Vary: Foo > miss",
		"GET / | Foo: 1 > hit", "GET / | Foo: 2 > hit",
	}},
	{"vary-cache-key",
		[]string{"GET / | Foo: 1 | Other: 2 < Cache-Control: max-age=60 | Vary: Foo > miss",
			"GET / | Foo: 1 | Other: 3 > hit"}},
	{"vary-2-no-match",
		[]string{"GET / | Foo: 1 | Bar: abc < Cache-Control: max-age=60 | Vary: Foo, Bar > miss",
			"GET / | Foo: 2 | Bar: abc > miss"}},
	{"vary-3-omit",
		[]string{"GET / | Foo: 1 | Baz: 7 < Cache-Control: max-age=60 | Vary: Foo, Bar, Baz > miss",
			"GET / | Foo: 1 | Baz: 7 > hit"}},
	{"vary-normalise-combine",
		[]string{"GET / | Foo: 1, 2 < Cache-Control: max-age=60 | Vary: Foo > miss",
			"GET / | Foo: 1 | Foo: 2 > hit"}},
	{"vary-normalise-lang-case", []string{
		"GET / | Accept-Language: en, de < Cache-Control: max-age=60 | Vary: Accept-Language > miss",
		"GET / | Accept-Language: eN, De > hit",
	}},
	{"vary-normalise-lang-space", []string{
		"GET / | Accept-Language: en, de < Cache-Control: max-age=60 | Vary: Accept-Language > miss",
		"GET / | Accept-Language:  en ,   de > hit",
	}},
	{"a Vary that changes keeps what was stored", []string{
		"GET / | Foo: 1 < Cache-Control: max-age=60 | Vary: Foo > miss",
		"GET / | Foo: 2 | Bar: 1 < Cache-Control: max-age=60 | Vary: Bar > miss",
		"GET / | Foo: 2 | Bar: 1 > hit", "GET / | Foo: 1 | Bar: 2 > miss",
	}},

	{"conditional-lm-fresh",
		[]string{"GET / < Cache-Control: max-age=60 | Last-Modified: @-3000 > miss",
			"GET / | If-Modified-Since: @-3000 > hit | 304"}},
	{"conditional-lm-fresh-earlier",
		[]string{"GET / < Cache-Control: max-age=60 | Last-Modified: @-3000 > miss",
			"GET / | If-Modified-Since: @-2000 > hit | 304"}},
	{"modified since", []string{"GET / < Cache-Control: max-age=60 | Last-Modified: @-3000 > miss",
		"GET / | If-Modified-Since: @-4000 > hit | 200"}},
	{"If-Modified-Since that is not a date",
		[]string{"GET / < Cache-Control: max-age=60 | Last-Modified: @-3000 > miss",
			"GET / | If-Modified-Since: tomorrow > hit | 200"}},
	{"conditional-etag-strong-respond", []string{`GET / < Cache-Control: max-age=60 | ETag: "a" > miss`,
		`GET / | If-None-Match: "a" > hit | 304 | ETag: "a"`}},
	{"conditional-etag-precedence", []string{
		`GET / < Cache-Control: max-age=60 | ETag: "a" | Last-Modified: @-5000 > miss`,
		`GET / | If-None-Match: "a" | If-Modified-Since: @-9000 > hit | 304`,
		`GET / | If-None-Match: "b" | If-Modified-Since: @0 > hit | 200`,
	}},
	{"conditional-etag-weak-respond", []string{`GET / < Cache-Control: max-age=60 | ETag: W/"a" > miss`,
		`GET / | If-None-Match: "a" > hit | 304`}},
	{"conditional-etag-strong-respond-multiple-last", []string{
		`GET / < Cache-Control: max-age=60 | ETag: "a,b" > miss`,
		`GET / | If-None-Match: "1", "2" | If-None-Match: W/"3", "a,b" > hit | 304`,
	}},
	{"If-None-Match: *", []string{`GET / < Cache-Control: max-age=60 > miss`,
		`GET / | If-None-Match: * > hit | 304`}},
	{"conditional-etag-quoted-respond-unquoted",
		[]string{`GET / < Cache-Control: max-age=60 | ETag: "a" > miss`,
			`GET / | If-None-Match: a > hit | 200`}},
	{"a stored error is not what a condition asks for",
		[]string{`GET / < :404 | Cache-Control: max-age=60 | ETag: "a" > miss`,
			`GET / | If-None-Match: "a" > hit | 404`}},
	{"the client's conditions stay behind on a miss", []string{
		`GET / | If-None-Match: "a" | Cache-Control: max-age=5 < Cache-Control: max-age=60 | ETag: "a" > miss | 304`, `GET / > hit | 200`,
	}},
	{"conditional-etag-strong-generate", []string{`GET / < Cache-Control: max-age=1 | ETag: "a" > miss`,
		`GET / < :304 | ETag: "a" > validated | 200 | ETag: "a"`}},
	{"conditional-lm-stale", []string{`GET / < Cache-Control: max-age=1 | Last-Modified: @-500 > miss`,
		`GET / < :304 > validated | 200`}},
	{"304-etag-update-response-Test-Header", []string{
		`GET / < Cache-Control: max-age=1 | ETag: "a" | Test: 1 | Kept: 1 > miss`,
		`GET / < :304 | ETag: "a" | Test: 2 | Cache-Control: max-age=60 > validated | 200 | Test: 2 | Kept: 1`, `GET / > hit | Test: 2 | Kept: 1`,
	}},
	{"304 and what may not change", []string{
		`GET / < Cache-Control: max-age=1 | ETag: "a" | Content-Encoding: x > miss`,
		`GET / < :304 | ETag: "a" | Content-Encoding: y | Content-Length: 99 | Connection: Foo | Foo: 1 > validated | Content-Encoding: x | !Foo`,
	}},
	{"a 304 for something else", []string{
		`GET / < Cache-Control: max-age=1 | ETag: "a" > miss`, `GET / < :304 | ETag: "b" > validated | 304`,
	}},
	{"a 304 that forbids storing", []string{
		`GET / < Cache-Control: max-age=1 | ETag: "a" > miss`,
		`GET / < :304 | ETag: "a" | Cache-Control: no-store > validated | 200`, `GET / > miss`,
	}},
	{"cc-resp-must-revalidate-stale", []string{
		`GET / < Cache-Control: max-age=1, must-revalidate | ETag: "a" > miss`,
		`GET / < :304 | ETag: "a" > validated | 200`,
	}},
	{"cc-resp-no-cache-revalidate",
		[]string{`GET / < Cache-Control: max-age=60, no-cache | ETag: "a" > miss`,
			`GET / < :304 | ETag: "a" > validated | 200`}},

	{"ccreq-ma0", []string{"GET / < Cache-Control: max-age=60 > miss",
		"GET / | Cache-Control: max-age=0 > miss"}},
	{"ccreq-ma0 of what is immutable", []string{"GET / < Cache-Control: max-age=60, immutable > miss",
		"GET / | Cache-Control: max-age=0 > hit"}},
	{"ccreq-magreaterage", []string{"GET / < Cache-Control: max-age=3600 | Age: 1800 > miss",
		"GET / | Cache-Control: max-age=600 > miss"}},
	{"ccreq-max-stale", []string{"GET / < Cache-Control: max-age=1 > miss",
		"GET / | Cache-Control: max-stale=1000 > hit"}},
	{"ccreq-max-stale without a value", []string{"GET / < Cache-Control: max-age=1 > miss",
		"GET / | Cache-Control: max-stale > hit"}},
	{"ccreq-max-stale too short", []string{"GET / < Cache-Control: max-age=1 > miss",
		"GET / | Cache-Control: max-stale=1 > miss"}},
	{"ccreq-max-stale where it is forbidden",
		[]string{"GET / < Cache-Control: max-age=1, proxy-revalidate > miss",
			"GET / | Cache-Control: max-stale > miss"}},
	{"ccreq-min-fresh", []string{"GET / < Cache-Control: max-age=1500 > miss",
		"GET / | Cache-Control: min-fresh=2000 > miss"}},
	{"ccreq-min-fresh-age", []string{"GET / < Cache-Control: max-age=1500 | Age: 1000 > miss",
		"GET / | Cache-Control: min-fresh=1000 > miss"}},
	{"ccreq-no-cache-etag", []string{`GET / < Cache-Control: max-age=60 | ETag: "a" > miss`,
		`GET / | Cache-Control: no-cache < :304 > validated`}},
	{"ccreq-no-store", []string{"GET / | Cache-Control: no-store < Cache-Control: max-age=60 > miss",
		"GET / < Cache-Control: max-age=60 > miss", "GET / | Cache-Control: no-store > hit"}},
	{"ccreq-oic", []string{"GET / | Cache-Control: only-if-cached > 504",
		"GET / < Cache-Control: max-age=60 > miss", "GET / | Cache-Control: only-if-cached > hit"}},
	{"pragma-request-no-cache", []string{"GET / < Cache-Control: max-age=60 > miss",
		"GET / | Pragma: no-cache > miss"}},
	{"Pragma beside Cache-Control", []string{"GET / < Cache-Control: max-age=60 > miss",
		"GET / | Pragma: no-cache | Cache-Control: max-age=9 > hit"}},

	{"stale-while-revalidate",
		[]string{`GET / < Cache-Control: max-age=1, stale-while-revalidate=60 > miss`,
			`GET / < Cache-Control: max-age=60 | New: 1 > stale`, `GET / > hit | New: 1`}},
	{"no-store does not keep a refresh from being stored", []string{
		`GET / < Cache-Control: max-age=1, stale-while-revalidate=60 > miss`,
		`GET / | Cache-Control: no-store < Cache-Control: max-age=60 | New: 1 > stale`,
		`GET / > hit | New: 1`,
	}},
	{"stale-while-revalidate is over",
		[]string{`GET / < Cache-Control: max-age=1, stale-while-revalidate=1 > miss`, `GET / > miss`}},
	{"stale-while-revalidate and s-maxage",
		[]string{`GET / < Cache-Control: s-maxage=1, stale-while-revalidate=60 > miss`, `GET / > stale`}},
	{"stale-while-revalidate and must-revalidate",
		[]string{`GET / < Cache-Control: max-age=1, stale-while-revalidate=60, must-revalidate > miss`,
			`GET / > miss`}},
	{"stale-if-error-cc-response",
		[]string{`GET / < Cache-Control: max-age=1, stale-if-error=60 > miss`, `GET / < :500 > asked | 200`}},
	{"stale-sie-close", []string{`GET / < Cache-Control: max-age=1, stale-if-error=60 > miss`,
		`GET / < :0 > asked | 200`}},
	{"stale-if-error-cc-response-expired",
		[]string{`GET / < Cache-Control: max-age=1, stale-if-error=1 > miss`, `GET / < :500 > asked | 500`}},
	{"stale-if-error-cc-request", []string{`GET / < Cache-Control: max-age=1 > miss`,
		`GET / | Cache-Control: stale-if-error=60 < :503 > asked | 200`}},
	{"stale-503", []string{`GET / < Cache-Control: max-age=1 > miss`, `GET / < :503 > asked | 503`}},
	{"stale-close-must-revalidate",
		[]string{`GET / < Cache-Control: max-age=1, must-revalidate, stale-if-error=60 > miss`,
			`GET / < :503 > asked | 503`}},
	{"stale-close-s-maxage=2", []string{`GET / < Cache-Control: s-maxage=1 > miss`,
		`GET / | Cache-Control: stale-if-error=60 < :503 > asked | 503`}},
	{"an error that is not a failure",
		[]string{`GET / < Cache-Control: max-age=1, stale-if-error=60 > miss`, `GET / < :404 > asked | 404`}},

	{"invalidate-POST", []string{"GET / < Cache-Control: max-age=60 > miss", "POST / > asked",
		"GET / > miss"}},
	{"invalidate-POST-failed", []string{"GET / < Cache-Control: max-age=60 > miss",
		"POST / < :500 > asked", "GET / > hit"}},
	{"invalidate-M-SEARCH", []string{"GET / < Cache-Control: max-age=60 > miss", "M-SEARCH / > asked",
		"GET / > miss"}},
	{"safe methods do not", []string{"GET / < Cache-Control: max-age=60 > miss", "OPTIONS / > asked",
		"GET / > hit"}},
	{"invalidate-POST-location", []string{"GET /b < Cache-Control: max-age=60 > miss",
		"POST /a < Location: b > asked", "GET /b > miss"}},
	{"invalidate-POST-cl", []string{"GET /b < Cache-Control: max-age=60 > miss",
		"POST /a < Content-Location: https://EXAMPLE.com:443/b > asked", "GET /b > miss"}},
	{"another origin's location", []string{"GET /b < Cache-Control: max-age=60 > miss",
		"POST /a < Location: https://evil.example/b > asked", "GET /b > hit"}},
	{"another scheme's location", []string{"GET /b < Cache-Control: max-age=60 > miss",
		"POST /a < Location: http://example.com/b > asked", "GET /b > hit"}},
	{"all variants are outdated", []string{
		"GET / | Foo: 1 < Cache-Control: max-age=60 | Vary: Foo > miss",
		"GET / | Foo: 2 < Cache-Control: max-age=60 | Vary: Foo > miss",
		"PUT / > asked", "GET / | Foo: 1 > miss", "GET / | Foo: 2 > miss",
	}},

	{"partial-store-complete-reuse-partial", []string{"GET / < Cache-Control: max-age=60 > miss",
		"GET / | Range: bytes=0-1 > hit | 206 | Content-Range: bytes 0-1/4 | Content-Length: 2"}},
	{"partial-store-complete-reuse-partial-no-last",
		[]string{"GET / < Cache-Control: max-age=60 > miss",
			"GET / | Range: bytes=1- > hit | 206 | Content-Range: bytes 1-3/4"}},
	{"partial-store-complete-reuse-partial-suffix", []string{"GET / < Cache-Control: max-age=60 > miss",
		"GET / | Range: bytes=-1 > hit | 206 | Content-Range: bytes 3-3/4"}},
	{"a range behind the end", []string{"GET / < Cache-Control: max-age=60 > miss",
		"GET / | Range: bytes=4- > hit | 416 | Content-Range: bytes */4"}},
	{"several ranges", []string{"GET / < Cache-Control: max-age=60 > miss",
		"GET / | Range: bytes=0-0,2-2 > hit | 200"}},
	{"another unit", []string{"GET / < Cache-Control: max-age=60 > miss",
		"GET / | Range: lines=0-0 > hit | 200"}},
	{"a range of what is not stored",
		[]string{"GET / | Range: bytes=0-1 < :206 | Cache-Control: max-age=60 > miss | 206", "GET / > miss"}},
	{"If-Range that holds", []string{`GET / < Cache-Control: max-age=60 | ETag: "a" > miss`,
		`GET / | Range: bytes=0-1 | If-Range: "a" > hit | 206`}},
	{"If-Range that does not", []string{`GET / < Cache-Control: max-age=60 | ETag: "a" > miss`,
		`GET / | Range: bytes=0-1 | If-Range: "b" > hit | 200`}},
	{"If-Range and a weak tag", []string{`GET / < Cache-Control: max-age=60 | ETag: W/"a" > miss`,
		`GET / | Range: bytes=0-1 | If-Range: W/"a" > hit | 200`}},
	{"If-Range with a date", []string{`GET / < Cache-Control: max-age=60 | Last-Modified: @-900 > miss`,
		`GET / | Range: bytes=0-1 | If-Range: @-897 > hit | 200`}},
	{"conditions come before ranges", []string{`GET / < Cache-Control: max-age=60 | ETag: "a" > miss`,
		`GET / | Range: bytes=0-1 | If-None-Match: "a" > hit | 304`}},
	{"If-Match that holds", []string{`GET / < Cache-Control: max-age=60 | ETag: "a" > miss`,
		`GET / | If-Match: "a" > hit`}},
	{"If-Match that does not", []string{`GET / < Cache-Control: max-age=60 | ETag: "a" > miss`,
		`GET / | If-Match: "b" < :412 > asked | 412`, `GET / > hit`}},

	{"HEAD from GET", []string{"GET / < Cache-Control: max-age=60 | X: 1 > miss",
		"HEAD / > hit | 200 | X: 1 | Content-Length: 4"}},
	{"HEAD is not stored", []string{"HEAD / < Cache-Control: max-age=60 > miss", "HEAD / > miss",
		"GET / > miss"}},
	{"method-POST", []string{"POST / < Cache-Control: max-age=60 | Content-Location: / > asked",
		"GET / > miss"}},
	{"a GET with a body", []string{"GET /+ < Cache-Control: max-age=60 > miss", "GET / > miss"}},

	{"other-authorization", []string{"GET / | Authorization: A < Cache-Control: max-age=60 > miss",
		"GET / > miss"}},
	{"other-authorization-public",
		[]string{"GET / | Authorization: A < Cache-Control: max-age=60, public > miss", "GET / > hit"}},
	{"other-authorization-must-revalidate",
		[]string{"GET / | Authorization: A < Cache-Control: max-age=60, must-revalidate > miss",
			"GET / > hit"}},
	{"other-authorization-smaxage",
		[]string{"GET / | Authorization: A < Cache-Control: s-maxage=60 > miss", "GET / > hit"}},
	{"other-cookie", []string{"GET / < Cache-Control: max-age=60 > miss", "GET / | Cookie: a=b > hit"}},
	{"an answer for a cookie",
		[]string{"GET / | Cookie: a=b < Cache-Control: max-age=60, public > miss", "GET / > miss"}},
	{"an answer that varies by the cookie", []string{
		"GET / | Cookie: a=b < Cache-Control: max-age=60 | Vary: Cookie > miss",
		"GET / | Cookie: a=b > hit", "GET / | Cookie: a=c > miss", "GET / > miss",
	}},

	{"other-age-gen", []string{"GET / < Cache-Control: max-age=60 > miss", "GET / > hit | Age: 3"}},
	{"other-age-update-max-age", []string{"GET / < Cache-Control: max-age=600 | Age: 30 > miss",
		"GET / > hit | Age: 33"}},
	{"headers-omit-headers-listed-in-Cache-Control-no-cache",
		[]string{`GET / < Cache-Control: max-age=60, no-cache="a, b" | A: 1 | B: 2 | C: 3 > miss`,
			"GET / > hit | C: 3 | !A | !B"}},
	{"private names fields",
		[]string{`GET / < Cache-Control: max-age=60, private=Set-Cookie | Set-Cookie: a=b | C: 3 > miss`, "GET / > hit | C: 3 | !Set-Cookie"}},
	{"headers-omit-headers-listed-in-Connection",
		[]string{"GET / < Cache-Control: max-age=60 | Connection: a, b | A: 1 | B: 2 | C: 3 > miss",
			"GET / > hit | C: 3 | !A | !B | !Connection"}},
	{"headers of connections", []string{
		"GET / < Cache-Control: max-age=60 | Keep-Alive: 1 | Proxy-Authenticate: a | TE: b | " +
			"Upgrade: c | Transfer-Encoding: chunked | Proxy-Authentication-Info: d > miss",
		"GET / > hit | !Keep-Alive | !Proxy-Authenticate | !TE | !Upgrade | !Transfer-Encoding | !Proxy-Authentication-Info",
	}},
	{"headers-store-Content-Type",
		[]string{"GET / < Cache-Control: max-age=60 | Content-Type: a/b | Expires: x | " +
			"Clear-Site-Data: c > miss", "GET / > hit | Content-Type: a/b | Clear-Site-Data: c"}},
	{"a response without Date gets one", []string{"GET / < Cache-Control: max-age=60 > miss",
		"GET / > hit | Date: @-3"}},
	{"query-args-different", []string{"GET /?a=1 < Cache-Control: max-age=60 > miss",
		"GET /?a=2 > miss", "GET /?a=1 > hit", "GET / > miss"}},
}

// parseStep cuts a step into its parts.
func (g *gate) parseStep(line string) (q *request, answer *response, want []string) {
	line, expected, _ := strings.Cut(line, " > ")
	line, answered, _ := strings.Cut(line, " < ")
	parts := split(line)
	method, target, _ := strings.Cut(parts[0], " ")
	q = &request{method: method, fields: g.dated(parts[1:])}
	q.body = strings.HasSuffix(target, "+")
	q.path, q.query, _ = strings.Cut(strings.TrimSuffix(target, "+"), "?")
	answer = &response{status: 200, body: "body"}
	fields := split(answered)
	if len(fields) > 0 && fields[0][0] == ':' {
		answer.status, _ = strconv.Atoi(fields[0][1:])
		answer.failed = answer.status == 0
		fields = fields[1:]
	}
	if answer.status == 304 || q.method == "HEAD" {
		answer.body = ""
	}
	answer.fields = g.dated(fields)
	return q, answer, split(expected)
}

func TestRequestsInARow(t *testing.T) {
	for _, c := range steps {
		t.Run(c.name, func(t *testing.T) {
			g := newGate(t, suiteOptions(t))
			for _, line := range c.steps {
				g.step(line)
				g.pass(3 * time.Second)
			}
		})
	}
}

// step plays one and checks what is expected of it.
func (g *gate) step(line string) {
	g.Helper()
	q, answer, want := g.parseStep(line)
	g.origin = func(*request) *response { return answer }
	before := len(g.asked)
	p := g.do(q)
	at := len(g.asked)
	g.settle()
	conditional := false
	for _, asked := range g.asked[before:] {
		conditional = conditional || (&response{fields: asked.fields}).has("If-None-Match") ||
			(&response{fields: asked.fields}).has("If-Modified-Since")
	}
	for _, w := range want {
		ok := false
		switch status, err := strconv.Atoi(w); {
		case err == nil:
			ok = p.status == status
		case w == "hit":
			ok = at == before && len(g.asked) == before
		case w == "stale":
			ok = at == before && len(g.asked) == before+1
		case w == "miss":
			ok = at > before && !conditional
		case w == "asked":
			ok = at > before
		case w == "validated":
			ok = at > before && conditional
		case w[0] == '!':
			ok = !p.has(w[1:])
		default:
			name, value, _ := strings.Cut(g.dated([]string{w})[0], ": ")
			ok = p.get(name) == value
		}
		if !ok {
			g.Errorf("%s: not so: %s; answered with %d, %q", line, w, p.status, p.fields)
		}
	}
}
