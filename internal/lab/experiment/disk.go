package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"reflect"
	"slices"

	"plimsoll/internal/config/strict"
	"plimsoll/internal/lab/disk"
	"plimsoll/internal/plainfile"
)

// The files of an experiment's directory.
const (
	manifestFile = "experiment.json"
	roundsFile   = "rounds.jsonl"
	resultFile   = "result.json"
)

// Bounds on what is read: a directory may come from anywhere.
const (
	maxManifest = 4 << 20
	maxLine     = 2 << 20
	maxRounds   = 512 << 20
	// maxMissing is per run: one entry for each figure, plus those for other readings.
	maxMissing = maxFigures + 5
)

// writer writes a directory during an experiment. It has one user at a time.
type writer struct {
	disk   disk.Disk
	rounds disk.File
}

// create makes the directory and writes the manifest. It refuses a directory that is not empty.
func create(dir string, m *Manifest) (*writer, error) {
	d, err := disk.Claim(dir, "directory", "name a new directory")
	if err != nil {
		return nil, err
	}
	w := &writer{disk: d}
	if w.rounds, err = d.Create(roundsFile); err != nil {
		return nil, errors.Join(w.failed(roundsFile, err), d.Close())
	}
	// Last, because the manifest makes the directory one of an experiment.
	if err := w.replace(manifestFile, m); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// run appends a run. The run is on disk when run returns. A run that is too long for a line is
// shortened.
func (w *writer) run(r *Run) error {
	line, err := lineOf(r)
	if err == nil && len(line) > maxLine {
		// The service decides the size of its metrics page. A large page must not end the
		// experiment.
		r.Before, r.After = nil, nil
		r.Missing = append(r.Missing, fmt.Sprintf("what else the probes and the metrics page "+
			"said: a line of %s has %d MiB at most", roundsFile, maxLine>>20))
		line, err = lineOf(r)
	}
	if err != nil {
		return w.failed(roundsFile, err)
	}
	if len(line) > maxLine {
		return fmt.Errorf("the line of round %d would have %d bytes, and a reader takes %d: "+
			"measure fewer figures, or give them shorter names",
			r.Round, len(line), maxLine)
	}
	if _, err = w.rounds.Write(line); err == nil {
		err = w.rounds.Sync()
	}
	if err != nil {
		return w.failed(roundsFile, err)
	}
	return nil
}

// Files are the types of the JSON files, for their schemas: of a whole file, or of a line of it.
func Files() map[string]reflect.Type {
	return map[string]reflect.Type{
		manifestFile: reflect.TypeFor[Manifest](),
		roundsFile:   reflect.TypeFor[Run](),
	}
}

// lineOf encodes a run as a line.
func lineOf(r *Run) ([]byte, error) {
	line, err := disk.Encode(r)
	return append(line, '\n'), err
}

// replace writes a JSON document whole or not at all.
func (w *writer) replace(name string, document any) error {
	return w.others(disk.Replace(w.disk, name, document, maxManifest))
}

func (w *writer) failed(name string, err error) error {
	return w.others(disk.Failed(w.disk, name, err))
}

// others adds to an error that what was written before is intact.
func (w *writer) others(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; what was written before is whole", err)
}

func (w *writer) close() error { return errors.Join(w.rounds.Close(), w.disk.Close()) }

// Open reads an experiment's directory. If the experiment was cut off, it reads up to the last
// complete run.
func Open(dir string) (*Record, error) {
	text, err := strict.Read(filepath.Join(dir, manifestFile), maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not an experiment's directory: it has no %s",
			dir, manifestFile)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", filepath.Join(dir, manifestFile), err)
	}
	r := new(Record)
	if err := json.Unmarshal(text, &r.Manifest); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", filepath.Join(dir, manifestFile), err)
	}
	if err := r.Manifest.check(); err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w",
			filepath.Join(dir, manifestFile), err)
	}
	f, err := plainfile.Open(filepath.Join(dir, roundsFile))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w",
			filepath.Join(dir, roundsFile), disk.Cause(err))
	}
	defer f.Close()
	if err := r.read(f); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w", filepath.Join(dir, roundsFile), err)
	}
	r.ended(dir)
	return r, nil
}

