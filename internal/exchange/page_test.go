package exchange_test

import (
	"encoding/json"
	"html"
	"strings"
	"testing"
	"unicode/utf8"

	"plimsoll/internal/exchange"
	"plimsoll/internal/exchange/exchangetest"
	"plimsoll/internal/head"
)

// hostileValues end what they stand in, where nobody escapes them.
var hostileValues = []string{
	`"}],"admin":true`, `\`, `\"`, "</p><script>alert(1)</script>", "'><img src=x onerror=alert(1)>",
	"a&amp;b&lt;",
	"\r\nSet-Cookie: a=b\r\n\r\n", "\x00\x1b$B\x7f", "\xff\xfe", "\xc3", "é\u2028", "${path}", "plain",
}

// asking is an exchange whose query is this, as no parser would give it.
func asking(query string) *exchange.Exchange {
	x := &exchange.Exchange{Request: &head.Request{Query: []byte(query)}, Response: &head.Response{}}
	x.Begin(exchangetest.Engine{})
	return x
}

func compileBody(t *testing.T, text, contentType string) *exchange.Template {
	t.Helper()
	tmpl, err := exchange.CompileBody(text, nil, contentType)
	if err != nil {
		t.Fatalf("%s: %v", contentType, err)
	}
	return tmpl
}

func TestNoValueEndsTheTextOfABodyThatItStandsIn(t *testing.T) {
	for _, value := range hostileValues {
		x := asking(value)
		clean := strings.Map(func(r rune) rune {
			switch {
			case r < ' ' || r == 0x7f:
				return ' '
			case r == utf8.RuneError:
				return '?'
			}
			return r
		}, value)

		var doc struct{ Q, Last string }
		text := compileBody(t, `{"q": "${query}", "last": "yes"}`,
			"application/problem+json; charset=UTF-8").Append(nil, x)
		err := json.Unmarshal(text, &doc)
		if err != nil || doc.Q != clean || doc.Last != "yes" || strings.ContainsAny(string(text), "<>&") {
			t.Errorf("JSON of %q is %s: %v", value, text, err)
		}

		page := string(compileBody(t, "<p>${query}</p>", "text/html").Append(nil, x))
		inside := strings.TrimSuffix(strings.TrimPrefix(page, "<p>"), "</p>")
		if strings.ContainsAny(inside, `<>"'`) || html.UnescapeString(inside) != clean {
			t.Errorf("HTML of %q is %s", value, page)
		}

		plain := compileBody(t, "q ${query}", "text/plain; charset=utf-8").Append(nil, x)
		if strings.ContainsAny(string(plain), "\r\n\x00\x1b\x7f") {
			t.Errorf("text of %q is %q", value, plain)
		}
	}
}

func TestVariablesStandInABodyWhereTheirEscapeIsRight(t *testing.T) {
	for _, c := range []struct{ contentType, text, hint string }{
		{"application/json", `{"a": "\"${query}"}`, ""},
		{"application/json", `{"a": ${query}}`, "put it in quotes"},
		{"application/json", `["a\\", ${query}]`, "put it in quotes"},
		{"application/json", `["a\\", "${query}", ${path}]`, "put it in quotes"},
		{"text/html; charset=utf-8", "<title>${host}</title><p>${query}", ""},
		{"text/html", "<style>a{}</style><script>f()</script>${query}", ""},
		{"text/html", "<a href=\"${query}\">", "is in a tag"},
		{"application/json", `{"a": "\${query}"}`, "put it in quotes"},
		{"text/html", `<a onclick="setTimeout(()=>f('${query}'))">`, "is in a tag"},
		{"text/html", `<a title=">" ${query}>`, "is in a tag"},
		{"text/html", `<a title=">">it's</a><!-- it's > --><p>${query}</p>`, ""},
		{"text/html", "<script>f('${query}')</script>", "a script"},
		{"text/html", "<SCRIPT src=a>${query}", "a script"},
		{"text/html", "<Style>a{b: ${query}}", "a style"},
		{"text/html", "<!-- <p>${query} -->", "a comment"},
		{"application/xml", "<![CDATA[<a>${query}]]>", "a comment"},
		{"application/atom+xml", "<a>${query}</a>", ""},
		{"text/css", "a${query}", "nobody knows how to escape"},
		{"application/javascript", "f('${query}')", "nobody knows how to escape"},
		{"text/html; charset=iso-2022-jp", "${query}", "in UTF-8"},
		{"text/css", "a$${query}", ""},
		{"text/plain", "${unknown}", "${unknown} is unknown"},
		{"text/plain", "a ${query", "not closed"},
		{"text/plain", "first\nsecond\t${query}\n", ""},
		{"text/plain", strings.Repeat("${query}", 33), "more than 32 variables"},
		{"text/plain", "${query}" + strings.Repeat("x", 64<<10), "65536 is the most"},
	} {
		_, err := exchange.CompileBody(c.text, nil, c.contentType)
		if (err == nil) != (c.hint == "") || err != nil && !strings.Contains(err.Error(), c.hint) {
			t.Errorf("%s %.60q: %v, want an error with %q", c.contentType, c.text, err, c.hint)
		}
	}
}

func TestValuesInABodyAreCut(t *testing.T) {
	for contentType, want := range map[string]string{
		"text/plain": strings.Repeat("é", 512), "text/html": strings.Repeat("é", 512),
	} {
		got := compileBody(t, "${query}", contentType).Append(nil, asking(strings.Repeat("é", 5000)))
		if string(got) != want {
			t.Errorf("%s: %d bytes", contentType, len(got))
		}
	}
	got := compileBody(t, "${query}", "text/plain").Append(nil, asking("x"+strings.Repeat("é", 5000)))
	if len(got) != 1023 || !utf8.Valid(got) {
		t.Errorf("cut within a character: %d bytes", len(got))
	}
}
