package tunnels_test

import (
	"sync"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/exchange/exchangetest"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/tunnels"
)

func ask(webSocket bool) *exchange.Exchange {
	x := &exchange.Exchange{Request: new(head.Request), Response: new(head.Response)}
	x.Begin(exchangetest.Engine{})
	x.WebSocket = webSocket
	return x
}

func status(p *tunnels.Policy) tunnels.Status { return p.Status().(tunnels.Status) }

func TestOneMoreThanTheBoundIsRefused(t *testing.T) {
	p, err := tunnels.New(tunnels.Options{Max: 2})
	if err != nil {
		t.Fatal(err)
	}
	first, second, third, plain := ask(true), ask(true), ask(true), ask(false)
	for _, x := range []*exchange.Exchange{first, second, plain} {
		if p.OnRequest(x) != exchange.Continue {
			t.Fatal("one within the bound was refused")
		}
	}
	if p.OnRequest(third) != exchange.Answered || third.Response.Status != 503 || third.Reason != tunnels.Full ||
		third.Response.Fields.Find([]byte("Retry-After")) == nil {
		t.Errorf("one more got %d %v", third.Response.Status, third.Reason)
	}
	p.OnDone(third, exchange.Shed)
	p.OnDone(plain, exchange.Completed)
	p.OnDone(first, exchange.Completed)
	if got := status(p); got != (tunnels.Status{Open: 1, Max: 2, Refused: 1}) {
		t.Errorf("%+v", got)
	}
	if p.OnRequest(ask(true)) != exchange.Continue {
		t.Error("a place that was given back is not free")
	}
}

func TestAReloadGoesOnCounting(t *testing.T) {
	old, _ := tunnels.New(tunnels.Options{Max: 5})
	first := ask(true)
	old.OnRequest(first)
	p, _ := tunnels.New(tunnels.Options{Max: 1})
	p.Inherit(old)
	if p.OnRequest(ask(true)) != exchange.Answered {
		t.Error("what was open before the reload is forgotten")
	}
	old.OnDone(first, exchange.Completed)
	if p.OnRequest(ask(true)) != exchange.Continue {
		t.Error("what ended on the old policy still counts")
	}
}

func TestTheBoundIsExactOverAllLoops(t *testing.T) {
	p, _ := tunnels.New(tunnels.Options{Max: 10})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5000 {
				x := ask(true)
				p.OnRequest(x)
				if n := status(p).Open; n > 10 {
					t.Errorf("%d are open", n)
				}
				p.OnDone(x, exchange.Completed)
			}
		})
	}
	all.Wait()
	if n := status(p).Open; n != 0 {
		t.Errorf("%d are open when none is", n)
	}
}

func TestABoundThatMakesNoSenseIsRefused(t *testing.T) {
	for _, n := range []int{0, -1, tunnels.MaxBound + 1} {
		if _, err := tunnels.New(tunnels.Options{Max: n}); err == nil {
			t.Errorf("a bound of %d was taken", n)
		}
	}
}
