package gateway

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
)

// guarded is a config whose targets have breakers that open at 6 requests, more than half of which
// failed.
func guarded(more string, targets ...string) string {
	return `
listeners: [{address: "127.0.0.1:0"}]
upstreams:
  s:
    targets: ["` + strings.Join(targets, `", "`) + `"]
    balance: round_robin
    breaker: {failure_ratio: 50%, min_requests: 6, window: 1h, trials: 1, ramp: 0s, ` + more + `}
routes: [{match: /, upstream: s}]
`
}

func TestATargetThatFailsIsLeftToItsBreaker(t *testing.T) {
	sick, well := newBackend(t, "sick"), newBackend(t, "well")
	sick.answer(answerStatus(500))
	g := serve(t, guarded("open_for: 1h", sick.address, well.address))
	failed := 0
	for range 40 {
		if status, _ := g.get("/"); status == 500 {
			failed++
		}
	}
	// The loops' balancers begin in different places, but each of the two tries them in turn.
	if failed != 6 {
		t.Errorf("%d requests failed, want the 6 that open the breaker", failed)
	}
	status, err := g.Upstream("s")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range status.Targets {
		want := "closed"
		if target.Address == sick.address {
			want = "open"
		}
		if target.Breaker == nil || target.Breaker.State != want {
			t.Errorf("the breaker of %s is %+v, want it %s", target.Address, target.Breaker, want)
		}
	}
	eventually(t, "the transition is logged", func() bool {
		return strings.Contains(g.logged.String(), `msg="circuit breaker" upstream=s target=`+sick.address+` was=closed is=open why=failure-ratio`)
	})
}

func TestABreakerOfAllTargetsRefusesUntilATrialSucceeds(t *testing.T) {
	s := newBackend(t, "s")
	s.answer(answerStatus(500))
	g := serve(t, guarded("scope: upstream, open_for: 200ms", s.address))
	for range 6 {
		if status, _ := g.get("/"); status != 500 {
			t.Fatalf("got %d before the breaker opened", status)
		}
	}
	p := g.dial()
	var r *http.Response
	eventually(t, "a refusal", func() bool { // a machine that is slow may begin a trial, which fails
		var body string
		p.send(get)
		r, body = p.response("GET")
		if refused := strings.Contains(body, ": breaker_open: "); refused != (r.StatusCode == 503) || !refused && r.StatusCode != 500 {
			t.Fatalf("got %d %q", r.StatusCode, body)
		}
		return r.StatusCode == 503
	})
	if seconds, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || seconds < 1 || seconds > 4 {
		t.Errorf("Retry-After is %q", r.Header.Get("Retry-After"))
	}
	s.answer(func(http.ResponseWriter, *http.Request) {})
	eventually(t, "a trial succeeds", func() bool {
		status, _ := g.get("/")
		return status == 200
	})
	for range 20 {
		if status, _ := g.get("/"); status != 200 {
			t.Fatalf("got %d after the breaker closed", status)
		}
	}
	if g.reasons(exchange.BreakerOpen) == 0 {
		t.Error("refusals are not counted")
	}
}

func TestAClientThatGoesLeavesNoTrialSlot(t *testing.T) {
	s := newBackend(t, "s")
	s.answer(answerStatus(500))
	g := serve(t, guarded("open_for: 10ms", s.address))
	for range 6 {
		g.get("/")
	}
	came := make(chan bool, 10)
	s.answer(func(_ http.ResponseWriter, r *http.Request) {
		came <- true
		<-r.Context().Done()
	})
	eventually(t, "a trial is let through, and its client goes", func() bool {
		p := g.dial()
		defer p.Close()
		p.send(get)
		refused := make(chan bool, 1)
		go func() {
			_, err := p.Read(make([]byte, 1))
			refused <- err == nil
		}()
		select {
		case <-came:
			return true
		case <-refused:
			return false
		}
	})
	s.answer(func(http.ResponseWriter, *http.Request) {})
	eventually(t, "another trial is let through, and succeeds", func() bool {
		status, _ := g.get("/")
		return status == 200
	})
}
