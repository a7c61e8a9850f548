package replay_test

import (
	"strings"
	"testing"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/replay"
)

const requestPrefix = `203.0.113.7 - - [20/Nov/2026:08:00:00 +0100] `

var requestCases = map[string]struct {
	line string
	o    replay.Options
	want string
}{
	"combined": {requestPrefix + `"GET /a?b=c HTTP/1.1" 200 12 "-" "curl/8.0"`, replay.Options{},
		"GET /a?b=c HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: curl/8.0\r\n\r\n"},
	"common": {requestPrefix + `"HEAD / HTTP/2.0" 304 -`, replay.Options{}, "HEAD / HTTP/1.1\r\nHost: shop.test\r\n\r\n"},
	"fields behind combined": {
		requestPrefix + `"GET /a HTTP/1.1" 200 12 "-" "-" "10.0.0.1" rt=0.3`, replay.Options{},
		"GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
	},
	"a user with a space": {
		`::1 - some body [20/Nov/2026:08:00:00 +0100] "GET /a HTTP/1.1" 200 12 "-" "-"`,
		replay.Options{},
		"GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
	},
	"nginx's escapes": {
		requestPrefix + `"GET /a?q=\x22b\x22&\x5C HTTP/1.1" 200 12 "-" "\x22odd\x22 \xC3\xA9"`,
		replay.Options{},
		"GET /a?q=\"b\"&\\ HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: \"odd\" \u00e9\r\n\r\n",
	},
	"Apache's escapes": {
		requestPrefix + `"GET /a?q=\"b\" HTTP/1.1" 200 12 "-" "\"odd\" \\ one"`, replay.Options{},
		"GET /a?q=\"b\" HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: \"odd\" \\ one\r\n\r\n",
	},
	"a proxy's request": {
		requestPrefix + `"GET http://Other.Test:81/a?b HTTP/1.1" 200 12 "-" "-"`,
		replay.Options{KeepHost: true},
		"GET /a?b HTTP/1.1\r\nHost: other.test:81\r\n\r\n",
	},
	"a URL without a path": {
		requestPrefix + `"GET https://other.test?b HTTP/1.1" 200 12 "-" "-"`, replay.Options{},
		"GET /?b HTTP/1.1\r\nHost: shop.test\r\n\r\n",
	},
	"OPTIONS *": {requestPrefix + `"OPTIONS * HTTP/1.1" 200 12 "-" "-"`, replay.Options{}, "OPTIONS * HTTP/1.1\r\nHost: shop.test\r\n\r\n"},
	"a log_format": {`1763625600.123|other.test|/a?b|GET|"agent" x`,
		replay.Options{
			Format:   `$msec|$host|$request_uri|${request_method}|"$http_user_agent" x`,
			KeepHost: true,
		},
		"GET /a?b HTTP/1.1\r\nHost: other.test\r\nUser-Agent: agent\r\n\r\n"},
	"plimsoll's own": {
		`{"time":"2026-11-20T08:00:00.123456Z","client":"::1","method":"GET","host":"a.test","path":"/a","query":"b=c","status":200,` +
			`"duration":0.2,"gateway_duration":0.00002,"user_agent":"x\u0022y"}`,
		replay.Options{},
		"GET /a?b=c HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: x\"y\r\n\r\n",
	},
	"Caddy": {
		`{"level":"info","ts":1763625600.123,"request":{"remote_ip":"::1","method":"GET","host":"a.test","uri":"/a?b","headers":` +
			`{"Accept":["*/*"],"User-Agent":["curl/8"]}},"status":200}`,
		replay.Options{KeepHost: true},
		"GET /a?b HTTP/1.1\r\nHost: a.test\r\nUser-Agent: curl/8\r\n\r\n",
	},
	"nginx's JSON": {
		`{"msec": "1763625600.123", "request": "GET /a?b HTTP/1.1", "args":"b", "status": "200", "nothing": null, "list": [1, {"a": "}"}]}`,
		replay.Options{}, "GET /a?b HTTP/1.1\r\nHost: shop.test\r\n\r\n",
	},
	"named fields": {
		`{"when": 1763625600123, "http": {"verb": "GET", "what": "/a"}, "path": "/not-this"}`,
		replay.Options{
			Fields: map[string]string{
				"time":   "when",
				"method": "http.verb",
				"path":   "http.what",
			},
		},
		"GET /a HTTP/1.1\r\nHost: shop.test\r\n\r\n",
	},
	"a HAR": {
		`{"log": {"version": "1.2", "pages": [{"id": "1"}], "entries": [{"startedDateTime": "2026-11-20T08:00:00.123Z", "request":` +
			`{"method": "GET", "url": "https://a.test/a?b#c", "headers": [{"name": "user-agent", "value": "browser"}]}, "response": {"status": 200}}]}}`,
		replay.Options{KeepHost: true},
		"GET /a?b HTTP/1.1\r\nHost: a.test\r\nUser-Agent: browser\r\n\r\n",
	},
	"a HAR's body": {
		`{"log":{"entries":[{"startedDateTime":"2026-11-20T08:00:00.123Z","request":{"method":"POST","url":"https://a.test/a",` +
			`"postData":{"mimeType":"text/plain","text":"hello"}}}]}}`,
		replay.Options{Unsafe: true},
		"POST /a HTTP/1.1\r\nHost: shop.test\r\nContent-Type: text/plain\r\n" +
			"Content-Length: 5\r\n\r\nhello",
	},
	"an unsafe method": {
		requestPrefix + `"POST /a HTTP/1.1" 201 12 "-" "-"`, replay.Options{Unsafe: true},
		"POST /a HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 0\r\n\r\n",
	},
}

