package headers_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/headers"
)

type params map[string]string

func (p params) Value(name string) []byte { return []byte(p[name]) }

// sample is an exchange with the same fields, given as name, value …, in its request and its
// response.
func sample(fields ...string) *exchange.Exchange {
	x := &exchange.Exchange{Request: &head.Request{Method: []byte("GET"), Host: []byte("shop.example")}, Response: &head.Response{}}
	x.Begin(nil)
	x.Client, x.Params, x.TLS = netip.MustParseAddr("192.0.2.1"), params{"id": "7"}, &exchange.TLS{Subject: "CN=a\r\nX-Evil: 1\x00"}
	for i := 0; i < len(fields); i += 2 {
		x.Request.Fields.Add([]byte(fields[i]), []byte(fields[i+1]))
		x.Response.Fields.Add([]byte(fields[i]), []byte(fields[i+1]))
	}
	return x
}

func lines(t *testing.T, l *head.List) (out []string) {
	t.Helper()
	for i := range l.Len() {
		f := l.At(i)
		line := string(f.Name) + ": " + string(f.Value)
		if f.Line != nil && string(f.Line) != line+"\r\n" {
			t.Errorf("%s has the line %q", line, f.Line)
		}
		out = append(out, line)
	}
	return
}

func TestFieldsAreRemovedSetAndAdded(t *testing.T) {
	received := []string{"X-A", "1", "x-a", "2", "Server", "nginx", "Accept", "*/*", "Set-Cookie", "a=1"}
	for name, c := range map[string]struct {
		options headers.Options
		want    []string
	}{
		"nothing": {headers.Options{}, []string{"X-A: 1", "x-a: 2", "Server: nginx", "Accept: */*", "Set-Cookie: a=1"}},
		"remove":  {headers.Options{Remove: []string{"X-a", "SERVER", "X-Absent"}}, []string{"Accept: */*", "Set-Cookie: a=1"}},
		"set": {headers.Options{Set: map[string]string{"x-A": "3", "Server": "",
			"X-New": "n"}}, []string{"Accept: */*", "Set-Cookie: a=1", "Server: ", "x-A: 3",
			"X-New: n"}},
		"add": {headers.Options{Add: map[string]string{"X-A": "3", "Set-Cookie": "b=2"}},
			[]string{"X-A: 1", "x-a: 2", "Server: nginx", "Accept: */*", "Set-Cookie: a=1",
				"Set-Cookie: b=2", "X-A: 3"}},
		"all, in order": {headers.Options{Remove: []string{"X-A", "Server"},
			Set: map[string]string{"X-A": "s"}, Add: map[string]string{"X-A": "a"}},
			[]string{"Accept: */*", "Set-Cookie: a=1", "X-A: s", "X-A: a"}},
		"with variables": {headers.Options{Remove: []string{"X-A", "Server"},
			Set: map[string]string{"X-Client": "${client_address} ${path.id}"},
			Add: map[string]string{"X-M": "$${${method}"}},
			[]string{"Accept: */*", "Set-Cookie: a=1", "X-Client: 192.0.2.1 7", "X-M: ${GET"}},
		"harmless": {headers.Options{Remove: []string{"X-A", "Server"},
			Set: map[string]string{"X-S": "${tls_client_subject}"}},
			[]string{"Accept: */*", "Set-Cookie: a=1", "X-S: CN=a  X-Evil: 1 "}},
	} {
		c.options.PathNames = []string{"id"}
		request, err := headers.NewRequest(c.options)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		response, err := headers.NewResponse(c.options)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		x := sample(received...)
		if v := request.OnRequest(x); v != exchange.Continue {
			t.Fatalf("verdict %d", v)
		}
		if got := lines(t, &x.Request.Fields); !slices.Equal(got, c.want) {
			t.Errorf("request, %s:\n got %q\nwant %q", name, got, c.want)
		}
		if v := response.OnResponse(x); v != exchange.Continue {
			t.Fatalf("verdict %d", v)
		}
		if got := lines(t, &x.Response.Fields); !slices.Equal(got, c.want) {
			t.Errorf("response, %s:\n got %q\nwant %q", name, got, c.want)
		}
	}
}

