package plan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/plan"
	"plimsoll/internal/lab/record"
)

func cautions(p *plan.DeploymentPlan) string { return strings.Join(p.Cautions, "\n") }

// holding is a service whose requests hold a database connection for 20 ms each.
func holding(rate, most float64) func(float64) map[string]float64 {
	return func(t float64) map[string]float64 {
		v := cpu(rate)(t)
		v["db.in_use"], v["db.max_open"] = min(rate*.02, most), most
		return v
	}
}

func TestTheDatabasesConnectionsAreSharedByAllThatMayRun(t *testing.T) {
	run := func(most float64) *record.Run {
		return surveyed(step(1, 200, 64, holding(200, most)), step(2, 500, 64, holding(500, most)),
			step(3, 1000, 64, holding(1000, most)))
	}
	o := plan.Options{Rate: 8000, Headroom: .2, DatabaseConnections: 500}
	// Up to 11 instances, and 3 more in an update: 492 ÷ 14. Each has 758/s × 20 ms = 15.2
	// connections in use, and 12 more at peaks.
	p := planned(t, run(100), o)
	if a := p.Autoscaler; a.MaxReplicas != 11 || a.Surge != 3 {
		t.Fatalf("%+v", a)
	}
	d := p.Database
	if d.PerInstance.Value != 35 || d.Needed == nil || d.Needed.Value != 28 || !d.Enough ||
		strings.Contains(cautions(p), "will wait") {
		t.Errorf("%+v, %+v: %s", d, d.Needed, cautions(p))
	}
	o.DatabaseConnections = 200 // 192 ÷ 14
	p = planned(t, run(100), o)
	if d := p.Database; d.PerInstance.Value != 13 || d.Enough ||
		!strings.Contains(cautions(p), "may have 13 connections to the database and needs 28") {
		t.Errorf("%+v: %s", d, cautions(p))
	}
	o.DatabaseConnections = 12
	p = planned(t, run(100), o)
	if d := p.Database; d.PerInstance.Value != 0 ||
		!strings.Contains(cautions(p), "put a pooler") ||
		!strings.Contains(cautions(p), "more than 22") {
		t.Errorf("%+v: %s", d, cautions(p))
	}
	o.DatabaseConnections = 500
	if p = planned(t, run(10), o); !strings.Contains(cautions(p), "used up below the line") {
		t.Error(cautions(p))
	}
	if p = planned(t, usual(), o); p.Database.Needed != nil ||
		!strings.Contains(cautions(p), "--metrics") {
		t.Errorf("%+v: %s", p.Database, cautions(p))
	}
	o.DatabaseConnections = 0
	if p = planned(t, run(100), o); p.Database != nil {
		t.Errorf("nobody asked: %+v", p.Database)
	}
}

// holder is a step with this many connections, some of them active at once. The service takes 30
// MB, plus 20 kB per connection, plus 100 kB per active one.
func holder(number, connections, active int, noise float64) measure.Step {
	s := step(number, 300, connections, func(float64) map[string]float64 {
		return map[string]float64{
			"target.memory.rss_bytes": 30e6 + 20e3*float64(connections) + 100e3*float64(active) +
				noise,
		}
	})
	s.Totals.Peak = active
	return s
}

func TestMemoryIsModelledFromThePointsThatWereMeasured(t *testing.T) {
	p := planned(t, surveyed(holder(1, 100, 5, 0), holder(2, 1000, 5, 0), holder(3, 2000, 5, 0)),
		plan.Options{Rate: 100, Idle: 9000, Active: 0})
	m := p.Memory
	if m == nil || m.PerActive != nil {
		t.Fatalf("%+v: %v", m, p.Missing)
	}
	near(t, "a connection", m.PerConnection.Value, 20e3, 1e-6)
	near(t, "the rest", m.Base.Value, 30.5e6, 1e-6)
	near(t, "9000 connections", m.Total.Value, 210.5e6, 1e-6)
	near(t, "a million", m.Table[len(m.Table)-1].Bytes, 20e9+30.5e6, 1e-6)
	if m.Beyond != 4.5 || m.Table[len(m.Table)-1].Connections != 1_000_000 || len(m.Points) != 3 {
		t.Errorf("%+v", m)
	}
	if !strings.Contains(cautions(p), "kernel keeps of each connection") ||
		strings.Contains(cautions(p), "may bend") {
		t.Error(cautions(p))
	}
	p = planned(t, surveyed(holder(1, 100, 5, 0), holder(2, 1000, 5, 0), holder(3, 2000, 5, 0)),
		plan.Options{Rate: 100, Idle: 1_000_000})
	if !strings.Contains(cautions(p),
		"memory is asked for 500 times the connections that were measured") {
		t.Error(cautions(p))
	}
}

func TestActiveConnectionsAreToldFromIdleOnesWhereTheStepsDo(t *testing.T) {
	run := surveyed(holder(1, 100, 60, 0), holder(2, 500, 10, 0), holder(3, 1000, 400, 0),
		holder(4, 1500, 20, 0), holder(5, 2000, 900, 0), holder(6, 2000, 50, 0))
	m := planned(t, run, plan.Options{Rate: 100, Idle: 3000, Active: 1000}).Memory
	if m == nil || m.PerActive == nil {
		t.Fatalf("%+v", m)
	}
	near(t, "a connection", m.PerConnection.Value, 20e3, 1e-6)
	near(t, "an active one more", m.PerActive.Value, 100e3, 1e-6)
	near(t, "3000 idle and 1000 active", m.Total.Value, 30e6+4000*20e3+1000*100e3, 1e-6)
	together := surveyed()
	for i := range 7 {
		together.Steps = append(together.Steps, holder(i+1, 100*(i+1), 50*(i+1), 0))
	}
	if m := planned(t, together, plan.Options{Rate: 100, Active: 1000}).Memory; m == nil ||
		m.PerActive != nil {
		t.Errorf("where both always grow together, nothing tells them apart: %+v", m)
	}
}

