package gateway

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/grpc"
)

// sample is a sample policy with state, as the recipe in docs/ARCHITECTURE.md says: it counts the
// requests of its route, and refuses them while its limit is reached.
type sample struct {
	counts *[]loopCount // shared with the policy that it replaces, and the one that replaces it
	closed atomic.Int32
}

// loopCount is one loop's part.
type loopCount struct {
	n atomic.Int64 // only its loop adds
	_ [56]byte
}

var tooMany = exchange.DeclareReason(exchange.ReasonInfo{
	Label: "sample_too_many", Fault: exchange.ProtectionFault, Text: "a test has had enough",
	GRPC: grpc.ResourceExhausted,
})

func newSample(env exchange.Env) *sample {
	counts := make([]loopCount, env.Loops)
	return &sample{counts: &counts}
}

func (p *sample) Inherit(old any) { p.counts = old.(*sample).counts }

func (p *sample) Close() { p.closed.Add(1) }

func (p *sample) sum() (n int64) {
	for i := range *p.counts {
		n += (*p.counts)[i].n.Load()
	}
	return n
}

func (p *sample) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	(*p.counts)[x.Loop()].n.Add(1)
	if x.Request.Fields.Find([]byte("X-Hold")) != nil {
		x.HoldUntil(x.Now()+int64(time.Millisecond), 503, tooMany)
		return exchange.Held
	}
	if p.sum() > 5 {
		verdict := x.Refuse(429, tooMany)
		x.RetryAfter(7)
		return verdict
	}
	return exchange.Continue
}

func (p *sample) Metrics(emit func(int, float64, ...string)) { emit(0, float64(p.sum()), "all") }

func (p *sample) Status() any { return map[string]int64{"requests": p.sum()} }

// samples is a kind whose policies a test can look at.
type samples struct {
	mu  sync.Mutex
	all []*sample
}

func (s *samples) kind() kind {
	series := []exchange.Series{{Name: "sample_requests_total", Help: "Requests that a test counts.", Labels: []string{"what"}}}
	return kind{name: "sample", series: series, make: func(p plan) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, newSample(p.env))
		return s.all[len(s.all)-1], nil
	}}
}

// closed is how often each policy was closed, in the order in which they were made.
func (s *samples) closed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var times []int32
	for _, p := range s.all {
		times = append(times, p.closed.Load())
	}
	return fmt.Sprint(times)
}

