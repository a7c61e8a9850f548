package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// withLog is a gateway's configuration with an access log, and a second listener that waits little.
func withLog(path, more, rest string) string {
	return fmt.Sprintf("listeners: [{address: \"127.0.0.1:0\"}, {address: \"127.0.0.2:0\", limits: {head_timeout: 100ms}}]\n"+
		"access_log: {path: %q%s}\n", path, more) + rest
}

func TestEveryKindOfEndHasItsLine(t *testing.T) {
	held := newGate(t)
	holding := newService(t, held.script)
	good := newService(t, answering(okResponse))
	bad := newService(t, answering("nonsense\r\n\r\n"))
	cut := newService(t, func(c *serviceConn, _ int) {
		if c.head() != "" {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
		}
	})
	tunnel := newService(t, echoing)
	path := filepath.Join(t.TempDir(), "access.log")
	g := serve(t, withLog(path, "", fmt.Sprintf(`
upstreams: {good: {targets: [%q]}, bad: {targets: [%q]}, cut: {targets: [%q]}, tunnel: {targets: [%q]}, held: {targets: [%q]}, down: {targets: [%q]}}
routes:
  - {match: /good, upstream: good, sla: P3, request_id: true}
  - {match: /bad, upstream: bad}
  - {match: /cut, upstream: cut}
  - {match: "/{$}", upstream: tunnel}
  - {match: /held, upstream: held}
  - {match: /down, upstream: down}
  - {match: GET /answer, respond: {body: hello}}
`, good.address(), bad.address(), cut.address(), tunnel.address(), holding.address(), freeAddress(t))))

	got := 0
	check := func(what string, want map[string]any, absent ...string) {
		t.Helper()
		got++
		line := lines(t, path, got)[got-1]
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%s: %v in %s", what, err, line)
		}
		for name, value := range want {
			if fmt.Sprint(fields[name]) != fmt.Sprint(value) {
				t.Errorf("%s: %s is %v, want %v\n%s", what, name, fields[name], value, line)
			}
		}
		for _, name := range absent {
			if _, there := fields[name]; there {
				t.Errorf("%s: %s is there\n%s", what, name, line)
			}
		}
	}
	g.exchange("GET /good?q=1 HTTP/1.1\r\nHost: Example.com\r\nUser-Agent: test\r\nReferer: here\r\nConnection: close\r\n\r\n")
	check("a request that goes through", map[string]any{"client": "127.0.0.1", "method": "GET",
		"host": "example.com", "path": "/good", "query": "q=1",
		"protocol": "HTTP/1.1", "status": 200, "bytes_in": 0, "bytes_out": 2, "route": "/good",
		"upstream": "good", "target": good.address(), "class": "P3", "attempts": 1,
		"user_agent": "test", "referer": "here", "listener": "127.0.0.1:0"}, "reason", "tls")
	g.exchange("GET /answer HTTP/1.0\r\n\r\n")
	check("the gateway's own answer", map[string]any{"protocol": "HTTP/1.0", "status": 200,
		"bytes_out": 5, "route": "GET /answer"}, "upstream", "attempts")
	g.exchange("POST /answer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	check("another method", map[string]any{"status": 405, "reason": "wrong_method"}, "upstream", "route")
	g.exchange("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
	check("a malformed request", map[string]any{"status": 400, "reason": "bad_request"}, "route")
	p := dialRaw(t, g.address(1))
	p.send("GET / HT")
	p.rest()
	check("a head that does not arrive", map[string]any{"status": 408, "reason": "head_timeout"}, "route")
	g.exchange("GET /down HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	check("no connection", map[string]any{"status": 502, "reason": "connect_failed", "upstream": "down", "attempts": 2})
	g.exchange("GET /bad HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	check("a malformed response", map[string]any{"status": 502, "reason": "upstream_bad", "upstream": "bad"})
	p = g.dial()
	p.send("GET /cut HTTP/1.1\r\nHost: a\r\n\r\n")
	io.Copy(io.Discard, p.r)
	check("a response that breaks off", map[string]any{"status": 200, "reason": "upstream_cut", "bytes_out": 4})
	p = g.dial()
	p.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
	held.next(t)
	p.Close()
	check("a client that leaves", map[string]any{"status": 0, "upstream": "held", "bytes_out": 0}, "reason")
	p = openTunnel(g)
	p.echoes("twelve bytes")
	p.Close()
	check("a tunnel", map[string]any{"status": 101, "bytes_in": 12, "bytes_out": 12})
	eventually(t, "all lines are counted", func() bool { return g.lines.Written.Load() == uint64(got) })
}

func TestTheCombinedFormatIsThatOfNginx(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	g := serve(t, withLog(path, ", format: combined", "routes: [{match: /, respond: {body: hello}}]\n"))
	g.exchange("GET /a?b HTTP/1.1\r\nHost: a\r\nUser-Agent: a \"quote\"\r\nConnection: close\r\n\r\n")
	lines(t, path, 1)
	g.exchange("BAD\r\n\r\n")
	got := lines(t, path, 2)
	for i, want := range []string{
		`^127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "GET /a\?b HTTP/1\.1" 200 5 "-" "a \\x22quote\\x22"$`,
		`^127\.0\.0\.1 - - \[[^]]+\] "" 400 \d+ "-" "-"$`,
	} {
		if !regexp.MustCompile(want).MatchString(got[i]) {
			t.Errorf("line %d: %s\nwant %s", i+1, got[i], want)
		}
	}
}

func TestAFullDiskUnderTheAccessLogDisturbsNoRequestAndIsCounted(t *testing.T) {
	s := newService(t, answering(okResponse))
	g := serve(t, withLog("/dev/full", "", "upstreams: {s: {targets: [\""+s.address()+"\"]}}\nroutes: [{match: /, upstream: s}]\n"))
	p := g.dial()
	for range 100 {
		p.send(plainGet)
		if r, _ := p.response("GET"); r.StatusCode != 200 {
			t.Fatalf("got %d", r.StatusCode)
		}
	}
	eventually(t, "the lost lines are counted", func() bool { return g.lines.Lost.Load() == 100 })
	// The line is written after the counter has risen.
	eventually(t, "the loss is logged", func() bool { return strings.Contains(g.logged.String(), "lines are lost") })
	if n := strings.Count(g.logged.String(), "lines are lost"); n != 1 {
		t.Errorf("%d lines were logged of it, want 1", n)
	}
	path := filepath.Join(t.TempDir(), "access.log")
	if err := g.reload(withLog(path, "", "routes: [{match: /, respond: {}}]\n")); err != nil {
		t.Fatal(err)
	}
	p.send(plainGet)
	p.response("GET")
	lines(t, path, 1)
}

func TestTheAccessLogsFileIsReopenedOnSIGHUP(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	g := serve(t, withLog(path, "", "routes: [{match: /, respond: {}}]\n"))
	p := g.dial()
	get := func(target string) {
		t.Helper()
		p.send("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n")
		p.response("GET")
	}
	get("/before")
	lines(t, path, 1)
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	get("/between")
	if got := lines(t, path+".moved", 2); !strings.Contains(got[1], "/between") {
		t.Errorf("the moved file has %q", got)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is a new file", func() bool { _, err := os.Stat(path); return err == nil })
	get("/after")
	if got := lines(t, path, 1); !strings.Contains(got[0], "/after") {
		t.Errorf("the new file has %q", got)
	}
}

func TestTheAccessLogIsRotatedBySize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	g := serve(t, withLog(path, ", max_size: 1KB, keep: 2", "routes: [{match: /, respond: {}}]\n"))
	p := g.dial()
	for n := range 40 {
		p.send(fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", n))
		p.response("GET")
	}
	eventually(t, "all lines are written", func() bool { return g.lines.Written.Load() == 40 })
	for _, name := range []string{path, path + ".1", path + ".2"} {
		if info, err := os.Stat(name); err != nil || info.Size() > 1024 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, err := os.Stat(path + ".3"); err == nil {
		t.Error("more files are kept than configured")
	}
}

func TestNoLineIsLostWhenTheAccessLogMovesUnderLoad(t *testing.T) {
	s := newService(t, answering(okResponse))
	dir := t.TempDir()
	yaml := func(n int) string {
		return fmt.Sprintf("loops: 2\n%saccess_log: {path: %q}\n", oneUpstream(s.address()), filepath.Join(dir, fmt.Sprint(n)))
	}
	g := serve(t, yaml(0))
	l := startLoad(t, g.address(0), 2)
	for n := range 10 {
		l.more(5)
		if err := g.reload(yaml(n + 1)); err != nil {
			t.Fatal(err)
		}
	}
	if failed := l.end(); failed != nil {
		t.Error(failed)
	}
	want := uint64(l.done.Load())
	eventually(t, "each request has its line", func() bool { return g.lines.Written.Load() == want })
	total := 0
	for n := range 11 {
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(n)))
		if err != nil {
			t.Fatal(err)
		}
		total += strings.Count(string(text), "\n")
	}
	if uint64(total) != want || g.lines.Dropped.Load() != 0 {
		t.Errorf("%d lines for %d requests, %d dropped", total, want, g.lines.Dropped.Load())
	}
}
