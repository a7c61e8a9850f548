package diagnose

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
	"plimsoll/internal/lab/stats"
)

// runtimeRules are about goroutines: what they wait for, and whether they end.
var runtimeRules = []Rule{
	{
		Name:  "lock-contention",
		Claim: "Requests wait for a lock",
		Needs: []string{"profile:mutex|" + measure.GoMutexWait + "|profile:" + kindGoroutine},
		Threshold: "over a quarter of the time that requests take, or most of the goroutines " +
			"that serve requests beyond the line",
		Reason: "the seconds that goroutines wait in a second are how many wait at any moment " +
			"(Little's law); compared with the requests inside",
		Judge:    judgeLock,
		Counters: []Counter{processorBusy},
		Advice: []Action{
			{
				Text: "hold the lock for less: no I/O, no encoding, no logging under it; " +
					"copy what is needed and let go",
			},
			{
				Text: "or share it out: one lock for each shard of the map, " +
					"an atomic for a counter, a copy that is replaced whole for " +
					"what is mostly read",
			},
		},
	},
	{
		Name:  "goroutine-leak",
		Claim: "Goroutines stay behind",
		Needs: []string{measure.GoGoroutines},
		Threshold: "over 1,000, or over 25 that grow with each request in step after step, and " +
			"more than 5 a minute more than at the same load before",
		Reason: "what is left at the same load after everything else never ends; " +
			"memory and the collector's work grow with it until the process is killed",
		Judge: judgeLeak,
		Counters: []Counter{{"they become fewer again", func(e *Evidence) (string, bool) {
			all, _, _ := e.After.values(measure.GoGoroutines)
			return fmt.Sprintf("%s at the beginning of the last step, %s at its end",
				number(all[0]), number(all[len(all)-1])), all[len(all)-1] < .9*all[0]
		}}},
		Advice: []Action{
			{
				Text: "give each goroutine a way to end: a context that is cancelled, " +
					"a channel that is closed, a buffered channel for an answer that " +
					"nobody may fetch",
			},
			{
				Text:    "see where they are",
				Command: "curl 'INSIDE/debug/pprof/goroutine?debug=1' | head -40",
			},
		},
		Verify: "survey again after the change: the goroutines after the overload should be as " +
			"many as before it",
	},
	{
		Name:  "context-not-passed",
		Claim: "Work goes on for clients that have left",
		Needs: []string{measure.ListenerCloseWait},
		Threshold: "over 5 connections, and over 5 % of them, whose client has left while the " +
			"service still works for it",
		Reason: "under overload clients give up and try again: work for clients that have " +
			"left is lost to those that wait",
		Judge: func(e *Evidence) *Finding {
			left, all := e.Over.left()
			if left <= 5 || left/all <= .05 {
				return nil
			}
			f := &Finding{
				Claim: fmt.Sprintf("Beyond the line the service works for %s clients that "+
					"have left, of %s", number(left), number(all)),
				Rank:       Risk,
				Confidence: .85,
				Evidence: []Fact{
					{
						What:  "connections whose client has left, beyond the line (CLOSE_WAIT)",
						Value: number(left) + " of " + number(all),
					},
					{
						What:  "requests that timed out beyond the line",
						Value: percent(e.Over.Failed(measure.Timeout)),
					},
					{
						What:  "goodput at the line and beyond",
						Value: number(e.AtLine.Goodput()) + " and " + rate(e.Over.Goodput()),
					},
				},
				Gain: Gain{
					Factor: 1,
					Low:    1,
					High:   1.2,
					Why:    "the line is where nobody gives up yet; what is gained is beyond it",
				},
			}
			if p := e.Over.Profile("goroutine"); p != nil {
				f.Where = p.Top(profile.Goroutine, serving, placesTold)
			}
			if len(f.Where) > 0 {
				f.Claim += "; most of it in " + f.Where[0].Function
			}
			f.Advice = e.stopsForLeavers()
			return f
		},
		Counters: []Counter{{"nobody gave up waiting", func(e *Evidence) (string, bool) {
			gone := e.Over.Failed(measure.Timeout, measure.NotSent)
			return percent(gone) + " of the requests timed out", gone < .01
		}}},
		Blind: func(e *Evidence) string {
			switch {
			case e.Over == nil:
				return "a step beyond the line"
			case e.Over.Failed(measure.Timeout) > 0:
				return ""
			}
			return "clients that give up beyond the line: all waited to the end (survey with a " +
				"--timeout that is shorter than the answers take then)"
		},
		Verify: "survey again: beyond the line there should be next to no connections in " +
			"CLOSE_WAIT, and the goodput should hold",
	},
	{
		Name:  "scheduler-latency",
		Claim: "Goroutines that could run wait for a thread",
		Needs: []string{measure.GoSchedLatencyP99, measure.TargetCPU},
		Threshold: "99th percentile over 10 ms while processors are idle on average, and at least twice " +
			"as many such waits as in a queue for nothing but processors",
		Reason: "with a thread free a goroutine runs within microseconds: " +
			"such waits come from bursts of others that run at once",
		Judge: func(e *Evidence) *Finding {
			p99 := e.AtLine.Median(measure.GoSchedLatencyP99)
			if p99 <= longWait || !e.waitsInBursts(p99) {
				return nil
			}
			return &Finding{
				Claim: fmt.Sprintf("One in a hundred goroutines that could run waits over "+
					"10 ms for a thread, though the processors are only %s busy",
					percent(e.busy(targetProcessor))),
				Rank:       Binding,
				Confidence: .8,
				Where:      e.Places[classOwn],
				Evidence: []Fact{
					{
						What: "99th percentile of the wait for a thread, at the line, " +
							"as near as the page's buckets tell",
						Value: span(p99),
					},
					{What: "at half of the line", Value: span(e.Half.Median(measure.GoSchedLatencyP99))},
					{
						What:  "use of the processors that it may use",
						Value: percent(e.busy(targetProcessor)),
					},
					{What: "goroutines", Value: number(e.AtLine.Mean(measure.GoGoroutines))},
				},
				Gain: e.gain(cure{}),
			}
		},
		Counters: []Counter{
			processorBusy,
			{
				"half of the load does not have it: it comes with the load, as in any queue",
				func(e *Evidence) (string, bool) {
					half := e.Half.Median(measure.GoSchedLatencyP99)
					return span(half) + " at half of the line",
						e.Half.Has(measure.GoSchedLatencyP99) && half <= longWait
				},
			},
			{"the cgroup's quota stopped the process", func(e *Evidence) (string, bool) {
				throttled := e.AtLine.PerSecond(measure.TargetCgroupThrottled)
				return span(throttled) + " a second", throttled > .01
			}},
			{"other processes took processors at times", func(e *Evidence) (string, bool) {
				asked := 0.0 // what it asks works when the service waits
				for _, d := range e.dependencies() {
					if !d.child {
						asked += d.used
					}
				}
				cores := e.AtLine.Last(measure.HostCores)
				return fmt.Sprintf("others used %s of %s processors, and what it asks %s of that",
						number(e.others()), number(cores), number(asked)),
					e.others()-asked > .1*cores || asked > .5*cores
			}},
		},
		// Each of these keeps threads from running goroutines.
		Unless: []string{"swapping", "major-faults", "cgroup-throttled", "gomaxprocs-low"},
		Advice: []Action{
			{
				Text: "find what makes many goroutines run at once: work in the background, " +
					"a fan-out for each request; do it with few of them, in slices, " +
					"or in another process",
			},
			{
				Text: "see it",
				Command: "curl -o trace 'INSIDE/debug/pprof/trace?seconds=5' && " +
					"go tool trace trace",
			},
		},
	},
}

