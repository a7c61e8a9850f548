package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"plimsoll/internal/gateway"
)

func TestAnOperatorForcesABreakerAndChangesALimit(t *testing.T) {
	a := newTarget(t)
	g := run(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {users: {targets: [%q], breaker: {}}, plain: {targets: [%q]}}
routes:
  - {name: users, match: /, upstream: users, limits: [{name: all, rate: 1000000/s}]}
  - {name: keyed, match: /keyed, upstream: plain, limits: [{name: client, rate: 9/h, key: "query:tenant"}]}
  - {name: plain, match: /plain, upstream: plain}
admin: {address: "127.0.0.1:0"}
`, a.address(), a.address()))
	breaker := "/api/v1/upstreams/users/targets/" + a.address() + "/breaker"
	url := "http://" + g.address(0) + "/"

	g.want("POST", breaker+"?state=open", 200, `"state": "forced-open"`)
	if body := fetch(url); !strings.Contains(body, "breaker_open") {
		t.Errorf("with a breaker that is forced open: %s", body)
	}
	g.want("POST", breaker+"?state=closed", 200, `"state": "forced-closed"`)
	if body := fetch(url); body != "200 OK ok" {
		t.Errorf("with a breaker that is forced closed: %s", body)
	}
	g.want("POST", breaker+"?state=automatic", 200, `"state": "closed"`)
	g.want("POST", breaker+"?state=ajar", 400, `write open, closed or automatic`)
	g.want("POST", "/api/v1/upstreams/users/targets/192.0.2.1:1/breaker?state=open", 404, "192.0.2.1:1")
	g.want("POST", strings.Replace(breaker, "users", "plain", 1)+"?state=open", 400, "add the key breaker")

	limit := "/api/v1/routes/users/limits/all"
	g.want("POST", limit+"?rate=1/h&burst=1", 200, `"rate": "1/h"`)
	fetch(url)
	if body := fetch(url); !strings.Contains(body, "rate_limited") {
		t.Errorf("over the changed limit: %s", body)
	}
	for _, route := range get[struct{ Routes []gateway.RouteStatus }](g, "/api/v1/routes").Routes {
		if route.Name == "users" && !strings.Contains(fmt.Sprint(route.Policies), "1/h") {
			t.Errorf("the status does not show the changed limit: %v", route.Policies)
		}
	}
	g.want("POST", limit+"?rate=5/h&value=acme", 400, "has no key")
	client := "/api/v1/routes/keyed/limits/client"
	g.want("POST", client+"?rate=1/h&value=acme", 200, `"value": "acme"`)
	for i, want := range []string{"200", "429", "429"} {
		if body := fetch(url + "keyed?tenant=acme"); !strings.HasPrefix(body, want) {
			t.Errorf("request %d of the value that was overridden: %s, want %s", i, body, want)
		}
	}
	g.want("POST", client+"?rate=1/h&value=", 400, "cannot be a value")
	g.want("POST", limit+"?rate=fast", 400, "fast")
	g.want("POST", limit+"?rate=1/s&burst=-1", 400, "burst")
	g.want("POST", "/api/v1/routes/users/limits/other?rate=1/s", 404, "other")
	g.want("POST", "/api/v1/routes/plain/limits/all?rate=1/s", 404, "plain")
}

func TestStoredResponsesArePurged(t *testing.T) {
	var asked atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=100")
		w.Header().Set("Surrogate-Key", "all "+path.Base(r.URL.Path))
		fmt.Fprint(w, asked.Add(1))
	}))
	t.Cleanup(service.Close)
	g := run(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {service: {targets: [%q]}}
routes: [{match: /, upstream: service, cache: {}}]
admin: {address: "127.0.0.1:0"}
`, strings.TrimPrefix(service.URL, "http://")))
	site := "http://" + g.address(0)
	const purge = "/api/v1/cache/purge?"
	ask := func(names string) (got string) {
		t.Helper()
		for _, name := range strings.Fields(names) {
			got += strings.TrimPrefix(fetch(site+name), "200 OK ") + " "
		}
		return got
	}
	for _, c := range []struct{ order, said, want string }{
		{"", "", "1 2 3 "},
		{"url=" + site + "/a", "{}", "4 2 3 "},
		{"tag=b", "{}", "4 5 3 "},
		{"prefix=" + site + "/c", `"entries": 1`, "4 5 6 "},
		{"all=true", `"entries": 3`, "7 8 9 "},
		{"all=true&soft=true", `"entries": 3`, "10 11 12 "},
	} {
		if c.order != "" {
			g.want("POST", purge+c.order, 200, c.said)
		}
		for range 2 {
			if got := ask("/a /b /c/d"); got != c.want {
				t.Errorf("after %s: %s, want %s", c.order, got, c.want)
			}
		}
	}
	g.want("POST", purge, 400, "one of url, prefix, tag and all")
	g.want("POST", purge+"url=/a", 400, "not a whole URL")
	g.want("POST", purge+"prefix=/a", 400, "does not begin with a scheme")
	g.want("POST", purge+"all=maybe", 400, "neither true nor false")
}