func TestTheErrorOfTheMemoryGrowsWithTheDistance(t *testing.T) {
	// Of 400 runs with noise of 2 MB, nearly all have the true value within their interval, at 4000
	// connections and at a million.
	r := rand.New(rand.NewPCG(5, 6))
	const runs = 400
	inside := map[string]int{}
	for range runs {
		run := surveyed()
		for i, n := range []int{100, 400, 700, 1000, 1500, 2000} {
			run.Steps = append(run.Steps, holder(i+1, n, 5, 2e6*r.NormFloat64()))
		}
		m := planned(t, run, plan.Options{Rate: 100, Idle: 4000}).Memory
		if m == nil {
			t.Fatal("no model")
		}
		for what, d := range map[string]float64{
			"4000":         m.Total.Value - (30.5e6 + 4000*20e3),
			"a connection": 0,
		} {
			if what == "4000" && math.Abs(d) <= m.Error ||
				what == "a connection" &&
					math.Abs(m.PerConnection.Value-20e3) <= m.PerConnectionError {
				inside[what]++
			}
		}
		last := m.Table[len(m.Table)-1]
		if math.Abs(last.Bytes-(30.5e6+20e9)) <= last.Error {
			inside["a million"]++
		}
		for i := 1; i < len(m.Table); i++ {
			if m.Table[i].Error < m.Table[i-1].Error && m.Table[i].Connections > 2000 {
				t.Fatalf("%+v", m.Table)
			}
		}
	}
	for what, n := range inside {
		if n < runs*92/100 || what == "a connection" && n > runs*98/100 {
			t.Errorf("%s: the interval of 95 %% holds the truth in %d of %d", what, n, runs)
		}
	}
}

func TestFewPointsAreNotALine(t *testing.T) {
	for name, run := range map[string]*record.Run{
		"none": usual(),
		"two":  surveyed(holder(1, 100, 5, 0), holder(2, 1000, 5, 0)),
		"two, again": surveyed(holder(1, 100, 5, 0), holder(2, 1000, 5, 0),
			holder(3, 1000, 5, 9), holder(4, 102, 5, 9)),
		"it does not grow": surveyed(holder(1, 100, 5, 0), holder(2, 1000, 5, -30e6),
			holder(3, 2000, 5, -60e6)),
		"a recovering heap": surveyed(holder(1, 100, 5, 0), holder(2, 1000, 5, 0),
			phase("recovery", holder(3, 2000, 5, 0)), phase("warm-up", holder(4, 500, 5, 0))),
	} {
		p := planned(t, run, plan.Options{Rate: 100, Idle: 5000})
		if p.Memory != nil || !strings.Contains(strings.Join(p.Missing, "\n"), "--memory DIR") {
			t.Errorf("%s: %+v, %q", name, p.Memory, p.Missing)
		}
		if p := planned(t, run, plan.Options{Rate: 100}); strings.Contains(strings.Join(p.Missing,
			"\n"), "memory for") {
			t.Errorf("%s: nobody asked, and yet: %q", name, p.Missing)
		}
	}
}

func phase(name string, s measure.Step) measure.Step {
	s.Plan.Phase = name
	return s
}

func TestFurtherRunsGiveFurtherPoints(t *testing.T) {
	one := func(n int) *record.Run { return surveyed(holder(1, n, 5, 0)) }
	p, err := plan.Make(one(100), []*record.Run{one(1000), one(5000)},
		plan.Options{Rate: 100, Idle: 5000})
	if err != nil || p.Memory == nil || len(p.Memory.Points) != 3 {
		t.Fatalf("%+v, %v", p, err)
	}
	near(t, "a connection", p.Memory.PerConnection.Value, 20e3, 1e-6)
}

func TestOpenConnectionsAreTakenFromTheListenerWhereItTells(t *testing.T) {
	run := surveyed()
	for i, n := range []int{100, 1000, 2000} {
		s := holder(i+1, n, 5, 0)
		for _, sample := range s.Samples {
			sample.Values["listener.connections.established"] = float64(2 * n)
		}
		run.Steps = append(run.Steps, s)
	}
	m := planned(t, run, plan.Options{Rate: 100, Idle: 5000}).Memory
	if m == nil {
		t.Fatal("no model")
	}
	near(t, "a connection", m.PerConnection.Value, 10e3, 1e-6)
}

func TestARunThatWasWrittenIsPlannedAsOneThatWasNot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	run := usual()
	w, err := record.Create(dir, run.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	for i := range run.Steps {
		if err := w.Step(&run.Steps[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Result(run.Result); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	read, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	o := plan.Options{Rate: 40000, Headroom: .2, Zones: 3, DatabaseConnections: 500}
	if a, b := planned(t, run, o), planned(t, read, o); fmt.Sprintf("%+v", *a.Autoscaler) !=
		fmt.Sprintf("%+v", *b.Autoscaler) {
		t.Errorf("%+v\n%+v", a.Autoscaler, b.Autoscaler)
	}
}
