package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// growthRules are about what a service keeps that it should have released. They see it from
// outside, by comparing the same load before and after.
var growthRules = []Rule{
	{
		Name:  "leak",
		Claim: "Finished requests leave something behind",
		Needs: []string{measure.TargetRSS + "|profile:goroutine"},
		Threshold: "over 200 threads, processes, descriptors or connections more than at the " +
			"same load before, or over 25 that grow with each request in step after step, over " +
			"50 goroutines more than at half of the line and still more after the overload, " +
			"memory that grows so, or twice the processor time at the same load",
		Reason: "what is there at the same load after everything else never ends, until a limit " +
			"is reached or the process is killed; memory alone may stay with an allocator that " +
			"has grown once, so it has to grow with the requests",
		Judge: judgeGrowth,
		Counters: []Counter{{
			"it grows no more at the gentle load of the last step",
			func(e *Evidence) (string, bool) {
				g := e.growth()
				if g == nil || g.name == "" || g.name == measure.TargetOld || e.After == nil ||
					e.leavesNoMore(g) {
					return "", false
				}
				all, _, _ := e.After.values(g.name)
				more := climb(all)
				return fmt.Sprintf("%s at its beginning, and %s more at its end", g.say(all[0]),
					g.say(max(more, 0))), more < g.request*e.After.served()/3
			},
		}, {
			"the heap may grow so far before what is old is collected",
			func(e *Evidence) (string, bool) {
				g := e.growth()
				memory, of := e.memory()
				if g == nil || g.name != measure.TargetRSS || memory == 0 || !e.growsFirst() {
					return "", false
				}
				return fmt.Sprintf("%s, where%s may take a quarter of %s (%s) unless it is told "+
					"otherwise: see what is alive after a full collection", g.say(g.after),
					e.whose(), size(memory), of), g.after < memory/4
			},
		}},
		Unless: []string{"goroutine-leak"},
		Verify: "survey again after the change: at the end there should be as much as at the " +
			"beginning",
	},
}

// leavesNoMore reports whether what has grown cannot grow further, as the service has all the descriptors
// that it may have.
func (e *Evidence) leavesNoMore(g *grown) bool {
	each := []string{
		measure.TargetDescriptors, measure.TargetOutgoingEstablished, measure.TargetOutgoingCloseWait,
	}
	return slices.Contains(each, g.name) && e.After.Has(measure.TargetDescriptorsLimit) &&
		e.After.Max(measure.TargetDescriptorsMost) >= .95*e.After.Last(measure.TargetDescriptorsLimit)
}

// grown is something of which there is more after everything else than before.
type grown struct {
	what          string // "threads"
	name          string // name of the sample; empty for goroutines, which profiles count
	before, after float64
	request       float64 // increase per request
	say           func(v float64) string
	where         []profile.Place
}

const (
	// mostKept is the largest increase in threads, descriptors or connections that is not a leak:
	// pools that have grown once.
	mostKept = 200
	// fewKept is the same if their number follows the number of requests served.
	fewKept = 25
	// mostGoroutines is the same for goroutines.
	mostGoroutines = 500
	// fewGoroutines is the same if there are more at the end than beyond the line.
	fewGoroutines = 50
	// stillMore is how many more goroutines there must be at the end than beyond the line.
	// fewStillMore is the same if the increase per request is about as before.
	stillMore, fewStillMore = 50, 3
	// mostBytes is the largest increase in memory that is not a leak, and fewestBytes is the
	// smallest increase per request that is one. fewBytes replaces mostBytes if memory follows the
	// number of requests in a straight line.
	mostBytes, fewBytes, fewestBytes = 32 << 20, 8 << 20, 64
)

