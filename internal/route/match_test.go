package route

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/head"
)

// request makes a request of "METHOD host/path?query" and "Name: value" fields.
func request(line string, fields ...string) *head.Request {
	method, rest, _ := strings.Cut(line, " ")
	slash := strings.IndexByte(rest, '/')
	path, query, err := Canonical(nil, []byte(rest[slash:]))
	if err != OK {
		panic(err)
	}
	req := &head.Request{Method: []byte(method), Host: []byte(rest[:slash]), Path: path, Query: query}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		req.Fields.Add([]byte(name), []byte(value))
	}
	return req
}

func patterns(list ...string) (rules []Rule) {
	for _, p := range list {
		rules = append(rules, Rule{Pattern: p})
	}
	return rules
}

func mustCompile(t testing.TB, rules []Rule) *Table {
	t.Helper()
	table, errs := Compile(rules)
	for _, e := range errs {
		t.Errorf("rule %d: %v", e.Index, e)
	}
	if len(errs) > 0 {
		t.FailNow()
	}
	return table
}

// outcome matches a request and tells the result as "pattern name=value ...", "404" or "405
// METHODS".
func outcome(table *Table, rules []Rule, req *head.Request) string {
	var m Match
	i, result := table.Match(req, req.Host, req.Path, &m)
	switch result {
	case NotFound:
		return "404"
	case MethodNotAllowed:
		return "405 " + strings.Join(table.Allowed(req, req.Host, req.Path), ",")
	}
	out := rules[i].Pattern
	for _, n := range table.Names(i) {
		out += fmt.Sprintf(" %s=%s", n, m.Value(n))
	}
	return out
}

func check(t *testing.T, rules []Rule, want map[string]string) {
	t.Helper()
	table := mustCompile(t, rules)
	for line, expected := range want {
		if got := outcome(table, rules, request(line)); got != expected {
			t.Errorf("%s: got %s, want %s", line, got, expected)
		}
	}
}

func TestTheMostSpecificPatternWins(t *testing.T) {
	rules := patterns("/", "/users/{id}", "/users/me", "/users/{id}/orders/{order}", "/users/", "/static/{path...}",
		"/exact/{$}", "/userspace", "/a/{x}/c", "/a/b/d", "/{$}")
	check(t, rules, map[string]string{
		"GET h/":                   "/{$}",
		"GET h/other":              "/",
		"GET h/other/":             "/",
		"GET h/users":              "/",
		"GET h/users/":             "/users/",
		"GET h/users/me":           "/users/me",
		"GET h/users/men":          "/users/{id} id=men",
		"GET h/users/m":            "/users/{id} id=m",
		"GET h/users/7":            "/users/{id} id=7",
		"GET h/users/7/":           "/users/",
		"GET h/users/7/orders/9":   "/users/{id}/orders/{order} id=7 order=9",
		"GET h/users/7/orders/9/x": "/users/",
		"GET h/userspace":          "/userspace",
		"GET h/userspac":           "/",
		"GET h/static/":            "/static/{path...} path=",
		"GET h/static/a/b.js":      "/static/{path...} path=a/b.js",
		"GET h/static/a/":          "/static/{path...} path=a/",
		"GET h/static":             "/",
		"GET h/exact/":             "/exact/{$}",
		"GET h/exact/x":            "/",
		"GET h/exact":              "/",
		"GET h/a/b/c":              "/a/{x}/c x=b",
		"GET h/a/b/d":              "/a/b/d",
		"GET h/a/b/e":              "/",
	})
}

