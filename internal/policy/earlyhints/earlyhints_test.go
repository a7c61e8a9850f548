package earlyhints

import (
	"fmt"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/exchange/exchangetest"
	"plimsoll/internal/head"
)

// page is a request and its response, fields as lines.
type page struct {
	method, target, fields string
	subject                string // of the client's certificate
	status                 int
	answer                 string
}

// exchangeOf carries a page through the policy, and returns what the client was told early.
func exchangeOf(p *Policy, v page) string {
	x := &exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
	x.Begin(exchangetest.Engine{})
	if v.subject != "" {
		x.TLS = &exchange.TLS{Version: "1.3", Subject: v.subject}
	}
	path, query, _ := strings.Cut(v.target, "?")
	x.Request.Method, x.Request.Host = []byte("GET"), []byte("site.example")
	if v.method != "" {
		x.Request.Method = []byte(v.method)
	}
	x.Request.Path, x.Request.Query = []byte(path), []byte(query)
	fill(&x.Request.Fields, v.fields)
	p.OnRequest(x)
	hints := string(x.EarlyHints)
	x.Response.Status = v.status
	if v.status == 0 {
		x.Response.Status = 200
	}
	fill(&x.Response.Fields, v.answer)
	p.OnResponse(x)
	return hints
}

func fill(list *head.List, lines string) {
	for line := range strings.Lines(lines) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		list.Append(head.Field{Name: []byte(name), Value: []byte(value), ID: head.Lookup([]byte(name))})
	}
}

func newPolicy(t testing.TB) *Policy {
	p, err := New(Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	navigates = "Sec-Fetch-Mode: navigate\nAccept: text/html,*/*\n"
	html      = "Content-Type: text/html; charset=utf-8\n"
	style     = "Link: </s.css>; rel=preload; as=style\n"
	styleLink = "</s.css>; rel=preload; as=style"
)

var asks = page{target: "/", fields: navigates, status: 404}

func TestTheLinksOfAPageAreGivenToTheNextClient(t *testing.T) {
	for name, c := range map[string]struct{ links, want string }{
		"none":             {"", ""},
		"preload":          {style, styleLink},
		"preconnect":       {"Link: <https://cdn.example>; rel=preconnect\n", "<https://cdn.example>; rel=preconnect"},
		"modulepreload":    {"link: </m.js>;rel=modulepreload\n", "</m.js>;rel=modulepreload"},
		"a list":           {"Link: </a>; rel=next, </b>; rel=\"prev preload\" , </c>; rel=stylesheet\n", "</b>; rel=\"prev preload\""},
		"several fields":   {style + "Link: </a,b>; title=\"x, y\\\", z\"; rel=PRELOAD\n", styleLink + ", </a,b>; title=\"x, y\\\", z\"; rel=PRELOAD"},
		"the first rel":    {"Link: </a>; rel=next; rel=preload\n", ""},
		"no target":        {"Link: a; rel=preload, <b; rel=preload\n", ""},
		"empty members":    {"Link: ,, ;, <>\n", ""},
		"rel of no value":  {"Link: </a>; rel, </b>; rel=\n", ""},
		"more than enough": {strings.Repeat(style, 40), styleLink + strings.Repeat(", "+styleLink, maxLinks-1)},
		"a long one":       {style + "Link: </" + strings.Repeat("a", maxValue) + ">; rel=preload\n", styleLink},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy(t)
			exchangeOf(p, page{target: "/", answer: html + c.links})
			for range 2 {
				if got := exchangeOf(p, asks); got != c.want {
					t.Errorf("the client is told %q, want %q", got, c.want)
				}
			}
		})
	}
}

func TestOnlyLinksThatMayBeKnownToAllAreRemembered(t *testing.T) {
	const public = "Cache-Control: max-age=9, PUBLIC\n"
	for name, c := range map[string]struct {
		page
		remembered bool
	}{
		"a page":                          {page{answer: style}, true},
		"no-cache":                        {page{answer: style + "Cache-Control: no-cache\n"}, true},
		"private":                         {page{answer: style + "Cache-Control: private\n"}, false},
		"no-store":                        {page{answer: style + "Cache-Control: no-store\n"}, false},
		"with a cookie set":               {page{answer: style + "Set-Cookie: a=b\n"}, false},
		"Vary: *":                         {page{answer: style + "Vary: *\n"}, false},
		"for a cookie":                    {page{fields: "Cookie: a=b\n", answer: style + "ETag: \"x\"\n"}, false},
		"for a cookie, and varies":        {page{fields: "Cookie: a=b\n", answer: style + "Vary: Cookie\n"}, false},
		"for a cookie, and public":        {page{fields: "Cookie: a=b\n", answer: style + public}, true},
		"for a cookie, public and varies": {page{fields: "Cookie: a=b\n", answer: style + public + "Vary: Accept, cookie\n"}, false},
		"for credentials":                 {page{fields: "Authorization: a\n", answer: style}, false},
		"for credentials, and public":     {page{fields: "Authorization: a\n", answer: style + public}, true},
		"for a certificate":               {page{subject: "CN=ann", answer: style}, false},
		"for a certificate, and public":   {page{subject: "CN=ann", answer: style + public}, true},
		"for credentials, must-revalidate": {page{fields: "Authorization: a\n",
			answer: style + "Cache-Control: must-revalidate\n"}, false},
		"with a query": {page{target: "/?token=x", answer: style}, false},
		"not found":    {page{status: 404, answer: style}, false},
		"a part":       {page{status: 206, answer: style}, false},
		"HEAD":         {page{method: "HEAD", answer: style}, false},
		"POST":         {page{method: "POST", answer: style}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy(t)
			c.answer += html
			if c.target == "" {
				c.target = "/"
			}
			exchangeOf(p, c.page)
			if got := exchangeOf(p, asks); (got != "") != c.remembered {
				t.Errorf("the next client is told %q", got)
			}
		})
	}
	t.Run("no page", func(t *testing.T) {
		p := newPolicy(t)
		exchangeOf(p, page{target: "/", answer: "Content-Type: application/json\n" + style})
		if got := exchangeOf(p, asks); got != "" {
			t.Errorf("the next client is told %q", got)
		}
	})
}

