package budget_test

import (
	"math"
	"testing"
	"time"

	"plimsoll/internal/telemetry"
	"plimsoll/internal/telemetry/budget"
)

// feeder feeds a ledger with the totals of one loop, as time goes by.
type feeder struct {
	t        *testing.T
	registry *telemetry.Registry
	ledger   *budget.Ledger
	now      time.Duration
}

func newFeeder(t *testing.T) *feeder {
	t.Helper()
	r, err := telemetry.New(telemetry.Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &feeder{t: t, registry: r, ledger: budget.NewLedger()}
}

// count counts good and bad exchanges of a route in a class.
func (f *feeder) count(route string, class uint8, good, bad int) {
	s := f.registry.Shard(0)
	e := telemetry.ExchangeStats{
		Route: f.registry.Route(route), Upstream: telemetry.NoUpstream, Class: class,
	}
	s.Grow(f.registry.Sizes())
	for i := range good + bad {
		e.Verdict = telemetry.Good
		if i >= good {
			e.Verdict = telemetry.Bad
		}
		s.Exchange(&e)
	}
}

func (f *feeder) feed() {
	call := func(_ int, do func()) bool { do(); return true }
	f.ledger.Feed(int64(f.now), f.registry.Collect(call))
}

// pass lets time go by, and feeds as often as a gateway does.
func (f *feeder) pass(d time.Duration) {
	for end := f.now + d; f.now < end; {
		f.now += budget.Interval
		f.feed()
	}
}

// want checks the good and all requests of each window.
func (f *feeder) want(what string, got []budget.Window, want ...[2]uint64) {
	f.t.Helper()
	for i, w := range got {
		if w.Good != want[i][0] || w.Requests != want[i][1] {
			f.t.Errorf("%s, over %s: %d of %d good, want %d of %d",
				what, w.Name, w.Good, w.Requests, want[i][0], want[i][1])
		}
	}
}

func (f *feeder) route(name string, class uint8) []budget.Window {
	return f.ledger.Route(f.registry.Route(name), class)
}

func TestWhatIsOlderThanAWindowLeavesIt(t *testing.T) {
	f := newFeeder(t)
	none, all := [2]uint64{}, [2]uint64{7, 10}
	f.want("before any request", f.route("r", 1), none, none, none, none)
	f.now = time.Hour
	f.count("r", 1, 7, 3)
	f.pass(10 * time.Second)
	f.want("at once", f.route("r", 1), all, all, all, all)
	f.pass(4*time.Minute + 50*time.Second)
	f.want("after five minutes", f.route("r", 1), all, all, all, all)
	f.pass(10 * time.Second)
	f.want("a step later", f.route("r", 1), none, all, all, all)
	f.pass(54 * time.Minute)
	f.want("before an hour is over", f.route("r", 1), none, all, all, all)
	f.pass(2 * time.Minute)
	f.want("after an hour", f.route("r", 1), none, none, all, all)
	f.pass(5*time.Hour + 5*time.Minute)
	f.want("after six hours", f.route("r", 1), none, none, none, all)
	f.pass(66 * time.Hour)
	f.want("after three days", f.route("r", 1), none, none, none, none)
}

func TestAWindowIsAtMostOneStepLongerThanItsName(t *testing.T) {
	f := newFeeder(t)
	for range 3 * 30 { // 15 minutes with one request in each step of the first window
		f.count("r", 1, 1, 0)
		f.pass(10 * time.Second)
		if w := f.route("r", 1)[0]; w.Requests > 30 {
			t.Fatalf("%d requests in five minutes with one every ten seconds", w.Requests)
		}
	}
	f.want("in the end", f.route("r", 1), [2]uint64{30, 30}, [2]uint64{90, 90},
		[2]uint64{90, 90}, [2]uint64{90, 90})
}

func TestWhatComesWhileNobodyFeedsCountsAsJustCome(t *testing.T) {
	f := newFeeder(t)
	f.count("r", 0, 5, 0)
	f.pass(10 * time.Second)
	f.count("r", 0, 1, 1)
	f.now += 30 * time.Minute // a process that was stopped
	f.feed()
	last := [2]uint64{1, 2}
	all := [2]uint64{6, 7}
	f.want("after half an hour", f.route("r", 0), last, all, all, all)
	f.now += 30 * 24 * time.Hour
	f.feed()
	none := [2]uint64{}
	f.want("after a month", f.route("r", 0), none, none, none, none)
}

func TestACollectionThatComesLateIsPassedOver(t *testing.T) {
	f := newFeeder(t)
	call := func(_ int, do func()) bool { do(); return true }
	f.count("r", 0, 3, 0)
	late := f.registry.Collect(call)
	f.count("r", 0, 4, 0)
	f.pass(10 * time.Second)
	f.ledger.Feed(int64(f.now), late)
	all := [2]uint64{7, 7}
	f.want("after both", f.route("r", 0), all, all, all, all)
}

func TestAClassIsTheSumOfItsRoutes(t *testing.T) {
	f := newFeeder(t)
	f.count("a", 0, 9, 1)
	f.count("b", 0, 5, 5)
	f.count("b", 2, 1, 0) // after a reload that gave it another class
	f.pass(10 * time.Second)
	for class, want := range map[uint8][2]uint64{0: {14, 20}, 1: {0, 0}, 2: {1, 1}} {
		f.want("the class", f.ledger.Class(class), want, want, want, want)
	}
	before, after := [2]uint64{5, 10}, [2]uint64{1, 1}
	f.want("b, in its old class", f.route("b", 0), before, before, before, before)
	f.want("b, in its new class", f.route("b", 2), after, after, after, after)
}

func TestBurnIsFailuresOverThoseAllowed(t *testing.T) {
	for _, c := range []struct {
		requests, good uint64
		availability   float64
		attainment     float64
		burn           float64
	}{
		{1000, 999, 0.999, 0.999, 1},
		{1000, 986, 0.999, 0.986, 14},
		{1000, 1000, 0.999, 1, 0},
		{10, 0, 0.99, 0, 100},
		{10, 5, 0, 0.5, 0.5},
	} {
		w := budget.Window{SLOCounts: telemetry.SLOCounts{Requests: c.requests, Good: c.good}}
		attainment, ok := w.Attainment()
		if burn := w.Burn(c.availability); !ok || attainment != c.attainment ||
			math.Abs(burn-c.burn) > 1e-9 {
			t.Errorf("%d of %d good, %g wanted: %g attained, a burn of %g; want %g and %g",
				c.good, c.requests, c.availability, attainment, burn, c.attainment, c.burn)
		}
	}
	if _, ok := (budget.Window{}).Attainment(); ok || (budget.Window{}).Burn(0.99) != 0 {
		t.Error("no requests attain something, or burn")
	}
}
