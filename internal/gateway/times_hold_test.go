package gateway

import (
	"strings"
	"testing"
	"time"

	"plimsoll/internal/exchange"
)

// holder is a policy that holds every exchange until it is told to let it go.
type holder struct{ held chan exchange.Hold }

func (h holder) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	if string(x.Request.Path) == "/idle" {
		return exchange.Continue
	}
	h.held <- x.HoldUntil(x.Now()+int64(time.Hour), 503, tooMany)
	return exchange.Held
}

// What a policy holds back makes neither the gateway nor the service look slow.
func TestTimeHeldIsNobodys(t *testing.T) {
	h, service := holder{make(chan exchange.Hold, 1)}, newService(t, replying(echo))
	hold := kind{name: "holder", make: func(plan) (any, error) { return h, nil }}
	yaml := strings.Replace(oneUpstream(service.address()), "upstream: s}]", "upstream: s}, {match: /idle, respond: {}}]", 1)
	g := serveWith(t, yaml, Options{kinds: append(policies[:len(policies):len(policies)], hold)})
	p := g.dial()
	p.send(plainGet)
	held := <-h.held
	waited := g.work()
	held.Resume(func(*exchange.Exchange) exchange.PolicyVerdict { return exchange.Continue })
	if r, _ := p.response("GET"); r.StatusCode != 200 {
		t.Fatalf("the held request got %d", r.StatusCode)
	}
	own, total := g.own(1)
	upstream := int64(0)
	for _, u := range g.snapshot().Upstreams {
		upstream = max(upstream, u.Duration.Max())
	}
	if own > total-int64(waited) || upstream > total-int64(waited) || upstream == 0 {
		t.Errorf("of %v, %v were spent held; the gateway counts %v as its own, and %v as the upstream's",
			time.Duration(total), waited, time.Duration(own), time.Duration(upstream))
	}
}
