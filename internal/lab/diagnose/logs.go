package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
)

// loggingRule is about logs: from a profile, or from the lines that go to a file one by one.
func loggingRule(r Rule) Rule {
	r.Needs = []string{"profile:cpu|" + measure.TargetWrites}
	r.Threshold += "; or, without a profile, over 10 small writes for each request, at half of the line " +
		"too, a tenth of the processor time in the kernel, and files that grow by most of what is " +
		"written"
	judge := r.Judge
	r.Judge = func(e *Evidence) *Finding {
		if e.AtLine.Profile(kindCPU) == nil {
			return e.writesLines()
		}
		return judge(e)
	}
	return r
}

const (
	// manyLines is the minimum number of write calls for each request if lines are written one by
	// one. A line for each request, or for each query, is what logs are for.
	manyLines = 10
	// longLine is the largest mean number of bytes of a line.
	longLine = 512
	// mostlyLines is the minimum share of the written bytes by which files have grown. The rest
	// goes to sockets, where these are written to by write(2).
	mostlyLines = .8
	// lineCosts is how many seconds of processor time lines cost per second in the kernel, if no
	// profile shows it: they are formatted, and pass handlers. hoists, in Python, has 13 % of its
	// time in the kernel, and carries 3.1 times as much without its lines.
	lineCosts = 5
	// lineMost is how many seconds of processor time a line costs at most, with its part of the
	// kernel's time: a handler of Python's logging takes 10 to 20 µs.
	lineMost = 30e-6
)

// writesLines is the finding that lines are written to a file one by one for each request, from what
// the process asks of the kernel; nil if they are not.
func (e *Evidence) writesLines() *Finding {
	calls := e.AtLine.PerRequest(measure.TargetWrites)
	each := e.AtLine.PerSecond(measure.TargetWrittenBytes) /
		max(e.AtLine.PerSecond(measure.TargetWrites), 1e-9)
	kernel := e.AtLine.PerSecond(measure.TargetCPUSystem) /
		max(e.AtLine.PerSecond(measure.TargetCPU), 1e-9)
	files, grown := e.grows()
	if calls < manyLines || each > longLine || kernel < someKernel ||
		grown < max(mostlyLines*calls, manyLines)*each || e.asksAgain() != nil ||
		!near(calls, e.Half.PerRequest(measure.TargetWrites), sameReads) {
		return nil
	}
	return &Finding{
		Claim: fmt.Sprintf("Lines are written one by one for each request: %s write calls, of %s each; "+
			"%s grew by %s", number(calls), size(each), files, size(grown)),
		Rank:       Cost,
		Confidence: .7,
		Evidence: []Fact{
			{What: "write calls for each request, at half of the line and at it",
				Value: number(e.Half.PerRequest(measure.TargetWrites)) + ", " + number(calls)},
			{What: "bytes that each takes", Value: size(each)},
			{What: "bytes by which files grow for each request", Value: size(grown)},
			{What: "the kernel's share of the processor time", Value: percent(kernel)},
		},
		saves: &cure{saves: min(lineCosts*kernel,
			lineMost*calls/max(e.AtLine.PerRequest(measure.TargetCPU), 1e-9), readingMost)},
	}
}

// grows returns which files grow at the line, in words, and by how many bytes for each request: the one
// that grows most is named. Each worker may have its own.
func (e *Evidence) grows() (files string, each float64) {
	most, others := 0.0, -1
	for _, name := range slices.Sorted(maps.Keys(e.AtLine.last())) {
		path, is := strings.CutPrefix(name, measure.TargetAppended)
		n := e.AtLine.PerRequest(name)
		if !is || n == 0 {
			continue
		}
		if n > most {
			files, most = path, n
		}
		each, others = each+n, others+1
	}
	if others > 0 {
		files = fmt.Sprintf("%s and %d more", files, others)
	}
	return files, each
}
