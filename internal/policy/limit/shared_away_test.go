package limit

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/redis"
	"plimsoll/internal/redis/redistest"
)

func TestWhenRedisIsGoneTheChoiceDecidesAndItRecovers(t *testing.T) {
	for _, leased := range []bool{false, true} {
		for choice, want := range map[Otherwise]string{ByShare: "[200 200 200 429 429 429]",
			Allow: "[200 200 200 200 200 200]", Deny: "[503 503 503 503 503 503]"} {
			t.Run(fmt.Sprint(leased, choice), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				l := daily(TokenBucket, 12)
				l.Shared = &Shared{Leased: leased, Otherwise: choice}
				if choice == ByShare {
					l.Shared.Instances = 4
				}
				n := newNode(t, redis.Options{Addresses: []string{server.Address()}, Timeout: time.Second}, l)
				if a := n.ask(0, ""); a.status != 200 {
					t.Fatalf("the first request got %d", a.status)
				}
				server.Kill()
				var got []int
				for range 6 {
					got = append(got, n.ask(0, "").status)
				}
				if fmt.Sprint(got) != want {
					t.Errorf("without Redis requests get %v, want %s", got, want)
				}
				server.Run() // and it has forgotten everything
				answered := n.status().Shared.Store.Answered
				redistest.Eventually(t, "Redis to be asked again", func() bool {
					n.ask(0, "")
					return n.status().Shared.Store.Answered > answered
				})
				if s := n.status().Shared.Store; s.Breaker != "closed" || s.LastError == "" || !s.Connected {
					t.Errorf("then the store is %+v", s)
				}
			})
		}
	}
}

func TestARefusalByDenialSaysWhenToComeAgain(t *testing.T) {
	l := daily(TokenBucket, 12)
	l.Shared = &Shared{Otherwise: Deny}
	n := newNode(t, redis.Options{Addresses: []string{"127.0.0.1:1"}, Timeout: time.Second}, l)
	a := n.ask(0, "")
	if f := a.fields.Fields.Find([]byte("Retry-After")); a.status != 503 || f == nil || string(f.Value) != "1" {
		t.Errorf("got %d with %v", a.status, f)
	}
	if a.fields.Fields.Find([]byte("RateLimit")) != nil {
		t.Error("it speaks of a limit that has not decided")
	}
}

func TestWhatOneSharedLimitRefusesCostsNothingWithTheOthers(t *testing.T) {
	narrow := by("header:X", daily(TokenBucket, 1)) // refuses the second request of a value
	n := newNode(t, redis.Options{Addresses: []string{redistest.Start(t).Address()}},
		daily(FixedWindow, 10), narrow)
	var got []int
	for range 5 {
		got = append(got, n.ask(0, "a").status)
	}
	if fmt.Sprint(got) != "[200 429 429 429 429]" {
		t.Errorf("requests get %v", got)
	}
	passed := 1
	redistest.Eventually(t, "what was refused to be given back", func() bool {
		if n.ask(0, fmt.Sprint(passed)).status == 200 {
			passed++
		}
		return passed == 10
	})
	if status := n.ask(0, "last").status; status != 429 {
		t.Errorf("one more got %d", status)
	}
}

func TestWhatIsRefusedGoesBackIntoALease(t *testing.T) {
	wide, narrow := daily(FixedWindow, 1000), by("header:X", daily(TokenBucket, 1))
	wide.Shared, narrow.Shared = &Shared{Leased: true}, &Shared{Leased: true}
	n := newNode(t, redis.Options{Addresses: []string{redistest.Start(t).Address()}}, wide, narrow)
	for i := range 6 { // leases of 1, 2 and 4, of which the last is filled up
		n.ask(0, fmt.Sprint(i))
	}
	n.ask(0, "0") // finds its narrow limit used up, and that is remembered
	word := &n.limits[0].leases.rest.state
	redistest.Eventually(t, "the lease to be filled up", func() bool { return unpackLease(word.Load()).kind == leaseStock })
	for range 3 {
		before := unpackLease(word.Load())
		a := n.ask(0, "0")
		if after := unpackLease(word.Load()); a.status != 429 || after.until == before.until && after != before {
			t.Errorf("a request gets %d and leaves %+v of %+v", a.status, after, before)
		}
	}
}

