package breaker

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// MaxTrials is the largest number of trials that may be under way at a time.
const MaxTrials = 64

const (
	minWindow = 10 * time.Millisecond
	// Counters of a slice of the window have 32 bits: an hour's slice holds 12 million calls a
	// second.
	maxWindow = time.Hour
	// A trial's slot holds its time in 55 bits. Times are compared over half of their range, 208
	// days.
	maxWait  = 30 * 24 * time.Hour
	maxCount = 1_000_000_000
)

// Options say when a breaker opens and how it closes again. To combine modes, set the fields of
// several: any one of them opens. A zero field means its default, or switches its mode off.
type Options struct {
	// ConsecutiveFailures opens after this many failures without a success between them, in the
	// order in which calls end. Off when 0.
	ConsecutiveFailures int

	// FailureRatio opens when more than this share of the calls in the window failed. Off when 0,
	// otherwise below 1.
	FailureRatio float64
	// SlowRatio opens when more than this share of the calls in the window took longer than
	// SlowOver. A call that failed slowly counts as failed and as slow. Off when 0, otherwise below
	// 1.
	SlowRatio float64
	// SlowOver is the latency above which a call is slow. A slow trial has failed.
	SlowOver time.Duration
	// Window is how far the two ratios look back. It consists of ten slices, the youngest of which
	// is being filled. 5 s when 0.
	Window time.Duration
	// MinRequests is how many calls the window must have before a ratio counts. 20 when 0. While
	// ramping it shrinks with the admitted share, but not below Successes.
	MinRequests int

	// Adaptive opens by a score of latency, errors and saturation. Off when nil.
	Adaptive *Adaptive

	// OpenFor is how long every call is refused. 20 s when 0.
	OpenFor time.Duration
	// Trials is how many trials may be under way at a time in half-open. 3 when 0.
	Trials int
	// Successes is how many trials must succeed before calls are admitted again. Trials when 0.
	Successes int
	// TrialFor is how long a trial may keep its slot. A trial that is not done by then has been
	// lost by its caller, or is as good as lost: its slot goes to another trial, and how it ends
	// does not count. TrialFor should be longer than the longest timeout of a call. 60 s when 0.
	TrialFor time.Duration
	// Ramp is how long the admitted share takes to rise from RampFrom to 1. With 0 the breaker
	// closes as soon as the trials have succeeded.
	Ramp time.Duration
	// RampFrom is the share that is admitted first. 0.1 when 0.
	RampFrom float64

	// OnTransition is called once for every transition, in order, on the goroutine that made it,
	// before other goroutines see the new state. It must not block. Other goroutines do not wait
	// for it, but no further transition is made before it returns.
	OnTransition func(Transition)
}

// rules are the checked options with their defaults filled in, in the units that the machine
// compares. They are comparable: breakers with equal rules behave alike.
type rules struct {
	consecutive          int64
	failures, slow       uint64 // millionths
	slowOver             int64
	window               int64
	minRequests          uint64
	openFor              int64
	trials               int
	successes            uint64
	trialFor             int64
	ramp                 int64
	rampFrom             float64
	adaptive             bool
	law                  law
	windowed, slowIsSlow bool
}

// compile checks o and fills in its defaults. It reports all errors at once.
func (o Options) compile() (rules, error) {
	var c check
	ratios := o.FailureRatio != 0 || o.SlowRatio != 0
	if o.ConsecutiveFailures == 0 && !ratios && o.Adaptive == nil {
		c.fail("ConsecutiveFailures, FailureRatio, SlowRatio and Adaptive are all off, " +
			"so the breaker would never open: set one")
	}
	c.needs("SlowOver", o.SlowOver != 0, "SlowRatio", o.SlowRatio != 0)
	c.needs("SlowRatio", o.SlowRatio != 0, "SlowOver", o.SlowOver != 0)
	c.needs("Window", o.Window != 0, "FailureRatio or SlowRatio", ratios)
	c.needs("MinRequests", o.MinRequests != 0, "FailureRatio or SlowRatio", ratios)
	c.needs("RampFrom", o.RampFrom != 0, "Ramp", o.Ramp != 0)
	r := rules{
		consecutive: int64(c.count("ConsecutiveFailures", o.ConsecutiveFailures, 0, maxCount)),
		failures:    c.ratio("FailureRatio", o.FailureRatio),
		slow:        c.ratio("SlowRatio", o.SlowRatio),
		slowOver:    c.wait("SlowOver", o.SlowOver, 0, 0),
		window:      c.between("Window", o.Window, 5*time.Second, minWindow, maxWindow),
		minRequests: uint64(c.count("MinRequests", o.MinRequests, 20, maxCount)),
		openFor:     c.wait("OpenFor", o.OpenFor, 20*time.Second, time.Millisecond),
		trials:      c.count("Trials", o.Trials, 3, MaxTrials),
		trialFor:    c.wait("TrialFor", o.TrialFor, time.Minute, time.Millisecond),
		ramp:        c.wait("Ramp", o.Ramp, 0, time.Millisecond),
		rampFrom:    c.share("RampFrom", o.RampFrom, 0.1),
		windowed:    ratios,
		slowIsSlow:  o.SlowOver != 0,
	}
	r.successes = uint64(c.count("Successes", o.Successes, r.trials, maxCount))
	if o.Adaptive != nil {
		r.adaptive = true
		r.law = o.Adaptive.compile(&c)
	}
	return r, errors.Join(c.errs...)
}

// check collects the errors in options.
type check struct{ errs []error }

func (c *check) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("breaker: "+format, args...))
}

// needs reports an error if a field is set that has no effect without another, which is not set.
func (c *check) needs(field string, set bool, other string, otherSet bool) {
	if set && !otherSet {
		c.fail("%s is set without %s and would have no effect: set both or neither", field, other)
	}
}

func (c *check) count(field string, n, unset, most int) int {
	if n < 0 || n > most {
		c.fail("%s is %d; it must be between 1 and %d, or 0 for its default", field, n, most)
	}
	if n == 0 {
		return unset
	}
	return n
}

func (c *check) between(field string, d, unset, least, most time.Duration) int64 {
	if d != 0 && (d < least || d > most) {
		c.fail("%s is %v; it must be between %v and %v, or 0 for its default", field, d, least, most)
	}
	if d == 0 {
		d = unset
	}
	return int64(d)
}

func (c *check) wait(field string, d, unset, least time.Duration) int64 {
	return c.between(field, d, unset, least, maxWait)
}

// ratio is a share that must be exceeded, in millionths. With integers, 8 of 20 is exactly 40 %,
// which no binary fraction is.
func (c *check) ratio(field string, x float64) uint64 {
	if !(x >= 0 && x < 1) {
		c.fail("%s is %v; it must be above 0 and below 1, because more than that share must be bad, "+
			"or 0 to switch it off", field, x)
		return 0
	}
	millionths := uint64(math.Round(x * million))
	if x > 0 && (millionths == 0 || millionths == million) {
		c.fail("%s is %v; it is counted in millionths: use 0.000001 to 0.999999", field, x)
	}
	return millionths
}

// share is a number above 0 and up to 1.
func (c *check) share(field string, x, unset float64) float64 {
	if x == 0 {
		return unset
	}
	if !(x > 0 && x <= 1) {
		c.fail("%s is %v; it must be above 0 and at most 1, or 0 for its default of %v", field, x, unset)
	}
	return x
}

const million = 1_000_000
