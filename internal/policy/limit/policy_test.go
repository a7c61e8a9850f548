package limit

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/exchange/exchangetest"
	"plimsoll/internal/head"
)

// loop is an engine in virtual time.
type loop struct {
	exchangetest.Engine
	now int64
	id  int
}

func (l *loop) Resume(*exchange.Exchange, uint64, func(*exchange.Exchange) exchange.PolicyVerdict) {
	panic("nothing is resumed")
}
func (l *loop) Now() int64  { return l.now }
func (l *loop) LoopID() int { return l.id }

// bench is a policy and a loop that asks it.
type bench struct {
	*loop
	*Policy
	x exchange.Exchange
}

func newBench(t testing.TB, limits ...Limit) *bench {
	t.Helper()
	b := &bench{loop: &loop{now: 60 * second}}
	for i := range limits {
		if limits[i].Name == "" {
			limits[i].Name = fmt.Sprint(i + 1)
		}
	}
	p, err := New(Options{Limits: limits, Env: exchange.Env{Loops: 4, Now: func() int64 { return b.now }}})
	if err != nil {
		t.Fatal(err)
	}
	b.Policy = p
	b.x = exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}
	return b
}

// request begins a request with header fields, given as name and value.
func (b *bench) request(client string, fields ...string) {
	b.x.Begin(b.loop)
	b.x.Request.Fields.Reset()
	b.x.Response.Fields.Reset()
	if client != "" {
		b.x.Client = netip.MustParseAddr(client)
	}
	for i := 0; i < len(fields); i += 2 {
		b.x.Request.Fields.Add([]byte(fields[i]), []byte(fields[i+1]))
	}
}

// ask sends a request and says what became of it: "pass", "wait" or the Retry-After of a refusal.
func (b *bench) ask(client string, fields ...string) string {
	b.request(client, fields...)
	switch b.OnRequest(&b.x) {
	case exchange.Continue:
		return "pass"
	case exchange.Held:
		return "wait"
	default:
		return b.field("Retry-After")
	}
}

func (b *bench) field(name string) string {
	if f := b.x.Response.Fields.Find([]byte(name)); f != nil {
		return string(f.Value)
	}
	return ""
}

func (b *bench) passes(client string, fields ...string) (n int) {
	for b.ask(client, fields...) == "pass" {
		n++
	}
	return n
}

// status is what the policy says of a limit.
func (b *bench) status(name string) Status {
	text, err := json.Marshal(b.Status())
	if err != nil {
		panic(err)
	}
	var said struct{ Limits []Status }
	if err := json.Unmarshal(text, &said); err != nil {
		panic(err)
	}
	for _, s := range said.Limits {
		if s.Name == name {
			return s
		}
	}
	return Status{}
}

// of is a limit for each address, of 20 in a second, with room for few values.
func of(a Algorithm) Limit {
	l := Limit{Name: "one", Key: "client_address", Algorithm: a, Rate: Rate{20, time.Second}, Values: 16, Cost: 1}
	switch {
	case a.bucket():
		l.Burst = 5
	case a == LeakyBucket:
		l.MaxWait = 300 * time.Millisecond
	}
	return l
}

func perMinute(n int64) Limit { return Limit{Rate: Rate{n, time.Minute}} }

func by(key string, l Limit) Limit {
	l.Key = key
	return l
}

func TestValuesOfAKeyAreCountedApart(t *testing.T) {
	b := newBench(t, by("client_address", perMinute(3)))
	if a, c := b.passes("192.0.2.1"), b.passes("192.0.2.2"); a != 3 || c != 3 {
		t.Errorf("%d and %d pass, want 3 of each", a, c)
	}
	if got := b.ask("192.0.2.1"); got != "20" {
		t.Errorf("a refusal says Retry-After: %s, want 20", got)
	}
	b.now += 19*second + 999_999_999
	if got := b.ask("192.0.2.1"); got != "1" {
		t.Errorf("a nanosecond before its time a request gets %s", got)
	}
	b.now++
	if got := b.ask("192.0.2.1"); got != "pass" {
		t.Errorf("after Retry-After a request gets %s", got)
	}
}

