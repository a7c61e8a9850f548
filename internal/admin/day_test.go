package admin_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll/internal/gateway"
)

// An operator's day: a target is taken out, put back, the configuration changed, all under traffic,
// of which nothing fails.
func TestAnOperatorsDay(t *testing.T) {
	a, b := newTarget(t), newTarget(t)
	config := func(more string) string {
		return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {users: {targets: [%q, %q]%s}}
routes: [{match: /, upstream: users}]
admin: {address: "127.0.0.1:0"}
`, a.address(), b.address(), more)
	}
	g := run(t, config(""))
	tr := drive("http://" + g.address(0) + "/")
	defer tr.end(t)
	tr.more(t, 200)
	if a.requests.Load() == 0 || b.requests.Load() == 0 {
		t.Fatal("not both targets get requests")
	}

	place := "/api/v1/upstreams/users/targets/" + a.address()
	g.want("POST", place+"/drain", 200, `"state": "drained"`, `"usable": false`)
	out := func() bool { return findTarget(g, a).State == "drained" && findTarget(g, a).Outstanding == 0 }
	eventually(t, "the drained target has nothing under way", out)
	before := a.requests.Load()
	tr.more(t, 200)
	if n := a.requests.Load() - before; n > 0 {
		t.Errorf("%d requests went to a target that was taken out", n)
	}

	// What an operator has said outlives a reload, of another route and of the upstream itself.
	g.write(config(", balance: least_requests"))
	g.want("POST", "/api/v1/reload", 200, `"config_version"`)
	before = a.requests.Load()
	tr.more(t, 200)
	if s := get[gateway.UpstreamStatus](g,
		"/api/v1/upstreams/users"); s.Policy != "least_requests" || !out() ||
		a.requests.Load() > before {
		t.Errorf("after a reload of its upstream a drained target is %+v", findTarget(g, a))
	}

	g.write("listeners: 7\nroutes: [{mach: /}]")
	g.want("POST", "/api/v1/reload", 422, `"at": "`+g.path+`:1:`, `:2:11"`, "the old one goes on", `did you mean`)
	tr.more(t, 100)

	g.want("POST", place+"/restore", 200, `"state": "up"`)
	before = a.requests.Load()
	eventually(t, "the target that is back gets requests", func() bool { return a.requests.Load() > before })
}

func findTarget(g *running, want *target) gateway.TargetStatus {
	g.t.Helper()
	for _, t := range get[gateway.UpstreamStatus](g, "/api/v1/upstreams/users").Targets {
		if t.Address == want.address() {
			return t
		}
	}
	g.t.Fatalf("the target %s is not listed", want.address())
	return gateway.TargetStatus{}
}

func TestUnknownNamesAre404(t *testing.T) {
	a := newTarget(t)
	g := run(t, simple(a, `admin: {address: "127.0.0.1:0"}`))
	g.want("GET", "/api/v1/upstreams/nobody", 404, `unknown upstream \"nobody\"`)
	g.want("POST", "/api/v1/upstreams/nobody/targets/x/drain", 404, "unknown upstream")
	g.want("POST", "/api/v1/upstreams/users/targets/127.0.0.1:1/drain", 404, a.address())
}

func simple(a *target, more string) string {
	return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {users: {targets: [%q]}}
routes: [{match: /, upstream: users}]
%s
`, a.address(), more)
}

// A drain is seen by a balancer in front of gateways before the last request is answered, and the
// admin address answers meanwhile.
func TestADrainShowsAndEndsTheGateway(t *testing.T) {
	asked, answer := make(chan bool, 1), make(chan bool)
	let := sync.OnceFunc(func() { close(answer) })
	defer let()
	a := newTargetWith(t, func(w http.ResponseWriter, _ *http.Request) {
		asked <- true
		<-answer
		io.WriteString(w, "ok")
	})
	g := run(t, simple(a, `admin: {address: "127.0.0.1:0"}`))
	g.want("GET", "/readyz", 200, `"serving"`)
	address := g.address(0)
	result := make(chan string, 1)
	go func() { result <- fetch("http://" + address + "/") }()
	<-asked
	if c := get[gateway.ConnectionsStatus](g, "/api/v1/connections"); c.InFlight != 1 || c.Open != 1 || len(c.Oldest) != 1 ||
		c.Oldest[0].State != "waiting for the upstream" || c.Oldest[0].Exchange == nil || c.Oldest[0].Exchange.Target != a.address() {
		t.Errorf("one request is under way, and the connections are %+v", c)
	}
	g.want("POST", "/api/v1/drain", 202, `"draining"`)
	eventually(t, "the gateway says that it is not ready", func() bool {
		status, _ := g.ask("GET", "/readyz")
		return status == 503
	})
	g.want("GET", "/healthz", 200, `"draining"`)
	g.want("GET", "/metrics", 200, "plimsoll_draining 1\n", "plimsoll_requests_in_flight 1\n")
	g.want("GET", "/api/v1/connections", 200, `"accepting": false`)
	g.want("GET", "/api/v1/upstreams/users", 200, `"outstanding": 1`)
	g.want("GET", "/api/v1/config", 200)
	g.want("POST", "/api/v1/reload", 409, "it takes no new configuration")
	let()
	if got := <-result; got != "200 OK ok" {
		t.Errorf("the request under way got %q", got)
	}
	g.wait()
}

func fetch(url string) string {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return fmt.Sprint(res.Status, " ", string(b), errText(err))
}

func errText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestTheTokenFollowsReloads(t *testing.T) {
	a := newTarget(t)
	g := run(t, simple(a, `admin: {address: "127.0.0.1:0", token: first}`))
	g.want("GET", "/metrics", 401)
	g.token = "first"
	g.want("GET", "/metrics", 200)
	if yaml := get[gateway.ConfigStatus](g, "/api/v1/config").YAML; strings.Contains(yaml,
		"first") || !strings.Contains(yaml, "[redacted]") {
		t.Errorf("the configuration shows its token:\n%s", yaml)
	}
	g.write(simple(a, `admin: {address: "127.0.0.1:0", token: second}`))
	g.want("POST", "/api/v1/reload", 200)
	g.want("GET", "/metrics", 401)
	g.token = "second"
	g.want("GET", "/metrics", 200)
}

// The answer to a reload that moves the admin address comes on the old one.
func TestTheAdminAddressMovesUnderTheRequestThatMovesIt(t *testing.T) {
	a := newTarget(t)
	g := run(t, simple(a, `admin: {address: "127.0.0.1:0"}`))
	first := g.adminAddress.Load()
	g.write(simple(a, `admin: {address: "[::1]:0", token: t}`))
	g.want("POST", "/api/v1/reload", 200, `"serving"`)
	if g.adminAddress.Load() == first {
		t.Fatal("the address did not move")
	}
	g.want("GET", "/healthz", 401)
	g.token = "t"
	g.want("GET", "/healthz", 200)
	eventually(t, "the old address is closed", func() bool {
		c, err := net.Dial("tcp", first.Bound())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
}

func TestHeaderValuesThatAreCredentialsAreNotShown(t *testing.T) {
	a := newTargetWith(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("Authorization")) })
	t.Setenv("SERVICE_TOKEN", "hunter2")
	g := run(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {users: {targets: [%q]}}
routes:
  - {match: /, upstream: users, request_headers: {set: {Authorization: "Bearer ${SERVICE_TOKEN}", X-Team: blue}, add: {Cookie: hunter2}}}
  - {match: /b, upstream: users, when: {headers: {X-Api-Key: hunter2}}}
  - {match: /c, respond: {headers: {Set-Cookie: "s=hunter2"}}}
admin: {address: "127.0.0.1:0"}
`, a.address()))
	for _, path := range []string{"/api/v1/config", "/api/v1/config.yaml"} {
		if body := g.want("GET", path, 200, "X-Team: blue"); strings.Contains(body, "hunter2") {
			t.Errorf("%s shows a credential:\n%s", path, body)
		}
	}
	if got := fetch("http://" + g.address(0) + "/"); got != "200 OK Bearer hunter2" {
		t.Errorf("the service got the header of %q: hiding it changed it", got)
	}
}

