package rewrite_test

import (
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/rewrite"
)

type params map[string]string

func (p params) Value(name string) []byte { return []byte(p[name]) }

var names = []string{"id", "rest..."}

func policy(t testing.TB, o rewrite.Options) *rewrite.Policy {
	t.Helper()
	o.PathNames = names
	p, err := rewrite.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func request(path string, values params) *exchange.Exchange {
	x := &exchange.Exchange{Request: &head.Request{Path: []byte(path), Host: []byte("shop.example")}, Response: &head.Response{}}
	x.Begin(nil)
	x.Forward, x.Params = x.Request.Path, values
	return x
}

func TestAPrefixIsStrippedAtASegmentsBorder(t *testing.T) {
	for _, c := range []struct{ prefix, path, want string }{
		{"/api", "/api/x", "/x"},
		{"/api", "/api/x/", "/x/"},
		{"/api", "/api/", "/"},
		{"/api", "/api", "/"},
		{"/api", "/apiary", "/apiary"},
		{"/api", "/ap", "/ap"},
		{"/api", "/x/api/y", "/x/api/y"},
		{"/api", "/API/x", "/API/x"},
		{"/api/", "/api/x", "/x"},
		{"/api/v1", "/api/v1/users", "/users"},
		{"/a%2Fb", "/a%2Fb/c", "/c"},
		{"/api", "*", "*"},
	} {
		x := request(c.path, nil)
		if v := policy(t, rewrite.Options{StripPrefix: c.prefix}).OnRequest(x); v != exchange.Continue {
			t.Fatalf("verdict %d", v)
		}
		if string(x.Forward) != c.want || string(x.Request.Path) != c.path {
			t.Errorf("%s off %s: forwards %q, path %q", c.prefix, c.path, x.Forward, x.Request.Path)
		}
	}
}

func TestAPathIsReplaced(t *testing.T) {
	for _, c := range []struct {
		text   string
		values params
		want   string
	}{
		{"/fixed", nil, "/fixed"},
		{"/v2/{id}", params{"id": "7"}, "/v2/7"},
		{"/v2/{id}", params{"id": "a%2Fb"}, "/v2/a%2Fb"},
		{"/v2/{rest...}", params{"rest": "a/b/"}, "/v2/a/b/"},
		{"/v2/{rest...}", params{}, "/v2/"},
		{"/{rest...}", params{}, "/"},
		{"/{rest}/{id}", params{"id": "7"}, "/7"},
		{"/${path}", nil, "/old/path"},
		{"${path}", nil, "/old/path"},
		{"/sites/${host}${path}", nil, "/sites/shop.example/old/path"},
		{"/a/${path.id}/${target}/b", params{"id": "7"}, "/a/7/b"},
		{"/.{id}", params{"id": "well-known"}, "/.well-known"},
	} {
		x := request("/old/path", c.values)
		if v := policy(t, rewrite.Options{Replace: c.text}).OnRequest(x); v != exchange.Continue {
			t.Fatalf("%s: verdict %d", c.text, v)
		}
		if string(x.Forward) != c.want || string(x.Request.Path) != "/old/path" {
			t.Errorf("%s: forwards %q, want %q; path %q", c.text, x.Forward, c.want, x.Request.Path)
		}
	}
}

// HAZARDS: path read twice. A value must not lead out of the path that the text spells.
func TestAResultThatCouldBeReadInTwoWaysIsRefused(t *testing.T) {
	for _, c := range []struct {
		text, id, query string
	}{
		{"/a/.{id}", ".", ""},
		{"/a/{id}.", ".", ""},
		{"/a/{id}", "..", ""},
		{"/a/{id}/b", ".", ""},
		{"/a/{id}", "%2E%2E", ""},
		{"/a/{id}", "%2e", ""},
		{"/a/{id}", "%5C", ""},
		{"/a/{id}", "%00", ""},
		{"/a/{id}", "%2f", ""},
		{"/a/{id}", "%", ""},
		{"/a/{id}", "%2", ""},
		{"/a/{id}", "b?c=d", ""},
		{"/a/${query}", "", "../admin"},
		{"/a/${query}", "", "%2e%2e/admin"},
		{"/a/${query}", "", "x?y"},
		{"/a/${query}", "", `x\y`},
	} {
		x := request("/old", params{"id": c.id})
		x.Request.Query = []byte(c.query)
		v := policy(t, rewrite.Options{Replace: c.text}).OnRequest(x)
		if v != exchange.Answered || x.Response.Status != 400 || x.Reason != exchange.BadPath {
			t.Errorf("%+v: verdict %d, forwards %q", c, v, x.Forward)
		}
	}
}

func TestBadTextsAreRefused(t *testing.T) {
	for _, c := range []struct {
		options rewrite.Options
		hint    string
	}{
		{rewrite.Options{}, "without a text"},
		{rewrite.Options{StripPrefix: "/a", Replace: "/b"}, "one of them"},
		{rewrite.Options{StripPrefix: "/"}, "canonical"},
		{rewrite.Options{StripPrefix: "api"}, "canonical"},
		{rewrite.Options{StripPrefix: "/a//b"}, "canonical"},
		{rewrite.Options{StripPrefix: "/a/../b"}, "canonical"},
		{rewrite.Options{StripPrefix: "/a%2fb"}, "canonical"},
		{rewrite.Options{StripPrefix: "/a?b"}, "query"},
		{rewrite.Options{Replace: "a"}, "begin with a /"},
		{rewrite.Options{Replace: "{id}"}, "begin with a /"},
		{rewrite.Options{Replace: "/a?b={id}"}, "query"},
		{rewrite.Options{Replace: "/a/../{id}"}, "canonical"},
		{rewrite.Options{Replace: "/a//b"}, "canonical"},
		{rewrite.Options{Replace: "//a"}, "canonical"},
		{rewrite.Options{Replace: "/%7euser"}, "canonical"},
		{rewrite.Options{Replace: "/{nope}"}, "id, rest"},
		{rewrite.Options{Replace: "/a b"}, "%20"},
	} {
		c.options.PathNames = names
		if _, err := rewrite.New(c.options); err == nil || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("%+v: %v, want an error with %q", c.options, err, c.hint)
		}
	}
}

