package limit

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/limit/shared"
	"plimsoll/internal/redis"
	"plimsoll/internal/redis/redistest"
)

// node is an instance of the gateway with a policy and a store of its own, by the real clock.
type node struct {
	*Policy
	store *shared.Store
	now   func() int64
}

const nodeLoops = 4

// newNode makes an instance whose limits are shared as the first of them says, but for the store.
func newNode(t testing.TB, o redis.Options, limits ...Limit) *node {
	t.Helper()
	began := time.Now()
	n := &node{now: func() int64 { return int64(time.Since(began)) + int64(time.Minute) }}
	o.Name, o.Now = "test", n.now
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	var err error
	if n.store, err = shared.New(o); err != nil {
		t.Fatal(err)
	}
	limits = append([]Limit(nil), limits...)
	for i := range limits {
		limits[i].Name = fmt.Sprint(i + 1)
		if s := limits[i].Shared; s != nil {
			own := *s
			own.Store = n.store
			limits[i].Shared = &own
		}
	}
	if n.Policy, err = New(Options{Limits: limits, Route: "r", Env: exchange.Env{Loops: nodeLoops, Now: n.now}}); err != nil {
		t.Fatal(err)
	}
	n.store.Release() // the policy keeps it
	t.Cleanup(n.Close)
	return n
}

func nodes(t testing.TB, count int, addresses []string, limits ...Limit) (all []*node) {
	for range count {
		all = append(all, newNode(t, redis.Options{Addresses: addresses}, limits...))
	}
	return all
}

// carrier is the engine of one exchange: who asks waits for what resumes it.
type carrier struct {
	now     func() int64
	loop    int
	resumed chan func(*exchange.Exchange) exchange.PolicyVerdict
}

func (c *carrier) Resume(_ *exchange.Exchange, _ uint64, then func(*exchange.Exchange) exchange.PolicyVerdict) {
	c.resumed <- then
}
func (c *carrier) Now() int64                                                { return c.now() }
func (c *carrier) LoopID() int                                               { return c.loop }
func (c *carrier) Backlog() int64                                            { return 0 }
func (*carrier) Wake(*exchange.Exchange, uint64)                             {}
func (*carrier) Fetch(*exchange.Exchange, *head.Request, exchange.Sink) bool { return false }

// answer is what became of a request.
type answer struct {
	status int  // 200 where it passed
	held   bool // it has waited for something
	fields *head.Response
}

// ask sends a request with a value of the header X on a loop, and waits as the engine would.
func (n *node) ask(loop int, value string) answer {
	x := exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
	c := &carrier{n.now, loop, make(chan func(*exchange.Exchange) exchange.PolicyVerdict, 1)}
	x.Begin(c)
	if value != "" {
		x.Request.Fields.Add([]byte("X"), []byte(value))
	}
	verdict, held := n.OnRequest(&x), false
	for verdict == exchange.Held {
		held = true
		deadline, _, _ := x.HoldEnd(1 << 62)
		select {
		case then := <-c.resumed:
			verdict = then(&x)
		case <-time.After(time.Duration(deadline - n.now())):
			if late := x.PauseEnd(n.now()); late != nil {
				verdict = late(&x)
			}
		}
	}
	if verdict == exchange.Continue {
		n.OnResponse(&x)
		return answer{200, held, x.Response}
	}
	n.OnResponse(&x)
	return answer{x.Response.Status, held, x.Response}
}

// status is what the node says of its first limit.
func (n *node) status() Status { return n.Policy.Status().(statusList).Limits[0] }

// storm has all loops of all nodes ask so often, and counts what passes. Values are used in turn.
func storm(t testing.TB, all []*node, each int, values ...string) (passed int) {
	t.Helper()
	var total atomic.Int64
	var wait sync.WaitGroup
	for _, n := range all {
		for loop := range nodeLoops {
			wait.Go(func() {
				for i := range each {
					value := ""
					if len(values) > 0 {
						value = values[i%len(values)]
					}
					switch a := n.ask(loop, value); a.status {
					case 200:
						total.Add(1)
					case 429:
					default:
						t.Errorf("a request got %d", a.status)
					}
				}
			})
		}
	}
	wait.Wait()
	for _, n := range all {
		if s := n.status(); s.Shared.Unavailable != 0 {
			t.Errorf("Redis has not answered %d times: %+v", s.Shared.Unavailable, s.Shared)
		}
	}
	return int(total.Load())
}

