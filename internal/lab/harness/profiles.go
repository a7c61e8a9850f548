package harness

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/pprof/profile"

	"plimsoll/internal/lab/kernel"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profiler"
	"plimsoll/internal/lab/scrape"
	"plimsoll/internal/lab/symbols"
)

// processorProfiler takes a profile of the target's processor time of the given length. It returns
// soon after that time, or soon after ctx ends.
type processorProfiler interface {
	Take(ctx context.Context, length time.Duration) (*profile.Profile, error)
}

// threadProfiler takes profiles of a target's threads, for the given length. It returns soon after that
// time, or soon after ctx ends.
type threadProfiler interface {
	Take(ctx context.Context, length time.Duration) (profiler.Threads, error)
}

// openThreads prepares thread dumps of a JVM, unless a command was named that profiles it.
func (h *harness) openThreads() (end func()) {
	if h.o.PID == 0 || h.o.ProfileCommand != "" || h.runtime != measure.RuntimeJVM {
		return func() {}
	}
	threads, err := profiler.NewJVM(h.o.PID)
	if err != nil {
		h.miss("what threads of the JVM do: " + err.Error())
		return func() {}
	}
	h.threads = threads
	return func() { threads.Close() }
}

// openProcessor opens what takes the processor profile instead of the service itself, if anything
// does. end is called when the survey is over.
func (h *harness) openProcessor() (end func(), err error) {
	end = func() {}
	switch {
	case h.o.ProfileCommand != "":
		h.processor, err = profiler.NewCommand(h.o.ProfileCommand, h.o.PID, h.o.ProfileHertz)
	case h.o.Inspect != "":
		h.processor, err = profiler.NewInspector(h.o.Inspect)
	case h.o.Perf:
		s, failed := kernel.OpenSampler(h.o.PID)
		if failed != nil {
			// If it is not allowed here, say so and continue the survey.
			h.miss("the kernel's profile of the processor time: " + failed.Error())
			return end, nil
		}
		h.processor, end = s, s.Close
	}
	return end, err
}

// profiles profiles the target at half of its line, at it and beyond it. These steps do not
// determine the line, because a profile costs the target some of its capacity. It returns nil if
// there is nothing to profile with.
func (h *harness) profiles(
	url string,
) func(ctx context.Context, p measure.StepPlan) map[string][]byte {
	if url == "" && h.processor == nil && h.threads == nil {
		return nil
	}
	var service *scrape.Profiler
	if url != "" {
		service = scrape.NewProfiler(url)
	}
	return func(ctx context.Context, p measure.StepPlan) map[string][]byte {
		kinds := profilesOf(p.Phase)
		if len(kinds) == 0 {
			return nil
		}
		// The cost of opening connections and warming up is not part of the requests' cost.
		settled := time.NewTimer(time.Duration(p.Settle))
		defer settled.Stop()
		select {
		case <-settled.C:
		case <-ctx.Done():
			return nil
		}
		return h.take(ctx, service, kinds, time.Duration(p.Length-p.Settle)-profileMaking)
	}
}

// take takes profiles of the kinds; the processor profile comes from h.processor if there is one, and
// otherwise, or if that has no names for a JVM's code, from thread dumps. A profile that fails is
// noted and missing, and the survey continues.
func (h *harness) take(
	ctx context.Context, service *scrape.Profiler, kinds []scrape.Kind, length time.Duration,
) map[string][]byte {
	var other sync.WaitGroup
	var taken map[string][]byte
	var errs []error
	if h.processor != nil {
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(k scrape.Kind) bool {
			return k == scrape.CPU
		})
	}
	if service != nil {
		other.Go(func() { taken, errs = service.Take(ctx, kinds, length) })
	}
	var threads profiler.Threads
	var unseen error
	if h.threads != nil {
		other.Go(func() { threads, unseen = h.threads.Take(ctx, length) })
	}
	var processor *profile.Profile
	var failed error
	if h.processor != nil {
		processor, failed = h.processor.Take(ctx, length)
	}
	other.Wait()
	if n, ok := h.processor.(interface{ Notes() []string }); ok && failed == nil {
		for _, note := range n.Notes() {
			h.miss(note)
		}
	}
	if failed != nil && ctx.Err() == nil {
		errs = append(errs, fmt.Errorf("a profile of the processor time: %w", failed))
	}
	if unseen != nil && ctx.Err() == nil {
		errs = append(errs, unseen)
	}
	for _, err := range errs {
		h.miss(err.Error())
	}
	waits := threads.Waits
	if w, tells := h.processor.(interface{ Waits() *profile.Profile }); tells && processor != nil {
		waits = w.Waits()
	}
	if threads.Processor != nil && (processor == nil || unnamed(processor)) {
		processor = threads.Processor
	}
	if taken == nil {
		taken = map[string][]byte{}
	}
	h.keep(taken, scrape.CPU, processor)
	if slices.Contains(kinds, scrape.Mutex) {
		h.keep(taken, scrape.Mutex, waits)
	}
	return taken
}

// keep adds a profile in its recorded form, if there is one, and the service gave none of its kind.
func (h *harness) keep(taken map[string][]byte, kind scrape.Kind, p *profile.Profile) {
	if p == nil || taken[string(kind)] != nil {
		return
	}
	text, err := recorded(p)
	if err != nil {
		h.miss(fmt.Sprintf("a profile (%s): %v", kind, err))
		return
	}
	taken[string(kind)] = text
}

// unnamed reports whether a tenth of a profile is of code without names, compiled at run time.
func unnamed(p *profile.Profile) bool {
	nameless, all := 0., 0.
	for _, s := range p.Sample {
		weight := float64(s.Value[len(s.Value)-1])
		all += weight
		if len(s.Location) > 0 && len(s.Location[0].Line) > 0 &&
			s.Location[0].Line[0].Function.Name == symbols.Unnamed {
			nameless += weight
		}
	}
	return nameless > .1*all
}

// recorded returns a profile as it is written to a run directory.
func recorded(p *profile.Profile) ([]byte, error) {
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		return nil, err
	}
	if out.Len() > mostProfile {
		return nil, fmt.Errorf("it has %d MiB, more than a run directory takes", out.Len()>>20)
	}
	return out.Bytes(), nil
}

// mostProfile is the largest profile in a run directory, in bytes.
const mostProfile = 32 << 20

// profileMaking is reserved for writing the profiles, so that they are ready at the end of the
// step.
const profileMaking = 500 * time.Millisecond

// profilesOf returns the kinds of profile for a phase. Beyond and after the line, what matters is
// what the processor does and where goroutines pile up.
func profilesOf(phase string) []scrape.Kind {
	switch phase {
	case measure.PhaseHalf, measure.PhaseAtLine:
		return scrape.Kinds
	case measure.PhaseOverload, measure.PhaseRecovery:
		return []scrape.Kind{scrape.CPU, scrape.Goroutine}
	}
	return nil
}