func TestRewriteDoesNotAllocate(t *testing.T) {
	x := request("/api/x", nil)
	path, id := x.Request.Path, exchange.Params(params{"id": ""})
	for _, p := range []*rewrite.Policy{policy(t, rewrite.Options{StripPrefix: "/api"}),
		policy(t, rewrite.Options{Replace: "/a/{id}${path}"})} {
		run := func() {
			x.Begin(nil)
			x.Request.Path, x.Params = path, id
			p.OnRequest(x)
		}
		run()
		if n := testing.AllocsPerRun(100, run); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

func FuzzReplace(f *testing.F) {
	p := policy(f, rewrite.Options{Replace: "/a/.{id}/{rest...}${query}"})
	f.Add("..", "a//b", "%2e")
	f.Add(".", "%2F", "?")
	f.Fuzz(func(t *testing.T, id, rest, query string) {
		x := request("/old", params{"id": id, "rest": rest})
		x.Request.Query = []byte(query)
		if p.OnRequest(x) != exchange.Continue {
			return
		}
		forward := string(x.Forward)
		if !strings.HasPrefix(forward, "/a/") || strings.Contains(forward, "//") || strings.ContainsAny(forward, "?#\\ ") {
			t.Fatalf("forwards %q", forward)
		}
		for _, segment := range strings.Split(forward, "/") {
			if plain := strings.ReplaceAll(strings.ToLower(segment), "%2e", "."); plain == "." || plain == ".." {
				t.Fatalf("forwards %q", forward)
			}
		}
	})
}
