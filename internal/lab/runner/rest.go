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

// How to recognise a target at rest. It was at rest before the first step, so its state then is the
// reference.
const (
	// patience bounds a Settle.
	patience = 30 * time.Second
	// lookEvery is the interval between two looks at the target.
	lookEvery = 100 * time.Millisecond
	// refusals is the number of consecutive looks in which a target may refuse connections before
	// it counts as gone: three seconds. A service restarted by its supervisor is back sooner, and
	// one that is not restarted never comes back.
	refusals = 30
	// steady is the number of consecutive looks in which the descriptors may stay above their
	// earlier number and still count as settled: three seconds. Services keep pools of connections
	// to their own backends and close them after a minute or more, or never.
	steady = 30
	// slackShare and slack say how far counts may be above their earlier values: other programs use
	// the target and the machine too.
	slackShare = 0.1
	slack      = 4
	// baseRequests is the number of requests sent before the first step, lightRequests the number
	// in each look afterwards, and lightApart the time between them. Three are not enough to find
	// the usual time of a service with varying times.
	baseRequests  = 12
	lightRequests = 3
	lightApart    = 50 * time.Millisecond
	// lightBound is how much longer than the requests' timeout they may take: a session of a script
	// may think for minutes.
	lightBound = 2 * time.Second
	// slower is by what factor the usual time of a light request may exceed the slow time of twelve
	// earlier ones, and atLeast the difference that is always allowed: a processor that has gone to
	// sleep in between also takes time.
	slower  = 2
	atLeast = 5 * time.Millisecond
)

// rest describes the target when it has nothing to do.
type rest struct {
	connections int // of this machine to the target
	// descriptors of the target; known says whether the probes could count them.
	descriptors float64
	known       bool
	// slow is the 90th percentile of the light requests' response time, in nanoseconds; ok says
	// that all of them ended well.
	slow int64
	ok   bool
}

// lookAtRest is called before any load.
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

// light sends requests of the script one after another over one or two new connections.
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

// Settle waits until the effects of the last step are gone: connections to the target, its
// descriptors, and work in progress. A few light requests show that there is no more work, if they
// are answered as fast as before the first step. Settle always returns how long it took. The error
// says what did not return to normal within 30 s, or that the target is gone. Before the first step
// there is nothing to wait for.
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

// settling is the state of a Settle.
type settling struct {
	runner   *Runner
	deadline time.Time
	refused  int     // consecutive looks
	cause    error   // error of the last of them
	last     float64 // descriptors in the last look
	same     int     // looks since they last fell
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

// left describes what remains of the last step; empty if nothing does.
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

// allowed is the highest count that still equals an earlier one.
func allowed(was float64) float64 { return was*(1+slackShare) + slack }

// busy says how the target shows that it is still working; empty if it does not.
func (s *settling) busy(ctx context.Context) (why string, err error) {
	was := s.runner.rest
	bounded, cancel := context.WithDeadline(ctx, s.deadline)
	defer cancel()
	totals, err := s.runner.light(bounded, lightRequests)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		// The same options worked before, so the target cannot be reached.
		if errors.Is(err, context.DeadlineExceeded) {
			// A timeout does not say what is wrong.
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

// example describes one of the failures.
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
