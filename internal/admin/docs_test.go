package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"plimsoll/internal/exchange"
	"plimsoll/internal/grpc"
	"plimsoll/internal/http1"
	"plimsoll/internal/telemetry/accesslog"
)

// manual is docs/operations.md.
func manual(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// section is the part of the manual under a heading, to the next heading.
func section(t *testing.T, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(manual(t), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("docs/operations.md has no %q", heading)
	}
	part, _, _ := strings.Cut(rest, "\n#")
	return part
}

var code = regexp.MustCompile("`([^`]+)`")

// firstColumn is what stands in backquotes in the first cells of a section's tables, sorted.
func firstColumn(t *testing.T, heading string) (names []string) {
	t.Helper()
	for line := range strings.Lines(section(t, heading)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, m := range code.FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return names
}

func sameNames(t *testing.T, heading string, want []string) {
	t.Helper()
	got := firstColumn(t, heading)
	slices.Sort(want)
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("docs/operations.md, %s: nothing about %s", heading, name)
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("docs/operations.md, %s: there is no %s", heading, name)
		}
	}
}

// switching is the address of a service that agrees to a WebSocket, and ends it.
func switching(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			io.ReadFull(c, make([]byte, 4)) // of the request
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x88\x00")
			c.Close()
		}
	}()
	return ln.Addr().String()
}

// busyGateway has served traffic of all kinds.
func busyGateway(t *testing.T) *running {
	a := newTarget(t)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	cert, key := certificate(t)
	line := filepath.Join(t.TempDir(), "line.json")
	surveyed := `{"schema_version": 2, "target": "http://` + a.address() + `/", "line": {"found": true,
		"rate_per_second": {"low": 900, "estimate": 1000, "high": 1100}}}`
	if err := os.WriteFile(line, []byte(surveyed), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := run(t, fmt.Sprintf(`
listeners:
  - {address: "127.0.0.1:0"}
  - {address: "127.0.0.2:0", http3: true, tls: {certificates: [{cert: %q, key: %q}]}}
upstreams:
  users: {load_line: %q, breaker: {}, concurrency: {mode: fixed, limit: 9}, max_concurrency: 12,
    targets: [%q, {address: "127.0.0.1:1", weight: 0}]}
  gone: {targets: [%q]}
  copies: {targets: [%q]}
  chats: {targets: [%q]}
redis: {counts: {addresses: ["127.0.0.1:1"], timeout: 1s}}
cache: {redis: counts}
routes:
  - {match: /, upstream: users, mirror: {upstream: copies, max_body: 4B}}
  - {match: "/kept", upstream: users, cache: {}}
  - {match: /chat, upstream: chats, websocket: {max: 1}}
  - {match: GET /gone, upstream: gone, limits: [{name: all, rate: 1000/s, key: client_address}],
    concurrency: 100, guard: {key: "query:id", file: %q}}
  - {match: /files/, files: {root: .}}
  - {match: /less, upstream: gone, sla: P2, fallback: {body: less}, limits: [{name: all, rate: 1000/s, shared: counts}]}
  - {name: "a \"quoted\" name", match: /hello, compress: true, respond: {body: hello}}
admin: {address: "127.0.0.1:0"}
`, cert, key, line, a.address(), gone.Addr(), a.address(), switching(t), keys))
	address := g.address(0)
	for _, target := range []string{"/", "/", "/gone", "/hello", "/less", "/kept"} {
		fetch("http://" + address + target)
	}
	for _, raw := range []string{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nConnection: " +
		"close\r\n\r\nabcde", "POST /gone HTTP/1.0\r\n\r\n", "no HTTP\r\n\r\n",
		"POST /hello HTTP/1.0\r\nContent-Type: application/grpc\r\n\r\n",
		"GET /chat HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		io.WriteString(c, raw)
		io.Copy(io.Discard, c)
		c.Close()
	}
	client := http.Client{Timeout: patience, Transport: insecure()}
	if res, err := client.Get("https://" + g.address(1) + "/"); err != nil {
		t.Fatal(err)
	} else {
		res.Body.Close()
	}
	client.CloseIdleConnections()
	return g
}

func TestMetricsAreWellFormedAndInTheManual(t *testing.T) {
	g := busyGateway(t)
	text := g.want("GET", "/metrics", 200,
		`plimsoll_requests_total{code="2xx",route="/"} 5`,
		`plimsoll_requests_total{code="5xx",route="GET /gone"} 1`,
		`plimsoll_requests_total{code="4xx",route="none"} 1`,
		`plimsoll_degraded_total{route="/less",step="static"} 1`,
		`plimsoll_limit_unavailable_total{limit="all",route="/less"} 1`,
		`plimsoll_redis_calls_total{redis="counts",result="error"} 1`,
		`plimsoll_mirrors_dropped_total{reason="too_long"} 1`,
		`plimsoll_refused_requests_total{reason="bad_line"} 1`,
		`plimsoll_upstream_targets{state="up",upstream="users"} 1`,
		`plimsoll_upstream_targets{state="weight 0",upstream="users"} 1`,
		`plimsoll_target_up{target="127.0.0.1:1",upstream="users"} 0`,
		`plimsoll_target_state{state="up",`,
		`plimsoll_targets_not_shown 0`,
		`plimsoll_tls_handshakes_in_flight{listener="127.0.0.2:0"} 0`,
		`plimsoll_tls_handshakes_total{resumed="false",version="1.3"} 1`,
		`plimsoll_listener_accepting{listener="127.0.0.1:0"} 1`,
		`plimsoll_draining 0`,
		`plimsoll_headroom 1`,
		`plimsoll_upstream_capacity{bound="estimate",upstream="users"} 1000`,
	)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (plimsoll_\S+)`).FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	// These are there after half a minute of traffic.
	names = append(names, "plimsoll_resource_headroom", "plimsoll_resource_capacity")
	sameNames(t, "## Metrics", names)
}

// Alerts on series that do not exist never fire.
func TestTheAlertsUseSeriesThatAreThere(t *testing.T) {
	rules, err := os.ReadFile("../../examples/prometheus/slo.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	known := firstColumn(t, "## Metrics")
	used := regexp.MustCompile(`\bplimsoll_\w+`).FindAllString(string(rules), -1)
	if len(used) == 0 {
		t.Error("the rules use no series")
	}
	for _, name := range used {
		if !slices.Contains(known, name) {
			t.Errorf("there is no series %s", name)
		}
	}
}

func TestTheGRPCStatusOfEachReasonIsInTheManual(t *testing.T) {
	b, err := os.ReadFile("../../docs/grpc.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 || !strings.Contains(cells[2], "`") {
			continue
		}
		status, _, _ := strings.Cut(strings.TrimSpace(cells[1]), ",")
		for _, m := range code.FindAllStringSubmatch(cells[2], -1) {
			listed[m[1]] = status
		}
	}
	for r := exchange.NoReason + 1; int(r) < exchange.Reasons(); r++ {
		// A reason without a status of its own takes it from the HTTP status, and 200 is UNKNOWN.
		if want := r.GRPC(200); want != grpc.Unknown && listed[r.String()] != want.String() {
			t.Errorf("docs/grpc.md has %q for %s, want %s", listed[r.String()], r, want)
		}
	}
}

