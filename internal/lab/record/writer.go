package record

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"plimsoll/internal/lab/disk"
	"plimsoll/internal/lab/measure"
)

// Writer writes a run directory during an experiment. It has one user at a time. If a write fails,
// the run is complete and readable up to the step before. The writer then accepts no further step,
// but a result may still be tried.
type Writer struct {
	disk  disk.Disk
	steps disk.File
	size  int64 // length of the complete lines of steps.jsonl
	taken map[int]bool
	last  int // number of the last complete step; -1 before the first
	err   error
}

// Create makes a run directory, with its parents, and writes the manifest with the current
// SchemaVersion. It refuses a directory that is not empty.
func Create(dir string, m Manifest) (*Writer, error) {
	d, err := disk.Claim(dir, "run directory", "a run needs a new or an empty directory")
	if err != nil {
		return nil, err
	}
	return create(d, m)
}

func create(d disk.Disk, m Manifest) (*Writer, error) {
	w := &Writer{disk: d, taken: make(map[int]bool), last: -1}
	m.SchemaVersion = SchemaVersion
	err := d.Mkdir(stepsDir)
	if err == nil {
		w.steps, err = d.Create(stepsFile)
	}
	if err != nil {
		err = disk.Failed(d, stepsFile, err)
	} else {
		// Last, because the manifest makes the directory a run directory.
		err = disk.Replace(d, manifestFile, m, maxDocument)
	}
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("no run is begun: %w", err)
	}
	return w, nil
}

// Step writes a step: first its files, then its line in steps.jsonl. Both are on disk when it
// returns. The step exists once its line is complete; after a failure, Step removes what is left of
// it. The plan's number names the folder. It must be from 0 to 9999 and new.
func (w *Writer) Step(s *measure.Step) error {
	if w.err != nil {
		return w.err
	}
	if err := w.check(s); err != nil {
		return err
	}
	dir := stepDir(s.Plan.Number)
	err := w.files(dir, s)
	if err == nil {
		err = w.line(dir, s)
	}
	if err != nil {
		w.disk.RemoveAll(dir)
		w.err = fmt.Errorf("%w; %s", err, w.whole())
		return w.err
	}
	w.taken[s.Plan.Number] = true
	w.last = s.Plan.Number
	return nil
}

// check refuses a step that a reader would refuse.
func (w *Writer) check(s *measure.Step) error {
	number := s.Plan.Number
	switch {
	case number < 0 || number >= maxSteps:
		return fmt.Errorf("a step's number is 0 to %d, and not %d", maxSteps-1, number)
	case w.taken[number]:
		return fmt.Errorf("step %d is in the run already", number)
	case len(s.Windows) > maxWindows:
		return fmt.Errorf("step %d has %d windows, and a run directory takes %d: "+
			"make its windows longer", number, len(s.Windows), maxWindows)
	case len(s.Samples) > maxSamples:
		return fmt.Errorf("step %d has %d samples, and a run directory takes %d: "+
			"take them less often", number, len(s.Samples), maxSamples)
	case len(s.Totals.Requests) > maxRequests:
		return fmt.Errorf("the mix has %d kinds of request, and a run directory takes %d",
			len(s.Totals.Requests), maxRequests)
	}
	return checkProfiles(s)
}

// whole says what is intact after a failed write.
func (w *Writer) whole() string {
	if w.last < 0 {
		return fmt.Sprintf("the run in %s has no step yet", w.disk.Name())
	}
	return fmt.Sprintf("the run in %s is whole up to step %d", w.disk.Name(), w.last)
}

