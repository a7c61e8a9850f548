package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// idleService changes base so that processors have room: something else saturates.
var idleService = []string{"all host.cpu.busy_seconds += .4", "all target.cpu.seconds += .2"}

func diagnosed(t *testing.T, lines ...string) *Diagnosis {
	t.Helper()
	return Run(newFixture(t, slices.Concat(strings.Split(base, "\n"), lines)...).open(t))
}

// found returns a rule's finding; nil if it was not claimed.
func (d *Diagnosis) found(rule string) *Finding {
	for i := range d.Findings {
		if d.Findings[i].Rule == rule {
			return &d.Findings[i]
		}
	}
	return nil
}

func TestWhereNoLineWasFoundNothingIsSaidToSetIt(t *testing.T) {
	d := diagnosed(t, append(idleService, "no line", "at-line go.mutex.wait_seconds += 15",
		"at-line connections 900", "all listener.connections.time_wait = 4000",
		"all listener.clients.time_wait = 0",
		"at-line profile cpu nanoseconds 4000000000 regexp.compile < main.slug < main.handle < "+
			"net/http.(*conn).serve")...)
	if d.First.What != "unknown" || !strings.Contains(d.First.Why, "not reached") {
		t.Errorf("bottleneck: %+v", d.First)
	}
	for _, f := range d.Findings {
		if f.Rank <= Binding {
			t.Errorf("%s is said to set a line that nobody found", f.Rule)
		}
	}
	if d.found("cpu-hot-function") != nil {
		t.Error("a function is called hot on a processor that is hardly used")
	}
	if d.found("client-connections-closed") == nil || d.found("lock-contention") == nil {
		t.Errorf("what costs is still told: %v", names(d))
	}
}

func TestARiskDoesNotHideWhatSetsTheLine(t *testing.T) {
	d := diagnosed(t, append(idleService, "at-line service 20ms", "over goodput 1010",
		"all db.max_open = 0", "all db.server_limit = 100", "all db.open = 4")...)
	if got := names(d); !slices.Equal(got, []string{
		"slow-dependency", "database-pool-above-limit",
	}) {
		t.Errorf("found %v", got)
	}
}

func TestARuleThatCouldNotHaveSeenItsDiseaseSaysSo(t *testing.T) {
	d := diagnosed(t, "all listener.connections.close_wait = 0",
		"all listener.connections.established = 50")
	at := slices.IndexFunc(d.NotJudged, func(n NotJudged) bool {
		return n.Rule == "context-not-passed"
	})
	if at < 0 || !strings.Contains(d.NotJudged[at].Missing, "--timeout") {
		t.Errorf("nobody gave up beyond the line, and it is said: %+v", d.NotJudged)
	}
}

// The queue of those that have left grows for as long as more is asked than is served, which may be
// for a part of a step only.
func TestClientsThatHaveLeftAreCountedWhenTheyAreTheMost(t *testing.T) {
	lines := []string{
		"all listener.connections.established = 32", "all listener.connections.close_wait = 0",
		"over failed timeout .3",
	}
	for left, want := range map[string]bool{"0 to 14": true, "0 to 4": false} {
		d := diagnosed(t, append(lines, "over listener.connections.close_wait = "+left)...)
		if f := d.found("context-not-passed"); (f != nil) != want || want && !f.says("14.0 clients") {
			t.Errorf("%s: found %v, held back %+v, not judged %+v", left, names(d), d.HeldBack, d.NotJudged)
		}
	}
}

// Where 60 % of two processors are busy, requests that compute for 8 ms make 16 % of them wait for over
// 10 ms; requests of 1.2 ms make hardly any wait. No percentile is over 117.4 ms, where the page's last
// bucket begins.
func TestRequestsThatTakeTurnsAreNotABurstOfGoroutines(t *testing.T) {
	for _, c := range []struct {
		goodput, wait string
		want          bool
	}{
		{"1000", ".011", true}, {"330", ".06", false}, {"330", ".11", true},
		{"150", ".06", false}, {"150", ".11", false}, {"150", ".115", true},
		{"1000", ".1174", true}, {"150", ".1174", true}, {"40", ".11", false}, {"40", ".1174", false},
		{"50", ".1169", false},
	} {
		d := diagnosed(t, "all host.cpu.busy_seconds += 1.3", "at-line host.cpu.busy_seconds += 1.3",
			"all target.cpu.seconds += 1.2", "at-line target.cpu.seconds += 1.2",
			"at-line goodput "+c.goodput, "all go.sched.latency.p99_seconds = "+c.wait)
		if f := d.found("scheduler-latency"); (f != nil) != c.want {
			t.Errorf("%s a second, %s s: found %v, held back %v", c.goodput, c.wait, names(d), d.HeldBack)
		}
	}
}

