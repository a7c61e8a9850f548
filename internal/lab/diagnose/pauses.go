package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/slo"
)

const (
	// longPause is the shortest collection, in seconds, that clients may notice.
	longPause = 20e-3
	// pausesTo is the share of the line up to which steps are checked for pauses. It is above 1
	// because pauses are rare, and because allocation grows only in proportion to the load.
	pausesTo = 1.2
	// leastPauses is the minimum number of long pauses. A single one may be chance, or happen once
	// in a JVM's life.
	leastPauses = 2
)

// pausesRule is about a collector that stops the service for long.
var pausesRule = Rule{
	Name:  "gc-pauses",
	Claim: "The collector stops the service for long",
	Needs: []string{
		measure.GoGCPauseP50 + "|" + measure.TargetCollecting,
		measure.GoGCPauseP95 + "|" + measure.TargetCollecting,
	},
	Threshold: "median over 5 ms, or 95th percentile over 20 ms; of a JVM two collections of " +
		"over 20 ms, or more, that are longer than an objective allows, for a larger share of " +
		"the time than it allows",
	Reason: "Go's pauses are well under a millisecond, and such ones are the tail that clients " +
		"see; a JVM's depend on the collector and the heap, and a request that meets one waits " +
		"for its end",
	Judge: func(e *Evidence) *Finding {
		if e.has(measure.TargetCollecting) {
			return e.stopsForLong()
		}
		return e.stopsGo()
	},
	Counters: []Counter{
		{
			"the cgroup's quota stopped the process, its pauses with it",
			func(e *Evidence) (string, bool) {
				throttled := e.AtLine.PerSecond(measure.TargetCgroupThrottled)
				return span(throttled) + " a second", throttled > .01
			},
		},
		othersBusy,
	},
}

// stopsGo is the finding that Go's collector stops the service for long, according to the pauses on
// its metrics page.
func (e *Evidence) stopsGo() *Finding {
	p50 := e.AtLine.Median(measure.GoGCPauseP50)
	p95 := e.AtLine.Median(measure.GoGCPauseP95)
	if p50 <= 5e-3 && p95 <= 20e-3 {
		return nil
	}
	return &Finding{
		Claim: fmt.Sprintf("The collector stops the service for %s (median) "+
			"and %s (95th percentile)", span(p50), span(p95)),
		Rank:       rankOf(e.idle()),
		Confidence: .8,
		Evidence: []Fact{
			{What: "median pause at the line", Value: span(p50)},
			{What: "95th percentile", Value: span(p95)},
			{
				What:  "at half of the line",
				Value: span(e.Half.Median(measure.GoGCPauseP50)),
			},
			{What: "goroutines", Value: number(e.AtLine.Mean(measure.GoGoroutines))},
		},
		Gain: Gain{
			Factor: 1.1,
			Low:    1,
			High:   2,
			Why:    "pauses are in the tail, and what the SLO says of the tail decides",
		},
		Advice: []Action{
			{
				Text: "see what stops: a trace shows each pause and what ran before it",
				Command: e.filled("curl -o trace 'INSIDE/debug/pprof/trace?seconds=5' && " +
					"go tool trace trace"),
			},
			{
				Text: "have fewer goroutines and no loops without calls in assembly or C, " +
					"which are what a stop waits for; leave processors to the collector",
			},
		},
	}
}

// pauses are what one collector of a JVM did near the line. Times are in seconds.
type pauses struct {
	collector string // the JVM's name for it
	count     float64
	stopped   float64 // how long it stopped the service
	long      float64 // the part of that in pauses of at least the given length
	longs     float64 // the number of those pauses
	longest   float64
}

// collected returns a JVM's collectors near the line, and the seconds for which they were observed.
// The collector that stopped the service longest, in pauses of at least the given length, comes
// first.
func (e *Evidence) collected(least float64) (all []pauses, seconds float64) {
	by := map[string]*pauses{}
	for i := range e.Run.Steps {
		m := &Moment{Step: &e.Run.Steps[i], near: e.Run.Manifest.Machine.TargetLocal}
		rate := m.Step.Plan.Rate
		near := rate >= nearFrom*e.Line && rate <= pausesTo*e.Line
		if rate == 0 || !near || m.Step.Plan.Phase == measure.PhaseOverload {
			continue
		}
		longest := 0.0
		for name := range m.last() {
			of, is := strings.CutPrefix(name, measure.TargetCollecting)
			if !is {
				continue
			}
			if by[of] == nil {
				by[of] = &pauses{collector: of}
			}
			longest = max(longest, by[of].add(m, least))
		}
		seconds += longest
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		all = append(all, *by[name])
	}
	slices.SortStableFunc(all, func(a, b pauses) int {
		return cmp.Or(cmp.Compare(b.long, a.long), cmp.Compare(b.stopped, a.stopped))
	})
	return all, seconds
}

// add adds a step's samples, and returns for how many seconds the step was observed. There is
// rarely more than one long collection between two samples. If there is one, its length is known;
// otherwise the mean is used. The JVM counts a collection when it begins, and its time when it
// ends.
func (p *pauses) add(m *Moment, least float64) (seconds float64) {
	times, from, to := m.values(measure.TargetCollecting + p.collector)
	counts, _, _ := m.values(measure.TargetCollections + p.collector)
	begun := 0.0
	for i := 1; i < min(len(times), len(counts)); i++ {
		begun += max(counts[i]-counts[i-1], 0)
		took := times[i] - times[i-1]
		if took <= 0 {
			continue
		}
		n := max(begun, 1)
		begun = 0
		p.count, p.stopped = p.count+n, p.stopped+took
		p.longest = max(p.longest, took/n)
		if took/n >= least {
			p.long, p.longs = p.long+took, p.longs+n
		}
	}
	return float64(to-from) / 1e9
}

