package exchange_test

import (
	"bytes"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

type params map[string]string

func (p params) Value(name string) []byte {
	if v, ok := p[name]; ok {
		return []byte(v)
	}
	return nil
}

// sample is an exchange in which every variable has a value.
func sample() *exchange.Exchange {
	x := &exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
	x.Begin(nil)
	x.Request.Method, x.Request.Scheme, x.Request.Host = []byte("GET"), []byte("https"), []byte("shop.example:8443")
	x.Request.Path, x.Request.Query = []byte("/items/a%20b/c"), []byte("q=1&r=2")
	x.Peer = netip.MustParseAddrPort("192.0.2.7:5123")
	x.Client = x.Peer.Addr()
	x.Listener, x.Route, x.UpstreamName, x.Target = "0.0.0.0:8443", "items", "users", "10.0.0.1:9001"
	x.TLS = &exchange.TLS{Version: "1.3", Subject: "CN=ann,O=Example"}
	x.ID = []byte("0123abcd")
	x.Params = params{"id": "a%20b", "rest": "c"}
	return x
}

var names = []string{"id", "rest..."}

func TestEveryVariableHasItsValue(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"plain":                       "plain",
		"${client_address}":           "192.0.2.7",
		"${client_port}":              "5123",
		"${request_id}":               "0123abcd",
		"${method}":                   "GET",
		"${host}":                     "shop.example:8443",
		"${path}":                     "/items/a%20b/c",
		"${query}":                    "q=1&r=2",
		"${scheme}":                   "https",
		"${route}":                    "items",
		"${upstream}":                 "users",
		"${target}":                   "10.0.0.1:9001",
		"${listener}":                 "0.0.0.0:8443",
		"${tls_version}":              "1.3",
		"${tls_client_subject}":       "CN=ann,O=Example",
		"${path.id}":                  "a%20b",
		"${path.rest}":                "c",
		"a ${method}${scheme} z":      "a GEThttps z",
		"$${method} and $ and {id}":   "${method} and $ and {id}",
		"$$${method}":                 "$${method}",
		"cost: 5$":                    "cost: 5$",
		"${method}}":                  "GET}",
		"tab\tand obs-text \xe4 pass": "tab\tand obs-text \xe4 pass",
	} {
		tmpl, err := exchange.CompileTemplate(text, names)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		x := sample()
		if got := string(tmpl.Append([]byte("> "), x)); got != "> "+want {
			t.Errorf("%q gives %q, want %q", text, got, "> "+want)
		}
		if got := string(x.Render(tmpl)); got != want {
			t.Errorf("%q renders %q, want %q", text, got, want)
		}
	}
}