// files writes a step's folder.
func (w *Writer) files(dir string, s *measure.Step) error {
	if err := w.disk.Mkdir(dir); err != nil {
		return disk.Failed(w.disk, dir, err)
	}
	for _, name := range stepFiles {
		err := disk.Write(w.disk, filepath.Join(dir, name), func(out io.Writer) error {
			return writeStepFile(out, name, s)
		})
		if err != nil {
			return err
		}
	}
	for kind, profile := range s.Profiles {
		err := disk.Write(w.disk, filepath.Join(dir, kind+profileSuffix), func(out io.Writer) error {
			_, err := out.Write(profile)
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, d := range []string{dir, stepsDir} {
		if err := w.disk.Sync(d); err != nil {
			return disk.Failed(w.disk, d, err)
		}
	}
	return nil
}

// filesOf are the names of a step's files.
func filesOf(s *measure.Step) []string {
	names := slices.Clone(stepFiles)
	for _, kind := range slices.Sorted(maps.Keys(s.Profiles)) {
		names = append(names, kind+profileSuffix)
	}
	return names
}

// writeStepFile writes one of stepFiles.
func writeStepFile(out io.Writer, name string, s *measure.Step) error {
	switch name {
	case windowsFile:
		return eachLine(out, len(s.Windows), func(i int) any { return lineOfWindow(&s.Windows[i]) })
	case samplesFile:
		return eachLine(out, len(s.Samples), func(i int) any { return s.Samples[i] })
	case responseFile:
		return WriteHDR(out, s.Began, s.Windows, func(w *measure.Window) *measure.Sparse {
			return &w.Response
		})
	case serviceFile:
		return WriteHDR(out, s.Began, s.Windows, func(w *measure.Window) *measure.Sparse {
			return &w.Service
		})
	case lagFile:
		return WriteHDR(out, s.Began, s.Windows, func(w *measure.Window) *measure.Sparse {
			return &w.Lag
		})
	}
	histograms, tags := histogramsOf(&s.Totals)
	all := make([]interval, len(tags))
	for i, tag := range tags {
		all[i] = interval{0, s.Totals.Length + s.Totals.Drain, tag, histograms[i]}
	}
	return writeHDR(out, s.Began, all)
}

// eachLine writes n JSON lines.
func eachLine(out io.Writer, n int, line func(i int) any) error {
	for i := range n {
		text, err := disk.Encode(line(i))
		if err != nil {
			return err
		}
		if len(text) >= maxLine {
			return fmt.Errorf("line %d would have %d bytes, and a reader takes %d",
				i+1, len(text), maxLine)
		}
		if _, err := out.Write(append(text, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// line appends the step's line, completely or not at all.
func (w *Writer) line(dir string, s *measure.Step) error {
	text, err := disk.Encode(stepLine{
		Began:     s.Began,
		Plan:      s.Plan,
		Totals:    lineOfTotals(&s.Totals),
		Windows:   len(s.Windows),
		Samples:   len(s.Samples),
		Directory: filepath.ToSlash(dir),
		Files:     filesOf(s),
	})
	if err != nil {
		return disk.Failed(w.disk, stepsFile, err)
	}
	text = append(text, '\n')
	if len(text) > maxLine {
		return fmt.Errorf("the line of step %d in %s would have %d bytes, and a reader takes %d",
			s.Plan.Number, stepsFile, len(text), maxLine)
	}
	_, err = w.steps.Write(text)
	if err == nil {
		err = w.steps.Sync()
	}
	if err != nil {
		// A part of the line may have been written. A reader recognises it by the missing newline,
		// so it does not matter if the truncation fails too.
		w.steps.Truncate(w.size)
		return disk.Failed(w.disk, stepsFile, err)
	}
	w.size += int64(len(text))
	return nil
}

// Result writes the result and replaces an earlier one as a whole. It may be called repeatedly, so
// that a killed run still has its latest result.
func (w *Writer) Result(r *Result) error {
	copied := *r
	copied.SchemaVersion = SchemaVersion
	if err := disk.Replace(w.disk, resultFile, copied, maxDocument); err != nil {
		return fmt.Errorf("%w; %s", err, w.whole())
	}
	return nil
}

// Close ends the writing. The files stay on disk.
func (w *Writer) Close() error {
	return errors.Join(w.steps.Close(), w.disk.Close())
}
