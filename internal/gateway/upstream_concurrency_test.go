package gateway

import (
	"net/http"
	"testing"
)

// busyPair are two services that say what came to either, and answer when they are told to.
func busyPair(t *testing.T) (a, b *backend, came chan string, answer chan bool) {
	came, answer = make(chan string, 100), make(chan bool)
	a, b = newBackend(t, "a"), newBackend(t, "b")
	for _, s := range []*backend{a, b} {
		s.answer(func(_ http.ResponseWriter, r *http.Request) {
			came <- r.URL.Path
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		})
	}
	return a, b, came, answer
}

// together is a config whose upstream has two targets, and so many requests at both of them.
func together(a, b, bound, more string) string {
	return `
loops: 2
listeners: [{address: "127.0.0.1:0"}]
classes: {P1: {patience: 60s}, P2: {patience: 10ms}}
upstreams: {s: {targets: ["` + a + `", "` + b + `"], balance: round_robin, max_concurrency: ` + bound +
		`, pool: {pending_timeout: 60s}` + more + `}}
routes: [{match: /, upstream: s}, {match: /low, upstream: s, sla: P2}, {match: /own, respond: {}}]
`
}

// places is what the admin API says of an upstream's bound.
func (i *instance) places() ConcurrencyStatus {
	i.t.Helper()
	s, err := i.Upstream("s")
	if err != nil || s.MaxConcurrency == nil {
		i.t.Fatalf("the upstream's status has no bound: %+v, %v", s, err)
	}
	return *s.MaxConcurrency
}

func TestAnUpstreamTakesAsManyRequestsAtOnceAsItsBoundOverAllLoopsAndTargets(t *testing.T) {
	a, b, came, answer := busyPair(t)
	g := serve(t, together(a.address, b.address, "2", ""))
	peers := g.onEachLoop("/own")
	for _, p := range peers {
		p.send(get)
	}
	<-came
	<-came
	if p := g.places(); p != (ConcurrencyStatus{2, 2}) {
		t.Errorf("the status says %+v, want 2 of 2", p)
	}
	third := g.dial()
	third.send("GET /low HTTP/1.1\r\nHost: a\r\n\r\n")
	third.expectFailure(503, "overloaded") // its patience was over before a place was free
	third.send(get)
	eventually(t, "the request to wait", func() bool { return g.waiting("s") == 1 })
	// A place that becomes free at either target serves who waits.
	answer <- true
	<-came
	answer <- true
	answer <- true
	third.status("GET")
	for _, p := range peers {
		p.status("GET")
	}
	eventually(t, "no place to be taken", func() bool { return g.places().Used == 0 })
	g.expectMetrics(`plimsoll_upstream_concurrency_limit{upstream="s"} 2`,
		`plimsoll_upstream_concurrency_used{upstream="s"} 0`)
}

func TestAReloadCountsTheRequestsOfTheUpstreamBefore(t *testing.T) {
	a, b, came, answer := busyPair(t)
	before := together(a.address, b.address, "1", ", health: {passive: {disabled: true}}")
	g := serve(t, before)
	first := g.dial()
	first.send(get)
	<-came
	// The upstream is another one now, and the service has the request still.
	if err := g.reload(together(b.address, a.address, "1", "")); err != nil {
		t.Fatal(err)
	}
	if p := g.places(); p != (ConcurrencyStatus{1, 1}) {
		t.Errorf("after a reload the status says %+v, want 1 of 1", p)
	}
	second := g.dial()
	second.send(get)
	eventually(t, "the request to wait", func() bool { return g.waiting("s") == 1 })
	answer <- true
	first.status("GET")
	<-came
	answer <- true
	if status := second.status("GET"); status != 200 {
		t.Errorf("the request that waited for the place of one from before the reload got %d", status)
	}
}