func TestALineBecomesTheRequestThatWasLogged(t *testing.T) {
	for name, c := range requestCases {
		t.Run(name, func(t *testing.T) {
			got, stats := replayed(t, c.line+"\n", c.o)
			if len(got) != 1 || got[0].request != c.want {
				t.Errorf("got %+v, want one %q; %v", got, c.want, stats.Examples)
			}
		})
	}
}

func TestALineThatCannotBeReadIsCountedAndShown(t *testing.T) {
	const good = `{"ts": 1763625600.5, "method": "GET", "path": "/good"}` + "\n"
	cases := map[string]struct{ line, why string }{
		"no JSON":             {`GET /`, "not a JSON object"},
		"cut off":             {`{"ts": 1763625600.5, "method": "GET", "path": "/a`, "not a JSON object"},
		"something behind it": {`{"ts": 1763625600.5, "method": "GET", "path": "/a"} x`, "not a JSON object"},
		"no time":             {`{"method": "GET", "path": "/a"}`, "no time"},
		"an invalid time":     {`{"ts": "yesterday", "method": "GET", "path": "/a"}`, "its time is invalid"},
		"a far time":          {`{"ts": "9999-01-01T00:00:00Z", "method": "GET", "path": "/a"}`, "its time is invalid"},
		"no method":           {`{"ts": 1763625600.5, "path": "/a"}`, "no method"},
		"no path":             {`{"ts": 1763625600.5, "method": "GET"}`, "no path"},
		"a relative path":     {`{"ts": 1763625600.5, "method": "GET", "path": "a"}`, "its path is not a path"},
		"a space in the path": {`{"ts": 1763625600.5, "method": "GET", "path": "/a b"}`, "a character"},
		"another request":     {`{"ts": 1763625600.5, "method": "GET", "path": "/ HTTP/1.1\r\nEvil: 1\r\nX:"}`, "a character"},
		"bytes beyond ASCII":  {`{"ts": 1763625600.5, "method": "GET", "path": "/é"}`, "a character"},
		"a method with space": {`{"ts": 1763625600.5, "method": "GET /", "path": "/a"}`, "a character"},
		"a TLS hello":         {`{"ts": 1763625600.5, "request": "\u0016\u0003\u0001"}`, "METHOD TARGET"},
		"no version":          {`{"ts": 1763625600.5, "request": "GET /"}`, "METHOD TARGET"},
		"an unknown escape":   {`{"ts": 1763625600.5, "method": "GET", "path": "/\q"}`, "invalid escape"},
		"a status in words":   {`{"ts": 1763625600.5, "method": "GET", "path": "/a", "status": "fine"}`, "its status"},
		"a duration in words": {
			`{"ts": 1763625600.5, "method": "GET", "path": "/a", "request_time": "1ms"}`,
			"the time its request took",
		},
		"a very long path": {
			`{"ts": 1763625600.5, "method": "GET", "path": "/` + strings.Repeat("a", 20_000) + `"}`,
			"larger than 16 KB",
		},
		"a line without an end": {
			`{"ts": 1763625600.5, "method": "GET", "path": "/` + strings.Repeat("a", 200_000) +
				`"}`,
			"longer than 64 KB",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, stats := replayed(t, good+c.line+"\n"+good, replay.Options{Format: "json"})
			if len(got) != 2 || stats.Unreadable != 1 || stats.Lines != 3 {
				t.Fatalf("sent %d, unreadable %d of %d lines: %v",
					len(got), stats.Unreadable, stats.Lines, stats.Examples)
			}
			if example := stats.Examples[0]; !strings.HasPrefix(example, "line 2: ") ||
				!strings.Contains(example, c.why) || len(example) > 1000 {
				t.Errorf("example %q, which should say %q", example, c.why)
			}
		})
	}
}

