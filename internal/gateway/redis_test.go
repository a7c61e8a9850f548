package gateway

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/policy/limit"
	"plimsoll/internal/redis/redistest"
)

// sharing is a configuration with one route, whose limit is in a Redis at an address.
func sharing(service, redis, limit string) string {
	return fmt.Sprintf("redis: {main: {addresses: [%q], timeout: 5s}}\n", redis) + rated(service, limit)
}

func TestTwoGatewaysShareALimitInRedis(t *testing.T) {
	service := newService(t, replying(echo))
	redis := redistest.Start(t).Address()
	for mode, each := range map[string]int{"exact": 8, "leased": 8} {
		yaml := sharing(service.address(), redis,
			"{name: "+mode+", rate: 10/d, key: client_address, shared: {redis: main, mode: "+mode+"}, headers: always}")
		one, other := serveClean(t, yaml), serveClean(t, yaml)
		if a, b := one.passing(each), other.passing(each); a != 8 || b != 2 {
			t.Errorf("%s: %d and %d requests pass, want 8 and 2", mode, a, b)
		}
		p := other.dial()
		p.send(get)
		r := p.expectFailure(429, "rate_limited")
		if got := r.Header.Get("RateLimit"); !strings.HasPrefix(got, `"`+mode+`";r=0;t=`) {
			t.Errorf("%s: RateLimit: %s", mode, got)
		}
		p.Close()
		if s := other.limitStatus()[0]; s.Shared == nil || s.Shared.Mode != mode || s.Shared.Store.Breaker != "closed" {
			t.Errorf("the status says %+v", s)
		}
		text := other.metrics()
		for _, line := range []string{
			`plimsoll_redis_calls_total{redis="main",result="answered"} `, `plimsoll_redis_calls_in_flight{redis="main"} 0`,
			`plimsoll_redis_breaker{redis="main",state="closed"} 1`, `plimsoll_limit_unavailable_total{limit="` + mode + `",route="/"} 0`,
		} {
			if !strings.Contains(text, line) {
				t.Errorf("the metrics lack %s", line)
			}
		}
	}
}

func TestADeadRedisIsTheFaultOfNoClient(t *testing.T) {
	service := newService(t, replying(echo))
	redis := redistest.Start(t)
	g := serveClean(t, sharing(service.address(), redis.Address(), "{rate: 10/d, shared: {redis: main, unavailable: deny}}"))
	if status, _ := g.get("/"); status != 200 {
		t.Fatalf("the first request got %d", status)
	}
	redis.Kill()
	p := g.dial()
	p.send(get)
	r := p.expectFailure(503, "limit_unavailable: the store of the rate limits does not answer")
	if r.Header.Get("Retry-After") == "" {
		t.Error("the refusal does not say when to come again")
	}
	p.Close()
	if n := g.reasons(limit.Unavailable); n != 1 {
		t.Errorf("the refusal is counted %d times, want once", n)
	}
	redis.Run()
	redistest.Eventually(t, "requests to pass again", func() bool {
		status, _ := g.get("/")
		return status == 200
	})
}

func TestAReloadKeepsTheRedisThatDidNotChange(t *testing.T) {
	service := newService(t, replying(echo))
	redis := redistest.Start(t)
	yaml := sharing(service.address(), redis.Address(), "{name: a, rate: 3/d, shared: main}")
	g := serveClean(t, yaml)
	if n := g.passing(2); n != 2 {
		t.Fatalf("%d requests pass, want 2", n)
	}
	before := g.stores["main"].Store
	if err := g.reload(strings.Replace(yaml, "rate: 3/d", "rate: 4/d", 1)); err != nil {
		t.Fatal(err)
	}
	if g.stores["main"].Store != before {
		t.Error("a reload that does not change a Redis connects again")
	}
	if n := g.passing(5); n != 2 {
		t.Errorf("with a limit of 4, after 2, %d requests pass, want 2", n)
	}
	if err := g.reload(strings.Replace(yaml, "timeout: 5s", "timeout: 4s", 1)); err != nil {
		t.Fatal(err)
	}
	if n := g.passing(2); n != 0 || g.stores["main"].Store == before {
		t.Errorf("with another timeout %d requests pass", n)
	}
	if err := g.reload(rated(service.address(), "{name: a, rate: 4/d}")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all connections to end", func() bool {
		clients, err := redis.Do("CLIENT", "LIST")
		return err == nil && !strings.Contains(clients, "name=plimsoll")
	})
}

func TestAnExchangeThatIsHeldAgainIsNotResumedByTheHoldBefore(t *testing.T) {
	service := newService(t, replying(echo))
	stale := &staleHold{}
	g := withPolicy(t, oneUpstream(service.address()), stale)
	if status, _ := g.get("/"); status != 200 || stale.wrong.Load() != 0 {
		t.Errorf("got %d, and the first hold resumed the second %d times", status, stale.wrong.Load())
	}
}

// staleHold is a policy that holds an exchange for a moment, then holds it again, and resumes the
// first hold meanwhile.
type staleHold struct{ wrong atomic.Int32 }

func (p *staleHold) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	var first exchange.Hold
	first = x.HoldThen(x.Now()+1, func(x *exchange.Exchange) exchange.PolicyVerdict {
		second := x.Hold()
		first.Resume(func(*exchange.Exchange) exchange.PolicyVerdict {
			p.wrong.Add(1)
			return exchange.Continue
		})
		second.Resume(goOn)
		return exchange.Held
	})
	return exchange.Held
}
