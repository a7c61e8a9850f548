package diagnose

import (
	"fmt"

	"plimsoll/internal/lab/measure"
)

// loggingRule is about logs: from a profile, or from the lines that are written one by one, or
// gathered, to a file or to the standard output.
func loggingRule(r Rule) Rule {
	r.Needs = []string{"profile:cpu|" + measure.TargetWrites}
	r.Threshold += "; or, without a profile that shows whose they are, over 10 small writes for " +
		"each request beside its answer, at half of the line too, a tenth of the processor time in " +
		"the kernel (a twentieth from 15 writes on), and files that grow by most of what is " +
		"written, or a standard output that is not a file; or a log that grows by over 2 kB for " +
		"each request in fewer writes; or over 10 UDP datagrams for each request"
	inProfile := r.Judge
	judge := func(e *Evidence) *Finding {
		if e.AtLine.Profile(kindCPU) != nil {
			w := e.wasting()
			if f := inProfile(e); f != nil || !e.profiledWithin() && (w == nil || !w.writesFiles) {
				return f
			}
		}
		return e.logs()
	}
	r.Judge = func(e *Evidence) *Finding {
		f := judge(e)
		if less := programs[e.Run.Manifest.Machine.TargetServer].logs; f != nil && less.Text != "" {
			f.Advice = append(f.Advice, less)
		}
		return f
	}
	return r
}

// logs is the finding that lines of a log are written, from what the process asks of the kernel: a
// profile may not see that, or not whose lines they are. It is nil if they are not.
func (e *Evidence) logs() *Finding {
	// A query for each thing in a list may have a line each. To ask once cures both.
	if !e.AtLine.Has(measure.TargetWrites) || e.asksAgain() != nil {
		return nil
	}
	line, half := e.written(e.AtLine), e.written(e.Half)
	for _, judged := range []func(line, half *written) *Finding{
		e.writesLines, e.gathersLines, e.pipesLines,
	} {
		if f := judged(line, half); f != nil {
			return f
		}
	}
	return e.sendsDatagrams()
}

const (
	// manyLines is the minimum number of write calls for each request if lines are written one by
	// one. A line for each request, or for each query, is what logs are for.
	manyLines = 10
	// longLine is the largest mean number of bytes of a line. JSON with a request's context has 600
	// to 1,200. SQLite's write-ahead log must stay outside: headers and pages of it have 2 KB on
	// average.
	longLine = 1536
	// mostlyLines is the minimum share of the written bytes by which files have grown, without the
	// answers. The rest goes to sockets, where these are written to by write(2).
	mostlyLines = .8
	// hardlyKernel replaces someKernel if there are at least moreLines: Java's loggers take 25 to
	// 60 µs for a line, 3 of which are in the kernel.
	hardlyKernel, moreLines = .05, 15
	// someSaved is the minimum share of the processor time that lines cost if it is not the kernel
	// that tells of them. Lines beside much other work are not worth a finding.
	someSaved = .1
	// lineCosts is how many seconds of processor time lines cost per second in the kernel, if no
	// profile shows it: they are formatted, and pass handlers. hoists, in Python, has 13 % of its
	// time in the kernel, and carries 3.1 times as much without its lines.
	lineCosts = 5
)

// lineMost returns how many seconds of processor time a line costs at most, with its part of the
// kernel's time: a handler of Python's logging takes 10 to 20 µs, Node's console.log 20 to 40 and
// winston 50, and Java's loggers 25 to 60 where they look up who called.
func (e *Evidence) lineMost() float64 {
	switch e.Run.Manifest.Machine.TargetRuntime {
	case measure.RuntimeNode:
		return 50e-6
	case measure.RuntimeJVM:
		return 40e-6
	}
	return 30e-6
}

// linesCost returns the share of the processor time that so many lines for each request cost at
// most.
func (e *Evidence) linesCost(lines float64) float64 {
	each := e.AtLine.PerRequest(measure.TargetCPU)
	return min(e.lineMost()*lines/max(each, 1e-9), readingMost)
}

// inKernel returns the kernel's share of the processor time at the line.
func (e *Evidence) inKernel() float64 {
	return e.AtLine.PerSecond(measure.TargetCPUSystem) /
		max(e.AtLine.PerSecond(measure.TargetCPU), 1e-9)
}

// kernelWrites reports whether the kernel has as much to do as lines one by one give it.
func (e *Evidence) kernelWrites(lines float64) bool {
	kernel := e.inKernel()
	return kernel >= someKernel ||
		kernel >= hardlyKernel && lines >= moreLines && e.linesCost(lines) >= someSaved
}

// linesFound is the finding that lines are written one by one. where follows the claim, and fact is
// what tells where they go.
func (e *Evidence) linesFound(line, half, each, sure float64, where string, fact Fact) *Finding {
	return &Finding{
		Claim: fmt.Sprintf("Lines are written one by one for each request: %s write calls, of %s "+
			"each%s", number(line), size(each), where),
		Rank:       Cost,
		Confidence: sure,
		Evidence: []Fact{
			{What: "write calls for each request, at half of the line and at it",
				Value: number(half) + ", " + number(line)},
			{What: "bytes that each takes", Value: size(each)},
			fact,
			{What: "the kernel's share of the processor time", Value: percent(e.inKernel())},
		},
		saves: &cure{saves: min(lineCosts*e.inKernel(), e.linesCost(line))},
	}
}