func TestMethods(t *testing.T) {
	rules := patterns("GET /r", "POST /r", "DELETE /r", "GET /g", "HEAD /g", "/any", "PUT /any", "GET /p/{x}", "PUT h/p/{x}", "MKCOL /r")
	check(t, rules, map[string]string{
		"GET h/r":     "GET /r",
		"HEAD h/r":    "GET /r",
		"POST h/r":    "POST /r",
		"MKCOL h/r":   "MKCOL /r",
		"PUT h/r":     "405 DELETE,GET,HEAD,MKCOL,POST",
		"get h/r":     "405 DELETE,GET,HEAD,MKCOL,POST",
		"HEAD h/g":    "HEAD /g",
		"GET h/g":     "GET /g",
		"PUT h/any":   "PUT /any",
		"PATCH h/any": "/any",
		"POST h/p/1":  "405 GET,HEAD,PUT",
		"PUT i/p/1":   "405 GET,HEAD",
		"GET h/p/1":   "GET /p/{x} x=1",
		"GET h/no":    "404",
	})
}

func TestHosts(t *testing.T) {
	rules := patterns("/{p...}", "api.example.com/", "*.example.com/", "*.eu.example.com/", "*.eu.example.com/only", "Shop.Example.ORG./x",
		"[::1]/", "deep.eu.example.com/d", "127.0.0.1/")
	check(t, rules, map[string]string{
		"GET api.example.com/a":       "api.example.com/",
		"GET api.example.com:8443/a":  "api.example.com/",
		"GET api.example.com./a":      "api.example.com/",
		"GET www.example.com/a":       "*.example.com/",
		"GET a.b.c.example.com:1/a":   "*.example.com/",
		"GET example.com/a":           "/{p...} p=a",
		"GET .example.com/a":          "/{p...} p=a",
		"GET notexample.com/a":        "/{p...} p=a",
		"GET eu.example.com/a":        "*.example.com/",
		"GET x.eu.example.com/a":      "*.eu.example.com/",
		"GET x.y.eu.example.com/only": "*.eu.example.com/only",
		"GET deep.eu.example.com/d":   "deep.eu.example.com/d",
		"GET deep.eu.example.com/e":   "*.eu.example.com/",
		"GET shop.example.org/x":      "Shop.Example.ORG./x",
		"GET shop.example.org/y":      "/{p...} p=y",
		"GET [::1]:80/a":              "[::1]/",
		"GET [::1]/a":                 "[::1]/",
		"GET [::/a":                   "/{p...} p=a",
		"GET 127.0.0.1:9/":            "127.0.0.1/",
		"GET /a":                      "/{p...} p=a",
	})
}

// HAZARDS, "path or host read twice": an encoded spelling of a literal must not lead around its
// route, nor an encoded slash into one.
func TestAnEncodedSpellingReachesTheSameRoute(t *testing.T) {
	rules := patterns("/admin:op", "/{x}", "/café/{y}", "/a%20b", "/s%2ft", "/s/t", "/p%25q", "/d/x%2Fy/{z}", "/d/x%25/{z}", "/;v")
	check(t, rules, map[string]string{
		"GET h/admin:op":       "/admin:op",
		"GET h/admin%3aop":     "/admin:op",
		"GET h/%61dmin%3Aop":   "/admin:op",
		"GET h/admin%3Aoq":     "/{x} x=admin%3Aoq",
		"GET h/admin%3A":       "/{x} x=admin%3A",
		"GET h/caf%c3%a9/%2f":  "/café/{y} y=%2F",
		"GET h/a%20b":          "/a%20b",
		"GET h/s%2Ft":          "/s%2ft",
		"GET h/s/t":            "/s/t",
		"GET h/s%252Ft":        "/{x} x=s%252Ft",
		"GET h/p%25q":          "/p%25q",
		"GET h/d/x%2fy/%3Aend": "/d/x%2Fy/{z} z=%3Aend",
		"GET h/d/x%25/1":       "/d/x%25/{z} z=1",
		"GET h/d/x%2Fz/1":      "404",
		"GET h/%3bv":           "/;v",
		"GET h/;v":             "/;v",
		"GET h/admin:op;x":     "/{x} x=admin:op;x",
	})
}

