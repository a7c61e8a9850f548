package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// A service has to do its work somewhere, so a function that takes most of the processor is not a
// defect by itself: the report shows it as where the time goes. It is a finding if it is work that
// need not be done for each request, or if it grows with the load and not with the requests.

const (
	// manyDeep is how many times a function is in its own stack, on average, if it tries the same
	// again and again. Code that walks a tree or divides its work in halves is only a few calls
	// deep.
	manyDeep = 8
	// farMore is how many times as much a request must cost at the line as at half of it.
	farMore = 1.5
)

// recursion returns a text if most of a function's time is spent in deep calls of itself; empty
// otherwise.
func (e *Evidence) recursion(at profile.Place) string {
	deep, all := 0.0, 0.0
	weights := e.AtLine.Profile(kindCPU).Classify(profile.CPU, func(stack []profile.Frame) string {
		if own, ok := placeIn(classOwn)(stack); !ok || own.Function != at.Function {
			return ""
		}
		return strconv.Itoa(depth(stack, at.Function))
	})
	delete(weights, "")
	for n, weight := range weights {
		all += weight
		times, _ := strconv.Atoi(n)
		deep += weight * float64(times)
	}
	if all == 0 || deep < manyDeep*all {
		return ""
	}
	return "calls of itself, many deep: the same is likely to be computed again and again"
}

// mostlyCompares is how many times as much of its time a function is in such comparisons as
// elsewhere.
const mostlyCompares = 4

// comparesMuch is how many times as much processor time comparisons take as the sort that asks for
// them if they are the waste. Where they only compare, it is about once.
const comparesMuch = 4

// comparison returns a text if most of a function's time is spent in its own code, in comparisons for
// a sort which cost far more than the sort; empty otherwise. What they call of a library is a kind of
// waste of its own.
func (e *Evidence) comparison(at profile.Place) string {
	const here, elsewhere, sorting = "here", "elsewhere", "sorting"
	sorts := func(f profile.Frame) bool {
		return slices.ContainsFunc(sorters, func(n string) bool { return fits(f.Function, n) })
	}
	weights := e.AtLine.Profile(kindCPU).Classify(profile.CPU, func(stack []profile.Frame) string {
		own := slices.IndexFunc(stack, profile.User)
		sort := slices.IndexFunc(stack, sorts)
		if sort >= 0 && (own < 0 || sort < own) {
			return sorting
		}
		if place, ok := placeIn(classOwn)(stack); !ok || place.Function != at.Function {
			return ""
		}
		callers := stack[own+1:]
		if next := slices.IndexFunc(callers, profile.User); next >= 0 {
			callers = callers[:next]
		}
		if own == 0 && slices.ContainsFunc(callers, sorts) {
			return here
		}
		return elsewhere
	})
	if weights[sorting] == 0 || weights[here] < mostlyCompares*weights[elsewhere] ||
		weights[here] < comparesMuch*weights[sorting] {
		return ""
	}
	return "the comparisons of a sort, which take far longer than the sort: what is compared is " +
		"likely to be computed again each time, and could be computed once for each element"
}

// comparesLong reports whether most of the profile is in the comparisons of a sort, and not in the
// sort.
func (e *Evidence) comparesLong() bool {
	places := e.Places[classOwn]
	return len(places) > 0 && e.comparison(places[0]) != ""
}

// depth returns how many times in a row a function is in a stack.
func depth(stack []profile.Frame, function string) (most int) {
	n := 0
	for _, f := range stack {
		if n++; f.Function != function {
			n = 0
		}
		most = max(most, n)
	}
	return most
}

// honest speaks against a hot function that is not a known kind of waste, and costs a request as
// much at half of the line as at the line.
var honest = Counter{
	"it may be the work that the service is there for",
	func(e *Evidence) (string, bool) {
		if w := e.wasting(); w != nil {
			return e.fair(w)
		}
		if e.startsPrograms() != nil {
			return "programs that end at once", false
		}
		at := e.Places[classOwn][0]
		if what := cmp.Or(e.recursion(at), e.comparison(at)); what != "" {
			return what, false
		}
		line, half := e.hotCost(at)
		if half == 0 {
			return "no known kind of waste; it is shown as where the time goes", true
		}
		return fmt.Sprintf("no known kind of waste, and a request costs %s of it at the line and "+
				"%s at half of it; it is shown as where the time goes", span(line), span(half)),
			line < farMore*half
	},
}

// hotCost returns how many seconds a function costs a request at the line and at half of it; 0 if
// that is not known.
func (e *Evidence) hotCost(at profile.Place) (line, half float64) {
	line = at.Share * e.AtLine.PerRequest(measure.TargetCPU)
	half = shareOf(e.Half.Profile(kindCPU), profile.CPU, at.Function, placeIn(classOwn)) *
		e.Half.PerRequest(measure.TargetCPU)
	return line, half
}