// longWait is the end of a bucket of the runtime's histogram, as made coarser by Prometheus' client. The
// next bucket ends at longestWait, and the one after that has no end: no percentile is longer.
const longWait, longestWait = 10.5e-3, 117e-3

// waitsInBursts reports whether waits for a thread at the line are longer than longWait at least twice
// as often as in a queue in which each request computes for as long as here and waits for nothing but a
// processor (M/M/c). p99 is the 99th percentile of the waits, in seconds, interpolated in
// its bucket. So it is compared with what that queue would show, if twice as many waited.
func (e *Evidence) waitsInBursts(p99 float64) bool {
	r, computes := e.reserve(targetProcessor), e.AtLine.PerRequest(measure.TargetCPU)
	if r == nil || computes <= 0 || r.Share() >= 1 {
		return true
	}
	processors := int(max(math.Round(r.Capacity), 1)) // a part of one is as a slower one
	waits := stats.ErlangC(processors, r.Share()*float64(processors))
	twice := func(wait float64) float64 {
		return 2 * waits * math.Exp(-(r.Capacity-r.Used)*wait/computes)
	}
	long, beyond := twice(longWait), twice(longestWait)
	switch {
	case beyond >= .01: // it would show the longest percentile that there is
		return false
	case long <= .01:
		return true
	}
	return p99 >= longestWait-(longestWait-longWait)*(.01-beyond)/(long-beyond)
}

