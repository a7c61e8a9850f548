package loadline

import (
	"math"
	"strings"
	"testing"
	"time"
)

// fed is an estimator that was fed windows of 10 s of an instance with two loops.
func fed(windows ...Use) *Estimator {
	e := New(2)
	for i := range windows {
		e.Feed(&Window{End: int64(i+1) * 10 * second, Length: 10 * second, Instance: windows[i]})
	}
	return e
}

func TestTheProcessorsLineLiesBetweenTheCostNowAndItsFall(t *testing.T) {
	var windows []Use
	for _, rate := range []float64{500, 1000, 2000, 4000, 8000} {
		busy := .33 * math.Pow(rate/12_000, .7) // of one loop of two, as batches make it
		windows = append(windows, Use{Requests: uint64(10 * rate), Busy: int64(2 * busy * 10e9)})
	}
	e := fed(windows...)
	truth := 12_000 * math.Pow(full/.33, 1/.7)
	cpu := e.Status(50 * second).Instance[0]
	if cpu.Capacity == nil || cpu.Capacity.Low > truth || cpu.Capacity.High < .99*truth ||
		cpu.Capacity.Estimate < .6*truth || cpu.Rate != 8000 ||
		!strings.Contains(cpu.How, "0.70") || cpu.Age != 0 {
		t.Errorf("%+v %+v; the loops are full at %.0f", cpu, cpu.Capacity, truth)
	}
	if h := cpu.Headroom; h == nil || math.Abs(h.Estimate-(1-8000/cpu.Capacity.Estimate)) > 1e-3 {
		t.Errorf("headroom %+v", h)
	}

	alike := Use{Requests: 80_000, Busy: 8e9}
	cpu = fed(alike, alike, alike).Status(30 * second).Instance[0]
	if cpu.Capacity == nil || math.Abs(cpu.Capacity.Low-8000*full/.4) > 1 ||
		!strings.Contains(cpu.How, "usual") {
		t.Errorf("%+v %+v", cpu, cpu.Capacity)
	}
}

// The packets of HTTP/3 are not the loops' work, and take the same processors.
func TestWhatIsDoneBesideTheLoopsCounts(t *testing.T) {
	line := func(cpu int64) Estimate {
		alike := Use{Requests: 80_000, Busy: 2e9, CPU: cpu, Processors: 2}
		return fed(alike, alike, alike).Status(30 * second).Instance[0]
	}
	// 20 s are in a window of two processors.
	few, many := line(1.5e9), line(8e9)
	if c := few.Capacity; c == nil || math.Abs(c.Low-8000*full/.1) > 1 || strings.Contains(few.How, "beside") {
		t.Errorf("the loops are busy for longer than the processors: %+v %+v", few, c)
	}
	if c := many.Capacity; c == nil || math.Abs(c.Low-8000*full/.4) > 1 || !strings.Contains(many.How, "beside") ||
		!strings.Contains(many.How, "100 µs") {
		t.Errorf("the processors are busy for longer than the loops: %+v %+v", many, c)
	}
}

