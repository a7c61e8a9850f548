package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// processorRules are about where the processor time goes. Each looks at a class of the profile's
// stacks; see classOf.
var processorRules = []Rule{
	loggingRule(costly("logging-hot", classLogging, .25, "Logging takes %s of the processor time",
		"a line of log costs some microseconds: a quarter of the processor time is more than "+
			"logs should cost",
		Action{
			Text: "log less on the path of a request: one line, sampled where there are many; raise " +
				"the level from DEBUG, and write through a buffer",
		})),
	costly("json-hot", classJSON, .3, "JSON takes %s of the processor time",
		"a service that passes data on spends 10 to 20 % on it; more means that the same is "+
			"encoded again and again, or too much of it",
		Action{
			Text: "encode what does not change once, and keep the bytes; " +
				"leave out fields that nobody reads",
		}),
	costly("reflection-hot", classReflection, .25, "Reflection takes %s of the processor time",
		"access to a field by reflection costs tens of times as much as compiled access",
		Action{
			Text: "write the copy or the check by hand, or generate it; " +
				"or look at each type once and keep what was found",
		}),
	seenByClients(costly("handshakes-dominate", classHandshake, .3, "TLS handshakes take %s of "+
		"the processor time",
		"a full handshake costs as much as some hundred small requests: "+
			"with kept connections and resumption it is a few percent",
		Action{
			Text: "resume sessions: keep tickets on, with keys that all instances share",
		},
		Action{
			Text:    "use an ECDSA P-256 certificate: its handshake costs a tenth of RSA's",
			Command: "openssl ecparam -genkey -name prime256v1 -noout -out site.key",
		},
		Action{
			Text: "have clients keep connections: an idle timeout above their think time",
		},
	)).unless("upstream-connections-not-reused", "client-connections-closed"),
	{
		Name:  "gc-heavy",
		Claim: "Garbage collection takes much of the processor time",
		Needs: []string{
			"profile:cpu|" + measure.GoGCCPU + "|" + measure.ThreadsCPU + "|" +
				measure.TargetCollecting,
			measure.TargetCPU,
		},
		Threshold: "over 20 % of the target's processor time, or, of a JVM, of the time; or a GOGC " +
			"of at most 25 in the environment of a Go service that shows nothing",
		Reason: "with moderate garbage and room for it a service spends 5 to 15 % (in Go: with " +
			"GOGC=100)",
		Judge:    judgeCollector,
		Blind:    blindToCollector,
		Counters: []Counter{othersBusy, unreached},
	},
	pausesRule,
	{
		Name:  "cpu-hot-function",
		Claim: "One function takes much of the processor time",
		Needs: []string{"profile:cpu|" + measure.TargetCPUEnded, measure.TargetCPU},
		Threshold: "over 25 % of the target's processor time is a known kind of waste, or is that " +
			"of programs which are started for each request; or 35 % " +
			"and most of that in one function where honest work has some of it too (60 % for " +
			"matching, sorting and pictures, 50 % for tables that are read through); or over 40 % " +
			"is one function, half of that in one place, that calls itself many deep or costs a " +
			"request 1.5 times what it does at half of the line",
		Reason: "nothing else is worth looking at before it; a function that calls many " +
			"things, as a small service's only handler does, is not hot, and one that does what " +
			"the service is there for is not a disease",
		Judge: judgeHotFunction,
		Blind: func(e *Evidence) string {
			if e.AtLine.Profile(kindCPU) == nil {
				return "profile:cpu"
			}
			return ""
		},
		Counters: []Counter{othersBusy, unreached, honest},
		Unless:   []string{"cgroup-throttled"},
		Advice: []Action{{
			Text: "do its work once and keep the result; or less of it; or with a better algorithm",
		}},
	},
}

// called returns the library function that a place calls, if most of its time in a class is spent
// in that one function. A reader who looks for the place's line looks for that call. What lies
// between, such as an engine's way into its own C++ code, is passed over if a function that is
// known to be of the class follows.
func (e *Evidence) called(class string, at profile.Place) []Fact {
	choose, known := placeIn(class), classBit(class)
	weights := e.AtLine.Profile(kindCPU).Classify(profile.CPU, func(stack []profile.Frame) string {
		own, ok := choose(stack)
		i := slices.Index(stack, own)
		switch {
		case !ok || own.Function != at.Function:
			return ""
		case i == 0:
			return at.Function // its own code
		}
		for _, f := range slices.Backward(stack[:i]) {
			if classIndex.of(f)&known != 0 {
				return f.Function
			}
		}
		return stack[i-1].Function
	})
	delete(weights, "")
	all := 0.0
	for _, weight := range weights {
		all += weight
	}
	for name, weight := range weights {
		if name != at.Function && weight > all/2 {
			return []Fact{{
				What:  "what " + at.Function + " calls",
				Value: name + ", " + percent(weight/all) + " of that",
			}}
		}
	}
	return nil
}