func TestAddressesCountByTheirNetworks(t *testing.T) {
	b := newBench(t, by("client_address", perMinute(1)))
	same := func(one, other string) bool {
		b.now += 3600 * second
		return b.ask(one) == "pass" && b.ask(other) != "pass"
	}
	if !same("2001:db8::1", "2001:db8::ffff:1") || same("2001:db8::1", "2001:db8:0:1::1") {
		t.Error("IPv6 addresses do not count by /64")
	}
	if same("192.0.2.1", "192.0.2.2") || !same("192.0.2.1", "::ffff:192.0.2.1") {
		t.Error("IPv4 addresses do not count by themselves")
	}
	wide := by("client_address", perMinute(1))
	wide.Prefix4, wide.Prefix6 = 23, 47
	b = newBench(t, wide)
	if !same("192.0.2.1", "192.0.3.2") || same("192.0.2.1", "192.0.4.1") {
		t.Error("IPv4 addresses do not count by /23")
	}
	if !same("2001:db8::1", "2001:db8:1::1") || same("2001:db8::1", "2001:db8:2::1") {
		t.Error("IPv6 addresses do not count by /47")
	}
}

func TestRequestsWithoutTheKey(t *testing.T) {
	b := newBench(t, by("header:X-Tenant", perMinute(2)))
	if n := b.passes("192.0.2.1"); n != 2 {
		t.Errorf("%d requests without the key pass together, want 2", n)
	}
	if got := b.ask("192.0.2.2", "X-Tenant", ""); got == "pass" {
		t.Error("an empty value is counted apart from a missing one")
	}
	skipping := by("header:X-Tenant", perMinute(2))
	skipping.SkipMissing = true
	b = newBench(t, skipping)
	for range 10 {
		if got := b.ask(""); got != "pass" {
			t.Fatalf("a request that the limit is not for gets %s", got)
		}
	}
	if n := b.passes("", "X-Tenant", "a"); n != 2 {
		t.Errorf("%d requests of a tenant pass, want 2", n)
	}
}

// A request passes all limits or costs nothing with any.
func TestWhatOneLimitRefusesCostsNothingWithTheOthers(t *testing.T) {
	for _, a := range allAlgorithms {
		one := by("client_address", perMinute(5))
		one.Algorithm = a
		if a == GCRA {
			one.Burst = 5
		}
		if a == LeakyBucket {
			one.Queue, one.MaxWait = 4, time.Minute
		}
		b := newBench(t, one, by("header:X-Tenant", perMinute(2)))
		for range 20 {
			b.ask("192.0.2.1", "X-Tenant", "a")
		}
		passed := 2
		for _, tenant := range []string{"b", "c", "d"} {
			for b.ask("192.0.2.1", "X-Tenant", tenant) != b.field("Retry-After") || b.field("Retry-After") == "" {
				passed++
			}
		}
		if passed != 5 {
			t.Errorf("%s: of a client that its tenant's limit refused often %d requests pass in all, want 5", a, passed)
		}
	}
}