// grown returns the end of a claim that says why a function is a finding.
func (e *Evidence) grown(at profile.Place) string {
	if what := cmp.Or(e.recursion(at), e.comparison(at)); what != "" {
		return ", for " + what
	}
	if line, half := e.hotCost(at); half > 0 && line >= farMore*half {
		return fmt.Sprintf(", and costs a request %s what it does at half of the line",
			times(line/half))
	}
	return ""
}

func judgeHotFunction(e *Evidence) *Finding {
	if w := e.wasting(); w != nil && !(w.writesFiles && e.logs() != nil) {
		return e.wasteful(w)
	}
	if f := e.startsPrograms(); f != nil {
		return f
	}
	places := e.Places[classOwn]
	if len(places) == 0 || places[0].Share < .4 {
		return nil
	}
	at := places[0]
	if _, share := e.concentrated(at); share < .5 {
		return nil
	}
	return e.hot(places, at.Share, fmt.Sprintf("%s takes %s of the processor time%s", at.Function,
		percent(at.Share), e.grown(at)))
}

// wasteful is the finding about a kind of waste.
func (e *Evidence) wasteful(w *wasted) *Finding {
	at := w.where[0]
	library := binaryOf(profile.Frame{Function: at.Function})
	claim := fmt.Sprintf("%s takes %s of the processor time, for %s",
		strings.Trim(at.Function, "[]"), percent(at.Share), w.what)
	if at.Share < w.share/2 {
		names := []string{}
		for _, place := range w.where[:min(len(w.where), 3)] {
			names = append(names, place.Function)
		}
		claim = fmt.Sprintf("%s of the processor time goes to %s, for %s",
			percent(w.share), strings.Join(names, ", "), w.what)
	}
	f := e.hot(w.where, w.share*(1-max(w.stays-(1-spared), 0)), claim)
	if library != "" {
		f.Evidence = append(f.Evidence, Fact{
			What:  "what the library " + strings.Trim(at.Function, "[]") + " is for",
			Value: library + "; its file has no symbols, so its functions are not known",
		})
		f.Advice = e.callsLibrary(library)
	} else if w.calls != "" {
		f.Evidence = append(f.Evidence, Fact{
			What: "what " + at.Function + " calls for it", Value: w.calls,
		})
	}
	if w.instead != "" {
		f.Advice = append([]Action{{Text: w.instead}}, f.Advice...)
	}
	return f
}

// callsLibrary returns how to see who calls a library whose functions are not known.
func (e *Evidence) callsLibrary(library string) []Action {
	var all []Action
	server := programs[e.Run.Manifest.Machine.TargetServer]
	if a := map[string]Action{compresses: server.compresses, matches: server.matches}[library]; a.Text != "" {
		all = append(all, a)
	}
	return append(all, Action{
		Text: "see which functions call it: install the debug symbols of the library and of the " +
			"program (their -dbg or -dbgsym packages), and record the callers",
		Command: e.filled("perf record -g --call-graph dwarf -p PID -- sleep 10 && perf report"),
	})
}

// hot is the finding about the first of some places. saves is the share of the processor time that
// may be saved.
func (e *Evidence) hot(places []profile.Place, saves float64, claim string) *Finding {
	at := places[0]
	in, share := e.concentrated(at)
	choose := placeIn(classOwn)
	if binaryOf(profile.Frame{Function: at.Function}) != "" {
		choose = spender
	}
	f := &Finding{
		Claim:      claim,
		Rank:       Cost,
		Confidence: .85,
		Where:      places,
		Evidence: []Fact{
			{
				What:  at.Function + ", at the line",
				Value: percent(at.Share) + " of the processor time",
			},
			{
				What:  "for each request",
				Value: span(at.Share * e.AtLine.PerRequest(measure.TargetCPU)),
			},
			{
				What:  "at half of the line",
				Value: percent(shareOf(e.Half.Profile(kindCPU), profile.CPU, at.Function, choose)),
			},
		},
		Advice: []Action{{Text: "see which of its lines", Command: e.listOf(at.Function)}},
		saves: &cure{
			saves: spared * (saves +
				e.Classes[classCollector]*
					shareOf(e.AtLine.Profile(kindAllocs), profile.AllocSpace, at.Function,
						profile.FirstUser)),
		},
	}
	if share > 0 { // not if the reported function calls a library that the service chose
		f.Evidence = slices.Insert(f.Evidence, 1,
			Fact{What: "of that in " + in, Value: percent(share)})
	}
	f.Evidence = append(f.Evidence, e.called(classOwn, at)...)
	return f
}
