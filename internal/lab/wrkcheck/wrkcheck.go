// Package wrkcheck compares the generator's closed loop with wrk, or over HTTP/2 with h2load: both
// load the same target in turn, and their results must agree. No other package has to know the
// details of wrk and h2load: what they print, and how wrk corrects its latencies before printing.
// The package must not know flags or terminals.
package wrkcheck

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/stats"
)

// The required agreement.
const (
	MeanWithin    = .02   // of the other tool's mean
	SuccessWithin = .0002 // 0.02 percentage points
	P99Within     = 3 * time.Millisecond
)

// Options say what to run. Both sides get the same options.
type Options struct {
	Target  load.Target
	Headers []string // each "Name: value", for the other tool; Request already has them
	Request []byte   // head and body of a GET, as load.Prepare makes it
	// Connections is a multiple of Loops, and Duration a multiple of a second: wrk rounds both
	// down.
	Connections, Loops int
	// Streams is the number of simultaneous requests on an HTTP/2 connection; the other tool is
	// then h2load. 0 compares with wrk, over HTTP/1.1.
	Streams           int
	Duration, Timeout time.Duration
	Rounds            int // of each side; default 3
	Seed              uint64
	// Tell is called when a side of a round begins. It may be nil.
	Tell func(round, rounds int, who string)
}

// Side is the measurement of one side: the medians of its rounds, because percentiles are not
// averaged. Durations are in nanoseconds. h2load corrects nothing, so next to it Mean and P99 are
// raw too.
type Side struct {
	Requests uint64  `json:"requests"`
	Success  float64 `json:"success_share"`   // share of the requests of all rounds
	Rate     float64 `json:"rate_per_second"` // answers per second
	Mean     float64 `json:"mean_ns"`         // with wrk's correction
	P99      float64 `json:"p99_ns"`          // with wrk's correction
	// RawMean and RawP99 are without the correction. wrk prints neither: its RawMean is connections
	// ÷ rate, by Little's law, and its RawP99 is 0.
	RawMean float64 `json:"raw_mean_ns"`
	RawP99  float64 `json:"raw_p99_ns"`
	// Backfilled: share of added answers in the corrected values; 0 for wrk, which does not report
	// it
	Backfilled float64 `json:"backfilled_share"`
	rounds     []round
}

type round struct{ rate, mean, p99, rawMean, rawP99, backfilled float64 }

// Line is one figure of the comparison.
type Line struct {
	What string `json:"what"`
	// Wrk or H2load, and Own: nanoseconds, or a share
	Wrk    float64 `json:"wrk,omitempty"`
	H2load float64 `json:"h2load,omitempty"`
	Own    float64 `json:"own"`
	// Difference: Own minus the other; for the mean, as a share of the other
	Difference float64 `json:"difference"`
	// Allowed: the allowed difference, including the rounding in the other's output
	Allowed          float64 `json:"allowed"`
	RoundingIncluded float64 `json:"rounding_included"`
	OK               bool    `json:"ok"`
}

// Theirs is the other tool's value.
func (l *Line) Theirs() float64 { return cmp.Or(l.Wrk, l.H2load) }

// Report is the result. Lines are mean, success and p99.
type Report struct {
	// Wrk or H2load is the other side.
	Wrk    *Side  `json:"wrk,omitempty"`
	H2load *Side  `json:"h2load,omitempty"`
	Own    Side   `json:"own"`
	Lines  []Line `json:"lines,omitempty"`
	Rounds int    `json:"rounds"`
	// Invalid says that our own generator was the limit, and why.
	Invalid string `json:"invalid,omitempty"`
}

// Theirs returns the other side and its name.
func (r *Report) Theirs() (name string, side *Side) {
	if r.H2load != nil {
		return "h2load", r.H2load
	}
	return "wrk", r.Wrk
}

// OK reports whether all values agree.
func (r *Report) OK() bool {
	return r.Invalid == "" && !slices.ContainsFunc(r.Lines, func(l Line) bool { return !l.OK })
}