func TestPathTextsUnderstandTheNamesOfThePattern(t *testing.T) {
	for text, want := range map[string]string{
		"/v2/{id}/{rest...}":                  "/v2/a%20b/c",
		"/v2/{rest}":                          "/v2/c",
		"/${path.id}":                         "/a%20b",
		"https://${host}${path}?${query}#top": "https://shop.example:8443/items/a%20b/c?q=1&r=2#top",
		"/${tls_client_subject}/50%25":        "/CN=ann,O=Example/50%25",
	} {
		tmpl, err := exchange.CompilePath(text, names)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := string(tmpl.Append(nil, sample())); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

func TestWithoutValuesVariablesAreEmpty(t *testing.T) {
	x := &exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
	x.Begin(nil)
	const all = "${client_address}${client_port}${request_id}${method}${host}${path}${query}${scheme}${route}${upstream}${target}" +
		"${listener}${tls_version}${tls_client_subject}${path.id}"
	tmpl, err := exchange.CompileTemplate("<"+all+">", names)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(x.Render(tmpl)); got != "<>" {
		t.Errorf("got %q", got)
	}
}

func TestAForwardedClientHasNoPort(t *testing.T) {
	tmpl, _ := exchange.CompileTemplate("${client_address} ${client_port}", nil)
	x := sample()
	x.Client = netip.MustParseAddr("2001:db8::1")
	if got := string(x.Render(tmpl)); got != "2001:db8::1 " {
		t.Errorf("got %q", got)
	}
	x.Peer = netip.MustParseAddrPort("[::ffff:192.0.2.7]:80")
	x.Client = netip.MustParseAddr("192.0.2.7")
	if got := string(x.Render(tmpl)); got != "192.0.2.7 80" {
		t.Errorf("of a mapped peer: got %q", got)
	}
}

func TestCompileErrorsSayWhatIsKnown(t *testing.T) {
	plain := exchange.CompileTemplate
	for _, c := range []struct {
		compile func(string, []string) (*exchange.Template, error)
		text    string
		names   []string
		hints   []string
	}{
		{plain, "${metod}", names, []string{"${metod}", "client_address", "method", "path.id", "path.rest", "$${"}},
		{plain, "${}", nil, []string{"${} is unknown"}},
		{plain, "${path.nope}", names, []string{"{path.nope}", "id, rest"}},
		{plain, "${path.id}", nil, []string{"the route's pattern has no names"}},
		{plain, "a ${method", names, []string{"not closed"}},
		{plain, "a\r\nSet-Cookie: b", nil, []string{"control character"}},
		{plain, "a\x00", nil, []string{"control character"}},
		{plain, strings.Repeat("a", 9000), nil, []string{"9000 bytes"}},
		{exchange.CompilePath, "/{nope}", names, []string{"{nope}", "id, rest"}},
		{exchange.CompilePath, "/{$}", names, []string{"{$}"}},
		{exchange.CompilePath, "/{}", []string{""}, []string{"{}"}},
		{exchange.CompilePath, "/{id", names, []string{"not closed"}},
		{exchange.CompilePath, "/a b", nil, []string{"%20"}},
		{exchange.CompilePath, "/a\r\nb", nil, []string{"%0D"}},
		{exchange.CompilePath, `/a\b`, nil, []string{"%5C"}},
		{exchange.CompilePath, "/$${a}", nil, []string{"%7B"}},
		{exchange.CompilePath, "/50%", nil, []string{"%25"}},
		{exchange.CompilePath, "/%zz", nil, []string{"%25"}},
	} {
		_, err := c.compile(c.text, c.names)
		if err == nil {
			t.Errorf("%.40q is accepted", c.text)
			continue
		}
		for _, hint := range c.hints {
			if !strings.Contains(err.Error(), hint) {
				t.Errorf("%.40q: %v; does not say %q", c.text, err, hint)
			}
		}
	}
}

func TestValuesCannotEndAField(t *testing.T) {
	tmpl, _ := exchange.CompileTemplate("${tls_client_subject}", nil)
	x := sample()
	x.TLS = &exchange.TLS{Subject: "a\r\nSet-Cookie: b\x00\x7fc\td"}
	if got := string(x.Render(tmpl)); got != "a  Set-Cookie: b  c\td" {
		t.Errorf("got %q", got)
	}
}

func TestValuesInPathsAreEncodedWhereTheyMust(t *testing.T) {
	tmpl, _ := exchange.CompilePath("/${tls_client_subject}/${path}", nil)
	x := sample()
	x.TLS = &exchange.TLS{Subject: "\r\n\x00 \"<>\\^`{|}#\x7f\xff"}
	if got, want := string(x.Render(tmpl)), "/%0D%0A%00%20%22%3C%3E%5C%5E%60%7B%7C%7D%23%7F%FF//items/a%20b/c"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	x.TLS = &exchange.TLS{Subject: "a b"}
	if got, want := string(tmpl.Append(nil, x)), "/a%20b//items/a%20b/c"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestConstant(t *testing.T) {
	for text, constant := range map[string]bool{"": true, "a": true, "$${method}": true, "${method}": false, "a${method}": false} {
		tmpl, err := exchange.CompileTemplate(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := tmpl.Constant()
		if ok != constant || ok && !bytes.Equal(got, tmpl.Append(nil, sample())) {
			t.Errorf("%q: constant %v, %q", text, ok, got)
		}
	}
}

func TestRenderedTextsDoNotOverlap(t *testing.T) {
	x := sample()
	tmpl, _ := exchange.CompileTemplate("${path}${path}${path}", nil)
	want := strings.Repeat("/items/a%20b/c", 3)
	var all [][]byte
	for range 100 { // more than the arena's first block holds
		all = append(all, x.Render(tmpl))
		copy(x.Alloc(3), "###")
	}
	for i, got := range all {
		if string(got) != want {
			t.Fatalf("text %d is now %q", i, got)
		}
	}
	first := append(all[0], strings.Repeat("!", 2*len(want))...)
	if string(all[1]) != want || len(first) == 0 {
		t.Errorf("appending to one text changed the next: %q", all[1])
	}
}

func TestRenderDoesNotAllocate(t *testing.T) {
	x := sample()
	tmpl, _ := exchange.CompileTemplate("${client_address}:${client_port} ${host}${path}?${query} ${path}", nil)
	uri, _ := exchange.CompilePath("/${path}/${tls_client_subject}", nil)
	x.TLS = &exchange.TLS{Subject: "a b c"}
	x.Render(tmpl)
	if n := testing.AllocsPerRun(100, func() {
		x.Begin(nil)
		x.Client = netip.AddrFrom4([4]byte{192, 0, 2, 7})
		x.TLS = tlsWithSpaces
		x.Render(tmpl)
		x.Render(uri)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

var tlsWithSpaces = &exchange.TLS{Subject: "a b c"}

func FuzzTemplate(f *testing.F) {
	f.Add("/${path}/{id}", "a\r\nb")
	f.Add("$${${tls_client_subject}", "%\x00")
	f.Fuzz(func(t *testing.T, text, value string) {
		x := sample()
		x.TLS = &exchange.TLS{Subject: value}
		x.Params = params{"id": value}
		if tmpl, err := exchange.CompileTemplate(text, names); err == nil {
			got := tmpl.Append(nil, x)
			for _, c := range got {
				if c < ' ' && c != '\t' || c == 0x7f {
					t.Fatalf("%q with %q gives %q", text, value, got)
				}
			}
		}
		if tmpl, err := exchange.CompilePath(text, names); err == nil {
			got := tmpl.Append([]byte("kept"), x)
			if i := bytes.IndexFunc(got, func(r rune) bool {
				return r <= ' ' || r >= 0x7f ||
					strings.ContainsRune("\"<>\\^`{|}", r)
			}); i >= 0 ||
				!bytes.HasPrefix(got, []byte("kept")) {
				t.Fatalf("%q with %q gives %q", text, value, got)
			}
			if encoded, err := url.PathUnescape(string(got)); err == nil &&
				!strings.ContainsRune(value, '%') && strings.Contains(text, "{id}") &&
				!strings.Contains(encoded, value) {
				t.Fatalf("%q with %q gives %q", text, value, got)
			}
		}
	})
}

func BenchmarkRender(b *testing.B) {
	x := sample()
	tmpl, _ := exchange.CompileTemplate("${client_address} ${host}", nil)
	b.ReportAllocs()
	dst := make([]byte, 0, 256)
	for b.Loop() {
		dst = tmpl.Append(dst[:0], x)
	}
}
