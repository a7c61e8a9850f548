package diagnose

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
)

// fileRules are about files that are looked up for requests: from a profile that includes the
// kernel, or from what the process reads.
var fileRules = []Rule{
	func() Rule {
		r := costly("files-reopened", classFiles, .25, "Looking up and opening files takes %s of "+
			"the processor time",
			"to find a file by its path and open it costs some microseconds, more with each "+
				"folder of the path: several for each request are more than what is done with them")
		r.Needs = []string{"profile:cpu|" + measure.TargetReads}
		r.Threshold += "; or, without a profile that has what the kernel does, over 20 small reads for " +
			"each request, a quarter of the processor time in the kernel, and files that come " +
			"and go; or over 60 reads of at most 2 KiB, at half of the line too, and a tenth in " +
			"the kernel; or 32 kB of files that come and go, and five times the answer"
		judge := r.Judge
		r.Judge = func(e *Evidence) *Finding {
			f := judge(e)
			if f == nil && (e.AtLine.Profile(kindCPU) == nil || e.profiledWithin()) {
				f = e.readsFiles()
			}
			if f != nil {
				f.Advice = e.keepFiles()
			}
			return f
		}
		return r
	}(),
}

// profiledWithin reports whether the profile may be of a runtime that does not see what the kernel
// does for it, as the JVM's recordings and V8's profiles do not.
func (e *Evidence) profiledWithin() bool {
	switch e.Run.Manifest.Machine.TargetRuntime {
	case measure.RuntimeJVM, measure.RuntimeNode, measure.RuntimeCPython, measure.RuntimeRuby:
		return true
	}
	return false
}

const (
	// manyReads is the minimum number of read calls per request if files are read for each. The
	// patients that read no files make up to 2 calls, for what wakes their event loops. Sockets
	// that are read by read(2) add some more.
	manyReads = 20
	// smallRead is the largest mean number of bytes per call. Large reads are worth their calls.
	smallRead = 4096
	// mostlyKernel is the minimum share of the processor time that the kernel takes.
	mostlyKernel = .25
	// farMoreReads, smallerRead and someKernel replace manyReads, smallRead and mostlyKernel if
	// reading costs the kernel little, because the service does more with what it reads than read
	// it: parse templates, for example. sailings has 105 read calls of 64 B, and 15 % in the
	// kernel; gunicorn has 11 calls with TLS. A database in the process reads pages of 4 KiB, and
	// its journal comes and goes.
	farMoreReads, smallerRead, someKernel = 60, 2048, .1
	// oftenOpened replaces fewOpened then, and sameReads is how much the calls for each request may
	// differ at half of the line: what is read by the clock is not read for requests.
	oftenOpened, sameReads = 6, 1.3
	// halfRead replaces smallRead if files are opened that often: a file of 8 to 14 KB takes two reads,
	// of which the second finds the end. What is copied by 8 KiB has a mean just below that.
	halfRead = 7168
	// readingCosts is how many seconds of processor time reading files costs per second in the
	// kernel, if no profile shows it: the runtime's calls and parsing add to it. With 1, the gains
	// of almanacs and tariffs were predicted as 2.1 and 1.6; they were 3.6 and 3.2.
	readingCosts = 1.5
	// parsingCosts is the same if the service does more with what it reads than read it. yachts, which
	// takes time zones apart, would have been predicted right with 3.8.
	parsingCosts = 3
	// readingMost bounds what is saved: an answer costs something without files, too.
	readingMost = .9
	// fewOpened is how often files must be seen to have been opened since the previous look. A log
	// or a database's file stays open.
	fewOpened = 3
	// mostlyOne is the share of the openings in a folder from which on its one file is named.
	mostlyOne = .8
)

// readsFiles is the finding that files are read for each request, from what the process asks of the
// kernel.
func (e *Evidence) readsFiles() *Finding {
	calls := e.AtLine.PerRequest(measure.TargetReads)
	each := e.AtLine.PerSecond(measure.TargetReadBytes) /
		max(e.AtLine.PerSecond(measure.TargetReads), 1e-9)
	kernel := e.AtLine.PerSecond(measure.TargetCPUSystem) /
		max(e.AtLine.PerSecond(measure.TargetCPU), 1e-9)
	opened, seen := e.opens()
	often := seen >= oftenOpened && near(calls, e.Half.PerRequest(measure.TargetReads), sameReads)
	much := calls >= manyReads && kernel >= mostlyKernel &&
		(each <= smallRead && seen >= fewOpened || each <= halfRead && often)
	if !much {
		if f := e.readsWholeFiles(); f != nil {
			return f
		}
	}
	if !much && (calls < farMoreReads || each > smallerRead || kernel < someKernel || !often ||
		e.asksAgain() != nil) {
		return nil
	}
	f := &Finding{
		Claim: fmt.Sprintf("Files are looked up, opened and read for each request: %s read calls, "+
			"of %s each; %s", number(calls), size(each), opened),
		Rank:       Cost,
		Confidence: .8,
		Evidence: []Fact{
			{What: "read calls for each request, at the line", Value: number(calls)},
			{What: "bytes that each gives", Value: size(each)},
			{What: "the kernel's share of the processor time", Value: percent(kernel)},
			{What: "times that files there were seen to have been opened", Value: number(seen)},
		},
		saves: &cure{saves: min(readingCosts*kernel, readingMost)},
	}
	if !much {
		f.saves.saves = min(parsingCosts*kernel, readingMost)
		f.Confidence = .65
		f.Evidence = append(f.Evidence, Fact{
			What: "read calls for each request, at half of the line",
			Value: number(e.Half.PerRequest(measure.TargetReads)) +
				": as many for each; what the service does with what it reads (parses it, for " +
				"example) is not in the kernel's share, and is spared too",
		})
	}
	return f
}

