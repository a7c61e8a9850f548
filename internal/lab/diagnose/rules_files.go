package diagnose

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
)

// fileRules are about files that are looked up for requests: by a profile with the kernel's part, or
// by what the process reads.
var fileRules = []Rule{
	func() Rule {
		r := costly("files-reopened", classFiles, .25, "Looking up and opening files takes %s of "+
			"the processor time",
			"to find a file by its path and open it costs some microseconds, more with each "+
				"folder of the path: several for each request are more than what is done with them")
		r.Needs = []string{"profile:cpu|" + measure.TargetReads}
		r.Threshold += "; or, without a profile, over 20 small reads for each request, a quarter " +
			"of the processor time in the kernel, and files that come and go"
		judge := r.Judge
		r.Judge = func(e *Evidence) *Finding {
			f := judge(e)
			if e.AtLine.Profile(kindCPU) == nil {
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

const (
	// manyReads is how many read calls a request makes at least when files are read for each. The
	// patients that read none make up to 2, for what wakes their event loops; sockets that are read
	// by read(2) have some more.
	manyReads = 20
	// smallRead is how many bytes each of them gives at most: what is large is worth its calls.
	smallRead = 4096
	// mostlyKernel is the share of the processor time that the kernel takes at least.
	mostlyKernel = .25
	// readingCosts is how many seconds of processor time reading files costs for each second of the
	// kernel's, where no profile shows it: the runtime's calls and parsing add to it. With 1 the gains
	// of almanacs and tariffs were predicted as 2.1 and 1.6; they were 3.6 and 3.2.
	readingCosts = 1.5
	// readingMost bounds what is saved: to answer costs something without files, too.
	readingMost = .9
	// fewOpened is how many files have to be seen that were opened since the last look: a log or a
	// database's file stays open.
	fewOpened = 3
	// mostlyOne is the share of what is opened in a folder from which on its one file is named.
	mostlyOne = .8
)

// readsFiles is the finding that files are read for each request, by what the process asks of the
// kernel.
func (e *Evidence) readsFiles() *Finding {
	calls := e.AtLine.PerRequest(measure.TargetReads)
	each := e.AtLine.PerSecond(measure.TargetReadBytes) /
		max(e.AtLine.PerSecond(measure.TargetReads), 1e-9)
	kernel := e.AtLine.PerSecond(measure.TargetCPUSystem) /
		max(e.AtLine.PerSecond(measure.TargetCPU), 1e-9)
	opened, seen := e.opens()
	if calls < manyReads || each > smallRead || kernel < mostlyKernel || seen < fewOpened {
		return nil
	}
	return &Finding{
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
}

// opens is which files were seen to be opened most often, in words, and how often: those of one
// folder or, where it is mostly one of them, that file.
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
		// A folder is counted with each of its files, so it has at least as many, and comes first.
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

// keepFiles is how to have files found less often, in the words of what serves.
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