// growth returns what has grown, the most telling first; nil if nothing has.
func (e *Evidence) growth() *grown {
	if g := e.goroutinesGrown(); g != nil {
		return g
	}
	if e.After == nil {
		return cmp.Or(e.oldGrown(), e.memoryAllAlong())
	}
	if e.Before == nil {
		return nil
	}
	kept := max(e.After.Last(measure.ListenerEstablished)-
		e.Before.Mean(measure.ListenerEstablished), 0)
	served := e.served(e.Before, e.After)
	for _, c := range []struct{ what, name string }{
		{"processes", measure.TargetProcesses},
		{"threads", measure.TargetThreads},
		{"connections to others", measure.TargetOutgoingEstablished},
		{"connections that the other side has closed", measure.TargetOutgoingCloseWait},
		{"descriptors", measure.TargetDescriptors},
	} {
		if !e.Before.Has(c.name) || !e.After.Has(c.name) {
			continue
		}
		before, after := e.Before.Mean(c.name), e.After.Last(c.name)
		// A connection that clients keep has a descriptor and, in some servers, a thread.
		if c.name == measure.TargetDescriptors || c.name == measure.TargetThreads {
			after -= kept
		}
		more := after - before
		if more > .5*before && (more > mostKept || more > fewKept && e.growsWithRequests(c.name)) {
			return &grown{c.what, c.name, before, after, more / max(served, 1), number, nil}
		}
	}
	return cmp.Or(e.oldGrown(), e.memoryGrown(served))
}

// growsFirst reports whether the target's runtime takes memory as long as it may, and only collects
// old objects when that is full.
func (e *Evidence) growsFirst() bool {
	r := e.Run.Manifest.Machine.TargetRuntime
	return r == measure.RuntimeJVM || r == measure.RuntimeDotNet
}

// served returns how many requests ended in the judged part of the step.
func (m *Moment) served() float64 {
	s := m.Step
	return s.Between(s.Plan.Settle, s.Totals.Length, (*measure.Tally).Total)
}

// served returns how many requests ended from one step up to another, without the later one.
func (e *Evidence) served(from, to *Moment) (n float64) {
	for i := range e.Run.Steps {
		if s := &e.Run.Steps[i]; s.Plan.Number >= from.Step.Plan.Number &&
			s.Plan.Number < to.Step.Plan.Number {
			n += float64(s.Totals.Ended.Total())
		}
	}
	return n
}

// memoryGrown returns memory that grows with the requests: in at least three quarters of the steps,
// by about as much per request.
func (e *Evidence) memoryGrown(served float64) *grown {
	before, after := e.Before.Mean(measure.TargetRSS), e.After.Last(measure.TargetRSS)
	least := float64(mostBytes)
	if by, all := e.byRequests(measure.TargetRSS, e.Before.Step.Plan.Number, nothing); len(by) >=
		fewestSteps {
		if _, explained := fitted(by, all); explained >= straightest {
			least = fewBytes
		}
	}
	if after-before < least || after < 1.3*before ||
		(after-before)/max(served, 1) < fewestBytes {
		return nil
	}
	var each []float64
	steps, up := 0, 0
	for i := range e.Run.Steps {
		s := &e.Run.Steps[i]
		m := &Moment{Step: s, near: true}
		all, from, to := m.values(measure.TargetRSS)
		if s.Plan.Number < e.Before.Step.Plan.Number || len(all) < 2 || to <= from {
			continue
		}
		n := s.Between(from, to, (*measure.Tally).Total)
		if steps++; all[len(all)-1] > all[0] && n > 0 {
			up++
			each = append(each, (all[len(all)-1]-all[0])/n)
		}
	}
	if steps < 4 || float64(up) < .75*float64(steps) {
		return nil
	}
	slices.Sort(each)
	typical := each[len(each)/2]
	if typical < fewestBytes || (after-before)/max(served, 1) < typical/4 || e.rests(after-before) {
		return nil
	}
	return &grown{"memory", measure.TargetRSS, before, after, typical, size, nil}
}

// hardly is the share of its usual growth below which memory rests.
const hardly = .125