func TestTheHostThatUpstreamsGetIsSet(t *testing.T) {
	for value, want := range map[string]string{
		"users.internal:8080":          "users.internal:8080",
		"${host}":                      "shop.example",
		"${path.id}.internal":          "7.internal",
		"${tls_client_subject}":        "shop.example",
		"${request_id}":                "shop.example",
		"a${method}":                   "shop.example",
		strings.Repeat("a${host}", 30): "shop.example",
		"[::1]:80":                     "[::1]:80",
	} {
		p, err := headers.NewRequest(headers.Options{PathNames: []string{"id"},
			Set: map[string]string{"host": value, "A-Host": "${host}", "X-Host": "${host}"}})
		if err != nil {
			t.Fatal(err)
		}
		x := sample("Host", "shop.example")
		p.OnRequest(x)
		wantFields := []string{"Host: " + want, "A-Host: shop.example", "X-Host: shop.example"}
		if got := lines(t, &x.Request.Fields); string(x.Request.Host) != want || !slices.Equal(got, wantFields) {
			t.Errorf("%s: Host %q, fields %q", value, x.Request.Host, got)
		}
	}
}

func TestBadChangesAreRefused(t *testing.T) {
	one := func(name, value string) map[string]string { return map[string]string{name: value} }
	for _, c := range []struct {
		options headers.Options
		hint    string
	}{
		{headers.Options{Set: one("Content-Length", "1")}, "gateway's own"},
		{headers.Options{Add: one("transfer-encoding", "chunked")}, "gateway's own"},
		{headers.Options{Remove: []string{"Connection"}}, "gateway's own"},
		{headers.Options{Remove: []string{"Upgrade"}}, "gateway's own"},
		{headers.Options{Remove: []string{"Host"}}, "neither added nor removed"},
		{headers.Options{Add: one("HOST", "a")}, "neither added nor removed"},
		{headers.Options{Set: one("X_Forwarded_For", "a")}, "dashes"},
		{headers.Options{Set: one("X A", "a")}, "not a name"},
		{headers.Options{Set: one("X-A", "a\r\nb")}, "control character"},
		{headers.Options{Add: one("X-A", " a")}, "white space"},
		{headers.Options{Set: one("X-A", "${nope}")}, "client_address"},
		{headers.Options{Set: map[string]string{"X-A": "1", "x-a": "2"}}, "twice"},
	} {
		for side, build := range map[string]func() error{
			"request":  func() error { _, err := headers.NewRequest(c.options); return err },
			"response": func() error { _, err := headers.NewResponse(c.options); return err },
		} {
			if err := build(); err == nil || !strings.Contains(err.Error(), c.hint) {
				t.Errorf("%s %+v: %v, want an error with %q", side, c.options, err, c.hint)
			}
		}
	}
	if _, err := headers.NewResponse(headers.Options{Set: one("Host", "a")}); err == nil {
		t.Error("Host is set on responses")
	}
	for _, host := range []string{"", "a b", "a/b", "user@a", "A.example", "a,b"} {
		if _, err := headers.NewRequest(headers.Options{Set: one("Host", host)}); err == nil {
			t.Errorf("the Host %q is accepted", host)
		}
	}
	if _, err := headers.NewRequest(headers.Options{Set: map[string]string{"Host": "a", "host": "a"}}); err == nil {
		t.Error("two Hosts are accepted")
	}
}

func TestHeadersDoNotAllocate(t *testing.T) {
	o := headers.Options{Remove: []string{"X-A"}, Set: map[string]string{"X-B": "b",
		"X-C": "${client_address}", "Host": "${host}"}, Add: map[string]string{"X-D": "d"}}
	request, err := headers.NewRequest(o)
	if err != nil {
		t.Fatal(err)
	}
	delete(o.Set, "Host")
	response, _ := headers.NewResponse(o)
	x := sample()
	host, a := x.Request.Host, []byte("X-A")
	run := func() {
		x.Begin(nil)
		x.Request.Host = host
		x.Request.Fields.Reset()
		x.Response.Fields.Reset()
		x.Request.Fields.Add(a, a)
		request.OnRequest(x)
		response.OnResponse(x)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
