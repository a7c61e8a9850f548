package gateway

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"plimsoll/internal/exchange"
)

// scripted is a policy that does what a test says, and notes how exchanges end.
type scripted struct {
	request, response func(x *exchange.Exchange) exchange.PolicyVerdict

	mu   sync.Mutex
	ends []exchange.End
}

func (p *scripted) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	if p.request == nil {
		return exchange.Continue
	}
	return p.request(x)
}

func (p *scripted) OnResponse(x *exchange.Exchange) exchange.PolicyVerdict {
	if p.response == nil {
		return exchange.Continue
	}
	return p.response(x)
}

func (p *scripted) OnDone(_ *exchange.Exchange, end exchange.End) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends = append(p.ends, end)
}

// ended waits until so many exchanges are over and checks how they ended.
func (p *scripted) ended(t *testing.T, want ...exchange.End) {
	t.Helper()
	got := func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return fmt.Sprint(p.ends)
	}
	eventually(t, "the exchanges' end", func() bool { return len(got()) >= len(fmt.Sprint(want)) })
	if got() != fmt.Sprint(want) {
		t.Errorf("exchanges ended as %v, want %v", got(), want)
	}
}

// withPolicy runs a gateway whose first route carries the policy behind all others.
func withPolicy(t *testing.T, yaml string, policy any) *instance {
	t.Helper()
	g := serveClean(t, yaml)
	snapshot, _, err := g.buildSnapshot(g.config, g.upstreams, g.stores, g.cached)
	if err != nil {
		t.Fatal(err)
	}
	snapshot.Routes[0].Chain.Append(policy)
	for i, w := range g.workers {
		g.call(g.loops[i], func() { w.Install(snapshot) })
	}
	return g
}

// holds passes an exchange's hold on and holds it, the first time.
func holds(to chan<- exchange.Hold) func(*exchange.Exchange) exchange.PolicyVerdict {
	return func(x *exchange.Exchange) exchange.PolicyVerdict {
		to <- x.Hold()
		return exchange.Held
	}
}

func goOn(*exchange.Exchange) exchange.PolicyVerdict { return exchange.Continue }

func refuse(x *exchange.Exchange) exchange.PolicyVerdict { return x.Refuse(403, exchange.Denied) }

func TestAHeldRequestGoesOnWhenItIsResumed(t *testing.T) {
	held := make(chan exchange.Hold, 1)
	p := &scripted{request: holds(held)}
	s := newService(t, replying(echo))
	g := withPolicy(t, oneUpstream(s.address()), p)
	c := g.dial()
	for range 2 {
		c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na")
		hold := <-held
		if s.connections() > 1 {
			t.Error("the upstream was asked while the request was held")
		}
		c.send("bc")
		hold.Resume(goOn)
		if r, body := c.response("POST"); r.StatusCode != 200 || body != "POST abc" {
			t.Fatalf("got %d %q", r.StatusCode, body)
		}
	}
	c.send(get)
	(<-held).Resume(refuse)
	if r, body := c.response("GET"); r.StatusCode != 403 || !strings.Contains(body, "denied") {
		t.Errorf("got %d %q", r.StatusCode, body)
	}
	p.ended(t, exchange.Completed, exchange.Completed, exchange.GatewayAnswer)
}

func TestAHeldResponseGoesOnWhenItIsResumed(t *testing.T) {
	held := make(chan exchange.Hold, 1)
	p := &scripted{response: holds(held)}
	body := noise(1 << 20)
	s := newService(t, answering(fmt.Sprintf("HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: %d\r\n\r\n%s", len(body), body)))
	g := withPolicy(t, oneUpstream(s.address()), p)
	c, other := g.dial(), g.dial()
	for range 3 {
		c.send(get)
		hold := <-held
		// Meanwhile the loop's memory is used for others.
		other.send("GET /" + strings.Repeat("z", 2000) + " HTTP/1.1\r\nHost: a\r\n\r\n")
		second := <-held
		hold.Resume(func(x *exchange.Exchange) exchange.PolicyVerdict {
			x.Response.Fields.Add([]byte("X-Held"), []byte("yes"))
			return exchange.Continue
		})
		if r, got := c.response("GET"); r.StatusCode != 200 || got != string(body) ||
			r.Header.Get("X-A") != "b" || r.Header.Get("X-Held") != "yes" {
			t.Fatalf("got %d, %v and %d bytes", r.StatusCode, r.Header, len(got))
		}
		second.Resume(goOn)
		other.response("GET")
	}
}

