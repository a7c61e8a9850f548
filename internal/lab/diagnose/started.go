package diagnose

import (
	"fmt"
	"slices"

	"plimsoll/internal/lab/measure"
)

const (
	// mostlyStarted is the minimum share of the processor time that programs use which end at once.
	mostlyStarted = .25
	// leastStarted is how many seconds they use for each request at least: to start even a small
	// program takes about a millisecond. sameStarted is how much that may differ at half of the
	// line: what is started by the clock is not started for requests.
	leastStarted, sameStarted = .5e-3, 1.5
	// mostlyPrograms is the share from which on they, and not the places in which they are awaited,
	// set the line.
	mostlyPrograms = .5
	// mostSpared is the maximum number of seconds that are spared for each request: interpreters
	// start in some tens of milliseconds. A program that runs for longer works for the request.
	mostSpared = 30e-3
)

// awaitsPrograms reports whether most of the service's processor time is that of programs that end at
// once, and threads stand where they wait for these to end.
func (e *Evidence) awaitsPrograms() bool {
	ended := e.AtLine.PerRequest(measure.TargetCPUEnded)
	c := e.crowd()
	return ended >= mostlyPrograms*e.AtLine.PerRequest(measure.TargetCPU) &&
		c != nil && c.means() != nil && slices.Contains(c.means().calls, "wait4")
}

// startsPrograms is the finding that programs are started for each request, from the processor time
// of what ended before it was seen. Workers that live for some seconds are seen. No profile of the
// service shows what such programs do.
func (e *Evidence) startsPrograms() *Finding {
	line := e.AtLine.PerRequest(measure.TargetCPUEnded)
	share := line / max(e.AtLine.PerRequest(measure.TargetCPU), 1e-9)
	half := e.Half.PerRequest(measure.TargetCPUEnded)
	if share < mostlyStarted || line < leastStarted || !near(line, half, sameStarted) {
		return nil
	}
	f := &Finding{
		Claim: fmt.Sprintf("Programs are started for each request, or workers replaced after a few: "+
			"those that end at once%s take %s of the service's processor time",
			e.endedNames(), percent(min(share, 1))),
		Rank:       Cost,
		Confidence: .8,
		Evidence: []Fact{
			{
				What: "processor time of processes that ended before they were seen, for each " +
					"request, at the line and at half of it",
				Value: span(line) + ", " + span(half),
			},
			{
				What:  "processor time of a request, with theirs",
				Value: span(e.AtLine.PerRequest(measure.TargetCPU)),
			},
		},
		Advice: []Action{
			{
				Text: "do their work in the process, by a library; or keep a few of them " +
					"running, and talk to them; let workers serve some thousand requests",
			},
			{
				Text:    "see which programs they are",
				Command: e.filled("strace -f -e trace=execve -p PID 2>&1 | head -40"),
			},
		},
		saves: &cure{saves: min(share*min(1, mostSpared/line), readingMost)},
	}
	if e.awaitsPrograms() {
		f.Rank, f.Gain, f.saves = Binding, e.gain(*f.saves), nil
	}
	return f
}

// endedNames returns " (such as openssl)" for the processes that were most often seen to end.
func (e *Evidence) endedNames() string {
	most, name := 0.0, ""
	for _, of := range e.sampledOf(measure.TargetEnded) {
		for i := range e.Run.Steps {
			if n := (&Moment{Step: &e.Run.Steps[i]}).Max(measure.TargetEnded + of); n > most {
				most, name = n, of
			}
		}
	}
	if most < fewEnded {
		return ""
	}
	return " (such as " + name + ")"
}

// fewEnded is how often a process of a name must have been seen to end: a worker that ends may be chance.
const fewEnded = 3
