package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/admin"
	"plimsoll/internal/config"
	"plimsoll/internal/gateway"
)

// fake is a gateway that does nothing and counts what it was told to do.
type fake struct {
	admin.Gateway
	notReady, refused error
	acted             atomic.Int32
}

func (f *fake) State() gateway.State          { return gateway.Serving }
func (f *fake) Ready() error                  { return f.notReady }
func (f *fake) Routes() []gateway.RouteStatus { return []gateway.RouteStatus{} }
func (f *fake) Config() gateway.ConfigStatus {
	return gateway.ConfigStatus{Version: "c0ffee", YAML: "loops: 0\n"}
}
func (f *fake) Drain()                              { f.acted.Add(1) }
func (f *fake) Upstreams() []gateway.UpstreamStatus { return []gateway.UpstreamStatus{} }

func (f *fake) Reload() error {
	f.acted.Add(1)
	return f.refused
}

func (f *fake) DrainTarget(upstream, address string) (gateway.TargetStatus, error) {
	if upstream != "users" {
		return gateway.TargetStatus{}, gateway.ErrUnknown
	}
	f.acted.Add(1)
	return gateway.TargetStatus{Address: address, State: "drained"}, nil
}

func (f *fake) RestoreTarget(_, address string) (gateway.TargetStatus, error) {
	f.acted.Add(1)
	return gateway.TargetStatus{Address: address, State: "up"}, nil
}

func (f *fake) ForceBreaker(_, address, state string) (gateway.TargetStatus, error) {
	f.acted.Add(1)
	return gateway.TargetStatus{Address: address, State: state}, nil
}

func (f *fake) ChangeGuard(string, []string, []string) error {
	f.acted.Add(1)
	return nil
}

func (f *fake) PurgeCache(gateway.Purge) (gateway.PurgeResult, error) {
	f.acted.Add(1)
	return gateway.PurgeResult{}, nil
}

func (f *fake) SetLimit(_, _, _ string, _ int64) error {
	f.acted.Add(1)
	return nil
}

func (f *fake) Loops(_ context.Context, over time.Duration) (gateway.LoopsStatus, error) {
	return gateway.LoopsStatus{OverSeconds: over.Seconds()}, nil
}

func (f *fake) Metrics() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "up 1\n") })
}

type fakeAddress struct{ token string }

func (d *fakeAddress) Address() string { return "127.0.0.1:9900" }
func (d *fakeAddress) Token() string   { return d.token }

// ask sends one request to a handler. Headers are given as "Name: value"; Host counts too.
func ask(h http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "127.0.0.1:9900"
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestATokenIsDemandedOnEveryPath(t *testing.T) {
	f := &fake{}
	h := admin.New(f, &fakeAddress{token: "open sesame?"})
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/api/v1/config",
		"/debug/pprof/", "/debug/pprof/heap", "/nothing", "//metrics", "/api/v1/../../metrics"} {
		for _, given := range [][]string{nil, {"Authorization: Bearer wrong"},
			{"Authorization: Bearer "}, {"Authorization: Basic open sesame?"},
			{"Authorization: open sesame?"}} {
			w := ask(h, "GET", path, given...)
			if w.Code != 401 || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer") ||
				!strings.Contains(w.Body.String(), `"error"`) {
				t.Errorf("GET %s with %q: %d %v %q, want 401 with WWW-Authenticate", path, given, w.Code, w.Header(), w.Body)
			}
		}
	}
	if w := ask(h, "GET", "/metrics", "Authorization: bearer open sesame?"); w.Code != 200 || w.Body.String() != "up 1\n" {
		t.Errorf("with the token: %d %q", w.Code, w.Body)
	}
	if ask(h, "POST", "/api/v1/drain"); f.acted.Load() != 0 {
		t.Error("a request without the token drained the gateway")
	}
}

func TestANewTokenCountsAtOnce(t *testing.T) {
	d := &fakeAddress{token: "old"}
	h := admin.New(&fake{}, d)
	d.token = "new"
	if w := ask(h, "GET", "/healthz", "Authorization: Bearer old"); w.Code != 401 {
		t.Errorf("the old token gets %d, want 401", w.Code)
	}
	if w := ask(h, "GET", "/healthz", "Authorization: Bearer new"); w.Code != 200 {
		t.Errorf("the new token gets %d, want 200", w.Code)
	}
}

// A page whose name its owner makes resolve to 127.0.0.1 can read what is served there, unless the
// Host is looked at.
func TestWithoutATokenForeignHostsAreRefused(t *testing.T) {
	h := admin.New(&fake{}, &fakeAddress{})
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host string
		want int
	}{
		{"127.0.0.1:9900", 200}, {"127.0.0.1", 200}, {"localhost:9900", 200}, {"LocalHost",
			200}, {"[::1]:9900", 200}, {"10.0.0.1:9900", 200},
		{machine + ":9900", 200}, {"", 200},
		{"evil.example", 403}, {"evil.example:9900", 403}, {"127.0.0.1.evil.example:9900",
			403}, {"localhost.evil.example", 403}, {"1.2.3", 403},
	} {
		if w := ask(h, "GET", "/api/v1/config", "Host: "+c.host); w.Code != c.want {
			t.Errorf("Host %q gets %d, want %d", c.host, w.Code, c.want)
		}
	}
	if w := ask(admin.New(&fake{}, &fakeAddress{token: "t"}), "GET", "/healthz",
		"Host: gateway.example", "Authorization: Bearer t"); w.Code != 200 {
		t.Errorf("with a token, under another name: %d, want 200", w.Code)
	}
}

