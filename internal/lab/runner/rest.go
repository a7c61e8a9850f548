package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
)

// How a target at rest is recognised. It was at rest before the first step, so what it was like
// then is the measure.
const (
	// patience bounds a Settle.
	patience = 30 * time.Second
	// lookEvery is the time between two looks at the target.
	lookEvery = 100 * time.Millisecond
	// refusals is how many looks in a row a target may refuse connections before it counts as gone:
	// three seconds, as a service that is started again by its supervisor is soon back, and one
	// that is not never will be.
	refusals = 30
	// steady is how many looks in a row the descriptors may stay above what they were and still
	// count as settled: three seconds. Services keep pools of connections to what they need
	// themselves, and close them when they have been idle for a minute or more, or never.
	steady = 30
	// slackShare and slack are by how much counts may be above what they were: other programs use
	// the target and the machine too.
	slackShare = 0.1
	slack      = 4
	// baseRequests are sent before the first step, and lightRequests in each look afterwards,
	// lightApart from each other. A service whose times scatter needs more than three to know what
	// is usual.
	baseRequests  = 12
	lightRequests = 3
	lightApart    = 50 * time.Millisecond
	// lightBound is for how much longer than the requests' timeout they may go on: a session of a
	// script may think for minutes.
	lightBound = 2 * time.Second
	// slower is by how much the usual time of a light request may exceed what was the slow one of
	// twelve before, and atLeast the difference that is always allowed: a processor that has gone
	// to sleep in between takes its time too.
	slower  = 2
	atLeast = 5 * time.Millisecond
)

// rest is what the target is like when it has nothing to do.
type rest struct {
	connections int // of this machine to the target
	// descriptors of the target; known says whether the probes could tell.
	descriptors float64
	known       bool
	// slow is the response time in nanoseconds that nine in ten of the light requests kept; ok says
	// that all of them were answered well.
	slow int64
	ok   bool
}

// lookAtRest is called before anything was offered.
func (r *Runner) lookAtRest(ctx context.Context) (*rest, error) {
	now := new(rest)
	var err error
	if now.connections, err = r.connections(ctx); err != nil {
		return nil, err
	}
	now.descriptors, now.known = r.descriptors()
	totals, err := r.light(ctx, baseRequests)
	if err != nil {
		return nil, err
	}
	now.slow = totals.Response.Quantile(.9)
	now.ok = totals.Ended.Failed() == 0
	return now, ctx.Err()
}

func (r *Runner) descriptors() (n float64, known bool) {
	n, known = r.sample(0).Values[measure.TargetDescriptors]
	return n, known
}

// light sends requests of the script one after the other over a connection or two that are made for
// them.
func (r *Runner) light(ctx context.Context, requests int) (*measure.Totals, error) {
	o := r.loadOptions(measure.StepPlan{Connections: 2})
	o.Loops, o.Duration = 1, 0
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.Timeout, 5*time.Second)+lightBound)
	defer cancel()
	profile := pace.Hold(float64(time.Second)/float64(lightApart),
		int64(requests)*lightApart.Nanoseconds())
	o.Offered = &pace.Offered{Profile: profile, Arrivals: pace.Constant, Seed: o.Seed}
	return r.run(ctx, o)
}

// Settle waits until what the last step left behind is gone: connections to the target, its
// descriptors, and what it still works on, which a few light requests tell by being answered as
// fast as before the first step. It says how long that took, in any case. The error says what did
// not come back within 30 s, or that the target is gone; before the first step there is nothing to
// wait for.
func (r *Runner) Settle(ctx context.Context) (took time.Duration, err error) {
	if r.rest == nil {
		return 0, nil
	}
	began := time.Now()
	wait := &settling{runner: r, deadline: began.Add(patience)}
	for {
		over, err := wait.look(ctx)
		if over || err != nil {
			return time.Since(began), err
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return time.Since(began), ctx.Err()
		}
	}
}

var errSilent = errors.New("it does not answer")

// settling is a Settle under way.
type settling struct {
	runner   *Runner
	deadline time.Time
	refused  int     // looks in a row
	cause    error   // why the last of them was that
	last     float64 // descriptors at the last look
	same     int     // looks in a row at which they did not fall
}

// look is one look at the target. An error ends the waiting.
func (s *settling) look(ctx context.Context) (over bool, err error) {
	why, err := s.left(ctx)
	if err == nil && why == "" {
		why, err = s.busy(ctx)
	}
	switch {
	case err != nil:
		return false, err
	case why == "":
		return true, nil
	case !time.Now().Before(s.deadline):
		return false, fmt.Errorf("after %v %s", patience, why)
	}
	return false, nil
}

// left says what of the last step is still there; empty when nothing is.
func (s *settling) left(ctx context.Context) (why string, err error) {
	was := s.runner.rest
	n, err := s.runner.connections(ctx)
	if err != nil {
		return "", err
	}
	if float64(n) > allowed(float64(was.connections)) {
		return fmt.Sprintf("%d connections to the target are not closed, "+
			"and there were %d before the first step", n, was.connections), nil
	}
	now, known := s.runner.descriptors()
	if !known || !was.known || now <= allowed(was.descriptors) {
		return "", nil
	}
	if s.same++; now < s.last {
		s.same = 0
	}
	s.last = now
	if s.same >= steady {
		return "", nil
	}
	return fmt.Sprintf("the target has %.0f descriptors open, and had %.0f before the first step",
		now, was.descriptors), nil
}

// allowed is up to where a count is what it was.
func allowed(was float64) float64 { return was*(1+slackShare) + slack }

// busy says how the target shows that it still works on something; empty when it does not.
func (s *settling) busy(ctx context.Context) (why string, err error) {
	was := s.runner.rest
	bounded, cancel := context.WithDeadline(ctx, s.deadline)
	defer cancel()
	totals, err := s.runner.light(bounded, lightRequests)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		// The same options have worked before, so it is the target that cannot be reached.
		if errors.Is(err, context.DeadlineExceeded) {
			// That its time was over does not say what is wrong.
			err = cmp.Or(s.cause, errSilent)
		}
		s.cause = err
		if s.refused++; s.refused >= refusals {
			return "", fmt.Errorf("the target is gone: %w", s.cause)
		}
		return fmt.Sprintf("the target cannot be reached: %v", s.cause), nil
	}
	s.refused = 0
	if failed := totals.Ended.Failed(); was.ok && failed > 0 {
		return fmt.Sprintf("%d of %d light requests fail (%s), and none did before the first step",
			failed, totals.Ended.Total(), example(totals)), nil
	}
	usual := totals.Response.Quantile(.5)
	limit := max(slower*was.slow, was.slow+atLeast.Nanoseconds())
	if usual > limit {
		return fmt.Sprintf("a light request takes %v, and took %v before the first step",
			time.Duration(usual), time.Duration(was.slow)), nil
	}
	return "", nil
}

// example is what one of the failures looked like.
func example(t *measure.Totals) string {
	for k, n := range t.Ended {
		kind := measure.Kind(k)
		if kind == measure.OK || n == 0 {
			continue
		}
		if text := t.Examples[kind.String()]; text != "" {
			return text
		}
		return kind.String()
	}
	return "for no reason that is known"
}
