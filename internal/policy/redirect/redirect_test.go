package redirect_test

import (
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/redirect"
)

type params map[string]string

func (p params) Value(name string) []byte { return []byte(p[name]) }

var names = []string{"id", "rest..."}

func request(values params) *exchange.Exchange {
	r := &head.Request{Scheme: []byte("http"), Host: []byte("shop.example"), Path: []byte("/old/a%20b"), Query: []byte("q=1")}
	x := &exchange.Exchange{Request: r, Response: &head.Response{}}
	x.Begin(nil)
	x.Params = values
	return x
}

func location(t *testing.T, to string, x *exchange.Exchange) string {
	t.Helper()
	p, err := redirect.New(redirect.Options{To: to, PathNames: names})
	if err != nil {
		t.Fatal(err)
	}
	x.Response.Fields.Add([]byte("X-Old"), []byte("gone"))
	if v := p.OnRequest(x); v != exchange.Answered || x.Response.Status != 308 ||
		x.Reason != exchange.RouteAnswer || x.Response.Length != 0 {
		t.Fatalf("verdict %d, status %d, reason %v, length %d", v, x.Response.Status, x.Reason, x.Response.Length)
	}
	if x.Response.Fields.Len() != 1 {
		t.Fatalf("%d fields", x.Response.Fields.Len())
	}
	return string(x.Response.Fields.Value(head.Location))
}

func TestTheLocation(t *testing.T) {
	for to, want := range map[string]string{
		"/new":                            "/new",
		"/new?a=b#top":                    "/new?a=b#top",
		"/new/{id}/{rest...}":             "/new/7/x/y",
		"https://${host}${path}?${query}": "https://shop.example/old/a%20b?q=1",
		"https://www.example/${path.id}":  "https://www.example/7",
		"${scheme}://www.${host}${path}":  "http://www.shop.example/old/a%20b",
		"https://www.example:8443${path}": "https://www.example:8443/old/a%20b",
		"${path}/":                        "/old/a%20b/",
		"https://www.example?id={id}":     "https://www.example?id=7",
	} {
		if got := location(t, to, request(params{"id": "7", "rest": "x/y"})); got != want {
			t.Errorf("%s: got %q, want %q", to, got, want)
		}
	}
}

func TestAnEmptyQueryLeavesNoQuestionMark(t *testing.T) {
	x := request(nil)
	x.Request.Query = nil
	if got := location(t, "https://${host}${path}?${query}", x); got != "https://shop.example/old/a%20b" {
		t.Errorf("got %q", got)
	}
}

func TestAClientCannotChooseTheSite(t *testing.T) {
	for _, c := range []struct {
		to, path, rest, want string
	}{
		{"/${path}", "/evil.example", "", "/evil.example"},
		{"/{rest...}", "/", "/evil.example", "/evil.example"},
		{"/{rest...}", "/", "//evil.example", "/evil.example"},
		{"/{rest...}", "/", `\evil.example`, "/%5Cevil.example"},
		{"/{rest...}", "/", "\t/evil.example", "/%09/evil.example"},
		{"/{rest...}", "/", "a\r\nSet-Cookie: b", "/a%0D%0ASet-Cookie:%20b"},
		{"https://a.example/{rest...}", "/", "@evil.example", "https://a.example/@evil.example"},
	} {
		x := request(params{"rest": c.rest})
		x.Request.Path = []byte(c.path)
		if got := location(t, c.to, x); got != c.want {
			t.Errorf("%s with %q and %q: got %q, want %q", c.to, c.path, c.rest, got, c.want)
		}
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for to, hint := range map[string]string{
		"":                              "begins with neither",
		"new":                           "begins with neither",
		"{rest...}":                     "begins with neither",
		"${query}":                      "begins with neither",
		"javascript:alert(1)":           "begins with neither",
		"//www.example":                 "write the scheme",
		"https://":                      "no host",
		"https:///a":                    "no host",
		"https://{id}/":                 "may hold no variable",
		"https://a.example{rest...}":    "may hold no variable",
		"https://${path.id}.a.example/": "may hold no variable",
		"https://${query}":              "may hold no variable",
		"https://user@a.example/":       "@",
		"/a b":                          "%20",
		"/{nope}":                       "id, rest",
	} {
		if _, err := redirect.New(redirect.Options{To: to, PathNames: names}); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: %v, want an error with %q", to, err, hint)
		}
	}
	for _, status := range []int{200, 300, 304, 305, 306, 309, 404} {
		if _, err := redirect.New(redirect.Options{To: "/", Status: status}); err == nil {
			t.Errorf("status %d is accepted", status)
		}
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		p, err := redirect.New(redirect.Options{To: "/", Status: status})
		if err != nil {
			t.Fatal(err)
		}
		x := request(nil)
		if p.OnRequest(x); x.Response.Status != status {
			t.Errorf("status %d became %d", status, x.Response.Status)
		}
	}
}

func TestRedirectDoesNotAllocate(t *testing.T) {
	p, _ := redirect.New(redirect.Options{To: "https://${host}${path}?${query}"})
	x := request(nil)
	run := func() {
		x.Begin(nil)
		p.OnRequest(x)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
