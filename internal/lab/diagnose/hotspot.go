package diagnose

import (
	"fmt"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// A service has to do its work somewhere, so a function that takes most of the processor is no
// disease by itself: it is shown as where the time goes. It is a finding where it is work that
// somebody would not do for each request, or that grows with the load and not with what is asked.

const (
	// wasted is the share of a function's time that has to be one kind of waste.
	wasted = .5
	// manyDeep is how often a function stands in its own stack, on average, when it tries the same
	// again and again: what walks a tree or divides its work in halves is a few deep.
	manyDeep = 8
	// farMore is by how much more a request has to cost at the line than at half of it.
	farMore = 1.5
)

// waste is the kind of waste that most of a function's time is; empty where it may be honest work.
func (e *Evidence) waste(at profile.Place) string {
	const itself = "calls of itself, many deep: the same is likely to be computed again and again"
	deep, all := 0.0, 0.0
	p := e.AtLine.Profile(kindCPU)
	weights := p.Classify(profile.CPU, func(stack []profile.Frame) string {
		if own, ok := placeIn(classOwn)(stack); !ok || own.Function != at.Function {
			return ""
		}
		for _, w := range wastes {
			if w.in(stack) {
				return w.what
			}
		}
		return fmt.Sprintf("%d deep", depth(stack, at.Function))
	})
	delete(weights, "")
	for what, weight := range weights {
		all += weight
		n := 0
		if _, err := fmt.Sscanf(what, "%d deep", &n); err == nil {
			deep += weight * float64(n)
		}
	}
	for _, w := range wastes {
		if weights[w.what] >= wasted*all && all > 0 {
			return w.what
		}
	}
	if deep >= manyDeep*all && all > 0 {
		return itself
	}
	return ""
}

// instead is what to do about a kind of waste, beside what helps against any.
func instead(waste string) []Action {
	for _, w := range wastes {
		if w.what == waste && w.instead != "" {
			return []Action{{Text: w.instead}}
		}
	}
	return nil
}

// depth is how often a function stands in a stack one call after the other.
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

// honest speaks where a hot function is not a kind of waste that is known, and costs a request as much
// at half of the line as at it.
var honest = Counter{
	"it may be the work that the service is there for",
	func(e *Evidence) (string, bool) {
		at := e.Places[classOwn][0]
		line, half := e.hotCost(at)
		if what := e.waste(at); what != "" {
			return what, false
		}
		if half == 0 {
			return "no known kind of waste; it is shown as where the time goes", true
		}
		return fmt.Sprintf("no known kind of waste, and a request costs %s of it at the line and "+
				"%s at half of it; it is shown as where the time goes", span(line), span(half)),
			line < farMore*half
	},
}

// hotCost is what a function costs a request in seconds, at the line and at half of it, 0 where
// that is not known.
func (e *Evidence) hotCost(at profile.Place) (line, half float64) {
	line = at.Share * e.AtLine.PerRequest(measure.TargetCPU)
	half = shareOf(e.Half.Profile(kindCPU), profile.CPU, at.Function, placeIn(classOwn)) *
		e.Half.PerRequest(measure.TargetCPU)
	return line, half
}

// wasteful is a claim's end that says what kind of waste a function is.
func (e *Evidence) wasteful(at profile.Place) string {
	if what := e.waste(at); what != "" {
		return ", for " + what
	}
	if line, half := e.hotCost(at); half > 0 && line >= farMore*half {
		return fmt.Sprintf(", and costs a request %s what it does at half of the line",
			times(line/half))
	}
	return ""
}