func TestOnlyNavigationsAreToldEarly(t *testing.T) {
	p := newPolicy(t)
	exchangeOf(p, page{target: "/", answer: html + style})
	for name, c := range map[string]struct {
		page
		told bool
	}{
		"a navigation":     {page{fields: navigates}, true},
		"a query":          {page{target: "/?utm=x", fields: navigates}, true},
		"an old browser":   {page{fields: "Accept: text/html\n"}, true},
		"a fetch":          {page{fields: "Sec-Fetch-Mode: cors\nAccept: text/html\n"}, false},
		"an API's client":  {page{fields: "Accept: */*\n"}, false},
		"HEAD":             {page{method: "HEAD", fields: navigates}, false},
		"POST":             {page{method: "POST", fields: navigates}, false},
		"another page":     {page{target: "/b", fields: navigates}, false},
		"with credentials": {page{fields: navigates + "Cookie: a\nAuthorization: b\n"}, true},
	} {
		c.status = 404
		if c.target == "" {
			c.target = "/"
		}
		if got := exchangeOf(p, c.page); (got != "") != c.told {
			t.Errorf("%s is told %q", name, got)
		}
	}
}

func TestAPageThatHasOtherLinksOutdatesThem(t *testing.T) {
	const other = "Link: </other>; rel=preload\n"
	for name, c := range map[string]struct{ fields, answer, want string }{
		"others":         {"", html + other, "</other>; rel=preload"},
		"none":           {"", html, ""},
		"others, of one": {"Cookie: a\n", html + other, ""},
		"none, of one":   {"Cookie: a\n", html, ""},
		"the same":       {"Cookie: a\n", html + style, styleLink},
	} {
		p := newPolicy(t)
		exchangeOf(p, page{target: "/", answer: html + style})
		exchangeOf(p, page{target: "/", fields: c.fields, answer: c.answer})
		if got := exchangeOf(p, asks); got != c.want {
			t.Errorf("%s: the client is told %q, want %q", name, got, c.want)
		}
	}
}

func TestMadeUpPathsFillNoMemory(t *testing.T) {
	p := newPolicy(t)
	w := &p.parts[0]
	for _, links := range []string{style, "Link: </" + strings.Repeat("a", 1900) + ">; rel=preload\n"} {
		for i := range 5000 {
			exchangeOf(p, page{target: fmt.Sprintf("/%d/%s", i, strings.Repeat("b", 500)), answer: html + links})
			if exchangeOf(p, page{target: "/kept", fields: navigates, answer: html + style}) == "" && i > 0 {
				t.Fatalf("a page that is asked for all the time is forgotten after %d others", i)
			}
			held := 0
			for _, pages := range []map[string][]byte{w.young, w.old} {
				for key, value := range pages {
					held += len(key) + len(value)
				}
			}
			if n := len(w.young) + len(w.old); n > maxPages || held > maxBytes {
				t.Fatalf("%d pages of %d bytes are remembered", n, held)
			}
		}
	}
	exchangeOf(p, page{target: "/" + strings.Repeat("a", maxKey), answer: html + style})
	if got := exchangeOf(p, page{target: "/" + strings.Repeat("a", maxKey), fields: navigates}); got != "" {
		t.Errorf("a page with a long path is remembered: %q", got)
	}
}

func TestAReloadForgetsNothing(t *testing.T) {
	p, next := newPolicy(t), newPolicy(t)
	exchangeOf(p, page{target: "/", answer: html + style})
	next.Inherit(p)
	if got := exchangeOf(next, asks); got != styleLink {
		t.Errorf("after a reload the client is told %q", got)
	}
}

func FuzzLinks(f *testing.F) {
	for _, s := range []string{styleLink, `<a>;rel="x preload",<b>`, `"<;,\`, `<a>; rel="\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		var list head.List
		list.Add(linkName, []byte(value))
		first := string(appendLinks(nil, &list))
		if len(first) > maxValue {
			t.Fatalf("%d bytes", len(first))
		}
		list.Reset()
		list.Add(linkName, []byte(first))
		if again := string(appendLinks(nil, &list)); again != first {
			t.Fatalf("%q is read again as %q", first, again)
		}
	})
}
