package load_test

import (
	"strings"
	"testing"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

func TestARequestIsPreparedAsItGoesOnTheWire(t *testing.T) {
	to := load.Target{Authority: "a.test:81", Path: "/x?y=1"}
	for _, c := range []struct {
		method string
		header []string
		body   string
		want   string
	}{
		{"", nil, "", "GET /x?y=1 HTTP/1.1\r\nHost: a.test:81\r\nUser-Agent: plimsoll\r\n\r\n"},
		{"POST", []string{"X-A:  b "}, "hello", "POST /x?y=1 HTTP/1.1\r\nHost: " +
			"a.test:81\r\nUser-Agent: plimsoll\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello"},
		{"PUT", nil, "", "PUT /x?y=1 HTTP/1.1\r\nHost: a.test:81\r\nUser-Agent: plimsoll\r\nContent-Length: 0\r\n\r\n"},
		{"HEAD", []string{"host: b.test", "USER-AGENT: me"}, "", "HEAD /x?y=1 HTTP/1.1\r\nHost: b.test\r\nUser-Agent: me\r\n\r\n"},
		{"POST", []string{"Content-Length: 2"}, "ab", "POST /x?y=1 HTTP/1.1\r\nHost: " +
			"a.test:81\r\nUser-Agent: plimsoll\r\nContent-Length: 2\r\n\r\nab"},
	} {
		got, err := load.Prepare(to, c.method, c.header, []byte(c.body))
		if err != nil || string(got) != c.want {
			t.Errorf("%q %v, want %q", got, err, c.want)
		}
	}
}

func TestARequestThatCouldBeReadInTwoWaysIsRefused(t *testing.T) {
	to := load.Target{Authority: "a.test", Path: "/"}
	for _, c := range []struct{ method, header, text string }{
		{"GET", "X: a\r\nY: b", "control character"},
		{"GET", "X: a\x00", "control character"},
		{"GET", "X\r\n: a", "a name is letters"},
		{"GET", "X : a", "a name is letters"},
		{"GET", ": a", "a name is letters"},
		{"GET", "no colon", "no colon"},
		{"GET", "Content-Length: 7", "disagrees"},
		{"GET", "Transfer-Encoding: chunked", "leave it out"},
		{"GET", "Upgrade: h2c", "cannot be sent"},
		{"GE T", "X: a", "method"},
		{"CONNECT", "X: a", "method"},
	} {
		_, err := load.Prepare(to, c.method, []string{c.header}, []byte("ab"))
		if err == nil {
			t.Errorf("%q was taken", c.header)
			continue
		}
		contains(t, err.Error(), c.text)
		if strings.ContainsAny(err.Error(), "\r\n\x00") {
			t.Errorf("the error carries on what it complains of: %q", err)
		}
	}
}

func TestAURLBecomesATarget(t *testing.T) {
	for _, c := range []struct{ url, authority, path, address string }{
		{"http://127.0.0.1", "127.0.0.1", "/", "127.0.0.1:80"},
		{"http://127.0.0.1:8080/a/b?c=d#e", "127.0.0.1:8080", "/a/b?c=d", "127.0.0.1:8080"},
		{"https://127.0.0.1:443/", "127.0.0.1", "/", "127.0.0.1:443"},
		{"https://127.0.0.1:80?x", "127.0.0.1:80", "/?x", "127.0.0.1:80"},
		{"http://[::1]:81/a%20b/ä?q=ö z", "[::1]:81", "/a%20b/%C3%A4?q=%C3%B6%20z", "[::1]:81"},
	} {
		got, err := load.Resolve(t.Context(), c.url, load.TLSOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if got.Authority != c.authority || got.Path != c.path || got.Addresses[0].String() != c.address || got.URL != c.url ||
			(got.TLS != nil) != strings.HasPrefix(c.url, "https") {
			t.Errorf("%s: %+v", c.url, got)
		}
	}
}

func TestANameIsLookedUpAndAllItsAddressesUsed(t *testing.T) {
	to, err := load.Resolve(t.Context(), "http://localhost:1/", load.TLSOptions{})
	if err != nil || len(to.Addresses) == 0 || to.Addresses[0].IP.Port() != 1 || to.Authority != "localhost:1" {
		t.Errorf("%+v %v", to, err)
	}
	s := serve(t, send(okAnswer))
	o := get(t, s.url())
	dead, err := reactor.ParseAddress("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	// One of two addresses has no listener: the connections find the other one before the run
	// begins.
	o.Target.Addresses = append([]reactor.Address{dead}, o.Target.Addresses...)
	o.Arrivals = every(20, ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 20})
	if totals.ConnectionsMade != 4 {
		t.Errorf("%d connections", totals.ConnectionsMade)
	}
}

func TestAnInvalidURLIsRefusedInOneLine(t *testing.T) {
	for url, text := range map[string]string{
		"":                        "not a URL",
		"localhost:8080":          "did you mean",
		"ftp://127.0.0.1/":        "only http and https",
		"http://":                 "not a URL",
		"http://u:p@127.0.0.1/":   "Authorization",
		"http://127.0.0.1:99999/": "port",
		"http://127.0.0.1:0/":     "port",
		"http://bücher.test/":     "xn--",
		"http://a b/":             "not a URL",
		"http://127.0.0.1/" + strings.Repeat("x", 20000): "most",
	} {
		_, err := load.Resolve(t.Context(), url, load.TLSOptions{})
		if err == nil {
			t.Errorf("%q was taken", url)
			continue
		}
		contains(t, err.Error(), text)
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("an error of several lines: %v", err)
		}
	}
	for text, secure := range map[string]load.TLSOptions{
		"no-such-file.pem": {CA: "no-such-file.pem"},
		"key":              {Cert: "only.pem"},
	} {
		if _, err := load.Resolve(t.Context(), "https://127.0.0.1/", secure); err == nil {
			t.Errorf("%s: no error", text)
		} else {
			contains(t, err.Error(), text)
		}
	}
}