func TestALimitOfTheInstanceRefusesBeforeRedisIsAsked(t *testing.T) {
	own := Limit{Algorithm: FixedWindow, Rate: Rate{2, 24 * time.Hour}}
	n := newNode(t, redis.Options{Addresses: []string{redistest.Start(t).Address()}},
		daily(TokenBucket, 100), own)
	var got []string
	for range 4 {
		a := n.ask(0, "")
		got = append(got, fmt.Sprint(a.status))
		if a.status != 200 && a.held {
			t.Error("a request that the instance refuses has waited")
		}
	}
	if want := []string{"200", "200", "429", "429"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if s := n.status().Shared.Store; s.Answered != 2 {
		t.Errorf("Redis was asked %d times, want 2", s.Answered)
	}
}

func TestALimitThatOnlyCountsKeepsNobodyWaiting(t *testing.T) {
	l := daily(TokenBucket, 2)
	l.DryRun = true
	n := newNode(t, redis.Options{Addresses: []string{redistest.Start(t).Address()}}, l)
	for range 5 {
		if a := n.ask(0, ""); a.status != 200 || a.held {
			t.Errorf("a request got %+v", a)
		}
	}
	redistest.Eventually(t, "Redis to have answered", func() bool { return n.status().Shared.Store.Answered == 5 })
	redistest.Eventually(t, "all to be counted", func() bool {
		s := n.status()
		return s.Allowed == 2 && s.WouldRefuse == 3 && s.Refused == 0
	})

	l.Shared = &Shared{Otherwise: Deny}
	n = newNode(t, redis.Options{Addresses: []string{"127.0.0.1:1"}, Timeout: time.Second}, l)
	for range 8 {
		if a := n.ask(0, ""); a.status != 200 || a.held {
			t.Errorf("without Redis a request got %+v", a)
		}
	}
	redistest.Eventually(t, "it to be counted", func() bool { return n.status().Shared.Unavailable == 8 })
}

func TestTheStoreAuthenticates(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "sesame", "--user", "gate", "on", ">secret", "~test:*", "+@all")
	for name, c := range map[string]struct {
		options redis.Options
		status  int
	}{
		"password":       {redis.Options{Password: "sesame"}, 200},
		"user":           {redis.Options{Username: "gate", Password: "secret", Prefix: "test:"}, 200},
		"no password":    {redis.Options{}, 503},
		"wrong password": {redis.Options{Username: "gate", Password: "wrong"}, 503},
		"other keys":     {redis.Options{Username: "gate", Password: "secret", Prefix: "else:"}, 503},
	} {
		l := daily(TokenBucket, 12)
		l.Shared = &Shared{Otherwise: Deny}
		c.options.Addresses = []string{server.Address()}
		n := newNode(t, c.options, l)
		a := n.ask(0, "")
		last := n.status().Shared.Store.LastError
		if a.status != c.status || (last == "") != (c.status == 200) || strings.Contains(last, "secret") {
			t.Errorf("%s: got %d, error %q", name, a.status, last)
		}
	}
}

func TestTheStoreSpeaksTLS(t *testing.T) {
	cert, key, authority := redistest.Certificate(t, "redis.test")
	secure := redistest.StartTLS(t, cert, key)
	for name, c := range map[string]struct {
		config *tls.Config
		status int
	}{
		"trusted":    {&tls.Config{RootCAs: authority, ServerName: "redis.test"}, 200},
		"other name": {&tls.Config{RootCAs: authority}, 503},
		"plain":      {nil, 503},
	} {
		l := daily(TokenBucket, 12)
		l.Shared = &Shared{Otherwise: Deny}
		n := newNode(t, redis.Options{Addresses: []string{secure}, TLS: c.config,
			Timeout: 5 * time.Second}, l)
		if a := n.ask(0, ""); a.status != c.status {
			t.Errorf("%s: got %d, error %q", name, a.status, n.status().Shared.Store.LastError)
		}
	}
}

// Four instances lease from a cluster of three masters, one of which goes away in the middle.
func TestLeasesOverAClusterStayBoundedWhenAMasterIsLost(t *testing.T) {
	const quota, batch, instances = 200, 4, 4
	servers := redistest.Cluster(t)
	l := by("header:X", daily(TokenBucket, quota))
	l.Shared = &Shared{Leased: true, Batch: batch, Otherwise: ByShare, Instances: instances}
	values := make([]string, 12)
	for i := range values {
		values[i] = fmt.Sprint("v", i)
	}
	var all []*node
	for range instances {
		all = append(all, newNode(t, redis.Options{Addresses: []string{servers[0].Address(), servers[1].Address()},
			Timeout: time.Second}, l))
	}
	var passed [12]atomic.Int64
	ask := func(each int) {
		var wait sync.WaitGroup
		for _, n := range all {
			for loop := range nodeLoops {
				wait.Go(func() {
					for i := range each * len(values) {
						switch a := n.ask(loop, values[i%len(values)]); a.status {
						case 200:
							passed[i%len(values)].Add(1)
						case 429:
						default:
							t.Errorf("a request got %d", a.status)
						}
					}
				})
			}
		}
		wait.Wait()
	}
	ask(3)
	for i := range passed {
		if n := passed[i].Load(); n != 3*instances*nodeLoops {
			t.Errorf("with all masters %d requests of %s pass, want all %d", n, values[i], 3*instances*nodeLoops)
		}
	}
	servers[2].Kill()
	ask(20)
	for i := range passed {
		// What Redis has granted before, and each instance's part.
		if n := passed[i].Load(); n > 2*quota {
			t.Errorf("without a master %d requests of %s pass, %d are the most", n, values[i], 2*quota)
		}
	}
	unavailable := int64(0)
	for _, n := range all {
		unavailable += n.status().Shared.Unavailable
	}
	if unavailable == 0 {
		t.Error("no request was without an answer: the master that went had no values")
	}
}