func TestConditionsAreTriedInOrder(t *testing.T) {
	rules := []Rule{
		{Pattern: "/v"},
		{Pattern: "/v", Headers: []Condition{{"X-Version", "2"}}},
		{Pattern: "/v", Headers: []Condition{{"x-version", "*"}}, Query: []Condition{{"beta", "yes please"}}},
		{Pattern: "/v", Query: []Condition{{"v", "3"}}},
		{Pattern: "GET /n/{id}", Headers: []Condition{{"Cookie", ""}}, Query: []Condition{{"debug", ""}}},
		{Pattern: "/n/{other...}"},
		{Pattern: "POST /only", Query: []Condition{{"k", "*"}}},
	}
	table := mustCompile(t, rules)
	for _, c := range []struct {
		line   string
		fields []string
		want   int
		result Result
	}{
		{"GET h/v", nil, 0, Found},
		{"GET h/v", []string{"X-VERSION: 2"}, 1, Found},
		{"GET h/v", []string{"X-Version: 1", "X-Version: 2"}, 1, Found},
		{"GET h/v", []string{"X-Version: 1"}, 0, Found},
		{"GET h/v?beta=yes+please", []string{"X-Version: 1"}, 2, Found},
		{"GET h/v?a&b&&%62eta=yes%20please", []string{"X-Version: 1"}, 2, Found},
		{"GET h/v?beta=yes+please", nil, 0, Found},
		{"GET h/v?v=1&v=3", nil, 3, Found},
		{"GET h/v?v=33", nil, 0, Found},
		{"GET h/v?v=%3", nil, 0, Found},
		{"GET h/v?V=3", nil, 0, Found},
		{"GET h/v?v=3", []string{"X-Version: 2"}, 1, Found},
		{"GET h/n/1", nil, 4, Found},
		{"HEAD h/n/1?x=debug", nil, 4, Found},
		{"GET h/n/1", []string{"cookie: a=b"}, 5, Found},
		{"GET h/n/1?debug", nil, 5, Found},
		{"GET h/n/1?debug=", nil, 5, Found},
		{"PUT h/n/1", nil, 5, Found},
		{"POST h/only?k", nil, 6, Found},
		{"POST h/only", nil, -1, NotFound},
		{"GET h/only?k=1", nil, -1, MethodNotAllowed},
		{"GET h/only", nil, -1, NotFound},
	} {
		var m Match
		req := request(c.line, c.fields...)
		got, result := table.Match(req, req.Host, req.Path, &m)
		if got != c.want || result != c.result {
			t.Errorf("%s %q: got %d, %d; want %d, %d", c.line, c.fields, got, result, c.want, c.result)
		}
	}
	if got := table.Allowed(request("GET h/only?k=1"), nil, []byte("/only")); !slices.Equal(got, []string{"POST"}) {
		t.Errorf("allowed: %q", got)
	}
}

func TestValuesBelongToTheRuleThatWon(t *testing.T) {
	rules := []Rule{
		{Pattern: "/u/{first}/{second}", Headers: []Condition{{"X-A", "*"}}},
		{Pattern: "/u/{one}/{two}"},
	}
	table := mustCompile(t, rules)
	var m Match
	req := request("GET h/u/1/2")
	table.Match(req, nil, req.Path, &m)
	if string(m.Value("one")) != "1" || string(m.Value("two")) != "2" || m.Value("first") != nil {
		t.Errorf("one=%q two=%q first=%q", m.Value("one"), m.Value("two"), m.Value("first"))
	}
	if &m.Value("one")[0] != &req.Path[3] {
		t.Error("the value is a copy")
	}
	table.Match(req, nil, []byte("/nothing"), &m)
	if m.Value("one") != nil {
		t.Error("a value was left after a search that found nothing")
	}
}

