package harness

import (
	"context"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/scrape"
)

// profiles has the target profiled at half of its line, at it and beyond it: in the steps that the
// line is not made of, as a profile costs the target some of what it can do. nil when there is
// nothing to profile with.
func (h *harness) profiles(
	url string,
) func(ctx context.Context, p measure.StepPlan) map[string][]byte {
	if url == "" {
		return nil
	}
	profiler := scrape.NewProfiler(url)
	return func(ctx context.Context, p measure.StepPlan) map[string][]byte {
		kinds := profilesOf(p.Phase)
		if len(kinds) == 0 {
			return nil
		}
		// What it costs to open the connections, and to warm up, is not part of what requests cost.
		settled := time.NewTimer(time.Duration(p.Settle))
		defer settled.Stop()
		select {
		case <-settled.C:
		case <-ctx.Done():
			return nil
		}
		taken, errs := profiler.Take(ctx, kinds, time.Duration(p.Length-p.Settle)-profileMaking)
		for _, err := range errs {
			h.miss(err.Error())
		}
		return taken
	}
}

// profileMaking is kept for the writing of profiles, so that they are there when the step is over.
const profileMaking = 500 * time.Millisecond

// profilesOf are the kinds of profile that a phase is there for. Beyond the line, and after it,
// what matters is what the processor does and where goroutines pile up.
func profilesOf(phase string) []scrape.Kind {
	switch phase {
	case measure.PhaseHalf, measure.PhaseAtLine:
		return scrape.Kinds
	case measure.PhaseOverload, measure.PhaseRecovery:
		return []scrape.Kind{scrape.CPU, scrape.Goroutine}
	}
	return nil
}