const (
	// wholeFiles is the minimum number of bytes that are read for each request if the files are large,
	// and moreThanAnswered the factor by which they exceed the answer: else they may be what is asked for.
	wholeFiles, moreThanAnswered = 32e3, 5
	// leastParsed is the minimum share of the processor time that reading and parsing them costs.
	leastParsed = .25
)

// parsing returns the processor time in seconds that each byte of a file costs at least if it is parsed:
// 5 to 10 ns of JSON in Node.js and Java, 10 to 20 in Python, and several times that of CSV and XML.
func (e *Evidence) parsing() float64 {
	switch e.Run.Manifest.Machine.TargetRuntime {
	case measure.RuntimeCPython, measure.RuntimeRuby:
		return 15e-9
	}
	return 8e-9
}

// readsWholeFiles is the finding that a few large files are read for each request, in few calls, and
// parsed; nil if they are not, or if that is little of the work.
func (e *Evidence) readsWholeFiles() *Finding {
	line, half := e.fileBytes(e.AtLine), e.fileBytes(e.Half)
	answer := e.AtLine.answerBytes()
	opened, seen := e.opens()
	own := e.AtLine.PerRequest(measure.TargetCPU)
	saves := min(max(readingCosts*e.inKernel(), line*e.parsing()/max(own, 1e-9)), readingMost)
	if line < max(wholeFiles, moreThanAnswered*answer) || !near(line, half, sameReads) ||
		seen < oftenOpened || saves < leastParsed || e.opensDatabase() {
		return nil
	}
	return &Finding{
		Claim: fmt.Sprintf("Files are opened and read for each request, %s of them; %s",
			size(line), opened),
		Rank:       Cost,
		Confidence: .6,
		Evidence: []Fact{
			{What: "bytes that are read for each request beside what comes over connections, at half of " +
				"the line and at it", Value: size(half) + ", " + size(line)},
			{What: "bytes of an answer", Value: size(answer)},
			{What: "times that files there were seen to have been opened", Value: number(seen)},
		},
		saves: &cure{saves: saves},
	}
}

// opensDatabase reports whether a database's file was seen to be opened, which is read page by page.
func (e *Evidence) opensDatabase() bool {
	return slices.ContainsFunc(e.sampledOf(measure.TargetOpened), ofDatabase)
}

// fileBytes returns how many bytes are read for each request, without those that came from clients and
// from what the service asks: its runtime may read these by the same call.
func (e *Evidence) fileBytes(m *Moment) float64 {
	all := m.PerRequest(measure.TargetReadBytes)
	if m != nil {
		t := &m.Step.Totals
		all -= float64(t.BytesOut) / max(float64(t.Ended.Answered()), 1)
	}
	for _, at := range e.sampledOf(measure.OutgoingReceived) {
		all -= m.PerRequest(measure.OutgoingReceived + at)
	}
	return max(all, 0)
}

// opens returns, in words, which files were seen to be opened most often, and how often: the files
// of one folder or, if it is mostly one of them, that file.
func (e *Evidence) opens() (what string, times float64) {
	most := map[string]float64{}
	for i := range e.Run.Steps {
		for name, n := range (&Moment{Step: &e.Run.Steps[i]}).last() {
			if path, is := strings.CutPrefix(name, measure.TargetOpened); is {
				most[path] = max(most[path], n)
			}
		}
	}
	folder, file := "", ""
	for _, path := range slices.Sorted(maps.Keys(most)) {
		// A folder's count includes each of its files, so it is at least as high. The folder also
		// comes first.
		if most[path] > most[folder] {
			folder = path
		}
		if filepath.Dir(path) == folder && most[path] >= mostlyOne*most[folder] {
			file = path
		}
	}
	if file != "" && filepath.Dir(file) == folder {
		return fmt.Sprintf("%q is opened again and again", file), most[file]
	}
	return fmt.Sprintf("files in %q come and go", folder), most[folder]
}

// keepFiles returns how to look up files less often, in the terms of the server program.
func (e *Evidence) keepFiles() []Action {
	see := Action{
		Text:    "see which files they are, and which of them are not even there",
		Command: e.filled("strace -f -e trace=%file -p PID 2>&1 | head -200"),
	}
	if e.Run.Manifest.Machine.TargetServer == "nginx" {
		return []Action{
			{
				Text: "have nginx remember what it has opened, and what is not there: each file " +
					"is looked up, opened and closed again for each request unless it is told to",
				Command: "open_file_cache max=10000 inactive=60s; open_file_cache_valid 30s; " +
					"open_file_cache_errors on;",
			},
			{
				Text: "look for fewer: each name of try_files, gzip_static and disable_symlinks " +
					"are further calls for each file",
			},
			see,
		}
	}
	return []Action{
		{
			Text: "read what does not change once, and keep its content, or keep the file open; " +
				"a template or a configuration that is read for each request is meant",
		},
		see,
	}
}