func TestAnInvalidUserAgentIsLeftOutAndCounted(t *testing.T) {
	got, stats := replayed(
		t,
		`{"ts": 1763625600.5, "method": "GET", "path": "/", "user_agent": "a\r\nEvil: 1"}`+"\n",
		replay.Options{},
	)
	if len(got) != 1 || got[0].request != "GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n" ||
		stats.WithoutAgent != 1 {
		t.Errorf("got %+v, %d without their User-Agent", got, stats.WithoutAgent)
	}
}

func TestAHostThatIsNoneIsNotKept(t *testing.T) {
	const text = `{"ts": 1763625600.5, "method": "GET", "path": "/", "host": "a b"}` + "\n" +
		`{"ts": 1763625600.5, "method": "GET", "path": "/", "host": "a\r\nEvil: 1"}` + "\n" +
		`{"ts": 1763625600.5, "method": "GET", "path": "/", "host": "a.test"}` + "\n"
	if got, stats := replayed(t, text, replay.Options{KeepHost: true}); len(got) != 1 ||
		stats.Unreadable != 2 {
		t.Errorf("sent %d, unreadable %d: %v", len(got), stats.Unreadable, stats.Examples)
	}
}

func TestOnlySafeMethodsAreSentUnlessTold(t *testing.T) {
	text := ""
	for _, method := range []string{
		"GET", "POST", "HEAD", "DELETE", "OPTIONS", "PATCH", "get", "PURGE",
	} {
		text += requestLine("08:00:00", method+" /a HTTP/1.1")
	}
	got, stats := replayed(t, text, replay.Options{})
	if len(got) != 3 || stats.SkippedUnsafe != 5 {
		t.Errorf("sent %d, skipped %d", len(got), stats.SkippedUnsafe)
	}
	if got, stats = replayed(t, text, replay.Options{Unsafe: true}); len(got) != 8 ||
		stats.SkippedUnsafe != 0 {
		t.Errorf("with all methods: sent %d, skipped %d", len(got), stats.SkippedUnsafe)
	}
}

func TestTheGeneratorIsToldOfHeadAndOfTheMethod(t *testing.T) {
	s := start(
		t,
		file(t,
			requestLine("08:00:00", "GET / HTTP/1.1")+requestLine("08:00:01", "HEAD / HTTP/1.1")),
		replay.Options{},
		1,
	)
	names := s.Names()
	for _, a := range drain(t, s, 1)[0] {
		method, _, _ := strings.Cut(a.request, " ")
		if names[a.kind.Name] != method || a.kind.Head != (method == "HEAD") {
			t.Errorf("%s is named %s, Head is %v", method, names[a.kind.Name], a.kind.Head)
		}
	}
}

func TestAnAnswerIsComparedWithTheLog(t *testing.T) {
	cases := []struct {
		logged string
		status int
		want   measure.Kind
	}{
		{"200", 200, measure.OK}, {"200", 304, measure.OK}, {"404", 404, measure.OK}, {"404", 200, measure.OK}, {"-", 200, measure.OK},
		{"200", 404, measure.BadStatus}, {"403", 404, measure.BadStatus}, {"503", 503, measure.BadStatus}, {"-", 404, measure.BadStatus},
		{"200", 999, measure.BadStatus},
	}
	for _, c := range cases {
		line := strings.Replace(requestLine("08:00:00", "GET / HTTP/1.1"), " 200 ",
			" "+c.logged+" ", 1)
		s := start(t, file(t, line), replay.Options{}, 1)
		if _, ok := s.Arrivals(0, 1).Next(); !ok {
			t.Fatal("there is no arrival")
		}
		session := s.Player(0, 1, 1).Begin()
		session.Request(nil)
		if v := session.Answer(&load.Answer{Status: c.status}); v.Kind != c.want ||
			(v.Why == "") != (c.want == measure.OK) || v.More {
			t.Errorf("%d where the log has %s: %v", c.status, c.logged, v)
		}
	}
}