// concentrated returns where most of a function's time is spent, and the share of it: in its own
// code, or in one package of the library. What the runtime does for a package, such as growing its
// slices, counts as the package's.
func (e *Evidence) concentrated(at profile.Place) (in string, share float64) {
	weights := e.AtLine.Profile(kindCPU).Classify(profile.CPU, func(stack []profile.Frame) string {
		if own, ok := placeIn(classOwn)(stack); !ok || own.Function != at.Function {
			return ""
		}
		for _, f := range stack {
			if name := packageIn(f); name != "runtime" &&
				!strings.HasPrefix(name, "internal/") {
				return name
			}
		}
		return "runtime"
	})
	delete(weights, "")
	own, all := packageIn(profile.Frame{Function: at.Function, File: at.File}), 0.0
	best := own
	for name, weight := range weights {
		if all += weight; weight > weights[best] || weight == weights[best] && name < best {
			best = name
		}
	}
	if in = best; best == own {
		in = "its own code"
	}
	return in, weights[best] / max(all, 1e-12)
}

// packageIn returns the package of a frame's function. In Java it ends where a class begins, whose
// name starts with a capital letter by convention: "java.util.regex" of
// "java.util.regex.Pattern.compile".
func packageIn(f profile.Frame) string {
	if !strings.HasSuffix(f.File, ".java") {
		return packageOf(f.Function)
	}
	var of []string
	for part := range strings.SplitSeq(f.Function, ".") {
		if r, _ := utf8.DecodeRuneInString(part); unicode.IsUpper(r) {
			break
		}
		of = append(of, part)
	}
	return strings.Join(of, ".")
}

// packageOf returns the package of a function: "encoding/json" of
// "encoding/json.(*Encoder).Encode".
func packageOf(function string) string {
	path := strings.LastIndexByte(function, '/') + 1
	if dot := strings.IndexByte(function[path:], '.'); dot >= 0 {
		return function[:path+dot]
	}
	return function
}

// resumed is the share of a handshake's cost that resuming a session saves. The key exchange stays.
const resumed = .5

// mostly is the fraction of a class's threshold that is enough if collecting what the class
// allocates is expensive: together they must exceed the threshold by mostlyMore.
const mostly, mostlyMore = .75, .1

// costly returns a rule about a class of stacks that takes more than a share of the processor time.
func costly(name, class string, share float64, claim, reason string, advice ...Action) Rule {
	return Rule{
		Name:      name,
		Claim:     fmt.Sprintf(claim, "much"),
		Needs:     []string{"profile:cpu"},
		Threshold: "over " + percent(share) + " of the target's processor time",
		Reason:    reason,
		Advice:    advice,
		Counters:  []Counter{othersBusy, unreached},
		Judge: func(e *Evidence) *Finding {
			now := e.Classes[class]
			if now < share && (now < mostly*share || e.spent(class) < share+mostlyMore ||
				!makesGarbage(class)(e)) {
				return nil
			}
			saves := e.without(class)
			f := &Finding{
				Claim:      fmt.Sprintf(claim, percent(now)),
				Rank:       Cost,
				Confidence: .9,
				Where:      e.Places[class],
				Evidence: []Fact{
					{What: class + ", at the line", Value: percent(now) + " of the processor time"},
					{
						What:  "for each request",
						Value: span(now * e.AtLine.PerRequest(measure.TargetCPU)),
					},
				},
				saves: &saves,
			}
			if len(f.Where) > 0 {
				f.Evidence = append(f.Evidence, e.called(class, f.Where[0])...)
			}
			if garbage := e.spent(class) - now; garbage > .02 {
				f.Evidence = append(f.Evidence, Fact{
					What:  "and the collection of what it allocates",
					Value: percent(garbage),
				})
			}
			return f
		},
	}
}

// spared is the fraction that a cure saves of what a waste costs in processor time. Something else is
// done instead: a value is looked up that was computed. With 1, the gain was predicted two times too
// high where a waste took nine tenths of the time (8.9 and 10.2; measured were 4.8 and 4.0).
const spared = .9

// without returns what following the advice about a class saves: most of it, except for handshakes,
// which are resumed.
func (e *Evidence) without(class string) cure {
	if class == classHandshake {
		return cure{saves: resumed * e.spent(class), elsewhere: resumed * e.clientsShare()}
	}
	return cure{saves: spared * e.spent(class)}
}

func (r Rule) unless(names ...string) Rule {
	r.Unless = append(r.Unless, names...)
	return r
}