// Run runs both sides in turn and alternates which comes first, so that neither always gets the
// warmer machine. If ctx ends, Run returns its error.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Rounds == 0 {
		o.Rounds = 3
	}
	c := newComparison(o)
	r := c.report
	for i := range o.Rounds {
		sides := []func(context.Context, int) error{c.theirs, c.own}
		if i%2 == 1 {
			slices.Reverse(sides)
		}
		for _, side := range sides {
			if err := side(ctx, i); err != nil {
				return nil, err
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
	c.conclude()
	return r, nil
}

// comparison is the state of a Run.
type comparison struct {
	Options
	report                *Report
	theirGood, ownGood    float64
	theirTotal, ownTotal  float64
	meanRounding, p99Fine float64 // the largest effect of rounding on the other's values
}

func newComparison(o Options) *comparison {
	r := &Report{Rounds: o.Rounds}
	if o.Streams > 0 {
		r.H2load = &Side{}
	} else {
		r.Wrk = &Side{}
	}
	return &comparison{Options: o, report: r}
}

func (c *comparison) tell(i int, who string) {
	if c.Tell != nil {
		c.Tell(i+1, c.Rounds, who)
	}
}

// theirs runs the other side of a round.
func (c *comparison) theirs(ctx context.Context, i int) error {
	name, _ := c.report.Theirs()
	c.tell(i, name)
	seconds := func(d time.Duration) string {
		return strconv.Itoa(int((d+time.Second-1)/time.Second)) + "s"
	}
	run := Wrk
	args := []string{"-t", strconv.Itoa(c.Loops), "-c", strconv.Itoa(c.Connections)}
	if c.Streams > 0 {
		run = H2load
		args = append(args, "-m", strconv.Itoa(c.Streams), "-D", seconds(c.Duration))
	} else {
		args = append(args, "-d", seconds(c.Duration), "--timeout", seconds(c.Timeout))
	}
	for _, h := range c.Headers {
		args = append(args, "-H", h)
	}
	p, err := run(ctx, append(args, c.Target.URL)...)
	if err != nil {
		return err
	}
	c.addTheirs(p)
	return nil
}

func (c *comparison) addTheirs(p *Printed) {
	c.theirGood += p.Success() * float64(p.Requests+p.SocketErrors)
	c.theirTotal += float64(p.Requests + p.SocketErrors)
	c.meanRounding, c.p99Fine = max(c.meanRounding, p.Mean.Rounding), max(c.p99Fine, p.P99.Rounding)
	_, s := c.report.Theirs()
	s.Requests += p.Requests
	r := round{
		rate:    p.PerSecond,
		mean:    p.Mean.Nanoseconds,
		p99:     p.P99.Nanoseconds,
		rawMean: float64(c.Connections) / p.PerSecond * 1e9,
	}
	if c.Streams > 0 {
		r.rawMean, r.rawP99 = r.mean, r.p99
	}
	s.rounds = append(s.rounds, r)
}

// own runs the generator's side of a round.
func (c *comparison) own(ctx context.Context, i int) error {
	c.tell(i, "plimsoll")
	script := newEvery(c.Request)
	totals, err := load.Run(ctx, load.Options{
		Target:      c.Target,
		Script:      script,
		Duration:    c.Duration,
		Connections: c.Connections,
		Streams:     c.Streams,
		Loops:       c.Loops,
		Timeout:     c.Timeout,
		Seed:        c.Seed + uint64(i),
	})
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return err
	}
	return c.addOwn(totals, script.bad())
}

func (c *comparison) addOwn(t *measure.Totals, badStatus uint64) error {
	answered := t.Ended[measure.OK]
	corrected := Corrected{Mean: t.Service.Mean(), P99: float64(t.Service.Quantile(.99))}
	if c.Streams == 0 {
		var err error
		corrected, err = Correct(&t.Service, t.Length, answered, c.Connections)
		if err != nil {
			return err
		}
	}
	c.ownGood += float64(answered - badStatus)
	c.ownTotal += float64(t.Ended.Total() - t.Ended[measure.Unfinished])
	s := &c.report.Own
	s.Requests += answered
	all := float64(t.Service.Count()) + float64(corrected.Backfilled)
	s.rounds = append(s.rounds, round{
		rate:       t.Goodput(),
		mean:       corrected.Mean,
		p99:        corrected.P99,
		rawMean:    t.Service.Mean(),
		rawP99:     float64(t.Service.Quantile(.99)),
		backfilled: float64(corrected.Backfilled) / max(all, 1),
	})
	switch {
	case t.Generator.Invalid != "":
		c.report.Invalid = t.Generator.Invalid
	case t.Generator.Full != "":
		c.report.Invalid = "one of plimsoll's loops was busy all the time, " +
			"so that answers waited for it: use more loops (-t), or a slower target"
	}
	return nil
}

// conclude computes the medians and compares them.
func (c *comparison) conclude() {
	o := &c.report.Own
	_, w := c.report.Theirs()
	w.summarise(c.theirGood, c.theirTotal)
	o.summarise(c.ownGood, c.ownTotal)
	rounding := c.meanRounding / w.Mean
	c.report.Lines = []Line{
		{
			What:             "mean",
			Wrk:              w.Mean,
			Own:              o.Mean,
			Difference:       o.Mean/w.Mean - 1,
			Allowed:          MeanWithin + rounding,
			RoundingIncluded: rounding,
		},
		{
			What:       "success",
			Wrk:        w.Success,
			Own:        o.Success,
			Difference: o.Success - w.Success,
			Allowed:    SuccessWithin,
		},
		{
			What:             "p99",
			Wrk:              w.P99,
			Own:              o.P99,
			Difference:       o.P99 - w.P99,
			Allowed:          float64(P99Within) + c.p99Fine,
			RoundingIncluded: c.p99Fine,
		},
	}
	for i := range c.report.Lines {
		l := &c.report.Lines[i]
		if c.Streams > 0 {
			l.H2load, l.Wrk = l.Wrk, 0
		}
		l.OK = math.Abs(l.Difference) <= l.Allowed
	}
}

func (s *Side) summarise(good, total float64) {
	s.Success = good / max(total, 1)
	median := func(of func(r round) float64) float64 {
		all := make([]float64, len(s.rounds))
		for i, r := range s.rounds {
			all[i] = of(r)
		}
		return stats.Median(all)
	}
	s.Rate = median(func(r round) float64 { return r.rate })
	s.Mean = median(func(r round) float64 { return r.mean })
	s.P99 = median(func(r round) float64 { return r.p99 })
	s.RawMean = median(func(r round) float64 { return r.rawMean })
	s.RawP99 = median(func(r round) float64 { return r.rawP99 })
	s.Backfilled = median(func(r round) float64 { return r.backfilled })
}
