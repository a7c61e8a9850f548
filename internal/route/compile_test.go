package route

import (
	"fmt"
	"strings"
	"testing"
)

func TestPatternsThatAreRefused(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                              "empty",
		"GET":                           "no path",
		"example.com":                   "no path",
		"GET example.com":               "no path",
		"get /":                         "write GET",
		"G@T /":                         "not a method",
		" /":                            "not a method",
		"/a b":                          "not a method",
		"example.com:80/":               "without their port",
		"[::1]:80/":                     "without their port",
		"*/":                            "leave the host out",
		"*.*.com/":                      "not a host",
		"a..b/":                         "not a host",
		"bücher.de/":                    "punycode",
		"{host}/":                       "no named parts",
		"//a":                           "no empty segments",
		"/a//":                          "no empty segments",
		"/a/../b":                       "above_root",
		"/a/%2e":                        "no dot segments",
		"/a/..;x":                       "hidden_dots",
		"/a%zz":                         "bad_escape",
		"/a%00":                         "encoded_control",
		`/a\b`:                          "backslash",
		"/a?b=c":                        "no query",
		"/a#b":                          "bad_path_byte",
		"/{a":                           "fills its whole segment",
		"/x{a}":                         "fills its whole segment",
		"/{a}x":                         "fills its whole segment",
		"/{}":                           "not a name",
		"/{...}":                        "not a name",
		"/{1a}":                         "not a name",
		"/{a-b}":                        "not a name",
		"/{a}/{a}":                      "there twice",
		"/{a...}/b":                     "not at the end",
		"/{$}/b":                        "not at the end",
		"/" + strings.Repeat("x", 3000): "2048",
		"/{a}" + names:                  "more than 16",
	} {
		table, errs := Compile([]Rule{{Pattern: "/ok"}, {Pattern: pattern}})
		if table != nil || len(errs) != 1 || errs[0].Index != 1 || errs[0].Other != -1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%q: got %v, want one error about %q", pattern, errs, want)
		}
	}
}

var names = func() (s string) {
	for i := range MaxNames {
		s += fmt.Sprintf("/{n%d}", i)
	}
	return s
}()

func TestConditionsThatAreRefused(t *testing.T) {
	for _, r := range []Rule{
		{Headers: []Condition{{"", "x"}}},
		{Headers: []Condition{{"a b", "x"}}},
		{Headers: []Condition{{"a", " x"}}},
		{Query: []Condition{{"", "x"}}},
		{Query: make([]Condition, maxConditions+1)},
	} {
		r.Pattern = "/"
		if _, errs := Compile([]Rule{r}); len(errs) != 1 || errs[0].Index != 0 {
			t.Errorf("%v: got %v", r, errs)
		}
	}
}

func TestConflictsNameBothRulesAndAPath(t *testing.T) {
	for _, c := range []struct{ first, second, example string }{
		{"/a", "/a", "/a"},
		{"/{x}", "/{y}", "/x"},
		{"/a/", "/a/{rest...}", "/a/"},
		{"GET /a/{$}", "GET /a/{$}", "/a/"},
		{"/a/{x}", "/{y}/b", "/a/b"},
		{"GET /", "/a", "/a"},
		{"GET /{x}", "/a", "/a"},
		{"HEAD /", "GET /a", "/a"},
		{"/{x}/b/", "/a/{rest...}", "/a/b/"},
		{"/a/{x}/c/", "/a/b/{rest...}", "/a/b/c/"},
		{"/{x}/{$}", "/a/", "/a/"},
		{"/%7Ejoe", "/~joe", "/~joe"},
		{"/a:b", "/a%3Ab", "/a:b"},
		{"/caf%C3%A9/{x}", "/{y}/{z}/", ""},
		{"Example.com/a", "example.com./a", "/a"},
		{"*.example.com/a", "*.Example.com/a", "/a"},
	} {
		_, errs := Compile(patterns("/other", c.first, "/third/{z}/q", c.second))
		if c.example == "" {
			if len(errs) != 0 {
				t.Errorf("%q and %q: %v", c.first, c.second, errs)
			}
			continue
		}
		found := false
		for _, e := range errs {
			found = found || e.Index == 3 && e.Other == 1 && e.Example == c.example
		}
		if !found {
			for _, e := range errs {
				t.Logf("%+v", *e)
			}
			t.Errorf("%q and %q: no such conflict at %s", c.first, c.second, c.example)
		}
	}
}

func TestWhatDoesNotConflict(t *testing.T) {
	for _, list := range [][]string{
		{"/", "/a", "GET /a", "HEAD /a", "POST /a", "POST /b"},
		{"GET /", "POST /a", "GET /a"},
		{"/a/{x}", "/a/b", "/a/", "/a/{$}"},
		{"/{x}/{$}", "/{x}", "/a"},
		{"/a/{x}/c", "/{y}/b/d"},
		{"GET /a/{x}", "POST /{y}/b"},
		{"h/a/{x}", "/{y}/b", "*.h/{z}/b", "*.i.h/a/{z}"},
		{"/a%2Fb", "/a/b"},
	} {
		mustCompile(t, patterns(list...))
	}
}