func TestWhatIsNotKnownIsSaidToBe(t *testing.T) {
	idle := Use{Requests: 2000, Busy: 1e6, Clients: 5, ClientsAllowed: 1000}
	for name, c := range map[string]struct {
		windows []Use
		why     [3]string
	}{
		"nothing": {nil, [3]string{"too few", "too few", "too few"}},
		"idle":    {[]Use{idle, idle, idle}, [3]string{"too little", "", "nothing limits"}},
	} {
		s := fed(c.windows...).Status(30 * second)
		for i, why := range c.why {
			e := s.Instance[i]
			if (why == "") != (e.Capacity != nil) || !strings.Contains(e.Why, why) {
				t.Errorf("%s: %s: %+v", name, e.Name, e)
			}
		}
		if c.windows == nil && (s.Headroom != nil || s.Limit != "") {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestDescriptorsAndMemoryLimitTheRate(t *testing.T) {
	var windows []Use
	for _, rate := range []uint64{100, 200, 300, 400} {
		windows = append(windows, Use{
			Requests: 10 * rate, Busy: int64(rate) * 1e6, Clients: int64(2 * rate),
			ClientsAllowed: 4000, Memory: 50e6 + 100e3*rate, MemoryLimit: 130e6,
		})
	}
	s := fed(windows...).Status(40 * second)
	if c := s.Instance[1].Capacity; c == nil || c.Estimate != 2000 {
		t.Errorf("2 connections for each request a second, 4000 there are: %+v", s.Instance[1])
	}
	if c := s.Instance[2].Capacity; c == nil || math.Abs(c.Estimate-800) > 1 {
		t.Errorf("100 kB for each request a second, 40 MB are left at 400: %+v", s.Instance[2])
	}
	if s.Limit != "memory" || s.Headroom == nil || math.Abs(s.Headroom.Estimate-.5) > .01 {
		t.Errorf("%s has the least headroom, %+v", s.Limit, s.Headroom)
	}
}

// answered is what a target did in a window: so many requests of 5 ms that met nobody.
func answered(n uint64) *Seen {
	s := &Seen{Met: []Met{{n, float64(n) * 5e6, float64(n) * 25e12}}}
	for range n {
		s.Times.Record(5e6)
	}
	return s
}

func TestAnUpstreamAtItsLimitShowsWhatItCanDo(t *testing.T) {
	e := New(1)
	e.Configure([]Upstream{{Name: "u", Targets: []string{"a"}, Objective: Objective{Limit: second}}})
	for i, n := range []uint64{1000, 2000, 2100, 1900, 500} {
		e.Feed(&Window{
			End: int64(i+1) * 10 * second, Length: 10 * second,
			Seen:    map[Target]*Seen{{"u", "a"}: answered(n), {"gone", "a"}: answered(n)},
			Refused: map[string]uint64{"u": (n - min(n, 1500)) / 3},
		})
	}
	u := e.Status(60 * second).Upstreams[0]
	if u.Capacity == nil || *u.Capacity != (Interval{190, 200, 210}) || u.Rate != 50 ||
		u.Headroom.Estimate != .75 || u.Age != 20 || !strings.Contains(u.How, "limit") {
		t.Errorf("%+v %+v", u, u.Capacity)
	}
	e.Feed(&Window{End: 700 * second, Length: 10 * second})
	if u := e.Status(700 * second).Upstreams[0]; u.Capacity != nil || u.Why == "" {
		t.Errorf("eleven minutes later: %+v", u)
	}
}

// surveyed is a line of 1000 a second of target a.
func surveyed() *Line {
	return &Line{Rate: Interval{900, 1000, 1100}, Target: "a", Uncrowded: 5e6}
}

func TestASurveysLineCountsByHowSureItIs(t *testing.T) {
	measured := func(c Interval, l *Line, uncrowded float64) Estimate {
		e := Estimate{Capacity: &c, How: "traffic"}
		l.join(&e, &service{Upstream: Upstream{Targets: []string{"a"}}}, uncrowded, 0)
		return e
	}
	if e := measured(Interval{1040, 1080, 1120}, surveyed(), 5e6); e.Capacity.Estimate < 1050 ||
		e.Capacity.Estimate > 1080 || e.Capacity.High-e.Capacity.Low > 80 {
		t.Errorf("both agree: %+v", e.Capacity)
	}
	if e := measured(Interval{480, 500, 520}, surveyed(), 5e6); e.Capacity.Estimate != 500 ||
		!strings.Contains(e.How, "contradicts") {
		t.Errorf("half of it is measured: %+v %s", e.Capacity, e.How)
	}
	if e := measured(Interval{1900, 2000, 2100}, surveyed(), 9e6); e.Capacity.Estimate < 1900 ||
		!strings.Contains(e.How, "another") {
		t.Errorf("another mix was surveyed: %+v %s", e.Capacity, e.How)
	}
	unknown := Estimate{}
	surveyed().join(&unknown, &service{Upstream: Upstream{Targets: []string{"a", "b"}}}, 0, 7*second)
	if *unknown.Capacity != (Interval{1800, 2000, 2200}) || unknown.Age != 7 {
		t.Errorf("two targets, nothing measured: %+v", unknown)
	}
	elsewhere := surveyed()
	elsewhere.Target, elsewhere.Host, elsewhere.Elsewhere = "127.0.0.1:80", "other", true
	if why := elsewhere.Doubt([]string{"127.0.0.1:80"}); !strings.Contains(why, "other") {
		t.Errorf("a loopback address of another machine: %q", why)
	}
}

func FuzzReadLine(f *testing.F) {
	f.Add(`{"schema_version": 2, "target": "http://a/", "uncrowded_seconds": 1, "line": {"found": true,
		"rate_per_second": {"low": 1, "estimate": 2, "high": 3}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ReadLine([]byte(text))
		if err == nil && (!(l.Rate.Low > 0) || l.Target == "" || math.IsInf(l.Rate.High, 0)) {
			t.Errorf("%q gave %+v", text, l)
		}
	})
}

func TestAServiceThatChangedIsAnotherOne(t *testing.T) {
	quick, slow := span{length: part}, span{length: part}
	quick.Add(answered(1000))
	slow.Add(&Seen{Met: []Met{{1000, 1000 * 9e6, 0}}, Times: answered(1000).Times})
	if got := settled([]span{quick, quick, slow}); len(got) != 1 {
		t.Errorf("%d minutes are left of one after a deployment", len(got))
	}
	busier := slow
	busier.length = part / 3 // whom other loops' requests delay says nothing
	if got := settled([]span{quick, quick, busier}); len(got) != 3 {
		t.Errorf("%d minutes are left where the rate rose", len(got))
	}
}

func TestHistoriesAreBounded(t *testing.T) {
	e := New(1)
	var u Upstream
	u.Name = "u"
	for i := range mostTargets + 10 {
		u.Targets = append(u.Targets, time.Duration(i).String())
	}
	e.Configure([]Upstream{u})
	for now := int64(1); now <= 100; now++ {
		w := &Window{End: now * 10 * second, Length: 10 * second, Seen: map[Target]*Seen{}}
		for _, a := range u.Targets {
			w.Seen[Target{"u", a}] = &Seen{Failed: 1}
		}
		e.Feed(w)
	}
	if len(e.targets) != mostTargets {
		t.Errorf("%d targets have a history", len(e.targets))
	}
	for _, h := range e.targets {
		if len(h.parts) > kept+1 {
			t.Errorf("a history of %d parts", len(h.parts))
		}
	}
	e.Configure(nil)
	if len(e.targets) != 0 {
		t.Errorf("%d targets of an upstream that is gone", len(e.targets))
	}
}
