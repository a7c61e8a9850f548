package top

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plimsoll/internal/hist"
	"plimsoll/internal/loadline"
)

// at is a sample so many seconds after the first.
func at(seconds float64, routes []routeSample, upstreams []upstreamSample) *sample {
	t := began.Add(time.Duration(seconds * 1e9))
	return &sample{
		ready: readySample{State: "serving"}, routes: routes, routesAt: t,
		upstreams: upstreams, upstreamsAt: t.Add(time.Millisecond),
	}
}

func cell(from, to int64, count uint64) hist.Cell {
	return hist.Cell{FromNS: from, ToNS: to, Count: count}
}

// The percentiles of an interval are those of its own requests, whatever came before.
func TestPercentilesAreOfTheIntervalAlone(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var all, only hist.Histogram
		for range random.IntN(5000) {
			all.Record(random.Int64N(1e9))
		}
		before := all.Cells()
		own := make([]float64, 1+random.IntN(500))
		for i := range own {
			ns := int64(math.Exp(random.Float64()*12+7) * 10)
			own[i] = float64(ns)
			all.Record(ns)
			only.Record(ns)
		}
		slices.Sort(own)
		got := percentiles(before, all.Cells())
		for _, c := range []struct {
			q   float64
			got float64
		}{{.5, got.P50}, {.99, got.P99}} {
			exact := own[max(0, int(math.Ceil(c.q*float64(len(own))))-1)]
			if off := math.Abs(c.got*1e6-exact) / exact; exact < float64(hist.Edge(hist.Buckets-2)) && off > .13 {
				t.Fatalf("p%v of %d is %v ms, exactly %v ms", c.q*100, len(own), c.got, exact/1e6)
			}
		}
	}
}