// writesLines is the finding that lines are written to a file one by one for each request, from
// what the process asks of the kernel; nil if they are not.
func (e *Evidence) writesLines(line, half *written) *Finding {
	each := line.bytes / max(line.calls, 1e-9)
	// Beside an answer, which may have been written in pieces, a line or two do not make many.
	pieces := line.grown < mostlyLines*line.all && (line.grown < muchLogged || each < shortLine)
	if line.calls < manyLines || each > longLine || !e.kernelWrites(line.calls) || pieces ||
		line.grown < max(mostlyLines*line.bytes, manyLines*each) ||
		!near(line.calls, half.calls, sameReads) {
		return nil
	}
	return e.linesFound(line.calls, half.calls, each, .7,
		fmt.Sprintf("; %s grew by %s", line.files, size(line.grown)),
		Fact{What: "bytes by which files grow for each request", Value: size(line.grown)})
}

const (
	// muchLogged is the minimum number of bytes of the lines for a request if their number is not
	// that of the calls, or may not be. A line for each request, even of JSON, is shorter.
	muchLogged = 1500
	// muchGathered is the same for lines that are gathered: one line in one call may have 1.5 kB.
	muchGathered = 2000
	// usualLine is how many bytes a line is taken to have if it is not known how many there are.
	usualLine = 150
)

// gathersLines is the finding that many lines are written to a log for each request, a few
// kilobytes at a time, as streams and buffered appenders do; nil if they are not. The kernel has
// little to do then. How many lines these are is not known.
func (e *Evidence) gathersLines(line, half *written) *Finding {
	lines := line.logged / usualLine
	if line.logged < muchGathered || line.calls-line.asked >= manyLines ||
		!near(line.logged, half.logged, sameReads) || e.linesCost(lines) < someSaved {
		return nil
	}
	return &Finding{
		Claim: fmt.Sprintf("Many lines are logged for each request: %s grew by %s, some %s lines "+
			"of %s", line.logs, size(line.logged), number(lines), size(usualLine)),
		Rank:       Cost,
		Confidence: .5,
		Evidence: []Fact{
			{What: "bytes by which logs grow for each request, at half of the line and at it",
				Value: size(half.logged) + ", " + size(line.logged)},
			{What: "write calls for each request: lines are gathered", Value: number(line.calls)},
		},
		saves: &cure{saves: e.linesCost(lines)},
	}
}

const (
	// shortLine is the least mean number of bytes of a line if other calls may be among them. What
	// wakes an event loop has 1 or 8 bytes, and the frame around a piece of an answer 31 at most.
	shortLine = 60
	// usualQuestion is how many bytes a question to a store is taken to have. Its answer is
	// counted, its length is not.
	usualQuestion = 200
	// someRest is the minimum share of the written bytes that is left for lines. What a request's
	// answer has is known to some percent.
	someRest = .1
)

// pipesLines is the finding that lines are written one by one to a standard output that is not a file,
// as in containers: what is written beside the answers, the questions and the files. It is nil if
// they are not, or if what is written may go to others of whom this is not known.
func (e *Evidence) pipesLines(line, half *written) *Finding {
	if e.AtLine.Median(measure.TargetOutputPiped) < 1 || line.unclear || half.unclear ||
		e.AtLine.opened() > .2*e.AtLine.Goodput() || e.asksUncounted() || e.asksOverPipes() {
		return nil
	}
	calls, before := line.calls-line.asked, half.calls-half.asked
	rest := line.bytes - line.grown - usualQuestion*line.asked
	each := rest / max(calls, 1e-9)
	if calls < manyLines || each < shortLine || each > longLine ||
		rest < max(someRest*line.all, muchLogged) || !e.kernelWrites(calls) ||
		e.linesCost(calls) < someSaved || !near(calls, before, sameReads) {
		return nil
	}
	return e.linesFound(calls, before, each, .6,
		", to its standard output, a pipe, a socket or a terminal",
		Fact{
			What: "processes that write often and whose standard output, or that for errors, is " +
				"no file",
			Value: number(e.AtLine.Median(measure.TargetOutputPiped)),
		})
}

// sendsDatagrams is the finding that the service sends datagrams for each request, as to a syslog or to
// a collector of statistics (statsd); nil if it does not. They are counted for the whole machine. QUIC
// has datagrams too, so a service that is asked over it is left out.
func (e *Evidence) sendsDatagrams() *Finding {
	line, half := e.AtLine.PerRequest(measure.HostUDPSent), e.Half.PerRequest(measure.HostUDPSent)
	if line < manyLines || !near(line, half, sameReads) || e.inKernel() < someKernel ||
		e.linesCost(line) < someSaved || e.Run.Manifest.Settings["protocol"] == "HTTP/3" {
		return nil
	}
	return &Finding{
		Claim: fmt.Sprintf("Datagrams are sent for each request, %s of them, as to a syslog or to a "+
			"collector of statistics (statsd)", number(line)),
		Rank:       Cost,
		Confidence: .6,
		Evidence: []Fact{
			{What: "UDP datagrams that the machine sends for each request, at half of the line and at it",
				Value: number(half) + ", " + number(line)},
			{What: "the kernel's share of the processor time", Value: percent(e.inKernel())},
		},
		saves: &cure{saves: min(lineCosts*e.inKernel(), e.linesCost(line))},
	}
}