func TestGoroutinesOfConnectionsThatClientsKeepAreNotALeak(t *testing.T) {
	lines := []string{
		"all go.goroutines = 40",
		"after go.goroutines = 9000",
		"all listener.connections.established = 30",
	}
	if d := diagnosed(t, lines...); d.found("goroutine-leak") == nil {
		t.Fatalf("found %v", names(d))
	}
	if d := diagnosed(t, append(lines,
		"after listener.connections.established = 8990")...); d.found(
		"goroutine-leak") != nil {
		t.Errorf("it has a connection for each of them: %+v", d.found("goroutine-leak"))
	}
}

func TestGoroutinesOfPooledConnectionsAreNotALeak(t *testing.T) {
	lines := []string{"all go.goroutines = 1000", "after go.goroutines = 1160"}
	if d := diagnosed(t, lines...); d.found("goroutine-leak") == nil {
		t.Fatalf("found %v", names(d))
	}
	// As many connections as requests were once under way, which are idle now.
	pooled := append(lines, "all target.outgoing.established = 5",
		"over target.outgoing.established = 85")
	if d := diagnosed(t, pooled...); d.found("goroutine-leak") != nil {
		t.Errorf("a pool: found %+v", d.found("goroutine-leak"))
	}
	// Nobody's pool has more connections than requests were ever under way.
	lost := append(pooled, "over target.outgoing.established = 4000", "after go.goroutines = 9000")
	if d := diagnosed(t, lost...); d.found("goroutine-leak") == nil {
		t.Errorf("connections that are lost: found %v", names(d))
	}
}

// What holds it up is where it may run, and no setting of its runtime.
func TestAServiceThatIsPinnedIsToldOfItsAffinity(t *testing.T) {
	lines := []string{
		"all host.cores = 8",
		"all go.gomaxprocs = 2",
		"at-line target.cpu.seconds += 1.9",
		"at-line host.cpu.busy_seconds += 2.1",
	}
	if d := diagnosed(t, lines...); d.found("gomaxprocs-low") == nil {
		t.Fatalf("found %v", names(d))
	}
	d := diagnosed(t, append(lines, "all target.cores_allowed = 2")...)
	f := d.found("single-threaded")
	if len(d.Findings) != 1 || f == nil || !strings.Contains(f.Claim, "2 of the machine's 8") ||
		!f.says("taskset -pc") || f.says("GOMAXPROCS") || f.Gain.Factor < 3 {
		t.Errorf("found %v: %+v", names(d), f)
	}
	// Objectives may be missed long before they are in use to the full.
	early := append(lines, "all target.cores_allowed = 2", "at-line target.cpu.seconds += 1.3",
		"over target.cpu.seconds += 1.5")
	if d := diagnosed(t, early...); d.found("single-threaded") == nil {
		t.Errorf("65 %% at the line: found %v", names(d))
	}
	// It waits for something else, or the other processors are busy with others.
	for _, line := range []string{
		"all target.cpu.seconds += .8", "all host.cpu.busy_seconds += 7.9",
	} {
		if d := diagnosed(t, append(lines, "all target.cores_allowed = 2", line)...); d.found(
			"single-threaded") != nil {
			t.Errorf("%s: found %v", line, names(d))
		}
	}
}

func TestThePoolThatIsAdvisedIsOneThatTheDatabaseAllows(t *testing.T) {
	lines := append(idleService, "all db.max_open = 10", "all db.in_use = 9.9",
		"at-line db.wait_seconds += 10", "all db.wait_seconds += 0", "at-line db.wait_seconds += 10",
		"all db.waits += 5")
	for limit, want := range map[string]string{
		"all db.server_limit = 0":  "SetMaxOpenConns(80)",
		"all db.server_limit = 50": "SetMaxOpenConns(40)",
	} {
		f := diagnosed(t, append(lines, limit)...).found("database-pool-small")
		if f == nil {
			t.Fatal("it is not found")
		}
		if !strings.Contains(f.Advice[0].Command, want) || f.Gain.Low > f.Gain.Factor ||
			f.Gain.High < f.Gain.Factor {
			t.Errorf("%s: %q, want %s; gain %+v", limit, f.Advice[0].Command, want, f.Gain)
		}
	}
}