// left returns of how many connections the client has left, when they were the most, and how many
// connections there were then. There are the more of them the longer a step has lasted.
func (m *Moment) left() (left, all float64) {
	if m == nil {
		return 0, 1
	}
	for i := range m.Step.Samples {
		s := &m.Step.Samples[i]
		open, known := s.Values[measure.ListenerEstablished]
		if n := s.Values[measure.ListenerCloseWait]; known && n > left && m.Step.Judged(s.At) {
			left, all = n, n+open
		}
	}
	return left, max(all, 1)
}

// connectionGoroutines is how many goroutines net/http has for a connection to others: one reads and
// one writes.
const connectionGoroutines = 2

// pooled returns how many more connections to others there are from the line on than before, as far
// as a pool can have kept them: it has no more than requests were once under way. They have goroutines
// until they have been idle for a while.
func (e *Evidence) pooled() float64 {
	most := 0.0
	for i := range e.Run.Steps {
		m := &Moment{Step: &e.Run.Steps[i]}
		most = max(most, m.inFlight())
		for j := range m.Step.Windows {
			most = max(most, float64(m.Step.Windows[j].InFlight))
		}
	}
	more := e.fromTheLineOn(measure.TargetOutgoingEstablished).most -
		e.Before.Mean(measure.TargetOutgoingEstablished)
	return min(max(more, 0), most)
}

// judgeLeak compares the goroutines after everything else with those at the same load before.
func judgeLeak(e *Evidence) *Finding {
	if e.Before == nil || e.After == nil {
		return nil
	}
	before, after := e.Before.Mean(measure.GoGoroutines), e.After.Last(measure.GoGoroutines)
	// A server has a goroutine for each connection that clients keep, and the overload may have
	// added connections. These goroutines are not a leak.
	kept := max(
		e.After.Last(measure.ListenerEstablished)-
			e.Before.Mean(measure.ListenerEstablished),
		0,
	)
	kept += connectionGoroutines * e.pooled()
	minutes := e.After.Step.Began.Sub(e.Before.Step.Began).Minutes()
	more := after - kept - before
	few := after-kept <= 1000 && (more <= fewKept || !e.growsWithRequests(measure.GoGoroutines))
	if !e.Before.Has(measure.GoGoroutines) || few || minutes <= 0 || more/minutes <= 5 {
		return nil
	}
	served := 0.0
	for i := range e.Run.Steps {
		if s := &e.Run.Steps[i]; s.Plan.Number >= e.Before.Step.Plan.Number &&
			s.Plan.Number < e.After.Step.Plan.Number {
			served += float64(s.Totals.Ended.Total())
		}
	}
	f := &Finding{
		Claim: fmt.Sprintf("Goroutines stay behind: %s after the survey where there were %s "+
			"before, at the same load", number(after), number(before)),
		Rank:       Risk,
		Confidence: .9,
		Evidence: []Fact{
			{
				What:  "goroutines at a gentle load, before and after",
				Value: number(before) + " and " + number(after),
			},
			{
				What: "more, without those of connections that clients and pools keep",
				Value: number((after-kept-before)/minutes) + " a minute, one for " +
					number(served/math.Max(after-kept-before, 1)) + " requests",
			},
		},
		Gain: Gain{
			Factor: 1,
			Low:    1,
			High:   2,
			Why:    "the line does not move at once: it falls while the process lives",
		},
	}
	if p := e.After.Profile("goroutine"); p != nil {
		f.Where = p.Top(profile.Goroutine, profile.Started, placesTold)
	}
	return f
}