// broken is an objective that the service misses because of pauses: a request that meets such a
// pause takes longer than allowed, and more requests meet one than allowed.
type broken struct {
	objective slo.Objective
	by        pauses
	all       []pauses
	share     float64 // of the requests that meet such a pause
	seconds   float64 // for which collections were observed
}

// breaks returns the objective that the collector breaks near the line; nil if it breaks none.
func (e *Evidence) breaks() *broken {
	objectives, err := slo.Parse(e.Run.Manifest.SLO)
	if err != nil || e.Line == 0 {
		return nil
	}
	var worst *broken
	for _, o := range objectives {
		if o.Limit == 0 {
			continue
		}
		all, seconds := e.collected(max(longPause, float64(o.Limit)/1e9-e.alone()))
		if len(all) == 0 || seconds <= 0 {
			continue
		}
		long, n := 0.0, 0.0
		for _, p := range all {
			long, n = long+p.long, n+p.longs
		}
		if n < leastPauses {
			continue
		}
		b := &broken{o, all[0], all, long / seconds, seconds}
		if b.share > o.Share && (worst == nil || b.share/o.Share > worst.share/worst.objective.Share) {
			worst = b
		}
	}
	return worst
}

// stopsForLong is the finding that a JVM's collector makes it miss an objective; nil if it does
// not. A collector that takes much of the total time is reported by gc-heavy instead.
func (e *Evidence) stopsForLong() *Finding {
	b := e.breaks()
	if b == nil || e.collectedElsewhere() != nil {
		return nil
	}
	rank := Binding
	if e.processorBound() {
		rank = Cost
	}
	f := &Finding{
		Claim: fmt.Sprintf("The collector (%q) stops the service for %s each %s, so that %s of "+
			"the requests meet a pause that %s does not allow for", b.by.collector,
			span(b.by.long/max(b.by.longs, 1)), span(b.seconds/max(b.by.longs, 1)),
			percent(b.share), b.objective.Text),
		Rank:       rank,
		Confidence: .85,
		Evidence: append([]Fact{{
			What: "share of the time near the line in such pauses, and what " +
				b.objective.Text + " allows",
			Value: percent(b.share) + ", " + percent(b.objective.Share),
		}}, didNear(b.all, b.seconds)...),
		Gain:     e.gainIf(rank == Binding),
		whatever: rank == Binding,
	}
	if points := e.AtLine.PerSecond(measure.TargetSafepointTime); points > 0 {
		f.Evidence = append(f.Evidence, Fact{
			What:  "for which all threads were stopped, for whatever reason, at the line",
			Value: percent(points) + " of the time",
		})
	}
	f.Advice = e.shorterPauses(b.by.collector)
	e.tellReason(f)
	return f
}

// didNear returns what each collector did near the line.
func didNear(collectors []pauses, seconds float64) (all []Fact) {
	for _, p := range collectors {
		if p.count == 0 {
			continue
		}
		all = append(all, Fact{
			What: fmt.Sprintf("collections by %q in %s near the line; their mean, and the longest",
				p.collector, span(seconds)),
			Value: number(p.count) + "; " + span(p.stopped/p.count) + ", " + span(p.longest),
		})
	}
	return all
}

// shorterPauses returns how to make a JVM's collector stop the service for less time.
func (e *Evidence) shorterPauses(collector string) []Action {
	other := Action{
		Text: "choose a collector with shorter pauses: G1 looks at a part of the heap at a time, " +
			"and ZGC and Shenandoah work beside the service",
		Command: "java -XX:+UseG1GC -XX:MaxGCPauseMillis=20 …   # or -XX:+UseZGC, with more memory",
	}
	if strings.HasPrefix(collector, "G1") {
		other = Action{
			Text: "choose a collector that works beside the service: ZGC or Shenandoah; or give G1 " +
				"a shorter goal, and see that it starts early enough not to have to collect all at once",
			Command: "java -XX:+UseZGC …   # or -XX:MaxGCPauseMillis=20 " +
				"-XX:InitiatingHeapOccupancyPercent=30",
		}
	}
	return []Action{
		other,
		{
			Text: "allocate less that lives for long or is large: a large array goes into the old " +
				"generation at once (in G1 from half a region on, as a humongous object), which is " +
				"collected as a whole when it is full: use arrays again (a pool, a ThreadLocal), or " +
				"keep them in pieces; see who allocates",
			Command: e.filled("jcmd PID JFR.start settings=profile duration=30s " +
				"filename=/tmp/alloc.jfr"),
		},
		{
			Text: "give the heap more room, so that collections of the old generation come less " +
				"often; and the young one, so that what is short-lived is dead before it is looked at",
			Command: "java -Xms2g -Xmx2g -Xmn512m …",
		},
		{
			Text: "see each pause, and its cause",
			Command: e.filled("jstat -gccause PID 1000   # or start it with " +
				"-Xlog:gc*,safepoint:file=gc.log"),
		},
	}
}

// stoppedFor returns the share of the time near the line for which a JVM's collectors stopped it.
func (e *Evidence) stoppedFor() float64 {
	all, seconds := e.collected(longPause)
	sum := 0.0
	for _, p := range all {
		sum += p.stopped
	}
	return sum / max(seconds, 1e-9)
}