func TestPercentilesAreAbsentWhereThereAreNone(t *testing.T) {
	some := []hist.Cell{cell(0, 1024, 4), cell(1024, 2048, 6)}
	for name, c := range map[string]struct{ then, now []hist.Cell }{
		"no requests":      {nil, nil},
		"none since":       {some, some},
		"counts that fell": {some, []hist.Cell{cell(0, 1024, 3), cell(1024, 2048, 9)}},
	} {
		if p := percentiles(c.then, c.now); p != nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	// Above the last edge nothing is known but that edge.
	if p := percentiles(nil, []hist.Cell{cell(1<<36, 0, 3)}); p == nil || p.P50 != p.P99 || p.P50 != 68719.477 {
		t.Errorf("beyond the edges: %+v", p)
	}
}

func route(name string, requests, failed uint64) routeSample {
	return routeSample{Name: name, Class: "P1", Requests: requests,
		Codes: map[string]uint64{"2xx": requests - failed, "5xx": failed},
		Cells: []hist.Cell{cell(1e6, 2e6, requests)}}
}

func TestRatesAndSharesAreOfTheInterval(t *testing.T) {
	limits := func(r routeSample, allowed, refused uint64) routeSample {
		r.Policies.Limits.Limits = []limitSample{
			{Name: "all", Rate: "50/s", Changed: true, Allowed: allowed, Refused: refused}}
		r.Policies.Concurrency = &concurrencySample{
			UnderWay: int(refused), Max: 30, MaxPerValue: 4, RouteFull: 2 * refused, ClientFull: allowed}
		r.Refused = map[string]uint64{"rate_limited": refused, "overloaded": 2 * refused, "denied": 7}
		return r
	}
	before := at(0, []routeSample{limits(route("a", 1000, 500), 100, 5)},
		[]upstreamSample{{Name: "u", Requests: 10, Codes: map[string]uint64{"2xx": 10}}})
	after := at(2, []routeSample{limits(route("a", 1400, 510), 140, 25), route("new", 9, 0)},
		[]upstreamSample{{Name: "u", Requests: 30, Codes: map[string]uint64{"2xx": 20, "5xx": 10},
			States: map[string]int{"up": 2, "ejected": 1}, Outstanding: 3, Waiting: 4,
			Concurrency: &placesSample{Limit: 60}, MaxConcurrency: &placesSample{Limit: 50},
			Breakers: map[string]int{"closed": 2, "open": 1}}})
	f := compare(before, after, []loopSample{{0, .5, 100, 3}, {1, .25, 100, 4}})
	want := &Figures{
		Taken: after.routesAt, Length: 2,
		Gateway: Instance{State: "serving", Rate: new(200.0), InFlight: new(int64(7)),
			Loops:    []Loop{{0, .5, 100}, {1, .25, 100}},
			Headroom: Headroom{Why: "this gateway has no estimate"}},
		Upstreams: []Upstream{{Name: "u", Rate: new(10.0), Errors: new(.5), InFlight: 3, Waiting: 4,
			Limit:    new(50),
			Headroom: Headroom{Why: "this gateway has no estimate"},
			Breakers: map[string]int{"closed": 2, "open": 1}, Up: 2, Targets: 3,
			States: map[string]int{"up": 2, "ejected": 1}}},
		Routes: []Route{
			{Name: "a", Class: "P1", Rate: new(200.0), Response: &Percentiles{1.5, 1.99},
				Errors:  new(.025),
				Refused: []Refusal{{"overloaded", 20}, {"rate_limited", 10}},
				Limits: []Limit{{Name: "all", Rate: "50/s", Changed: true,
					Allowed: new(20.0), Refused: new(10.0)}},
				Concurrency: &Concurrency{InFlight: 25, Limit: 30, LimitPerValue: 4, Refused: new(40.0)}},
			// Nobody knows since when it counts.
			{Name: "new", Class: "P1"},
		},
		Notes: []string{"this gateway's admin API gives no histograms: percentiles are not known"},
	}
	if d := cmp.Diff(want, f); d != "" {
		t.Error(d)
	}
}

func TestAfterARestartNothingIsMadeUp(t *testing.T) {
	before := at(0, []routeSample{route("a", 1000, 0), route("b", 1, 0)}, nil)
	after := at(1, []routeSample{route("a", 30, 0), route("b", 40, 0)}, nil)
	f := compare(before, after, nil)
	for _, r := range f.Routes {
		if r.Rate != nil || r.Response != nil || r.Errors != nil {
			t.Errorf("%s has figures: %+v", r.Name, r)
		}
	}
	if len(f.Notes) != 1 {
		t.Errorf("the notes are %q", f.Notes)
	}
	if f.Gateway.Rate != nil {
		t.Error("nobody watched the loops, and there is a rate")
	}
}

func TestWhatNoRouteMatchesIsShownOnceThereIsSome(t *testing.T) {
	none := routeSample{Name: unmatched}
	if f := compare(at(0, []routeSample{none}, nil), at(1, []routeSample{none}, nil), nil); len(f.Routes) != 0 {
		t.Errorf("routes: %+v", f.Routes)
	}
	some := none
	some.Requests, some.Cells = 3, []hist.Cell{cell(0, 1024, 3)}
	if f := compare(at(0, []routeSample{none}, nil), at(1, []routeSample{some}, nil), nil); len(f.Routes) != 1 {
		t.Errorf("routes: %+v", f.Routes)
	}
}

func TestWhatARouteCostsIsTheGatewaysEstimate(t *testing.T) {
	s := at(1, []routeSample{{Name: "a", Class: "P1"}, {Name: "rare", Class: "P1"}}, nil)
	s.line = &loadline.Status{Routes: []loadline.RouteCost{
		{Name: "a", Share: .9, Busy: loadline.Interval{Low: 10, Estimate: 20, High: 30}}, {Share: .1}}}
	f := compare(at(0, nil, nil), s, nil)
	if d := cmp.Diff(&Interval{10, 20, 30, .95}, f.Routes[0].Busy); d != "" {
		t.Error(d)
	}
	if f.Routes[1].Busy != nil {
		t.Errorf("a route that has no estimate costs %+v", f.Routes[1].Busy)
	}
}

func TestHeadroomIsTheGatewaysEstimate(t *testing.T) {
	s := at(1, nil, []upstreamSample{{Name: "known"}, {Name: "unknown"}, {Name: "unheard"}})
	s.line = &loadline.Status{
		Limit: "known", Headroom: &loadline.Interval{Low: .3, Estimate: .4, High: .5},
		Instance: []loadline.Estimate{{Name: "gateway cpu", Age: 1}},
		Upstreams: []loadline.Estimate{
			{Name: "known", Age: 2, Headroom: &loadline.Interval{Low: .3, Estimate: .4, High: .5}},
			{Name: "unknown", Why: "too little traffic"},
		},
	}
	f := compare(at(0, nil, nil), s, nil)
	known := Headroom{Headroom: &Interval{.3, .4, .5, .95}, Age: new(2.0)}
	want := Instance{State: "serving", Headroom: known, Limit: "known"}
	if d := cmp.Diff(want, f.Gateway); d != "" {
		t.Error(d)
	}
	for i, want := range []Headroom{known, {Why: "too little traffic"}, {Why: "the gateway has no estimate of it"}} {
		if d := cmp.Diff(want, f.Upstreams[i].Headroom); d != "" {
			t.Error(d)
		}
	}
	s.line.Headroom, s.line.Instance[0].Why = nil, "the gateway is idle"
	if f := compare(at(0, nil, nil), s, nil); f.Gateway.Why != "the gateway is idle" {
		t.Errorf("the headroom is unknown because %q", f.Gateway.Why)
	}
}