func TestTheCollectorsAdviceFitsWhatBringsItsCycles(t *testing.T) {
	half := []string{
		"at-line profile cpu nanoseconds 3000000000 runtime.scanobject < runtime.gcBgMarkWorker",
		"at-line profile cpu nanoseconds 3000000000 main.handle < net/http.(*conn).serve",
		"at-line go.heap.live_bytes = 200000000",
		"all host.memory.available_bytes = 8000000000",
	}
	for name, c := range map[string]struct {
		lines     []string
		says, not string
		gains     bool
	}{
		"by GOGC": {
			[]string{"at-line go.gogc_percent = 100", "at-line go.heap.goal_bytes = 400000000"},
			"GOGC=800", "the memory limit leaves", true,
		},
		"by the memory limit": {
			[]string{
				"at-line go.gogc_percent = -1",
				"at-line go.heap.goal_bytes = 230000000",
				"at-line go.memory_limit_bytes = 260000000",
			},
			"the memory limit leaves",
			"GOGC=",
			true,
		},
		"off, and nothing is known of the goal": {[]string{"at-line go.gogc_percent = -1"}, "make less garbage", "collect less often", false},
		"by GOGC, where no limit is set": {
			[]string{"at-line go.gogc_percent = 100", "at-line go.heap.goal_bytes = 210000000"},
			"GOGC=800", "the memory limit leaves", true,
		},
		"rare already": {
			[]string{"at-line go.gogc_percent = 1000", "at-line go.heap.goal_bytes = 2200000000"},
			"make less garbage", "collect less often", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := diagnosed(t, append(half, c.lines...)...).found("gc-heavy")
			if f == nil {
				t.Fatal("it is not found")
			}
			said := ""
			for _, a := range f.Advice {
				said += a.Text + " $ " + a.Command + "\n"
			}
			if !strings.Contains(said, c.says) || strings.Contains(said, c.not) {
				t.Errorf("it is advised:\n%s", said)
			}
			if f.Gain.Factor < 1 || f.Gain.Factor > 2.2 || f.Gain.Low > f.Gain.Factor ||
				f.Gain.High < f.Gain.Factor || (f.Gain.Factor > 1.1) != c.gains {
				t.Errorf("half of the processor time is collection, and the gain is %+v", f.Gain)
			}
		})
	}
}

func TestOfACollectorThatOnlyProfilesShowNothingIsSaidThatWasNotMeasured(t *testing.T) {
	f := diagnosed(t,
		"at-line profile cpu nanoseconds 1000000000 runtime.scanobject < runtime.gcBgMarkWorker",
		"at-line profile cpu nanoseconds 1000000000 main.show < net/http.(*conn).serve",
		"at-line profile allocs bytes 900000000 compress/flate.NewWriter < main.pack < net/http.(*conn).serve",
		"at-line profile allocs bytes 20000000 main.show < net/http.(*conn).serve",
	).found("gc-heavy")
	if f == nil {
		t.Fatal("it is not found")
	}
	said := fmt.Sprint(f.Evidence, f.Advice)
	if strings.Contains(said, " 0 B") || strings.Contains(said, "0 a second") {
		t.Errorf("what was not measured is said to be 0: %s", said)
	}
	if !strings.Contains(said, "compress/flate.NewWriter (97.8 %)") || strings.Contains(said, "main.show (") {
		t.Errorf("who allocates is not named: %s", said)
	}
}

func TestAHandlerThatCallsManyThingsIsNotAHotFunction(t *testing.T) {
	lines := []string{"at-line profile cpu nanoseconds 1000000000 net/http.(*conn).serve"}
	for _, leaf := range []string{
		"text/template.(*state).walk", "reflect.Value.call", "fmt.(*pp).printArg",
		"html.EscapeString", "strconv.AppendInt",
	} {
		lines = append(lines, "at-line profile cpu nanoseconds 800000000 "+leaf+
			" < html/template.(*Template).Execute < main.page < net/http.(*conn).serve")
	}
	if d := diagnosed(t, lines...); len(d.Findings) != 0 {
		t.Errorf("found %v", names(d))
	}
	d := diagnosed(t, append(lines, "at-line profile cpu nanoseconds 9000000000 "+
		"runtime.growslice < main.page < net/http.(*conn).serve")...)
	f := d.found("cpu-hot-function")
	if f == nil || !strings.Contains(f.Evidence[1].What, "its own code") {
		t.Errorf("what it does itself makes it one: %+v", f)
	}
}