// No list of keys decides what is a secret: whatever the environment gave is one, wherever it
// stands.
func TestWhatTheEnvironmentGaveIsShownNowhere(t *testing.T) {
	a := newTarget(t)
	const secret = "hunter2hunter2"
	t.Setenv("SERVICE_TOKEN", secret)
	write := func(literal string) string {
		return fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {users: {targets: [%q], health: {active: {path: "/up/${SERVICE_TOKEN}", deep_path: "/deep?pwd=%s"}}}}
routes:
  - {match: "/hooks/${SERVICE_TOKEN}/", upstream: users, request_headers: {set: {X-Backend-Pwd: "${SERVICE_TOKEN}"}}}
  - {match: /b, redirect: {to: "https://example.com/${SERVICE_TOKEN}?token=%s"}}
  - {match: /c, respond: {body: "${SERVICE_TOKEN}", headers: {X-Backend-Pwd: %s}}}
admin: {address: "127.0.0.1:0"}
`, a.address(), literal, literal, literal)
	}
	g := run(t, write("literal-one"))
	version := get[gateway.ConfigStatus](g, "/api/v1/config").Version
	if got := fetch("http://" + g.address(0) + "/c"); got != "200 OK "+secret {
		t.Errorf("a client got %q: hiding the body changed it", got)
	}
	fetch("http://" + g.address(0) + "/hooks/" + secret + "/")
	for _, path := range []string{"/api/v1/config", "/api/v1/config.yaml", "/api/v1/routes", "/api/v1/upstreams/users", "/metrics"} {
		if body := g.want("GET", path, 200); strings.Contains(body, secret) || strings.Contains(body, "literal-one") {
			t.Errorf("%s shows a secret:\n%s", path, body)
		}
	}
	g.want("GET", "/api/v1/routes", 200, `"match": "/hooks/${SERVICE_TOKEN}/"`, `"https://example.com/${SERVICE_TOKEN}?token=redacted"`)
	g.write(write("literal-two"))
	g.want("POST", "/api/v1/reload", 200)
	if now := get[gateway.ConfigStatus](g, "/api/v1/config").Version; now != version {
		t.Errorf("the version went from %s to %s with a secret, so it could be guessed from it", version, now)
	}
	g.write(strings.Replace(write("literal-two"), "match: /b", "match: /b/${SERVICE_TOKEN}${", 1))
	if body := g.want("POST", "/api/v1/reload", 422); strings.Contains(body, secret) {
		t.Errorf("the refusal shows a secret:\n%s", body)
	}
	g.write(write("literal-two") + "  nonsense: ${SERVICE_TOKEN}\n")
	if body := g.want("POST", "/api/v1/reload", 422); strings.Contains(body, secret) {
		t.Errorf("the refusal shows a secret:\n%s", body)
	}
	g.write(strings.Replace(write("literal-two"), "{match: /b,", "{match: \"/hooks/${SERVICE_TOKEN}/\",", 1))
	if body := g.want("POST", "/api/v1/reload", 422, "${SERVICE_TOKEN}"); strings.Contains(body, secret) {
		t.Errorf("the refusal of routes that conflict shows a secret:\n%s", body)
	}
}

func TestRoutesCountWhatCameOfThem(t *testing.T) {
	a := newTarget(t)
	g := run(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {users: {targets: [%q]}}
routes:
  - {name: all, match: "GET h.example/u/", upstream: users, sla: P0}
  - {name: hello, match: /hello, respond: {body: hello}}
  - {name: gone, match: /gone, redirect: {to: /hello}}
  - {name: some, match: /some, split: {weights: {users: 1}}}
admin: {address: "127.0.0.1:0"}
`, a.address()))
	c, err := net.Dial("tcp", g.address(0))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	r := bufio.NewReader(c)
	for _, target := range []string{"/u/1", "/u/2", "/hello", "/gone", "/nowhere"} {
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: h.example\r\n\r\n", target)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
	}
	type list struct {
		Routes []gateway.RouteStatus `json:"routes"`
	}
	var got strings.Builder
	for _, r := range get[list](g, "/api/v1/routes").Routes {
		fmt.Fprintln(&got, r.Name, r.Match, r.Class, r.Action, r.To, r.Requests, r.Codes)
		if r.Requests > 0 && !(r.Total.P50 > 0 && r.Total.P50 <= r.Total.P99 && r.Total.P99 <= r.Total.Max && r.Gateway.Max > 0) {
			t.Errorf("the durations of %s are %+v, of which the gateway %+v", r.Name, r.Total, r.Gateway)
		}
	}
	want := `all GET h.example/u/ P0 proxy [users] 2 map[2xx:2]
hello /hello P1 respond [] 1 map[2xx:1]
gone /gone P1 redirect [/hello] 1 map[3xx:1]
some /some P1 split [users] 0 map[]
none what no route matches  respond [] 1 map[4xx:1]
`
	if got.String() != want {
		t.Errorf("the routes are\n%swant\n%s", got.String(), want)
	}
	u := get[gateway.UpstreamStatus](g, "/api/v1/upstreams/users")
	if u.Requests != 2 || u.Opened != 1 || u.Reused != 1 || u.Connections != 1 || u.Idle != 1 ||
		u.States["up"] != 1 || len(u.Targets) != 1 {
		t.Errorf("after two requests on one connection the upstream is %+v", u)
	}
	if x := u.Targets[0]; x.Requests != 2 || x.Idle != 1 || x.Connections != 1 || x.Latency <= 0 || !x.Usable || x.Outstanding != 0 {
		t.Errorf("after two requests the target is %+v", x)
	}
	conns := get[gateway.ConnectionsStatus](g, "/api/v1/connections")
	if conns.Open != 1 || conns.Accepted != 1 || conns.Listeners[0].Open != 1 || len(conns.Oldest) != 1 {
		t.Fatalf("with one client the connections are %+v", conns)
	}
	if x := conns.Oldest[0]; x.State != "idle" || x.Requests != 5 || x.Client.String() != c.LocalAddr().String() || x.Exchange != nil {
		t.Errorf("the client is %+v", x)
	}
	loops := get[gateway.LoopsStatus](g, "/api/v1/loops?over=20ms")
	open := int64(0)
	for _, l := range loops.Loops {
		open += l.Connections
		if l.Busy < 0 || l.Busy > 1 || l.CPU < 0 || l.CPU > 1 {
			t.Errorf("a loop cannot be %+v", l)
		}
	}
	if open != 1 || loops.OverSeconds < 0.02 {
		t.Errorf("the loops are %+v", loops)
	}
}