// lockWaiter picks the waiters for locks from a block profile.
func lockWaiter(stack []profile.Frame) (profile.Frame, bool) {
	for _, f := range stack {
		switch f.Function {
		case "sync.(*Mutex).Lock", "sync.(*RWMutex).Lock", "sync.(*RWMutex).RLock":
			return profile.FirstUser(stack)
		}
	}
	return profile.Frame{}, false
}

func judgeLock(e *Evidence) *Finding {
	waiting := e.AtLine.PerSecond(measure.GoMutexWait)
	var where []profile.Place
	if p := e.AtLine.Profile("mutex"); p != nil {
		waiting = max(waiting, p.Total(profile.Delay))
		where = p.Top(profile.Delay, profile.FirstUser, placesTold)
	}
	if e.AtLine.Inside() == 0 || waiting/e.AtLine.Inside() <= .25 {
		return e.lockInLine()
	}
	holder, waiters := "", "goroutines that wait, on average"
	if len(where) > 0 {
		holder = ", which " + where[0].Function + " holds"
	}
	if e.Run.Manifest.Machine.TargetRuntime == measure.RuntimeJVM { // see stacks.ThreadDumps
		waiters = "threads that wait, on average"
		if len(where) > 0 {
			holder = ", in " + where[0].Function
		}
	}
	f := &Finding{
		Claim: fmt.Sprintf("Requests wait for a lock%s: %s of the time they take",
			holder, percent(min(waiting/e.AtLine.Inside(), 1))),
		Rank:       Binding,
		Confidence: .9,
		Where:      where,
		Evidence: []Fact{
			{
				What:  "share of the requests' time that they wait for locks, at the line",
				Value: percent(min(waiting/e.AtLine.Inside(), 1)),
			},
			{What: waiters, Value: number(waiting)},
			{What: "requests inside", Value: number(e.AtLine.Inside())},
		},
		Gain: e.gain(cure{}),
	}
	if b := e.AtLine.Profile("block"); b != nil {
		for _, at := range b.Top(profile.Delay, lockWaiter, 2) {
			f.Evidence = append(f.Evidence, Fact{
				What:  "waiting function",
				Value: at.Function + " (" + at.At() + ")",
			})
		}
	}
	return f
}

// lockInLine is the finding about a lock if the service does not measure waits for locks, which
// must be enabled in it: beyond the line most goroutines that serve requests wait for one.
func (e *Evidence) lockInLine() *Finding {
	q := e.inLine(e.Over)
	if q == nil {
		q = e.inLine(e.AtLine)
	}
	if q == nil || q.place.what != aLock || q.waiting < 2*q.atHalf || len(q.where) == 0 {
		return nil
	}
	by := ""
	takers := cmp.Or(e.Over.Profile(kindGoroutine), e.AtLine.Profile(kindGoroutine)).
		Top(profile.Goroutine, takesLock, 1)
	if len(takers) > 0 && takers[0].Function != q.where[0].Function {
		by = ", which " + takers[0].Function + " takes"
	}
	return &Finding{
		Claim: fmt.Sprintf("Requests wait for a lock%s: beyond the line %s of them stand in line for "+
			"it in %s, and %s have passed", by, number(q.waiting), q.where[0].Function,
			number(q.inside)),
		Rank:       Binding,
		Confidence: .85,
		Where:      append(slices.Clip(q.where), takers...),
		Evidence: []Fact{
			{
				What:  "goroutines that wait for it, at half of the line and at the most",
				Value: number(q.atHalf) + " and " + number(q.waiting),
			},
			{What: "goroutines that serve a request elsewhere", Value: number(q.inside)},
			{
				What: "time of a request, at half of the line, at it and beyond",
				Value: span(e.Half.Service()) + ", " + span(e.AtLine.Service()) + ", " +
					span(e.Over.Service()),
			},
		},
		Gain: e.gain(cure{}),
	}
}
