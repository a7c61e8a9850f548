package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"plimsoll/internal/lab/disk"
	"plimsoll/internal/lab/measure"
)

// Open reads a run directory. It refuses a directory that is not one, that has a newer format, or
// that is damaged; the error names the file and the line. If the run was only cut off, Open reads
// the complete part, and Notes says what is missing. It reads a bounded amount, whatever the files
// contain.
func Open(dir string) (*Run, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read as a run directory: %w", dir, disk.Cause(err))
	}
	defer root.Close()
	s := &source{dir: dir, root: root, bytes: maxRun, cells: maxCells}
	r := &Run{Dir: dir}
	if err := s.manifest(r); err != nil {
		return nil, err
	}
	if err := s.steps(r); err != nil {
		return nil, err
	}
	if err := s.leftOver(r); err != nil {
		return nil, err
	}
	return r, s.result(r)
}

// inSnakeCase returns the settings under their present keys. Older runs have new-connections and
// profile-command, with a dash.
func inSnakeCase(settings map[string]string) map[string]string {
	if settings == nil {
		return nil
	}
	out := make(map[string]string, len(settings))
	for key, value := range settings {
		out[strings.ReplaceAll(key, "-", "_")] = value
	}
	return out
}

var errImpossible = fmt.Errorf("a longest duration is 0 to %d ns", int64(measure.Longest))

// version is checked before anything else in a document.
type version struct {
	SchemaVersion int `json:"schema_version"`
	Format        int // the predecessor of schema_version; it was 1
}

func (v version) check(s *source, name string) error {
	path := filepath.Join(s.dir, name)
	switch {
	case v.SchemaVersion > SchemaVersion:
		return fmt.Errorf("%s was written by a newer plimsoll (schema_version %d); "+
			"this one reads %d: read it with the newer one",
			path, v.SchemaVersion, SchemaVersion)
	case v.SchemaVersion == 0 && v.Format > 0:
		return fmt.Errorf("%s was written by an older plimsoll: "+
			"convert the run with scripts/convert_run.py, or measure again", path)
	case v.SchemaVersion < SchemaVersion:
		return s.damaged(name, 0, fmt.Errorf("its schema_version is %d, "+
			"and the lowest there is is %d", v.SchemaVersion, SchemaVersion))
	}
	return nil
}

func (s *source) manifest(r *Run) error {
	var v version
	err := s.document(manifestFile, &v)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not a run directory: it has no %s, which a run begins with",
			s.dir, manifestFile)
	}
	if err != nil {
		return err
	}
	if err := v.check(s, manifestFile); err != nil {
		return err
	}
	if err := s.document(manifestFile, &r.Manifest); err != nil {
		return err
	}
	r.Manifest.Settings = inSnakeCase(r.Manifest.Settings)
	return nil
}

func (s *source) result(r *Run) error {
	var v version
	err := s.document(resultFile, &v)
	if errors.Is(err, fs.ErrNotExist) {
		r.Notes = append(r.Notes, "the run was cut off before its end: it has no "+resultFile)
		return nil
	}
	if err != nil {
		return err
	}
	if err := v.check(s, resultFile); err != nil {
		return err
	}
	r.Result = new(Result)
	return s.document(resultFile, r.Result)
}

// steps reads steps.jsonl and then the files of each step.
func (s *source) steps(r *Run) error {
	var lines []stepLine
	numbers := make(map[int]bool)
	cut, err := s.lines(stepsFile, maxLine, func(number int, text []byte) error {
		if len(lines) == maxSteps {
			return fmt.Errorf("a run has %d steps at most", maxSteps)
		}
		var l stepLine
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if err := l.check(); err != nil {
			return err
		}
		if numbers[l.Plan.Number] {
			return fmt.Errorf("step %d is there twice", l.Plan.Number)
		}
		numbers[l.Plan.Number] = true
		lines = append(lines, l)
		return nil
	})
	if err != nil {
		return err
	}
	if cut > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("the run was cut off while a step was written: "+
			"the last line of %s is not whole, and is left out", stepsFile))
	}
	for i := range lines {
		step, err := s.step(&lines[i])
		if err != nil {
			return err
		}
		r.Steps = append(r.Steps, step)
	}
	return nil
}

// check refuses a line with impossible values, so that readers of the run need not check them.
func (l *stepLine) check() error {
	n := l.Plan.Number
	switch {
	case n < 0 || n >= maxSteps:
		return fmt.Errorf("a step's number is 0 to %d, and not %d", maxSteps-1, n)
	case l.Directory != filepath.ToSlash(stepDir(n)):
		return fmt.Errorf("the directory of step %d is %s, and not %q",
			n, filepath.ToSlash(stepDir(n)), l.Directory)
	case l.Windows < 0 || l.Windows > maxWindows:
		return fmt.Errorf("a step has 0 to %d windows, and not %d", maxWindows, l.Windows)
	case l.Samples < 0 || l.Samples > maxSamples:
		return fmt.Errorf("a step has 0 to %d samples, and not %d", maxSamples, l.Samples)
	case len(l.Totals.Requests) > maxRequests:
		return fmt.Errorf("a mix has %d kinds of request at most, and this one %d",
			maxRequests, len(l.Totals.Requests))
	case l.Totals.Length < 0 || l.Totals.Drain < 0 || l.Plan.Length < 0 || l.Plan.Settle < 0 ||
		l.Plan.Rate < 0:
		return errors.New("a length or a rate is below zero")
	case !l.Totals.Response.possible() || !l.Totals.Service.possible() || !l.Totals.Lag.possible():
		return errImpossible
	}
	for i := range l.Totals.Requests {
		if !l.Totals.Requests[i].Response.possible() {
			return errImpossible
		}
	}
	next := 0
	for _, c := range l.Totals.ConcurrencyAtSend {
		if c.Found < next || c.Found > measure.MostFound {
			return fmt.Errorf("found of concurrency_at_send is 0 to %d and in ascending order, "+
				"and here is %d", measure.MostFound, c.Found)
		}
		next = c.Found + 1
	}
	return nil
}

