package diagnose

import (
	"fmt"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
)

// helper is a program that the service has started and asks over pipes. It has no address, so it is
// part of what is measured as the service.
type helper struct {
	name       string  // of its threads
	by         string  // what it is asked over
	line, over float64 // processors that it used at the line and beyond it
}

// mostlyHelped is the minimum share of the service's processor time that a helper uses if requests
// wait for it.
const mostlyHelped = .5

// mostlyOneThread is the minimum share of what a helper uses that its busiest thread uses, if it has
// no other one. The busiest thread is looked at less often.
const mostlyOneThread = .8

// notAlone is the minimum share that threads of other names use. Without it, the helper would be all
// there is.
const notAlone = .1

// helper returns the helper that does most of the service's work; nil if there is none. A helper is
// known by its threads, which read from a pipe when there is nothing to do. A server's do not: they
// wait for events of many connections, and those that wait for a helper's answer have work then.
func (e *Evidence) helper() *helper {
	if e.AtLine.Median(measure.TargetProcesses) < 2 {
		return nil
	}
	all := e.AtLine.PerSecond(measure.TargetCPU)
	for _, thread := range e.sampledOf(measure.ThreadsCPU) {
		line := e.AtLine.PerSecond(measure.ThreadsCPU + thread)
		by := e.readsPipes(thread)
		if line == 0 || line < mostlyHelped*all || line > (1-notAlone)*all || by == "" {
			continue
		}
		return &helper{thread, by, line, e.Over.PerSecond(measure.ThreadsCPU + thread)}
	}
	return nil
}

// readsPipes returns over what a thread of that name is asked, if it read from there most of the time
// while little was asked of the service: a pipe, or the pair of Unix sockets that Node makes in the
// place of one; empty otherwise. A worker that waits for its next connection does not read.
func (e *Evidence) readsPipes(thread string) string {
	looks := e.looks()[gentle]
	for _, c := range []struct{ place, by string }{
		{";pipe;read;", "a pipe"}, {";socket_read;read;unix_stream", "a pair of sockets"},
	} {
		sum := 0.0
		for _, seen := range looks {
			for place, n := range seen.at {
				if strings.HasPrefix(place, thread+c.place) {
					sum += n
				}
			}
		}
		if sum >= .5*max(float64(len(looks)), 1) {
			return c.by
		}
	}
	return ""
}

// waitsForHelper is the finding that requests wait for a helper which has one thread that works, and
// has it busy for much of the time while processors are idle; nil otherwise.
func (e *Evidence) waitsForHelper() *Finding {
	h := e.helper()
	if h == nil || !e.found() || max(h.line, h.over) < halfBusy || h.over > 1+overCore ||
		e.AtLine.Median(measure.TargetThreadsHottest) < mostlyOneThread*h.line ||
		e.idleProcessors() < leastIdle {
		return nil
	}
	at := e.granted(e.AtLine.Last(measure.HostCores))
	return &Finding{
		Claim: fmt.Sprintf("Requests wait for %s, a program that the service has started and asks over "+
			"%s: it uses %s of the %s processors that the service uses at the line, and %s beyond it",
			h.name, h.by, number(h.line), number(e.AtLine.PerSecond(measure.TargetCPU)), number(h.over)),
		Rank:       Binding,
		Confidence: .75,
		Evidence: []Fact{
			{
				What:  "processors in use by " + h.name + ", at the line and beyond it",
				Value: number(h.line) + ", " + number(h.over),
			},
			{
				What: "processors in use by the service with it, at the line and beyond it",
				Value: number(e.AtLine.PerSecond(measure.TargetCPU)) + ", " +
					number(e.Over.PerSecond(measure.TargetCPU)),
			},
			{
				What:  "processors idle, at the line or beyond it",
				Value: number(e.idleProcessors()),
			},
		},
		Advice: []Action{{
			Text: "start one of them for each processor, and ask the one that is idle; or give it less " +
				"to do: see where its time goes",
			// Threads choose their names.
			Command: "perf top -p $(" + format.Command("pgrep", "-n", "--", h.name) +
				")   # py-spy top for Python",
		}},
		Gain: e.gain(cure{
			saves:   leftBehind * h.line / max(e.AtLine.PerSecond(measure.TargetCPU), 1e-9),
			allowed: at,
		}),
		whatever: true,
	}
}