func TestAHeldSwitchOfProtocolsGoesOn(t *testing.T) {
	held := make(chan exchange.Hold, 1)
	s := newService(t, func(c *serviceConn, n int) {
		c.head()
		if n > 1 {
			c.write(okResponse + strings.Repeat("y", 8000))
			return
		}
		c.write(switched + "first")
		echoBytes(c)
	})
	g := withPolicy(t, "loops: 1\n"+oneUpstream(s.address()), &scripted{response: func(x *exchange.Exchange) exchange.PolicyVerdict {
		if x.Response.Status != 101 {
			return exchange.Continue
		}
		return holds(held)(x)
	}})
	c := g.dial()
	c.send(askUpgrade)
	hold := <-held
	g.dial().request("GET", "/")
	hold.Resume(goOn)
	c.expect(wasSwitched + "first")
	c.send("x")
	c.expect("x")
}

func TestAPolicyAnswersInAResponsesStead(t *testing.T) {
	for name, hold := range map[string]bool{"at once": false, "after it held it": true} {
		t.Run(name, func(t *testing.T) {
			held := make(chan exchange.Hold, 4)
			p := &scripted{response: refuse}
			if hold {
				p.response = holds(held)
			}
			s := newService(t, answering("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"))
			g := withPolicy(t, oneUpstream(s.address()), p)
			c := g.dial()
			for range 2 {
				c.send(get)
				if hold {
					(<-held).Resume(refuse) // the upstream's response
					(<-held).Resume(refuse) // the policy's own
				}
				if r, body := c.response("GET"); r.StatusCode != 403 || !strings.Contains(body, "denied") || r.Close {
					t.Fatalf("got %d %q, close %v", r.StatusCode, body, r.Close)
				}
			}
			p.ended(t, exchange.GatewayAnswer, exchange.GatewayAnswer)
			if n := g.target("s", s.address()).ConsecutiveFailures; n != 0 {
				t.Errorf("a policy's answer counts as %d failures of the target", n)
			}
		})
	}
}

func TestAnAnswerOfTheGatewayCanBeHeld(t *testing.T) {
	held := make(chan exchange.Hold, 1)
	p := &scripted{response: func(x *exchange.Exchange) exchange.PolicyVerdict {
		if string(x.Request.Method) == "POST" {
			return holds(held)(x)
		}
		return exchange.Continue
	}}
	s := newService(t, func(c *serviceConn, _ int) { c.head() })
	g := withPolicy(t, streamed(oneUpstream(s.address())), p)
	c := g.dial()
	c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
	hold := <-held
	// Bytes of a body that nobody reads any more.
	c.send("0123456789")
	if status, _ := g.dial().request("GET", "/"); status != 502 { // so the loop has met them
		t.Errorf("got %d", status)
	}
	hold.Resume(goOn)
	c.expectFailureEnd(502, "upstream_reset")
	p.ended(t, exchange.UpstreamFailed, exchange.UpstreamFailed)
}

func TestAHoldEndsWithTheResponseItHeld(t *testing.T) {
	held := make(chan exchange.Hold, 1)
	p := &scripted{response: holds(held)}
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		c.write(okResponse)
		c.drain()
	})
	g := withPolicy(t, streamed(oneUpstream(s.address())), p)
	c := g.dial()
	c.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	ofResponse := <-held
	c.send("no chunk\r\n")
	ofRefusal := <-held
	ofResponse.Resume(func(*exchange.Exchange) exchange.PolicyVerdict {
		t.Error("a response that was given up was resumed")
		return exchange.Continue
	})
	ofRefusal.Resume(goOn)
	c.expectFailureEnd(400, "bad_request")
	p.ended(t, exchange.GatewayAnswer)
}

func TestWhatIsHeldForTooLongEnds(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	config := func(s *service) string {
		return `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["` + s.address() + `"], retry: {on: [timeout, reset, connect], per_try_timeout: 10s}}}
routes: [{match: /, upstream: s, timeout: 1s}]
`
	}
	t.Run("a request", func(t *testing.T) {
		t.Parallel()
		held := make(chan exchange.Hold, 4)
		p := &scripted{request: holds(held)}
		s := untouched(t)
		g := withPolicy(t, config(s), p)
		c := g.dial()
		for range 2 {
			c.send(get)
			c.expectFailure(504, "upstream_timeout")
			(<-held).Resume(func(*exchange.Exchange) exchange.PolicyVerdict {
				t.Error("an exchange that is over was resumed")
				return exchange.Continue
			})
		}
		s.expectUntouched()
		p.ended(t, exchange.UpstreamFailed, exchange.UpstreamFailed)
	})
	t.Run("a response, and then the answer instead of it", func(t *testing.T) {
		t.Parallel()
		held := make(chan exchange.Hold, 8)
		p := &scripted{response: holds(held)}
		s := newService(t, answering(okResponse))
		g := withPolicy(t, config(s), p)
		c := g.dial()
		for range 2 {
			c.send(get)
			c.expectFailure(504, "upstream_timeout")
		}
		for range len(held) {
			(<-held).Resume(refuse)
		}
		if status, body := c.request("GET", "/"); status != 504 {
			t.Errorf("after late resumes: %d %q", status, body)
		}
		p.ended(t, exchange.UpstreamFailed, exchange.UpstreamFailed, exchange.UpstreamFailed)
		if n := g.target("s", s.address()).ConsecutiveFailures; n != 0 {
			t.Errorf("a policy's delay counts as %d failures of the target", n)
		}
		if n := strings.Count(s.saw(), "GET"); n != 3 {
			t.Errorf("the upstream was asked %d times for 3 requests", n)
		}
	})
}