func TestWhatDoesNotGiveGainsNothing(t *testing.T) {
	e := &Evidence{
		Reserves: []Reserve{{What: hostProcessor, Used: 1.3, Capacity: 2, target: true}},
		Run:      &record.Run{},
	}
	if g := e.processorGain(cure{}, false); g.Factor != 1 {
		t.Errorf("nothing is saved, and the gain is %+v", g)
	}
	// What saving a quarter and a half of the processor time brings: the shorter requests are, the
	// more of the processors a service uses at its line.
	for saves, want := range map[float64]float64{.25: 1.75, .5: 3.53} {
		e.Reserves = []Reserve{{What: targetProcessor, Used: 1.3, Capacity: 2, target: true}}
		if f := e.faster(cure{saves: saves}); math.Abs(f-want) > .01 {
			t.Errorf("a service that is 65 %% busy and saves %v of that gains %v, want %v",
				saves, f, want)
		}
	}
}

func TestReadingAndWritingIsNotAFunctionsOwnWork(t *testing.T) {
	d := diagnosed(
		t,
		"at-line profile cpu nanoseconds 4000000000 internal/runtime/syscall.Syscall6 < "+
			"internal/poll.(*FD).Write < net.(*netFD).Write < net.(*conn).Write < main.download "+
			"< net/http.(*conn).serve",
		"at-line profile cpu nanoseconds 1000000000 net/http.(*conn).serve",
	)
	if len(d.Findings) != 0 {
		t.Errorf("found %v", names(d))
	}
}

func TestWhereProcessorsGiveFirstTheFunctionsThatTakeThemAreTold(t *testing.T) {
	d := diagnosed(
		t,
		"half profile cpu nanoseconds 1000000000 main.price < net/http.(*conn).serve",
		"half profile cpu nanoseconds 3000000000 main.page < net/http.(*conn).serve",
		"at-line profile cpu nanoseconds 3000000000 main.price < net/http.(*conn).serve",
		"at-line profile cpu nanoseconds 3000000000 main.page < net/http.(*conn).serve",
	)
	if len(d.First.Where) != 2 {
		t.Fatalf("%+v", d.First)
	}
	at := slices.IndexFunc(d.First.Where, func(s Spender) bool {
		return s.Function == "main.price"
	})
	// 1.5 processors for 1,000 requests a second, and .75 for 500.
	if s := d.First.Where[at]; s.Share != .5 || s.PerRequest < .74e-3 || s.PerRequest > .76e-3 ||
		s.AtHalf < .374e-3 || s.AtHalf > .376e-3 {
		t.Errorf("%+v", s)
	}
}