// Loops ask two limits at once, of which each lets fewer pass than are asked.
func TestSeveralLimitsAreExactOverAllLoops(t *testing.T) {
	for _, a := range allAlgorithms {
		all, tenant := perMinute(100), by("header:X-Tenant", perMinute(30))
		tenant.Algorithm = a
		tenant.Burst = 0
		if a == GCRA {
			tenant.Burst = 30
		}
		if a == LeakyBucket {
			tenant.Queue, tenant.MaxWait = 29, time.Minute
		}
		b := newBench(t, all, tenant)
		var passed atomic.Int64
		var wg sync.WaitGroup
		for id := range 4 {
			wg.Go(func() {
				own := bench{loop: &loop{now: b.now, id: id}, Policy: b.Policy,
					x: exchange.Exchange{Request: &head.Request{}, Response: &head.Response{}}}
				for i := range 400 {
					own.request("", "X-Tenant", string(rune('a'+i%5)))
					if own.OnRequest(&own.x) != exchange.Answered {
						passed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if n := passed.Load(); n != 100 {
			t.Errorf("%s: %d requests pass, want 100", a, n)
		}
	}
}

func TestAClockThatStepsBackLocksNobodyOutOfSeveralLimits(t *testing.T) {
	b := newBench(t, perMinute(6), perMinute(100))
	b.now += 24 * 3600 * second
	if n := b.passes(""); n != 6 {
		t.Fatalf("%d pass, want 6", n)
	}
	b.now -= 12 * 3600 * second
	b.ask("")
	b.now += 61 * second
	if n := b.passes(""); n != 6 {
		t.Errorf("%d pass a minute after the clock went back, want 6", n)
	}
}

func TestADryRunOnlyCounts(t *testing.T) {
	dry := perMinute(3)
	dry.DryRun, dry.Headers = true, Always
	b := newBench(t, dry)
	for range 10 {
		if got := b.ask("192.0.2.1"); got != "pass" {
			t.Fatalf("a request gets %s", got)
		}
	}
	if s := b.status("1"); s.Allowed != 3 || s.WouldRefuse != 7 || s.Refused != 0 {
		t.Errorf("allowed %d, would refuse %d, refused %d", s.Allowed, s.WouldRefuse, s.Refused)
	}
	if len(b.x.RateLimit) > 0 {
		t.Errorf("a dry run says %q", b.x.RateLimit)
	}
}

func TestOverridesHaveTheirOwnRates(t *testing.T) {
	l := by("header:X-Tenant", perMinute(2))
	l.Overrides = map[string]Override{"acme": {Rate: Rate{5, time.Minute}}, "tiny": {Rate: Rate{60, time.Minute}, Burst: 1}}
	b := newBench(t, l)
	for tenant, want := range map[string]int{"acme": 5, "tiny": 1, "other": 2, "Acme": 2} {
		if n := b.passes("", "X-Tenant", tenant); n != want {
			t.Errorf("%d requests of %s pass, want %d", n, tenant, want)
		}
	}
}

func TestACostIsTakenFromTheBurst(t *testing.T) {
	for _, a := range []Algorithm{TokenBucket, FixedWindow, SlidingWindow, SlidingLog} {
		l := perMinute(10)
		l.Algorithm, l.Cost = a, 3
		if n := newBench(t, l).passes(""); n != 3 {
			t.Errorf("%s: %d requests that cost 3 pass, want 3 of 10 tokens", a, n)
		}
	}
}

func TestALeakyBucketLetsRequestsWait(t *testing.T) {
	l := perMinute(60)
	l.Algorithm, l.Queue, l.MaxWait = LeakyBucket, 2, 10*time.Second
	b := newBench(t, l)
	for i, want := range []string{"pass", "wait", "wait", "1"} {
		if got := b.ask(""); got != want {
			t.Errorf("request %d gets %s, want %s", i, got, want)
		}
	}
	b.request("")
	b.now += second
	if b.OnRequest(&b.x) != exchange.Held {
		t.Fatal("a request does not wait")
	}
	if b.x.PauseEnd(b.now+2*second-1) != nil {
		t.Error("its turn comes too early")
	}
	if then := b.x.PauseEnd(b.now + 2*second); then == nil || then(&b.x) != exchange.Continue {
		t.Error("its turn does not come")
	}
	if s := b.status("1"); s.Queued != 3 || s.Allowed != 4 || s.Refused != 1 {
		t.Errorf("queued %d, allowed %d, refused %d", s.Queued, s.Allowed, s.Refused)
	}
}

func TestResponsesSayWhatIsLeft(t *testing.T) {
	tenant := by("header:X-Tenant", perMinute(600))
	tenant.Name, tenant.Algorithm, tenant.Headers = "tenant", SlidingWindow, Always
	client := by("client_address", perMinute(60))
	client.Name, client.Burst = "client", 2
	b := newBench(t, tenant, client)
	say := func(step, want, policy string) {
		t.Helper()
		b.OnResponse(&b.x)
		if got := b.field("RateLimit"); got != want {
			t.Errorf("%s: RateLimit: %s, want %s", step, got, want)
		}
		if got := b.field("RateLimit-Policy"); got != policy {
			t.Errorf("%s: RateLimit-Policy: %s, want %s", step, got, policy)
		}
	}
	b.ask("192.0.2.1", "X-Tenant", "a")
	say("passed", `"tenant";r=599;t=60`, `"tenant";q=600;w=60`)
	b.ask("192.0.2.1", "X-Tenant", "a")
	b.ask("192.0.2.1", "X-Tenant", "a")
	say("refused", `"tenant";r=598;t=60, "client";r=0;t=1`, `"tenant";q=600;w=60, "client";q=2;w=2`)
	never := perMinute(1)
	never.Headers = Never
	b = newBench(t, never)
	b.ask("")
	b.ask("")
	say("never", "", "")
}

func TestAReloadCarriesStateOver(t *testing.T) {
	l := by("header:X-Tenant", perMinute(10))
	l.Name = "tenant"
	l.Overrides = map[string]Override{"acme": {Rate: Rate{4, time.Minute}}}
	old := newBench(t, l)
	for range 8 {
		old.ask("", "X-Tenant", "a")
	}
	old.passes("", "X-Tenant", "acme")

	reload := func(change func(*Limit)) *bench {
		next := l
		change(&next)
		b := newBench(t, next)
		b.Inherit(old.Policy)
		return b
	}
	same := reload(func(*Limit) {})
	if n := same.passes("", "X-Tenant", "a"); n != 2 {
		t.Errorf("after a reload %d more pass, want 2", n)
	}
	if n := same.passes("", "X-Tenant", "acme"); n != 0 {
		t.Errorf("after a reload %d more pass of an override, want 0", n)
	}
	faster := reload(func(n *Limit) { n.Rate.Count = 15 })
	if n := faster.passes("", "X-Tenant", "a"); n != 5 {
		t.Errorf("after a reload with a higher rate %d more pass, want 5", n)
	}
	if n := old.passes("", "X-Tenant", "a"); n != 0 {
		t.Errorf("the old policy lets %d more pass", n)
	}
	for what, change := range map[string]func(*Limit){
		"name":      func(n *Limit) { n.Name = "other" },
		"key":       func(n *Limit) { n.Key = "header:X-Other" },
		"algorithm": func(n *Limit) { n.Algorithm = FixedWindow },
	} {
		b := reload(change)
		if n := b.passes("", "X-Tenant", "a", "X-Other", "a"); n != 10 {
			t.Errorf("after a reload with another %s %d pass, want 10", what, n)
		}
	}
}

func TestALimitCanBeChangedWhileItRuns(t *testing.T) {
	b := newBench(t, perMinute(10))
	b.passes("")
	if err := b.SetLimit("1", Rate{30, time.Minute}, 30); err != nil {
		t.Fatal(err)
	}
	if n := b.passes(""); n != 20 {
		t.Errorf("%d more pass after the burst was raised by 20", n)
	}
	if s := b.status("1"); !s.Changed || s.Rate != "30/m" || s.Burst != 30 {
		t.Errorf("the status says %+v", s)
	}
	again := newBench(t, perMinute(10))
	again.Inherit(b.Policy)
	if s := again.status("1"); !s.Changed || s.Rate != "30/m" {
		t.Errorf("after a reload that leaves the limit alone the status says %+v", s)
	}
	other := newBench(t, perMinute(11))
	other.Inherit(again.Policy)
	if s := other.status("1"); s.Changed || s.Rate != "11/m" {
		t.Errorf("after a reload with another rate the status says %+v", s)
	}
	for _, bad := range []error{
		b.SetLimit("2", Rate{30, time.Minute}, 0), b.SetLimit("1", Rate{0, time.Minute}, 0), b.SetLimit("1", Rate{1, 0}, 0),
		b.SetLimit("1", Rate{1, time.Minute}, -1),
	} {
		if bad == nil {
			t.Error("a change that makes no sense is accepted")
		}
	}
	logged := perMinute(10)
	logged.Algorithm = SlidingLog
	b = newBench(t, logged)
	b.passes("")
	if err := b.SetLimit("1", Rate{5, time.Second}, 0); err != nil {
		t.Fatal(err)
	}
	if n := b.passes(""); n != 5 {
		t.Errorf("of a log with another length %d pass, want 5", n)
	}
}

func TestTheStatusNamesWhoIsRefusedMost(t *testing.T) {
	b := newBench(t, by("client_address", perMinute(1)), by("header:Authorization", perMinute(1_000)))
	for i := range 60 {
		for range 1 + i%30 {
			b.ask(fmt.Sprintf("192.0.2.%d", i%30), "Authorization", "Bearer abcdefgh")
		}
	}
	b.ask("2001:db8::1")
	b.ask("2001:db8::1")
	s := b.status("1")
	if len(s.TopRefused) != 10 {
		t.Fatalf("%d values are shown", len(s.TopRefused))
	}
	if first := s.TopRefused[0]; first.Value != "192.0.2.29" || first.Count != 59 {
		t.Errorf("the first is %+v", first)
	}
	if s.Values != 31 || s.Places < 1<<16 {
		t.Errorf("%d values, %d places", s.Values, s.Places)
	}
	secret := by("header:Authorization", perMinute(1))
	b = newBench(t, secret)
	b.ask("", "Authorization", "Bearer abcdefgh")
	b.ask("", "Authorization", "Bearer abcdefgh")
	b.ask("")
	b.ask("")
	if s := b.status("1"); len(s.TopRefused) != 2 || s.TopRefused[0].Value != "Bearer…" || s.TopRefused[1].Value != "(missing)" {
		t.Errorf("the values are shown as %+v", s.TopRefused)
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	with := func(change func(*Limit)) Limit {
		l := by("client_address", perMinute(5))
		l.Name = "a"
		change(&l)
		return l
	}
	override := func(value string) func(*Limit) {
		return func(l *Limit) { l.Overrides = map[string]Override{value: {Rate: Rate{1, time.Minute}}} }
	}
	for what, limits := range map[string][]Limit{
		"no limit":            {},
		"nine limits":         make([]Limit, 9),
		"two of a name":       {with(func(*Limit) {}), with(func(*Limit) {})},
		"a quote in a name":   {with(func(l *Limit) { l.Name = `a"` })},
		"no key":              {with(func(l *Limit) { l.Key = "nonsense" })},
		"a burst of a window": {with(func(l *Limit) { l.Algorithm, l.Burst = FixedWindow, 3 })},
		"a wait of a window":  {with(func(l *Limit) { l.Algorithm, l.MaxWait = FixedWindow, 3 })},
		"a long prefix":       {with(func(l *Limit) { l.Prefix4 = 33 })},
		"many values":         {with(func(l *Limit) { l.Values = 1 << 30 })},
		"large logs":          {with(func(l *Limit) { l.Algorithm, l.Rate.Count, l.Values = SlidingLog, 10_000, 1<<20 })},
		"skip without a key":  {with(func(l *Limit) { l.Key, l.SkipMissing = "", true })},
		"not an address":      {with(override("acme"))},
		"a part of a network": {with(override("2001:db8::1"))},
		"a wider network":     {with(override("10.0.0.0/8"))},
		"one address twice": {with(func(l *Limit) {
			r := Override{Rate: Rate{1, time.Minute}}
			l.Overrides = map[string]Override{"192.0.2.1": r, "::ffff:192.0.2.1": r}
		})},
	} {
		if _, err := New(Options{Limits: limits}); err == nil {
			t.Errorf("%s is accepted", what)
		} else if !strings.ContainsAny(err.Error(), ";") {
			t.Errorf("%s: the error says no next step: %v", what, err)
		}
	}
}

func TestAllocNothingPerDecision(t *testing.T) {
	for _, a := range allAlgorithms {
		client := by("client_address", perMinute(1000))
		client.Algorithm, client.Headers = a, Always
		if a == LeakyBucket {
			client.MaxWait = time.Second
		}
		b := newBench(t, client, by("header:X-Tenant", perMinute(50)))
		single := newBench(t, client)
		tenant := 0
		names := [...]string{"a", "b", "c", "d"}
		address := netip.MustParseAddr("192.0.2.1")
		name := []byte("X-Tenant")
		if n := testing.AllocsPerRun(1000, func() {
			tenant++
			b.x.Begin(b.loop)
			b.x.Request.Fields.Reset()
			b.x.Response.Fields.Reset()
			b.x.Client = address
			value := b.x.Alloc(1)
			copy(value, names[tenant%4])
			b.x.Request.Fields.Add(name, value)
			b.OnRequest(&b.x)
			b.OnResponse(&b.x)
		}); n != 0 {
			t.Errorf("%s: a decision of two limits allocates %v times", a, n)
		}
		last := byte(0)
		if n := testing.AllocsPerRun(1000, func() { // new values all the time
			last++
			single.x.Begin(single.loop)
			single.x.Client = netip.AddrFrom4([4]byte{10, 0, last, last})
			single.OnRequest(&single.x)
		}); n != 0 {
			t.Errorf("%s: a decision about a new value allocates %v times", a, n)
		}
	}
}

// What is left of a limit is said in the refusal by another, also where nothing was ever counted.
func TestARefusalSaysWhatIsLeftToAClientThatIsNew(t *testing.T) {
	for a := TokenBucket; a <= SlidingLog; a++ {
		each := of(a)
		each.Headers = OnRefused
		all := perMinute(1)
		all.Name, all.Burst, all.Headers, all.Cost = "all", 1, OnRefused, 1
		b := newBench(t, each, all)
		b.ask("192.0.2.1")
		b.ask("192.0.2.2") // whose first request it is
		b.OnResponse(&b.x)
		if left := b.field("RateLimit"); !strings.Contains(left, `"one";r=`) {
			t.Errorf("%v: RateLimit is %q", a, left)
		}
	}
}