var sharable = []Algorithm{TokenBucket, GCRA, FixedWindow, SlidingWindow}

func daily(a Algorithm, count int64) Limit {
	l := Limit{Algorithm: a, Rate: Rate{count, 24 * time.Hour}, Shared: &Shared{}}
	if a.bucket() {
		l.Burst = count
	}
	return l
}

func TestFourInstancesShareALimitExactly(t *testing.T) {
	address := redistest.Start(t).Address()
	for _, a := range sharable {
		l := daily(a, 100)
		if passed := storm(t, nodes(t, 4, []string{address}, l), 20); passed != 100 {
			t.Errorf("%s: of 320 requests %d pass, want 100", a, passed)
		}
	}
}

func TestAClusterSharesManyValuesExactly(t *testing.T) {
	servers := redistest.Cluster(t)
	l := by("header:X", daily(TokenBucket, 10))
	l.Overrides = map[string]Override{"v0": {Rate: Rate{3, 24 * time.Hour}}}
	values := make([]string, 12)
	for i := range values {
		values[i] = fmt.Sprint("v", i)
	}
	// One address is enough to find the others.
	all := nodes(t, 2, []string{servers[2].Address()}, l)
	all = append(all, nodes(t, 2, []string{servers[0].Address(), servers[1].Address()}, l)...)
	if passed := storm(t, all, 12*2, values...); passed != 3+11*10 {
		t.Errorf("%d requests pass, want 113", passed)
	}
	for i, s := range servers {
		if size, err := s.Do("DBSIZE"); err != nil || size == "0" {
			t.Errorf("server %d holds %s values, %v: they are not spread", i, size, err)
		}
	}
}

func TestLeasesTakeNothingTwice(t *testing.T) {
	address := redistest.Start(t).Address()
	for _, a := range sharable {
		l := daily(a, 400)
		l.Shared = &Shared{Leased: true, Batch: 8}
		all := nodes(t, 4, []string{address}, l)
		passed, asked := storm(t, all, 100), int64(0)
		for _, n := range all {
			asked += n.status().Shared.Store.Answered
		}
		// What a slow machine has not used within a second is lost, and never more than was used.
		if passed > 400 || passed < 200 {
			t.Errorf("%s: of 1600 requests %d pass, want 400", a, passed)
		}
		t.Logf("%s: %d pass with %d calls", a, passed, asked)
	}
}

// Tokens that instances hold while the bucket fills up again come on top of it: at most a batch
// each.
func TestTheOvershootOfLeasesIsBounded(t *testing.T) {
	server := redistest.Start(t)
	const burst, rate, batch, instances = 40, 400, 8, 4
	l := Limit{Rate: Rate{rate, time.Second}, Burst: burst, Shared: &Shared{Leased: true, Batch: batch}}
	all := nodes(t, instances, []string{server.Address()}, l)
	for _, n := range all {
		for range 1 + 2 + 4 + 1 { // the last of these brings a whole batch
			n.ask(0, "")
		}
	}
	redistest.Eventually(t, "the bucket to be full", func() bool {
		size, err := server.Do("DBSIZE")
		return err == nil && size == "0"
	})
	held := int64(0)
	for _, n := range all {
		held += unpackLease(n.limits[0].leases.rest.state.Load()).count
	}
	if held > instances*(batch-1) {
		t.Errorf("instances hold %d requests, more than %d", held, instances*(batch-1))
	}
	began := time.Now()
	passed := storm(t, all, 30)
	most := burst + int(time.Since(began).Seconds()*rate) + 1 + instances*batch
	if passed > most {
		t.Errorf("%d requests pass, %d are the most", passed, most)
	}
	t.Logf("%d instances hold %d; then %d pass, %d are the most", instances, held, passed, most)
}