// step reads the files of the step of a line.
func (s *source) step(l *stepLine) (measure.Step, error) {
	step := measure.Step{Plan: l.Plan, Began: l.Began}
	dir := stepDir(l.Plan.Number)
	windows, err := s.windows(filepath.Join(dir, windowsFile), l.Windows)
	if err != nil {
		return step, err
	}
	var cells [3][][]measure.Cell
	for i, name := range []string{responseFile, serviceFile, lagFile} {
		if cells[i], err = s.histograms(filepath.Join(dir, name),
			make([]string, l.Windows)); err != nil {
			return step, err
		}
	}
	for i := range windows {
		step.Windows = append(step.Windows, windows[i].window(cells[0][i], cells[1][i],
			cells[2][i]))
	}
	totals, err := s.histograms(filepath.Join(dir, totalsFile), totalTags(len(l.Totals.Requests)))
	if err != nil {
		return step, err
	}
	step.Totals = l.Totals.totals(totals)
	step.Samples, err = s.samples(filepath.Join(dir, samplesFile), l.Samples)
	return step, err
}

func (s *source) windows(name string, want int) (all []windowLine, err error) {
	cut, err := s.lines(name, maxLine, func(number int, text []byte) error {
		var l windowLine
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if l.Start < 0 || l.Length < 0 || l.Waiting < 0 || l.InFlight < 0 {
			return errors.New("a time or a number of requests is below zero")
		}
		if !l.Response.possible() || !l.Service.possible() || !l.Lag.possible() {
			return errImpossible
		}
		if len(all) == want {
			return fmt.Errorf("the step has %d windows, and here is one more", want)
		}
		all = append(all, l)
		return nil
	})
	return all, s.complete(name, len(all), want, cut, err)
}

func (s *source) samples(name string, want int) (all []measure.Sample, err error) {
	cut, err := s.lines(name, maxLine, func(number int, text []byte) error {
		var sample measure.Sample
		if err := json.Unmarshal(text, &sample); err != nil {
			return err
		}
		if len(all) == want {
			return fmt.Errorf("the step has %d samples, and here is one more", want)
		}
		all = append(all, sample)
		return nil
	})
	return all, s.complete(name, len(all), want, cut, err)
}

// histograms reads an HDR log whose lines have the given tags.
func (s *source) histograms(name string, tags []string) (all [][]measure.Cell, err error) {
	cut, err := s.lines(name, maxInterval, func(number int, text []byte) error {
		tag, cells, ok, err := readInterval(text)
		if err != nil || !ok {
			return err
		}
		if s.cells -= len(cells); s.cells < 0 {
			return fmt.Errorf("the run's histograms have more than %d buckets together", maxCells)
		}
		if len(all) == len(tags) {
			return fmt.Errorf("there are %d histograms to be here, and here is one more", len(tags))
		}
		if tag != tags[len(all)] {
			return fmt.Errorf("the histogram of %q is to be here, and not that of %q",
				tags[len(all)], tag)
		}
		all = append(all, cells)
		return nil
	})
	return all, s.complete(name, len(all), len(tags), cut, err)
}

// complete refuses an incomplete file of a step. The step's line is written after the file, so a
// run that was cut off cannot explain it.
func (s *source) complete(name string, got, want, cut int, err error) error {
	switch {
	case err != nil:
		return err
	case cut > 0:
		return s.damaged(name, 0, errors.New("its last line is not whole"))
	case got < want:
		return s.damaged(name, 0, fmt.Errorf("it has %d entries, and the step's line in %s says %d",
			got, stepsFile, want))
	}
	return nil
}

// leftOver adds notes about folders of unfinished steps.
func (s *source) leftOver(r *Run) error {
	f, err := s.root.OpenFile(stepsDir, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return s.missing(stepsDir, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(2 * maxSteps)
	if err != nil && !errors.Is(err, io.EOF) {
		return s.unreadable(stepsDir, err)
	}
	slices.Sort(names)
	known := make(map[string]bool)
	for i := range r.Steps {
		known[filepath.Base(stepDir(r.Steps[i].Plan.Number))] = true
	}
	for _, name := range names {
		if !known[name] {
			r.Notes = append(r.Notes, fmt.Sprintf("the run was cut off while a step was written: "+
				"what %s holds is left out", filepath.Join(stepsDir, name)))
			break
		}
	}
	return nil
}