// Names can stand for thousands of addresses. Each is shown to who asks for its upstream, and a
// scrape stays bounded.
func TestManyTargetsDoNotFloodAScrape(t *testing.T) {
	const targets, shown = 1100, 1000
	var addresses []string
	for i := range targets {
		addresses = append(addresses, fmt.Sprintf("%q", fmt.Sprintf("127.0.%d.%d:9", i/250, 1+i%250)))
	}
	g := run(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {many: {targets: [%s]}}
routes: [{match: /, upstream: many}]
admin: {address: "127.0.0.1:0"}
`, strings.Join(addresses, ", ")))
	text := g.want("GET", "/metrics", 200, fmt.Sprintf("plimsoll_targets_not_shown %d\n", targets-shown),
		fmt.Sprintf(`plimsoll_upstream_targets{state="up",upstream="many"} %d`, targets))
	for _, series := range []string{"plimsoll_target_up{", "plimsoll_target_state{"} {
		if n := strings.Count(text, "\n"+series); n != shown {
			t.Errorf("%d series %s, want %d", n, series, shown)
		}
	}
	u := get[gateway.UpstreamStatus](g, "/api/v1/upstreams/many")
	if len(u.Targets) != targets {
		t.Errorf("%d targets are listed, want %d", len(u.Targets), targets)
	}
	for _, x := range u.Targets {
		if x.State != "up" || !x.Usable {
			t.Fatalf("a target is %+v", x)
		}
	}
}