func TestAllErrorsComeAtOnceInOrder(t *testing.T) {
	_, errs := Compile(append(patterns("/a/{x}", "/bad{", "/{y}/b", "GET b", "/c"), Rule{Pattern: "/c"},
		Rule{Pattern: "/c", Headers: []Condition{{"A", "1"}, {"B", "2"}}}, Rule{Pattern: "/c",
			Headers: []Condition{{"b", "2"}, {"a", "1"}}}))
	var got []string
	for _, e := range errs {
		got = append(got, fmt.Sprint(e.Index, " ", e.Other, " ", e.Example))
	}
	if want := "1 -1 |2 0 /a/b|3 -1 |5 4 /c|7 6 /c"; strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q", strings.Join(got, "|"), want)
	}
}

func TestConflictsAreBounded(t *testing.T) {
	var rules []Rule
	for i := range 2000 {
		rules = append(rules, Rule{Pattern: fmt.Sprintf("/{x}/a%d", i)}, Rule{Pattern: fmt.Sprintf("/b%d/{y}", i)})
	}
	if _, errs := Compile(rules); len(errs) != maxConflicts {
		t.Errorf("%d errors", len(errs))
	}
}

// A table of prefixes, with catch-alls and names in front of literals, is where comparing every
// pattern with every other would show: hundreds of millions of comparisons here.
func TestALargeTableOfPrefixesIsChecked(t *testing.T) {
	rules := patterns("/", "GET /{tenant}/status/{id}")
	for i := range 8000 {
		rules = append(rules, Rule{Pattern: fmt.Sprintf("/static/%d/", i)}, Rule{Pattern: fmt.Sprintf("GET /{tenant}/x%d", i)},
			Rule{Pattern: fmt.Sprintf("/svc%d/{rest...}", i)})
	}
	_, errs := Compile(rules)
	if len(errs) != maxConflicts {
		t.Fatalf("%d errors; every service overlaps with the tenants' patterns", len(errs))
	}
	rules = patterns("/", "/{tenant}/status/{id}")
	for i := range 8000 {
		rules = append(rules, Rule{Pattern: fmt.Sprintf("/static/%d/", i)}, Rule{Pattern: fmt.Sprintf("GET /{tenant}/x%d", i)},
			Rule{Pattern: fmt.Sprintf("/svc%d/users", i)})
	}
	table := mustCompile(t, rules)
	if got := outcome(table, rules, request("GET h/svc777/x7999")); got != "GET /{tenant}/x7999 tenant=svc777" {
		t.Error(got)
	}
}

// manyRules are n rules as a large gateway has them: resources of services, static trees, and
// hosts.
func manyRules(n int) (rules []Rule) {
	for i := 0; len(rules) < n; i++ {
		rules = append(rules,
			Rule{Pattern: fmt.Sprintf("GET /api/v1/svc%d/users/{id}", i)},
			Rule{Pattern: fmt.Sprintf("POST /api/v1/svc%d/users", i)},
			Rule{Pattern: fmt.Sprintf("/api/v2/svc%d/{rest...}", i)},
			Rule{Pattern: fmt.Sprintf("/static/site%d/", i)},
			Rule{Pattern: fmt.Sprintf("www.site%d.example.com/", i)},
			Rule{Pattern: fmt.Sprintf("*.wild%d.example.net/", i)},
		)
	}
	return rules[:n]
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		rules := manyRules(n)
		table := mustCompile(b, rules)
		last := n/6 - 1
		for name, line := range map[string]string{
			"resource": fmt.Sprintf("GET api.example.org/api/v1/svc%d/users/4711", max(last, 0)),
			"static":   fmt.Sprintf("GET api.example.org/static/site%d/app/main.js", max(last, 0)),
			"host":     fmt.Sprintf("GET www.site%d.example.com/a/b", max(last, 0)),
			"wildcard": fmt.Sprintf("GET a.wild%d.example.net/a/b", max(last, 0)),
		} {
			req := request(line)
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				var m Match
				for b.Loop() {
					if _, r := table.Match(req, req.Host, req.Path, &m); r != Found {
						b.Fatal(r)
					}
				}
			})
		}
	}
}

// BenchmarkMatchSpread looks different routes up in turn, so that the tree does not sit in the
// first cache.
func BenchmarkMatchSpread(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		table := mustCompile(b, manyRules(n))
		var paths [][]byte
		for i := range 4096 {
			paths = append(paths, fmt.Appendf(nil, "/api/v1/svc%d/users/%d", i*7919%max(n/6, 1), i))
		}
		req := request("GET api.example.org/")
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var m Match
			i := 0
			for b.Loop() {
				if _, r := table.Match(req, req.Host, paths[i&4095], &m); r != Found {
					b.Fatal(r, string(paths[i&4095]))
				}
				i++
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	rules := manyRules(100_000)
	for b.Loop() {
		mustCompile(b, rules)
	}
}