func TestWhatTheKernelCountedIsTold(t *testing.T) {
	d := diagnosed(t, "half bpf.offcpu.runnable_seconds += .05",
		"at-line bpf.offcpu.runnable_seconds += 2", "at-line perf.cycles += 3000000000",
		"at-line perf.instructions += 6000000000",
		"at-line bpf.retransmits += 12", "at-line bpf.retransmits.of.8080-192.0.2.7:443 += 10",
		"at-line bpf.retransmits.of.8080-192.0.2.8:443 += 2")
	said := ""
	for _, f := range d.Kernel {
		said += f.What + ": " + f.Value + "\n"
	}
	for _, want := range []string{
		"waited for a processor: 2.00 ms a request, at half of the line 100 µs a request",
		"instructions for each cycle: 2.00",
		"sent again in its network namespace: 12.0 a second",
		"by the connection 8080-192.0.2.7:443",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if d := diagnosed(t); len(d.Kernel) != 0 {
		t.Errorf("nothing was counted: %+v", d.Kernel)
	}
}

func TestACommandHasWhatTheRunKnows(t *testing.T) {
	run := newFixture(t, append(strings.Split(base, "\n"), "all go.goroutines = 40",
		"after go.goroutines = 9000")...).open(t)
	run.Manifest.Target = "http://127.0.0.1:8080/PORT"
	run.Manifest.Command = []string{
		"plimsoll", "survey", "--pprof", "http://127.0.0.1:6060/debug/pprof/",
	}
	e := newEvidence(run)
	for command, want := range map[string]string{
		"plimsoll survey TARGET --slo OBJECTIVES": "plimsoll survey http://127.0.0.1:8080/PORT " +
			"--slo 'p99<50ms'",
		"ss '( sport = :PORT )'": "ss '( sport = :8080 )'",
		// of either form that --pprof takes
		"curl 'INSIDE/debug/pprof/trace'": "curl 'http://127.0.0.1:6060/debug/pprof/trace'",
	} {
		if got := e.filled(command); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for target, inside := range map[string]string{"no url at all %%": "'; rm x", "": ""} {
		run.Manifest.Target = target
		run.Manifest.Command = []string{"plimsoll", "--pprof=" + inside}
		if got := e.filled("TARGET PORT INSIDE"); got != "TARGET PORT INSIDE" {
			t.Errorf("of %q and %q comes %q", target, inside, got)
		}
	}
}

func TestProcessorsAtThreeQuartersAreTheBottleneckWhereNothingElseIs(t *testing.T) {
	lines := []string{
		"at-line host.cpu.busy_seconds += 1.5",
		"at-line target.cpu.seconds += 1.4",
		"half host.cpu.busy_seconds += .7",
		"half target.cpu.seconds += .6",
		"at-line profile cpu nanoseconds 4000000000 regexp.compile < main.slug < main.handle < " +
			"net/http.(*conn).serve",
		"at-line profile cpu nanoseconds 2000000000 net/http.(*conn).serve",
	}
	d := diagnosed(t, lines...)
	f := d.found("cpu-hot-function")
	if f == nil || f.Gain.Factor < 2 || d.First.What != hostProcessor || f.Verify.Command == "" {
		t.Errorf("first %+v; %+v", d.First, f)
	}
	d = diagnosed(t, append(lines, "at-line go.mutex.wait_seconds += 11")...)
	if got := names(d); !slices.Equal(got, []string{"lock-contention", "cpu-hot-function"}) ||
		d.found("cpu-hot-function").Gain.Factor != 1 {
		t.Errorf("a lock sets the line, and what is saved elsewhere gains nothing yet: %+v",
			d.Findings)
	}
}

func TestOnlyASurveyWithAStepCanBeDiagnosed(t *testing.T) {
	survey := record.Manifest{Kind: record.KindSurvey}
	steps := []measure.Step{{}}
	for _, c := range []struct {
		run  record.Run
		want string
	}{
		{record.Run{Dir: "a", Manifest: survey, Steps: steps}, ""},
		{record.Run{Dir: "a", Manifest: survey}, "a has no whole step to look at"},
		{
			record.Run{Dir: "a", Manifest: record.Manifest{Kind: record.KindLoad}, Steps: steps},
			"a is a run of plimsoll load: only plimsoll survey finds the bottleneck",
		},
	} {
		got := ""
		if err := Possible(&c.run); err != nil {
			got = err.Error()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestAGainEndsWhereTheBusiestThreadHasNothingLeft(t *testing.T) {
	lines := append(idleService, "all target.threads.hottest_share = 0.5",
		"half target.threads.hottest_share = 0.25")
	for runtime, bound := range map[string]bool{measure.RuntimeNode: true, measure.RuntimeGo: false} {
		run := newFixture(t, slices.Concat(strings.Split(base, "\n"), lines)...).open(t)
		run.Manifest.Machine.TargetRuntime = runtime
		g := newEvidence(run).gain(cure{})
		if found := strings.Contains(g.Why, "busiest thread"); found != bound {
			t.Errorf("%s: %s", runtime, g.Why)
		}
	}
}

func TestTimeIsSavedWhereRequestsWaitForOneThread(t *testing.T) {
	for share, gains := range map[string]bool{"0.65": true, "0.2": false} {
		lines := append(idleService, "all target.threads.hottest_share = "+share,
			"half target.threads.hottest_share = 0.1")
		run := newFixture(t, slices.Concat(strings.Split(base, "\n"), lines)...).open(t)
		run.Manifest.Machine.TargetRuntime = measure.RuntimeNode
		if g := newEvidence(run).processorGain(cure{saves: .7}, false); (g.Factor > 1) != gains {
			t.Errorf("a thread that is busy %s of the time: %+v", share, g)
		}
	}
}

func TestDescriptorsAreComparedWithTheLimitOfTheirProcess(t *testing.T) {
	d := diagnosed(t, append(idleService, "all target.descriptors_most = 15",
		"all target.descriptors_limit = 1024", "over target.descriptors_most = 5000",
		"over target.descriptors_limit = 16384")...)
	if d.found("descriptors-near-limit") != nil {
		t.Errorf("a worker's descriptors with its master's limit: found %v", names(d))
	}
}

func TestWhereItIsNotKnownWhetherAnAnswerIsWaitedForAllConnectionsMayBe(t *testing.T) {
	lines := append(strings.Split(base, "\n"), "all target.outgoing.to.127.0.0.1:6379 = 1",
		"all target.outgoing.waiting.127.0.0.1:6379 = 0", "all target.outgoing.to.unix:/run/db = 20")
	if g := newEvidence(newFixture(t, lines...).open(t)).askers(); g.most < 20 {
		t.Errorf("%v may wait for an answer", g.most)
	}
}