func TestALeaseGrowsWithItsUseAndLosesNoMoreThanWasUsed(t *testing.T) {
	now, w := int64(100*second), uint64(fresh)
	use := func() (asked int64) {
		for {
			l, v := unpackLease(w).step(now, now+second/10, 8)
			switch v {
			case leaseAsks:
				w = l.answered(l.most(8), 0, now).pack()
				return l.most(8)
			case leaseRefills:
				asked = l.most(8) - l.count
				w = l.refilled(asked, now, 8).pack()
				return asked
			case leasePasses:
				w = l.pack()
				return 0
			default:
				t.Fatalf("got %d", v)
			}
		}
	}
	var sizes []int64
	for range 30 {
		if n := use(); n > 0 {
			sizes = append(sizes, n)
		}
	}
	if got := fmt.Sprint(sizes); got != "[1 2 4 6 4 4 4 4 4 4]" {
		t.Errorf("leases are of %s", got)
	}
	now += 2 * second
	if n := use(); n != 1 {
		t.Errorf("after a lease has expired the next is of %d, want 1", n)
	}
	// One request in 1.5 s loses nothing.
	for range 5 {
		now += 3 * second / 2
		if n := use(); n != 1 {
			t.Errorf("a lease for a rare request is of %d, want 1", n)
		}
	}
}

func TestWhoFindsAnEmptyLimitIsRefusedWithoutACall(t *testing.T) {
	l := daily(TokenBucket, 3)
	l.Shared = &Shared{Leased: true, Batch: 1}
	n := newNode(t, redis.Options{Addresses: []string{redistest.Start(t).Address()}}, l)
	for n.ask(0, "").status == 200 {
	}
	calls := n.status().Shared.Store.Answered
	a := n.ask(0, "")
	if a.status != 429 || a.held || n.status().Shared.Store.Answered != calls {
		t.Errorf("got %+v after %d calls, then %+v", a, calls, n.status().Shared)
	}
	if f := a.fields.Fields.Find([]byte("RateLimit")); f == nil || !strings.HasPrefix(string(f.Value), `"1";r=0;t=`) {
		t.Errorf("RateLimit: %v", f)
	}
}

// mute accepts connections and says nothing.
func mute(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	}()
	return l.Addr().String()
}

func TestARedisThatSaysNothingSoonCostsNothing(t *testing.T) {
	for _, leased := range []bool{false, true} {
		l := daily(TokenBucket, 1000)
		l.Shared = &Shared{Leased: leased, Otherwise: Allow}
		n := newNode(t, redis.Options{Addresses: []string{mute(t)}, Timeout: 20 * time.Millisecond}, l)
		held := 0
		for range 5 {
			if a := n.ask(0, ""); a.status != 200 {
				t.Fatalf("a request got %d", a.status)
			} else if a.held {
				held++
			}
		}
		s := n.status().Shared
		if held != 5 || s.Store.Timeouts+s.Store.Errors != 5 || s.Store.Breaker != "open" {
			t.Errorf("leased %v: %d of 5 requests have waited, and the store is %+v", leased, held, s.Store)
		}
		redistest.Eventually(t, "requests not to wait", func() bool { return !n.ask(0, "").held })
		if s := n.status().Shared; s.Store.RefusedOpen == 0 || s.Unavailable < 6 {
			t.Errorf("leased %v: %+v", leased, s)
		}
	}
}

func TestCallsInFlightAreBounded(t *testing.T) {
	l := daily(TokenBucket, 1000)
	l.Shared = &Shared{Otherwise: Deny}
	n := newNode(t, redis.Options{Addresses: []string{mute(t)}, Timeout: time.Minute, MaxInFlight: 2}, l)
	for range 2 {
		x := exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
		x.Begin(&carrier{n.now, 0, make(chan func(*exchange.Exchange) exchange.PolicyVerdict, 1)})
		if n.OnRequest(&x) != exchange.Held {
			t.Fatal("a request does not wait for Redis")
		}
	}
	if a := n.ask(1, ""); a.status != 503 || a.held || n.status().Shared.Store.RefusedBusy != 1 {
		t.Errorf("one more call: %+v, %+v", a, n.status().Shared.Store)
	}
}