func TestAMatchDoesNotAllocate(t *testing.T) {
	rules := append(manyRules(1000), Rule{Pattern: "/c/{x}", Headers: []Condition{{"X-A", "1"}}, Query: []Condition{{"q", "a b"}}},
		Rule{Pattern: "/{t}/z/{rest...}"})
	table := mustCompile(t, rules)
	var m Match
	for _, line := range []string{
		"GET h/api/v1/svc7/users/42", "HEAD www.site9.example.com:80/", "GET a.b.wild3.example.net/x", "DELETE h/api/v1/svc7/users/42",
		"GET h/none", "GET h/c/1?q=a+b", "GET h/api%3A/z/q",
	} {
		req := request(line, "X-A: 1")
		if n := testing.AllocsPerRun(100, func() { table.Match(req, req.Host, req.Path, &m) }); n != 0 {
			t.Errorf("%s: %v allocations", line, n)
		}
	}
}

func TestAnEmptyTableFindsNothing(t *testing.T) {
	check(t, nil, map[string]string{"GET h/": "404"})
	rules := patterns("/")
	table := mustCompile(t, rules)
	var m Match
	if _, got := table.Match(request("OPTIONS h/"), nil, []byte("*"), &m); got != NotFound {
		t.Errorf("* ends with %d", got)
	}
}

// A path that fits many patterns for long and none in the end is the worst that a client can send.
// The work is counted in nodes, and the table knows its bound.
func TestAHostilePathCostsNoMoreThanTheTableSays(t *testing.T) {
	var rules []Rule
	for i := range 256 {
		var b strings.Builder
		for bit := range 8 {
			if i>>bit&1 == 0 {
				b.WriteString("/a")
			} else {
				fmt.Fprintf(&b, "/{n%d}", bit)
			}
		}
		rules = append(rules, Rule{Pattern: fmt.Sprintf("%s/end%d", b.String(), i)})
	}
	table := mustCompile(t, rules)
	for _, path := range []string{strings.Repeat("/a", 8) + "/end", strings.Repeat("/a", 4000),
		"/" + strings.Repeat("a", 8000), strings.Repeat("/a", 8) + "/end255"} {
		if n := visits(table, []byte(path)); n > table.Steps() {
			t.Errorf("%.40q visits %d nodes, the table says %d", path, n, table.Steps())
		}
	}
	if most := 1500; table.Steps() > most {
		t.Errorf("%d patterns of 9 segments may take %d steps", len(rules), table.Steps())
	}
	var deep strings.Builder
	for i := range MaxNames {
		fmt.Fprintf(&deep, "/{n%d}", i)
	}
	table = mustCompile(t, patterns(deep.String()+"/x", deep.String()+"/y/", "/{a}/{b}/x", "/"))
	if table.Steps() > 40 {
		t.Errorf("chains of names may take %d steps", table.Steps())
	}
}

// visits counts the nodes that a search for path would visit, when nothing is found.
func visits(table *Table, path []byte) int {
	s := search{t: table, path: path, m: &Match{}, req: &head.Request{}}
	var count func(n uint32, pos int) int
	count = func(n uint32, pos int) int {
		at := &table.nodes[n]
		sum := 1
		if pos = s.literal(at, pos); pos < 0 || pos == len(path) {
			return sum
		}
		if k := s.child(at, pos); k != 0 {
			sum += count(k, pos)
		}
		if at.wild != 0 {
			end := pos
			for end < len(path) && path[end] != '/' {
				end++
			}
			sum += count(at.wild, end)
		}
		return sum
	}
	return count(table.groups[0].root, 0)
}

func TestPatternsThatMixTooManyNamesAndLiteralsAreRefused(t *testing.T) {
	var rules []Rule
	for i := range 1 << 12 {
		var b strings.Builder
		for bit := range 12 {
			if i>>bit&1 == 0 {
				b.WriteString("/a")
			} else {
				fmt.Fprintf(&b, "/{n%d}", bit)
			}
		}
		rules = append(rules, Rule{Pattern: fmt.Sprintf("%s/end%d", b.String(), i)})
	}
	if _, errs := Compile(rules); len(errs) != 1 || !strings.Contains(errs[0].Reason, "steps to look up") {
		t.Errorf("got %v", errs)
	}
}