// Browsers send simple requests anywhere, loopback included, for any page.
func TestPagesOfOtherSitesMayNotChangeAnything(t *testing.T) {
	for _, token := range []string{"", "t"} {
		for _, c := range []struct {
			headers []string
			want    int
		}{
			{nil, 202},
			{[]string{"Sec-Fetch-Site: same-origin", "Origin: http://127.0.0.1:9900"}, 202},
			{[]string{"Sec-Fetch-Site: none"}, 202},
			{[]string{"Origin: http://127.0.0.1:9900"}, 202},
			{[]string{"Sec-Fetch-Site: cross-site"}, 403},
			{[]string{"Sec-Fetch-Site: same-site"}, 403},
			{[]string{"Sec-Fetch-Site: "}, 403},
			{[]string{"Sec-Fetch-Site: same-origin", "Origin: http://evil.example"}, 403},
			{[]string{"Origin: http://evil.example"}, 403},
			{[]string{"Origin: http://127.0.0.1:8080"}, 403},
			{[]string{"Origin: http://127.0.0.1"}, 403},
			{[]string{"Origin: null"}, 403},
			{[]string{"Origin: http://[bad"}, 403},
		} {
			f := &fake{}
			w := ask(admin.New(f, &fakeAddress{token: token}), "POST", "/api/v1/drain", append(c.headers, "Authorization: Bearer t")...)
			if acted := f.acted.Load() == 1; w.Code != c.want || acted != (c.want == 202) {
				t.Errorf("token %q, %q: %d, drained %v; want %d", token, c.headers, w.Code, acted, c.want)
			}
		}
	}
}

// They cannot read the answers, but a profile costs processor time, and a look at the loops takes
// one of few places.
func TestPagesOfOtherSitesMayLinkHereAndNotMore(t *testing.T) {
	h := admin.New(&fake{}, &fakeAddress{})
	for _, c := range []struct {
		headers []string
		want    int
	}{
		{[]string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"}, 200},
		{[]string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, 200},
		{[]string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, 403},
		{[]string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}, 403},
		{[]string{"Sec-Fetch-Site: cross-site"}, 403},
		{[]string{"Origin: http://evil.example"}, 403},
	} {
		if w := ask(h, "GET", "/api/v1/loops?over=30s", c.headers...); w.Code != c.want {
			t.Errorf("GET with %q: %d, want %d", c.headers, w.Code, c.want)
		}
	}
}

func TestPathsAreExactAndMethodsToo(t *testing.T) {
	h := admin.New(&fake{}, &fakeAddress{})
	for _, c := range []struct {
		method, target string
		want           int
		allow          string
	}{
		{"GET", "/metrics", 200, ""},
		{"HEAD", "/metrics", 200, ""},
		{"GET", "/api/v1/loops?over=2s", 200, ""},
		{"GET", "/api/v1/config.yaml", 200, ""},
		{"GET", "/debug/pprof/", 200, ""},
		{"GET", "/debug/pprof/goroutine?debug=1", 200, ""},
		{"GET", "/debug/pprof/cmdline", 200, ""},
		{"POST", "/api/v1/upstreams/users/targets/127.0.0.1:9001/drain", 200, ""},
		{"POST", "/api/v1/upstreams/users/targets/unix:%2Frun%2Fusers.sock/drain", 200, ""},
		{"POST", "/api/v1/upstreams/nobody/targets/127.0.0.1:9001/drain", 404, ""},
		{"GET", "/api/v1/loops?over=1h", 400, ""},
		{"GET", "/api/v1/loops?over=-1s", 400, ""},
		{"GET", "/api/v1/loops?over=x", 400, ""},
		{"GET", "/", 404, ""},
		{"GET", "/metrics/", 404, ""},
		{"GET", "/metricsx", 404, ""},
		{"GET", "/api/v1/metrics", 404, ""},
		{"GET", "//metrics", 404, ""},
		{"GET", "/./metrics", 404, ""},
		{"GET", "/api/../metrics", 404, ""},
		{"GET", "/debug/pprof/trace?seconds=0.001", 200, ""},
		{"GET", "/debug/pprof/profile?seconds=301", 400, ""},
		{"GET", "/debug/pprof/profile?seconds=-5", 400, ""},
		{"GET", "/debug/pprof/heap?seconds=1000000000", 400, ""},
		{"GET", "/debug/pprof/trace?seconds=1e308", 400, ""},
		{"GET", "/debug/pprof/trace?seconds=NaN", 400, ""},
		{"GET", "/debug/pprof/nothing", 404, ""},
		{"GET", "/debug/pprof/heap/more", 404, ""},
		{"POST", "/api/v1/upstreams/users/targets/a/b/drain", 404, ""},
		{"POST", "/metrics", 405, "GET, HEAD"},
		{"DELETE", "/api/v1/config", 405, "GET, HEAD"},
		{"GET", "/api/v1/reload", 405, "POST"},
		{"GET", "/api/v1/drain", 405, "POST"},
		{"PUT", "/api/v1/upstreams/users/targets/a/drain", 405, "POST"},
	} {
		w := ask(h, c.method, c.target)
		if w.Code != c.want || w.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q; want %d, Allow %q", c.method, c.target, w.Code, w.Header().Get("Allow"), c.want, c.allow)
		}
		if c.want >= 400 && (!strings.Contains(w.Body.String(), `"error": "`) || w.Header().Get("Content-Type") != "application/json") {
			t.Errorf("%s %s: the error is %q, want JSON", c.method, c.target, w.Body)
		}
	}
}