// processorGain is the gain from saving processor time. There is none if something else sets the
// line; elsewhere says that such a finding exists.
func (e *Evidence) processorGain(c cure, elsewhere bool) Gain {
	c.turns = e.takesTurns(e.places())
	waited := c.turns || e.waitedFor() || e.threadWaitedFor() || e.waitsToCompute() ||
		e.sharesItsLock()
	if elsewhere && !e.processorBound() || !waited {
		return Gain{
			Factor: 1,
			Low:    1,
			High:   1.2,
			Why: "the processor is not the bottleneck; what is saved shows when the " +
				"bottleneck has been fixed",
		}
	}
	g := e.gain(c)
	g.Factor = e.faster(c)
	// Something else must be done instead, so the whole time is the most that can be saved. Work
	// that it held up, such as a lock, comes on top.
	least := c
	least.saves, least.elsewhere = .7*c.saves, .7*c.elsewhere
	g.Low, g.High = e.faster(least), 1.5*g.Factor
	return g
}

// faster returns the factor by which the line grows when processor time is saved. If requests take
// half as long, the service reaches its line with nearly all of the processors busy. If they take
// as long as before, it reaches its line with as many of them busy as before.
func (e *Evidence) faster(c cure) float64 {
	near := min(2*c.saves, 1)
	return max(e.gain(c).Factor/math.Pow(e.gain(cure{turns: c.turns}).Factor, 1-near), 1)
}

// shareOf returns a function's share of a kind in a profile; 0 without a profile. choose picks the
// function to which a stack's weight counts.
func shareOf(
	p *profile.Profile, kind, function string,
	choose func(stack []profile.Frame) (profile.Frame, bool),
) float64 {
	if p == nil {
		return 0
	}
	for _, at := range p.Top(kind, choose, 100) {
		if at.Function == function {
			return at.Share
		}
	}
	return 0
}

// How the collector's cost depends on GOGC: the cost of a cycle depends on the live data, and the
// number of cycles on GOGC. So a share of the processor time is proportional to 1/GOGC.
const (
	collectorMuch = .2
	collectorFair = .05
	gogcDefault   = 100.0
	gogcMost      = 800
	// heapShare is the share of the memory to which a heap may grow. Stacks, kernel buffers and
	// other processes need the rest.
	heapShare = .6
	// allocatesMuch is the share of the bytes allocated from which on a function is named.
	allocatesMuch = .05
	// nearLimit is the share of GOMEMLIMIT in use from which on the limit is what causes
	// collections, if nothing is known about the heap itself. The limit keeps the process just
	// below it.
	nearLimit = .9
)

func judgeCollector(e *Evidence) *Finding {
	switch e.Run.Manifest.Machine.TargetRuntime {
	case "", measure.RuntimeGo:
	default:
		return e.collectedElsewhere()
	}
	share := e.Classes[classCollector]
	if e.Classes == nil {
		// The runtime's own number includes work on idle processors, which slows nothing down.
		if !e.processorBound() {
			return nil
		}
		share = e.AtLine.PerSecond(measure.GoGCCPU) /
			max(e.AtLine.PerSecond(measure.TargetCPU), 1e-9)
		if !e.AtLine.Has(measure.GoGCCPU) {
			return e.collectsBySetting()
		}
	}
	if share <= collectorMuch {
		return nil
	}
	if f := e.collectsByCall(share); f != nil {
		return f
	}
	now, limited := e.gogc()
	want := e.wanted(now, share)
	saved := 0.0
	if want > now {
		saved = share * (1 - now/want)
	}
	set := "100, unless it is set"
	if percent, is := e.percentSet(); is {
		if set = number(percent); percent < 0 {
			set = "off"
		}
	}
	f := &Finding{
		Claim: fmt.Sprintf("Garbage collection takes %s of the processor time",
			percent(share)),
		Rank:       Cost,
		Confidence: .9,
		Where:      e.allocators(),
		Evidence: []Fact{
			{
				What:  "garbage collection, at the line",
				Value: percent(share) + " of the processor time",
			},
			{What: "GOGC", Value: set},
		},
		saves: &cure{saves: saved},
	}
	f.Evidence = append(f.Evidence, e.collectorFacts()...)
	if limited {
		f.Evidence = append(f.Evidence, Fact{
			What:  "GOMEMLIMIT, which brings collections sooner than GOGC would",
			Value: size(e.memoryLimit()),
		})
	}
	if want > now*1.2 || limited && now == 0 {
		f.Advice = append(f.Advice, e.collectLessOften(want, share-saved, limited))
	}
	f.Advice = append(f.Advice, Action{
		"make less garbage: the places below allocate the most; pool what is made for each " +
			"request, and give slices their size",
		format.Command("go", "tool", "pprof", "-sample_index=alloc_space", "-top",
			e.profileFile(e.AtLine, kindAllocs)),
	})
	return f
}