// rests reports whether memory that grew by so much hardly grew during a quarter of the requests. A
// heap that is collected grows in jumps, now and then, and then serves many requests without growing.
func (e *Evidence) rests(grew float64) bool {
	served, all := e.beside(func(m *Moment) (memory float64, is bool) {
		s := m.Step.Plan
		return m.Mean(measure.TargetRSS), m.Has(measure.TargetRSS) && m.Failed() <= fewFailed &&
			s.Number >= e.Before.Step.Plan.Number && s.Phase != measure.PhaseOverload
	})
	if len(served) < fewestSteps-1 {
		return false
	}
	quarter := (served[len(served)-1] - served[0]) / 4
	for i := range all {
		for j := i + 1; j < len(all); j++ {
			if served[j]-served[i] < quarter {
				continue
			}
			if more := all[j] - all[i]; more >= 0 && more < hardly*grew/4 {
				return true
			}
			break
		}
	}
	return false
}

// goroutinesGrown returns the goroutines that have increased, from profiles at half of the line and
// at the end, when the load is no higher. Goroutines that serve connections, of clients or of the
// service's own, are left out.
func (e *Evidence) goroutinesGrown() *grown {
	half, after := e.Half.Profile(kindGoroutine), e.After.Profile(kindGoroutine)
	if half == nil || after == nil || e.After.Rate() > 1.1*e.Half.Rate() {
		return nil
	}
	was := half.Classify(profile.Goroutine, startedBy)
	worst, most, before, now := "", 0.0, 0.0, 0.0
	for name, n := range after.Classify(profile.Goroutine, startedBy) {
		if name == "" {
			continue
		}
		before, now = before+was[name], now+n
		if more := n - was[name]; more > most || more == most && name < worst {
			worst, most = name, more
		}
	}
	if most <= fewGoroutines || most <= .1*was[worst] {
		return nil
	}
	// A pool that grew during the overload is as large afterwards. A slow leak has grown by as much
	// per request as before.
	over := e.Over.Profile(kindGoroutine)
	if over == nil && most <= mostGoroutines {
		return nil
	}
	if over != nil {
		still := was[worst] + most - over.Classify(profile.Goroutine, startedBy)[worst]
		due := most / max(e.served(e.Half, e.After), 1) * e.After.served()
		if still < stillMore && (still < fewStillMore || still < due/3) {
			return nil
		}
	}
	g := &grown{
		what:    "goroutines",
		before:  before,
		after:   now,
		request: (now - before) / max(e.served(e.Half, e.After), 1),
		say:     number,
	}
	g.where = after.Top(profile.Goroutine, func(stack []profile.Frame) (profile.Frame, bool) {
		if startedBy(stack) != worst {
			return profile.Frame{}, false
		}
		// Where a goroutine waits says more than where it started.
		if at, ok := profile.FirstUser(stack); ok {
			return at, true
		}
		return profile.Started(stack)
	}, placesTold)
	return g
}

// startedBy returns the function that a goroutine started with; empty for goroutines that come and
// go with connections.
func startedBy(stack []profile.Frame) string {
	at, ok := profile.Started(stack)
	if !ok || slices.ContainsFunc(servers, func(s string) bool { return fits(at.Function, s) }) ||
		slices.ContainsFunc(ofConnections, func(s string) bool { return fits(at.Function, s) }) {
		return ""
	}
	return at.Function
}

var ofConnections = []string{
	"net/http.(*connReader).backgroundRead", "net/http.(*persistConn).readLoop",
	"net/http.(*persistConn).writeLoop", "net/http.(*http2serverConn).",
	"golang.org/x/net/http2.(*serverConn).", "net/http.(*http2ClientConn).readLoop",
	"golang.org/x/net/http2.(*ClientConn).readLoop",
	"google.golang.org/grpc/internal/transport.",
}