func TestAPolicysStateOutlivesReloads(t *testing.T) {
	s, service := &samples{}, newService(t, replying(echo))
	yaml := oneUpstream(service.address())
	g := serveWith(t, yaml, Options{kinds: append(policies[:len(policies):len(policies)], s.kind())})
	for want := range 3 {
		if status, _ := g.get("/"); status != 200 {
			t.Fatalf("request %d got %d", want, status)
		}
		if want == 1 {
			if err := g.reload(yaml + "# changed\n"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := s.all[1].sum(); n != 3 {
		t.Errorf("after a reload %d requests are counted, want 3", n)
	}
	eventually(t, "the old policy is closed", func() bool { return s.closed() == "[1 0]" })

	if err := g.reload(strings.Replace(yaml, "match: /", "match: nonsense", 1)); err == nil {
		t.Fatal("a config with a bad pattern is accepted")
	}
	if closed := s.closed(); !strings.HasPrefix(closed, "[1 0") {
		t.Errorf("a config that was refused closes the policies in force: %s", closed)
	}
	for range 2 {
		g.get("/")
	}
	got := g.exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 429 ") || !strings.Contains(got, "\r\nRetry-After: 7\r\n") ||
		!strings.Contains(got, "429 Too Many Requests: sample_too_many: a test has had enough\n") {
		t.Errorf("the sixth request got\n%s", got)
	}
	if n := g.reasons(tooMany); n != 1 {
		t.Errorf("the refusal is counted %d times, want once", n)
	}
}

func TestAReplacedPolicyIsClosedAfterItsLastExchange(t *testing.T) {
	s, service := &samples{}, newService(t, replying(echo))
	held := make(chan exchange.Hold, 1)
	yaml := oneUpstream(service.address())
	holder := kind{name: "holder", make: func(plan) (any, error) { return &scripted{request: holds(held)}, nil }}
	g := serveWith(t, yaml, Options{kinds: append(policies[:len(policies):len(policies)], s.kind(), holder)})
	c := g.dial()
	c.send(get)
	hold := <-held
	if err := g.reload(yaml + "# changed\n"); err != nil {
		t.Fatal(err)
	}
	if closed := s.closed(); closed != "[0 0]" {
		t.Errorf("an exchange is still with the old policy, and closed are %s", closed)
	}
	hold.Resume(goOn)
	if r, _ := c.response("GET"); r.StatusCode != 200 {
		t.Errorf("the exchange on the old policy got %d", r.StatusCode)
	}
	eventually(t, "the old policy is closed", func() bool { return s.closed() == "[1 0]" })
}

func TestAHoldEndsWithItsOwnReason(t *testing.T) {
	s, service := &samples{}, newService(t, replying(echo))
	done := &scripted{}
	after := kind{name: "after", make: func(plan) (any, error) { return done, nil }}
	yaml := oneUpstream(service.address())
	g := serveWith(t, yaml, Options{kinds: append(policies[:len(policies):len(policies)], s.kind(), after)})
	if status, body := g.get("/", "X-Hold", "1"); status != 503 || !strings.Contains(body, "sample_too_many") {
		t.Errorf("got %d %q", status, body)
	}
	if n := service.connections(); n != 0 {
		t.Errorf("the upstream was asked %d times", n)
	}
	if status, _ := g.get("/"); status != 200 {
		t.Errorf("the next request got %d", status)
	}
	// A policy hears of the end of those exchanges only whose request it saw.
	done.ended(t, exchange.Completed)
}

func TestAPauseEndsByItselfAndTheExchangeGoesOn(t *testing.T) {
	paused := make(chan int64, 2)
	pauses := &scripted{request: func(x *exchange.Exchange) exchange.PolicyVerdict {
		due := x.Now() + int64(20*time.Millisecond)
		return x.PauseUntil(due, func(x *exchange.Exchange) exchange.PolicyVerdict {
			paused <- x.Now() - due
			return exchange.Continue
		})
	}}
	g := withPolicy(t, oneUpstream(newService(t, replying(echo)).address()), pauses)
	for range 2 {
		if status, body := g.get("/"); status != 200 || body != "GET " {
			t.Errorf("got %d %q", status, body)
		}
		if late := <-paused; late < 0 {
			t.Errorf("the pause ended %d ns too early", -late)
		}
	}
}

func TestAPauseEndsWithTheRoutesTimeout(t *testing.T) {
	pauses := &scripted{request: func(x *exchange.Exchange) exchange.PolicyVerdict {
		return x.PauseUntil(x.Now()+int64(time.Hour), func(*exchange.Exchange) exchange.PolicyVerdict {
			t.Error("the pause ended as if its time had come")
			return exchange.Continue
		})
	}}
	yaml := strings.Replace(oneUpstream(untouched(t).address()), "upstream: s", "upstream: s, timeout: 10ms", 1)
	if status, body := withPolicy(t, yaml, pauses).get("/"); status != 504 || !strings.Contains(body, "upstream_timeout") {
		t.Errorf("got %d %q", status, body)
	}
}

func TestPoliciesShowTheirMetricsAndStatus(t *testing.T) {
	s, service := &samples{}, newService(t, replying(echo))
	yaml := oneUpstream(service.address())
	g := serveWith(t, yaml, Options{kinds: append(policies[:len(policies):len(policies)], s.kind())})
	g.get("/")
	page := httptest.NewRecorder()
	g.Metrics().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	if text := page.Body.String(); !strings.Contains(text, `plimsoll_sample_requests_total{route="/",what="all"} 1`) {
		t.Errorf("no series of the policy in\n%s", text)
	}
	if said := g.Routes()[0].Policies["sample"]; fmt.Sprint(said) != "map[requests:1]" {
		t.Errorf("the status says %v", said)
	}
}