// The length of a profile is what the address says. Package pprof would also take one from a form, past
// the bound on it: here one that it would refuse.
func TestABodySaysNothingOfAProfile(t *testing.T) {
	r := httptest.NewRequest("GET", "/debug/pprof/heap", strings.NewReader(
		"--x\r\nContent-Disposition: form-data; name=seconds\r\n\r\n-5\r\n--x--\r\n"))
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	r.Host = "127.0.0.1"
	w := httptest.NewRecorder()
	admin.New(&fake{}, &fakeAddress{}).ServeHTTP(w, r)
	if w.Code != 200 {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestReadinessSaysWhatIsMissing(t *testing.T) {
	f := &fake{notReady: errors.New("the listener :80 does not accept")}
	h := admin.New(f, &fakeAddress{})
	if w := ask(h, "GET", "/readyz"); w.Code != 503 || !strings.Contains(w.Body.String(), "the listener :80 does not accept") {
		t.Errorf("not ready: %d %q", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/healthz"); w.Code != 200 {
		t.Errorf("alive but not ready: /healthz gives %d, want 200", w.Code)
	}
	f.notReady = nil
	if w := ask(h, "GET", "/readyz"); w.Code != 200 {
		t.Errorf("ready: %d, want 200", w.Code)
	}
}

func TestAConfigurationThatIsInForceInPartIsNotCalledRefused(t *testing.T) {
	f := &fake{refused: fmt.Errorf("%w: listen on :80: no", gateway.ErrIncomplete)}
	w := ask(admin.New(f, &fakeAddress{}), "POST", "/api/v1/reload")
	if body := w.Body.String(); w.Code != 500 || strings.Contains(body, "refused") || !strings.Contains(body, ":80") {
		t.Errorf("%d %s", w.Code, body)
	}
}

func TestARefusedConfigurationIsToldWithItsPlaces(t *testing.T) {
	f := &fake{refused: config.Errors{{File: "p.yaml", Line: 3, Column: 7, Path: "routes[0].match", Problem: "is not a pattern"}}}
	w := ask(admin.New(f, &fakeAddress{}), "POST", "/api/v1/reload")
	want := `{
  "error": "the new configuration was refused; the old one goes on",
  "errors": [
    {
      "at": "p.yaml:3:7",
      "key": "routes[0].match",
      "problem": "is not a pattern"
    }
  ]
}
`
	if w.Code != 422 || w.Body.String() != want {
		t.Errorf("got %d %s\nwant 422 %s", w.Code, w.Body, want)
	}
	f.refused = errors.New("listen on :80: the port is taken")
	if w := ask(admin.New(f, &fakeAddress{}), "POST", "/api/v1/reload"); w.Code != 422 || !strings.Contains(w.Body.String(), "the port is taken") {
		t.Errorf("got %d %s, want 422 with the reason", w.Code, w.Body)
	}
}

// A scrape asks every loop. However many ask for one, the loops are asked by few at a time, and
// nobody waits for ever.
func TestLooksAreBounded(t *testing.T) {
	var now, most atomic.Int32
	enter, leave := make(chan bool), make(chan bool)
	h := admin.New(&scraped{fake: &fake{}, look: func() {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		enter <- true
		<-leave
		now.Add(-1)
	}}, &fakeAddress{})
	const clients = 20
	done := make(chan int, clients)
	for range clients {
		go func() { done <- ask(h, "GET", "/metrics").Code }()
	}
	for range clients {
		<-enter
		leave <- true
	}
	for range clients {
		if code := <-done; code != 200 {
			t.Errorf("a scrape got %d", code)
		}
	}
	if most.Load() > 4 {
		t.Errorf("%d scrapes looked at the same time, want at most 4", most.Load())
	}
}

type scraped struct {
	*fake
	look func()
}

func (s *scraped) Metrics() http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { s.look() })
}