// collectorFacts is what the service's metrics and its profile of allocations tell about the collector's
// work, as far as it shows them.
func (e *Evidence) collectorFacts() (facts []Fact) {
	m := e.AtLine
	if m.Has(measure.GoGCCycles) {
		facts = append(facts, Fact{
			What: "collections", Value: perSecond(m.PerSecond(measure.GoGCCycles)),
		})
	}
	if m.Has(measure.GoAllocatedBytes) {
		facts = append(facts, Fact{
			What: "allocated",
			Value: size(m.PerSecond(measure.GoAllocatedBytes)) + " a second, " +
				size(m.PerRequest(measure.GoAllocatedBytes)) + " a request",
		})
	}
	if m.Has(measure.GoHeapLive) && m.Has(measure.GoHeapGoal) {
		facts = append(facts, Fact{
			What:  "alive, and the goal of the next collection",
			Value: size(m.Mean(measure.GoHeapLive)) + ", " + size(m.Mean(measure.GoHeapGoal)),
		})
	}
	if p := m.Profile(kindAllocs); p != nil {
		var in []string
		for _, place := range p.Top(profile.AllocSpace, profile.Leaf, placesTold) {
			if place.Share >= allocatesMuch {
				in = append(in, place.Function+" ("+percent(place.Share)+")")
			}
		}
		if len(in) > 0 {
			facts = append(facts, Fact{
				What:  "functions that allocate the most bytes themselves",
				Value: strings.Join(in, ", "),
			})
		}
	}
	return facts
}

// wanted returns the GOGC with which collection takes a fair share, as far as there is memory for
// it. It returns now if that is not known, or is as high already.
func (e *Evidence) wanted(now, share float64) float64 {
	if now <= 0 {
		return now
	}
	want := min(now*share/collectorFair, gogcMost)
	live := e.AtLine.Mean(measure.GoHeapLive)
	if memory, _ := e.memory(); live > 0 && memory > 0 {
		want = min(want, 100*(heapShare*memory/live-1))
	}
	return max(want, now)
}

// collectLessOften is the advice on how to have fewer collections: by GOGC, or by GOMEMLIMIT if
// that causes them.
func (e *Evidence) collectLessOften(gogc, share float64, limited bool) Action {
	a := Action{
		Text: "collect less often: the memory limit leaves so little room that collections come " +
			"after each other; raise it, or give the process more memory",
	}
	if !limited {
		to := fmt.Sprintf("%.2g times what is alive", 1+gogc/100)
		if live := e.AtLine.Mean(measure.GoHeapLive); live > 0 {
			to = "about " + size(live*(1+gogc/100))
		}
		a = Action{
			fmt.Sprintf("collect less often: with GOGC=%.0f the heap grows to %s before each "+
				"collection, and collection takes about %s", gogc, to, percent(share)),
			fmt.Sprintf("GOGC=%.0f", gogc),
		}
	}
	if memory, of := e.memory(); memory > 0 {
		a.Command = strings.TrimSpace(a.Command +
			fmt.Sprintf(" GOMEMLIMIT=%.0fMiB", .9*memory/(1<<20)))
		a.Text += fmt.Sprintf("; there are %s of memory (%s), and the limit keeps the heap inside",
			size(memory), of)
	}
	return a
}

// gogc returns the GOGC in force: the one that is set or, if GOMEMLIMIT causes collections earlier,
// the one that the heap's goal amounts to. It returns 0 if GOGC is off, or if GOMEMLIMIT causes
// collections and the goal is not known. limited says that GOMEMLIMIT causes them.
func (e *Evidence) gogc() (percent float64, limited bool) {
	percent = gogcDefault
	if set, is := e.percentSet(); is {
		percent = set
	}
	live, goal := e.AtLine.Mean(measure.GoHeapLive), e.AtLine.Mean(measure.GoHeapGoal)
	limit := e.memoryLimit()
	if live > 0 && goal > live && limit > 0 {
		if inForce := 100 * (goal/live - 1); percent < 0 || inForce < .8*percent {
			return inForce, true
		}
		return percent, false
	}
	if limit > 0 && (percent < 0 || e.AtLine.Max(measure.TargetRSS) >= nearLimit*limit) {
		return 0, true
	}
	return max(percent, 0), false
}

// memory returns how many bytes the target may use, and what limits them; 0 if that is not known.
func (e *Evidence) memory() (bytes float64, of string) {
	if limit := e.AtLine.Last(measure.TargetCgroupMemoryLimit); limit > 0 {
		return limit, "the cgroup's limit"
	}
	if free := e.AtLine.Last(measure.HostMemoryAvailable); free > 0 {
		return free + e.AtLine.Last(measure.TargetRSS), "what is free, and what it has"
	}
	return 0, ""
}

// allocators returns the places that allocate the most.
func (e *Evidence) allocators() []profile.Place {
	if p := e.AtLine.Profile(kindAllocs); p != nil {
		return p.Top(profile.AllocSpace, profile.FirstUser, placesTold)
	}
	return nil
}