func TestReasonsAreInTheManual(t *testing.T) {
	var reasons, refusals []string
	for r := exchange.NoReason + 1; int(r) < exchange.Reasons(); r++ {
		reasons = append(reasons, r.String())
	}
	for e := http1.OK + 1; int(e) < http1.Errors; e++ {
		refusals = append(refusals, e.Error())
	}
	sameNames(t, "## Reasons", reasons)
	sameNames(t, "### Refused requests", refusals)
}

func TestTheAccessLogsFieldsAreInTheManual(t *testing.T) {
	var out bytes.Buffer
	log, err := accesslog.Open(accesslog.Options{Path: accesslog.Stdout, Output: &out, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := accesslog.Record{Client: netip.MustParseAddr("192.0.2.1")}
	fill(reflect.ValueOf(&r).Elem())
	log.Ring(0).Write(&r)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := log.Close(ctx); err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(out.Bytes(), &fields); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	sameNames(t, "## Access log", slices.Collect(maps.Keys(fields)))
}

// fill gives every plain field of a struct a value.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Slice:
			f.SetBytes([]byte("x"))
		case reflect.Int, reflect.Int64:
			f.SetInt(200)
		case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			f.SetUint(1)
		case reflect.Bool:
			f.SetBool(true)
		}
	}
}

// Every request of the API that the manual names is one that the handler knows.
func TestTheManualNamesPathsThatAreThere(t *testing.T) {
	g := busyGateway(t)
	replace := strings.NewReplacer("{name}", "users", "{address}", "127.0.0.1:1", "{route}", "GET%20%2Fgone", "{limit}", "all")
	asked := 0
	for _, request := range firstColumn(t, "## Admin address") {
		method, path, _ := strings.Cut(replace.Replace(request), " ")
		if path == "/api/v1/drain" {
			continue // it would end the gateway
		}
		asked++
		g.want(method, path, 200)
	}
	if asked < 14 {
		t.Errorf("the manual names %d requests only", asked)
	}
}