func judgeGrowth(e *Evidence) *Finding {
	g := e.growth()
	if g == nil {
		return e.costGrown()
	}
	when := "at the same load before"
	switch {
	case g.what == "goroutines":
		when = "at half of the line, with more to do"
	case e.After == nil: // the survey ended before it came back to that load
		when = "at its beginning"
	}
	where := ""
	if len(g.where) > 0 {
		where = ", in " + g.where[0].Function
	}
	each := "one for " + number(1/max(g.request, 1e-9)) + " requests"
	if g.what == "memory" {
		each = size(g.request) + " for each request"
	}
	f := &Finding{
		Claim: fmt.Sprintf("%s stay behind%s: %s after the survey where there were %s %s",
			cmp.Or(map[string]string{"memory": "Bytes of memory"}[g.what], title(g.what)), where,
			g.say(g.after), g.say(g.before), when),
		Rank:       Risk,
		Confidence: .85,
		Where:      g.where,
		Evidence: []Fact{
			{What: g.what + ", before and after", Value: g.say(g.before) + " and " + g.say(g.after)},
			{What: "more", Value: each},
		},
		Gain: Gain{
			Factor: 1,
			Low:    1,
			High:   2,
			Why:    "the line does not move at once: it falls while the process lives",
		},
	}
	if g.name == measure.TargetOld {
		f.Claim += ", in the old generation of the heap, which collections leave as it is"
	}
	f.Advice = e.giveBack(g)
	if once := e.degraded(); once > 0 {
		f.Rank, f.whatever = Binding, true
		f.Claim += fmt.Sprintf("; meanwhile the line has fallen to %s: %s were served well before",
			rate(e.Line), rate(once))
		f.Gain = e.gainOfYouth(once)
	}
	return f
}

// gainOfYouth is the gain if nothing stays behind. once is the rate that the service carried when
// it was young. It can carry as many requests as its processors allow at what a request cost then:
// in the first steps of the survey, at about that rate.
func (e *Evidence) gainOfYouth(once float64) Gain {
	g := Gain{
		Factor: min(once/max(e.Line, 1e-9), most),
		Low:    1,
		High:   most,
		Why:    "the service has carried as much, before so much was kept",
	}
	_, costs := e.beside(func(m *Moment) (cost float64, is bool) {
		cost = m.PerRequest(measure.TargetCPU)
		return cost, cost > 0
	})
	now := e.AtLine.PerRequest(measure.TargetCPU)
	if len(costs) == 0 || len(e.Reserves) == 0 {
		return g
	}
	first := slices.Sorted(slices.Values(costs[:min(len(costs), 3)]))
	young := first[len(first)/2]
	if young >= now {
		return g
	}
	// There were about as many requests then, so the rate does not make them cheaper.
	if f, _ := e.headroom(cure{saves: 1 - young/now}); min(f, most) > g.Factor {
		g.Factor = min(f, most)
		g.Why = "a request cost " + span(young) + " of a processor before so much was kept, and " +
			span(now) + " at the line"
	}
	return g
}

// giveBack returns what to do about something that stays behind.
func (e *Evidence) giveBack(g *grown) []Action {
	switch g.what {
	case "goroutines":
		return []Action{
			{
				Text: "give each goroutine a way to end: a context that is cancelled, a channel " +
					"that is closed, a buffered channel for an answer that nobody may fetch",
			},
			{
				Text:    "see where they are",
				Command: e.filled("curl 'INSIDE/debug/pprof/goroutine?debug=1' | head -40"),
			},
		}
	case "memory":
		return append(e.runtime().holds, Action{
			Text: "give caches and maps that requests write to a bound, and an age",
		})
	case "processes":
		return []Action{{
			Text: "wait for each program that was started (waitpid, Process.wait, cmd.Wait, " +
				"communicate), on each path, and end what is not needed any more; one that has ended " +
				"and is not waited for stays as a zombie, with its number",
			Command: e.filled("ps -o pid,ppid,stat,etime,args --ppid PID | head -40"),
		}}
	case "threads":
		return []Action{{
			Text: "have a pool of threads, and see where those stand that do not end",
			Command: e.filled("cat /proc/PID/task/*/wchan | sort | uniq -c; " +
				"gdb -p PID -batch -ex 'thread apply all bt 4'"),
		}}
	}
	return []Action{{
		Text: "close what is opened on each path, errors among them, and see what is open",
		Command: e.filled(
			"ls -l /proc/PID/fd | awk '{print $NF}' | sed 's/[0-9]\\+/N/g' | sort | uniq -c"),
	}}
}

// title returns a word with its first letter in upper case.
func title(word string) string { return string(word[0]-'a'+'A') + word[1:] }
