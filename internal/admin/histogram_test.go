package admin_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"plimsoll/internal/gateway"
	"plimsoll/internal/hist"
)

// allRoutes and allUpstreams are what the lists hold.
type (
	allRoutes    struct{ Routes []gateway.RouteStatus }
	allUpstreams struct{ Upstreams []gateway.UpstreamStatus }
)

// counted is how many durations cells hold. Each must begin where the one before may end.
func counted(t *testing.T, cells []hist.Cell) (n uint64) {
	t.Helper()
	at := int64(0)
	for i, c := range cells {
		last := i == len(cells)-1
		if c.FromNS < at || c.Count == 0 || c.ToNS <= c.FromNS && !(last && c.ToNS == 0) {
			t.Errorf("cell %d is %+v, after %d ns", i, c, at)
		}
		at, n = c.ToNS, n+c.Count
	}
	return n
}

func TestHistogramsComeOnRequestAndHoldEveryExchange(t *testing.T) {
	g := busyGateway(t)
	for _, r := range get[allRoutes](g, "/api/v1/routes?histogram=1").Routes {
		if n := counted(t, r.Cells); n != r.Requests {
			t.Errorf("%s: the histogram holds %d of %d exchanges", r.Name, n, r.Requests)
		}
	}
	for _, u := range get[allUpstreams](g, "/api/v1/upstreams?histogram=1").Upstreams {
		if n := counted(t, u.Cells); n != u.Requests {
			t.Errorf("%s: the histogram holds %d of %d exchanges", u.Name, n, u.Requests)
		}
	}
	one := get[gateway.UpstreamStatus](g, "/api/v1/upstreams/users?histogram=1")
	if n := counted(t, one.Cells); n == 0 || n != one.Requests {
		t.Errorf("one upstream: the histogram holds %d of %d exchanges", n, one.Requests)
	}
	for _, r := range get[allRoutes](g, "/api/v1/routes").Routes {
		if r.Cells != nil {
			t.Errorf("%s has a histogram that nobody asked for", r.Name)
		}
	}
}

func TestTheListsSayWhatIsRefusedAndHowUpstreamsAreProtected(t *testing.T) {
	g := busyGateway(t)
	// "/hello" answers by itself, which is nobody's fault. "/less" gives a fallback's answer.
	want := map[string]map[string]uint64{"GET /gone": {"connect_failed": 1},
		"/less": {"connect_failed": 1}, "none": {"bad_request": 1}}
	for _, r := range get[allRoutes](g, "/api/v1/routes").Routes {
		if r.Requests == 0 {
			continue
		}
		if !maps.Equal(r.Refused, want[r.Name]) {
			t.Errorf("%s refused %v, want %v", r.Name, r.Refused, want[r.Name])
		}
	}
	list := get[allUpstreams](g, "/api/v1/upstreams").Upstreams
	i := slices.IndexFunc(list, func(u gateway.UpstreamStatus) bool { return u.Name == "users" })
	users := list[i]
	if c := users.Concurrency; c == nil || c.Limit != 18 { // 9 for each of two targets
		t.Errorf("the concurrency of users: %+v, want a limit of 18", c)
	}
	if !maps.Equal(users.Breakers, map[string]int{"closed": 2}) {
		t.Errorf("the breakers of users: %v, want 2 closed", users.Breakers)
	}
	g.want(http.MethodPost, "/api/v1/upstreams/users/targets/127.0.0.1:1/breaker?state=open", 200)
	users = get[allUpstreams](g, "/api/v1/upstreams").Upstreams[i]
	if !maps.Equal(users.Breakers, map[string]int{"closed": 1, "forced-open": 1}) {
		t.Errorf("the breakers of users: %v, want one forced open", users.Breakers)
	}
}