func TestAClientThatLeavesWhileItsExchangeIsHeld(t *testing.T) {
	for name, p := range map[string]func(chan<- exchange.Hold) *scripted{
		"at the request":  func(h chan<- exchange.Hold) *scripted { return &scripted{request: holds(h)} },
		"at the response": func(h chan<- exchange.Hold) *scripted { return &scripted{response: holds(h)} },
	} {
		for way, leave := range ways {
			t.Run(name+", "+way, func(t *testing.T) {
				held := make(chan exchange.Hold, 1)
				policy := p(held)
				s := newService(t, answering(okResponse+strings.Repeat("x", 100)))
				g := withPolicy(t, oneUpstream(s.address()), policy)
				c := g.dial()
				c.send(get)
				hold := <-held
				leave(c)
				policy.ended(t, exchange.ClientGone)
				g.settled()
				hold.Resume(func(*exchange.Exchange) exchange.PolicyVerdict {
					t.Error("an exchange that is over was resumed")
					return exchange.Continue
				})
				// Another exchange takes the same memory over and is not touched by the old hold.
				other := g.dial()
				other.send(get)
				next := <-held
				hold.Resume(refuse)
				next.Resume(goOn)
				if r, body := other.response("GET"); r.StatusCode != 200 || body != "ok" {
					t.Errorf("got %d %q", r.StatusCode, body)
				}
			})
		}
	}
}

func TestDoneIsToldOnceForEachEnd(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	p := &scripted{}
	arrived := make(chan struct{}, 1)
	s := newService(t, replyingWith(map[string]string{
		"/ok": okResponse, "/bad": "nonsense\r\n\r\n", "/none": "", "/hang": "wait", "/switch": switched,
		"/cut": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"}, arrived))
	g := withPolicy(t, `
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"], retry: {attempts: 0}}}
routes: [{match: /, upstream: s, timeout: 3s, max_body: 3B}]
`, p)
	ask := func(path string) *peer {
		c := g.dial()
		c.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		return c
	}
	ask("/ok").response("GET")
	p.ended(t, exchange.Completed)
	ask("/bad").expectFailure(502, "upstream_bad")
	ask("/none").expectFailure(502, "upstream_reset")
	ask("/hang").expectFailure(504, "upstream_timeout")
	<-arrived
	p.ended(t, exchange.Completed, exchange.UpstreamFailed, exchange.UpstreamFailed, exchange.UpstreamFailed)
	c := ask("/hang")
	<-arrived
	c.Close()
	p.ended(t, exchange.Completed, exchange.UpstreamFailed, exchange.UpstreamFailed, exchange.UpstreamFailed, exchange.ClientGone)
	ask("/cut").expectCut()
	c = g.dial()
	c.send("POST /ok HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabcdefghi\r\n0\r\n\r\n")
	c.expectFailureEnd(413, "body_too_large")
	c = g.dial()
	c.send(strings.Replace(askUpgrade, "/chat", "/switch", 1))
	c.expect(wasSwitched)
	c.expectEnd()
	c.Close()
	p.ended(t, exchange.Completed, exchange.UpstreamFailed, exchange.UpstreamFailed, exchange.UpstreamFailed, exchange.ClientGone,
		exchange.UpstreamFailed, exchange.GatewayAnswer, exchange.Completed)
}

// replyingWith answers one request of each connection by its path and closes; "wait" tells that it
// has arrived and answers nothing.
func replyingWith(answers map[string]string, arrived chan<- struct{}) script {
	return func(c *serviceConn, _ int) {
		r, _, ok := c.request()
		if !ok {
			return
		}
		raw := answers[r.URL.Path]
		if raw == "wait" {
			arrived <- struct{}{}
			c.drain()
			return
		}
		c.write(raw)
		if raw == switched {
			return
		}
	}
}
