package admin_test

import (
	"fmt"
	"strings"
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
	g.want("POST", limit+"?rate=fast", 400, "fast")
	g.want("POST", limit+"?rate=1/s&burst=-1", 400, "burst")
	g.want("POST", "/api/v1/routes/users/limits/other?rate=1/s", 404, "other")
	g.want("POST", "/api/v1/routes/plain/limits/all?rate=1/s", 404, "plain")
}
