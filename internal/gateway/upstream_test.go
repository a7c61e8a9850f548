package gateway

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestP2CShunsASlowTarget(t *testing.T) {
	all := backends(t, 2)
	all[1].answer(all[1].slowly(300 * time.Millisecond))
	g := serve(t, balanced(2, targetsOf(all), "balance: p2c"))
	got := g.crowd(8, 100, "/")
	if got["200 a"]+got["200 b"] != 800 {
		t.Fatalf("the clients got %v", got)
	}
	if got["200 b"] > 200 {
		t.Errorf("the slow target got %d of 800 requests, want few", got["200 b"])
	}
}

func TestRoundRobinIsExactOnOneLoop(t *testing.T) {
	all := backends(t, 3)
	g := serve(t, balanced(1, targetsOf(all, 5, 1, 1), "balance: round_robin"))
	if got := g.crowd(1, 70, "/"); got["200 a"] != 50 || got["200 b"] != 10 || got["200 c"] != 10 {
		t.Errorf("the clients got %v, want 50, 10 and 10", got)
	}
}

func TestLeastRequestsAvoidsATargetThatIsBusy(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	all := backends(t, 2)
	all[0].answer(hanging(release))
	g := serve(t, balanced(1, targetsOf(all), "balance: least_requests"))
	for all[0].requests.Load() == 0 {
		g.dial().send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		eventually(t, "the request to arrive", func() bool {
			return all[0].requests.Load()+all[1].requests.Load() > 0
		})
		all[1].requests.Store(0)
	}
	expectOnly(t, g.crowd(1, 50, "/"), "200 b", 50)
}

func TestRequestsWithoutAKeyAreSpread(t *testing.T) {
	all := backends(t, 3)
	g := serve(t, balanced(1, targetsOf(all), `balance: {hash: "header:X-User"}`))
	if got := g.crowd(1, 300, "/"); len(got) != 3 {
		t.Errorf("the clients got %v, want all three targets", got)
	}
}

func TestATargetThatIsNewStartsSlowly(t *testing.T) {
	all := backends(t, 3)
	settings := "slow_start: 1h, balance: round_robin"
	g := serve(t, balanced(1, targetsOf(all[:2]), settings))
	if got := g.crowd(1, 100, "/"); got["200 a"] != 50 {
		t.Errorf("targets that are there from the start got %v, want 50 each", got)
	}
	if err := g.reload(balanced(1, targetsOf(all), settings)); err != nil {
		t.Fatal(err)
	}
	if got := g.crowd(1, 210, "/"); got["200 c"] < 5 || got["200 c"] > 20 {
		t.Errorf("the new target got %d of 210, want about a tenth of the others' 100", got["200 c"])
	}
}

func TestATargetThatIsBackStartsSlowly(t *testing.T) {
	all := backends(t, 2)
	g := serve(t, balanced(1, targetsOf(all), "slow_start: 1h, balance: round_robin"))
	u := g.service("s")
	if err := u.Drain(all[1].address); err != nil {
		t.Fatal(err)
	}
	expectOnly(t, g.crowd(1, 20, "/"), "200 a", 20)
	if err := u.Restore(all[1].address); err != nil {
		t.Fatal(err)
	}
	if got := g.crowd(1, 110, "/"); got["200 b"] < 5 || got["200 b"] > 20 {
		t.Errorf("the target that is back got %d of 110, want about 10", got["200 b"])
	}
}

func TestDrainedTargetsFinishWhatTheyHaveAndGetNothingNew(t *testing.T) {
	all := backends(t, 2)
	release := make(chan struct{})
	var once sync.Once
	let := func() { once.Do(func() { close(release) }) }
	defer let()
	g := serve(t, balanced(2, targetsOf(all), "balance: round_robin"))
	for _, b := range all {
		b.answer(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/users/slow" {
				<-release
			}
			fmt.Fprint(w, b.name)
		})
	}
	var slow []*peer
	for range 4 {
		p := g.dial()
		p.send("GET /users/slow HTTP/1.1\r\nHost: a\r\n\r\n")
		slow = append(slow, p)
	}
	eventually(t, "the slow requests to be there", func() bool { return all[0].requests.Load()+all[1].requests.Load() == 4 })
	if err := g.service("s").Drain(all[0].address); err != nil {
		t.Fatal(err)
	}
	expectOnly(t, g.crowd(4, 10, "/"), "200 b", 40)
	let()
	for _, p := range slow {
		if r, body := p.response("GET"); r.StatusCode != 200 {
			t.Errorf("a request under way got %d %q", r.StatusCode, body)
		}
	}
}

func TestAReloadKeepsWhatAnOperatorTookOut(t *testing.T) {
	all := backends(t, 2)
	g := serve(t, balanced(2, targetsOf(all), "balance: round_robin"))
	if err := g.service("s").Drain(all[0].address); err != nil {
		t.Fatal(err)
	}
	if err := g.reload(balanced(2, targetsOf(all), "balance: random")); err != nil {
		t.Fatal(err)
	}
	expectOnly(t, g.crowd(4, 10, "/"), "200 b", 40)
}

func TestAMirrorThatFallsSilentHurtsNobody(t *testing.T) {
	b := newBackend(t, "a")
	ended := make(chan struct{}, 1)
	m := newService(t, func(c *serviceConn, _ int) {
		c.head()
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome")
		c.head()
		ended <- struct{}{}
	})
	g := serve(t, fmt.Sprintf(`
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["%s"]}, m: {targets: ["%s"]}}
routes: [{match: /, upstream: s, stream_timeout: 50ms, mirror: {upstream: m}}]
`, b.address, m.address()))
	expectOnly(t, g.crowd(1, 1, "/"), "200 a", 1)
	<-ended
	eventually(t, "the copy to be over", func() bool { return g.snapshot().Active == 0 })
	expectOnly(t, g.crowd(1, 1, "/"), "200 a", 1)
}

func TestAReloadThatChangesMaxRequestsReachesConnectionsThatAreOpen(t *testing.T) {
	b := newBackend(t, "a")
	g := serve(t, strings.Replace(pooled(b.address, ""), "loops: 2", "loops: 1", 1))
	before := g.service("s")
	expectOnly(t, g.crowd(1, 5, "/"), "200 a", 5)
	if err := g.reload(strings.Replace(pooled(b.address, "max_requests: 6"), "loops: 2", "loops: 1", 1)); err != nil {
		t.Fatal(err)
	}
	if g.service("s") != before {
		t.Error("the upstream was not carried over, although nothing of its state depends on max_requests")
	}
	expectOnly(t, g.crowd(1, 2, "/"), "200 a", 2)
	if n := b.opened.Load(); n != 2 {
		t.Errorf("five requests and two more, at six to a connection, took %d connections, want 2", n)
	}
}
