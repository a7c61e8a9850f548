package concurrency

import (
	"fmt"
	"time"
)

const (
	aimdEnough   = 20               // completions and failures needed for a decision, unless
	aimdLongest  = time.Second      // this much time has passed
	aimdDecrease = 0.9              // factor of the limit after a decrease
	aimdFailures = 0.1              // the share of failures above which the limit decreases
	aimdUsed     = 0.5              // the share of the limit that must be in use for it to grow
	aimdPause    = 10 * time.Second // the longest time for which windows are ignored after a decrease
)

// aimd is the law of the mode AIMD.
type aimd struct {
	*Law
	gathered Window
	inside   float64 // integral of the requests inside, in request-ns
	quiet    int64   // windows that begin earlier still show the limit from before a decrease
	latency  time.Duration
	decision string
}

func (a *aimd) observe(w Window) {
	if w.Start < a.quiet {
		return
	}
	g := &a.gathered
	if g.End == 0 {
		g.Start = w.Start
	}
	g.End = w.End
	g.Completed += w.Completed
	g.Failed += w.Failed
	g.LatencySum += w.LatencySum
	g.Limited = g.Limited || w.Limited
	a.inside += w.InflightMean * float64(w.End-w.Start)
	if n := g.Completed + g.Failed; n == 0 || n < aimdEnough && g.End-g.Start < int64(aimdLongest) {
		return
	}
	whole, inside := a.gathered, a.inside/float64(g.End-g.Start)
	a.gathered, a.inside = Window{}, 0
	a.judge(whole, inside)
}

func (a *aimd) judge(w Window, inside float64) {
	if w.Completed > 0 {
		a.latency = time.Duration(w.LatencySum / int64(w.Completed))
	}
	switch all := w.Completed + w.Failed; {
	case float64(w.Failed) > aimdFailures*float64(all):
		a.decrease(w, fmt.Sprintf("%d of %d requests failed: take a tenth", w.Failed, all))
	case w.Completed > 0 && a.latency > a.options.Target:
		a.decrease(w, fmt.Sprintf("the latency is %v, above %v: take a tenth", a.latency, a.options.Target))
	case w.Limited && inside >= aimdUsed*a.limit:
		a.set(a.limit + 1)
		a.decision = fmt.Sprintf("the latency is %v, within %v, and the limit binds: add one",
			a.latency, a.options.Target)
	default:
		a.decision = "the limit does not bind: keep it"
	}
}

func (a *aimd) decrease(w Window, why string) {
	a.set(min(a.limit*aimdDecrease, a.limit-1))
	a.quiet = w.End + int64(min(a.latency, aimdPause))
	a.decision = why
}

func (a *aimd) state() State { return State{Decision: a.decision} }