// ended determines whether the experiment was completed. The rounds do not show it, because a value
// that always fails is given up.
func (r *Record) ended(dir string) {
	var result struct{ Early string }
	text, err := strict.Read(filepath.Join(dir, resultFile), maxManifest)
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	if r.Early = result.Early; err != nil {
		r.Early = "it was cut off, as it has no " + resultFile + " that can be read"
	}
}

// check refuses a manifest that the analysis cannot use.
func (m *Manifest) check() error {
	names := make(map[string]bool)
	for _, v := range m.Values {
		names[v.Name] = true
	}
	switch {
	case m.SchemaVersion == 0:
		return errors.New("it has no schema_version: convert the experiment with " +
			"scripts/convert_run.py when an older plimsoll wrote it")
	case m.SchemaVersion != SchemaVersion:
		return fmt.Errorf("its schema_version is %d, and this program reads %d",
			m.SchemaVersion, SchemaVersion)
	case len(m.Values) < 2 || len(m.Values) > maxValues || len(names) != len(m.Values):
		return errors.New("its values are too few, too many, or two have the same name")
	case m.Baseline < 0 || m.Baseline >= len(m.Values):
		return errors.New("its baseline is not one of its values")
	case m.AllPairs && (m.Previous || len(m.Values) > maxPairs):
		return errors.New("it compares more pairs of values than there can be")
	case len(m.Figures) > maxFigures || m.Repeat < 1 || m.Repeat > maxRepeat:
		return errors.New("it has more figures or rounds than there can be")
	case !(m.Alpha >= leastAlpha && m.Alpha < .5) || !(m.Relevant >= 0 && m.Relevant < .5):
		return errors.New("its alpha or its relevance is not a share that makes sense")
	}
	for _, f := range m.Figures {
		if known, ok := figureOf(f.Name); !ok || f != known {
			return fmt.Errorf("its figure %q is unknown, or differs from this program's",
				strict.Clip(f.Name))
		}
	}
	return nil
}

// read reads the runs. There is at most one for each value and round.
func (r *Record) read(f io.Reader) error {
	type place struct {
		value string
		round int
	}
	taken := make(map[place]bool)
	cut, err := disk.Lines(io.LimitReader(f, maxRounds), maxLine, func(_ int, line []byte) error {
		run, err := r.Manifest.run(line)
		at := place{run.Value, run.Round}
		switch {
		case err != nil:
			return err
		case taken[at]:
			return fmt.Errorf("round %d of %s is there twice", run.Round, strict.Clip(run.Value))
		}
		taken[at] = true
		r.Runs = append(r.Runs, run)
		return nil
	})
	if cut > 0 {
		r.Notes = append(r.Notes,
			fmt.Sprintf("line %d of %s is cut off, and is left out", cut, roundsFile))
	}
	return err
}

// run parses a line and keeps only what is analysed.
func (m *Manifest) run(line []byte) (Run, error) {
	var read struct {
		Run
		// These replace the run's own fields, which are most of a line.
		Totals struct{} `json:"totals"`
		Before struct{} `json:"before"`
		After  struct{} `json:"after"`
	}
	if err := json.Unmarshal(line, &read); err != nil {
		return Run{}, err
	}
	run := read.Run
	switch {
	case !slices.ContainsFunc(m.Values, func(v Value) bool { return v.Name == run.Value }) ||
		run.Round < 1 || run.Round > m.Repeat:
		return Run{}, errors.New("it is of a value or a round that the experiment does not have")
	case len(run.Missing) > maxMissing:
		return Run{}, errors.New("it misses more than there can be")
	}
	run.Figures = make(map[string]float64, len(m.Figures))
	for _, f := range m.Figures {
		v, ok := read.Figures[f.Name]
		if !ok {
			continue
		}
		if math.Abs(v) > maxFigure {
			return Run{}, fmt.Errorf("%s is %g, which nothing can be", strict.Clip(f.Name), v)
		}
		run.Figures[f.Name] = v
	}
	return run, nil
}
