// Command golden makes small run directories of whole ones, for the tests of the diagnosis: what no
// rule looks at is left out, and so is what says where they were recorded. It refuses a run whose
// diagnosis would no longer be the same.
//
//	python3 bench/patients.py --plimsoll ./plimsoll --keep runs
//	go run ./bench/golden runs/* internal/lab/diagnose/testdata/recorded
//
// A run becomes one archive, NAME.tar.gz, of about 100 KB.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/model"
	"plimsoll/internal/lab/record"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: golden RUN... FOLDER")
		os.Exit(2)
	}
	runs, folder := os.Args[1:len(os.Args)-1], os.Args[len(os.Args)-1]
	for _, dir := range runs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue // the log beside a run
		}
		if err := shrink(dir, filepath.Join(folder, filepath.Base(dir)+".tar.gz")); err != nil {
			fmt.Fprintln(os.Stderr, "golden:", dir+":", err)
			os.Exit(1)
		}
	}
}

// shrink writes a run's archive.
func shrink(dir, archive string) error {
	run, err := record.Open(dir)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "golden")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	whole := diagnose.Run(run) // before the copy, which changes what was read
	small := filepath.Join(temporary, "run")
	if err := copyRun(run, small); err != nil {
		return err
	}
	again, err := record.Open(small)
	if err != nil {
		return err
	}
	shrunk := diagnose.Run(again)
	if !reflect.DeepEqual(rulesOf(whole), rulesOf(shrunk)) {
		return fmt.Errorf("the small run is diagnosed differently: %v, and before %v",
			rulesOf(shrunk), rulesOf(whole))
	}
	return pack(small, archive)
}

// rulesOf is what a diagnosis comes to.
func rulesOf(d *diagnose.Diagnosis) (all []string) {
	for _, f := range d.Findings {
		all = append(all, f.Rule)
	}
	for _, h := range d.HeldBack {
		all = append(all, "held back "+h.Rule)
	}
	for _, n := range d.NotJudged {
		all = append(all, "not judged "+n.Rule)
	}
	return all
}

// copyRun writes what the rules look at.
func copyRun(run *record.Run, dir string) error {
	m := run.Manifest
	m.Command, m.Machine.Host = []string{"plimsoll", "survey", m.Target}, "patient"
	w, err := record.Create(dir, m)
	if err != nil {
		return err
	}
	kept := looked(run)
	for i := range run.Steps {
		step := run.Steps[i]
		step.Windows = nil
		if kept[step.Plan.Number] {
			step.Profiles, err = profiles(run, step.Plan.Number)
			step.Samples = samples(step.Samples)
		} else {
			step.Samples = nil
			step.Totals.Response = measure.Sparse{}
			step.Totals.Service = measure.Sparse{}
		}
		step.Totals.Lag, step.Totals.ConcurrencyAtSend = measure.Sparse{}, nil
		for j := range step.Totals.Requests {
			step.Totals.Requests[j].Response = measure.Sparse{}
		}
		if err = errors.Join(err, w.Step(&step)); err != nil {
			return err
		}
	}
	if run.Result != nil {
		result := *run.Result
		// A rule asks for the station that a prediction was made from, and for nothing else.
		result.Model = model.Model{Predictions: result.Model.Predictions}
		if err := w.Result(&result); err != nil {
			return err
		}
	}
	return w.Close()
}

// looked are the steps whose samples and profiles rules look at: those at half of the line and at
// the line, the overload, the recovery, and those at its rate before it. Where the survey found no
// line they are the ones nearest to it, so all are kept.
func looked(run *record.Run) map[int]bool {
	kept, gentle := map[int]bool{}, 0.0
	for i := range run.Steps {
		if run.Steps[i].Plan.Phase == measure.PhaseRecovery {
			gentle = run.Steps[i].Plan.Rate
		}
	}
	half, atLine := false, false
	for i := range run.Steps {
		p := &run.Steps[i].Plan
		half = half || p.Phase == measure.PhaseHalf
		atLine = atLine || p.Phase == measure.PhaseAtLine
		switch p.Phase {
		case measure.PhaseHalf, measure.PhaseAtLine, measure.PhaseOverload, measure.PhaseRecovery:
			kept[p.Number] = true
		default:
			kept[p.Number] = gentle > 0 && math.Abs(p.Rate/gentle-1) < .05
		}
	}
	for i := range run.Steps {
		kept[run.Steps[i].Plan.Number] = kept[run.Steps[i].Plan.Number] || !half || !atLine
	}
	return kept
}

// samples are a step's first and last, and between them those at which the metrics page was read,
// sockets were counted or threads looked at, without what no rule looks at: the page's own series,
// and each core by itself; and without what else ran on that machine, which rules only name. Digits
// that no rule can see are left out, as they are most of an archive.
//
// Where there is no page all are kept: rules then look at short steps too, in which few are judged.
func samples(all []measure.Sample) (kept []measure.Sample) {
	paged := slices.ContainsFunc(all, func(s measure.Sample) bool {
		_, page := s.Values[measure.GoGoroutines]
		return page
	})
	for i, s := range all {
		_, page := s.Values[measure.GoGoroutines]
		_, sockets := s.Values[measure.ListenerEstablished]
		_, threads := s.Values[measure.TargetThreadsRunning]
		if paged && !page && !sockets && !threads && i > 0 && i < len(all)-1 {
			continue
		}
		for name, v := range s.Values {
			if math.Abs(v) > .1 {
				s.Values[name] = math.Round(v*1e4) / 1e4
			} else if v != 0 {
				scale := math.Pow(10, 4-math.Ceil(math.Log10(math.Abs(v))))
				s.Values[name] = math.Round(v*scale) / scale
			}
		}
		kept = append(kept, s)
		maps.DeleteFunc(s.Values, func(name string, _ float64) bool {
			return strings.HasPrefix(name, measure.Metrics) ||
				strings.HasPrefix(name, measure.HostCore) ||
				strings.HasPrefix(name, measure.OthersCPU)
		})
	}
	return kept
}

// profiles are a step's, without the paths of the machine they were taken on. The diagnosis names a
// file by the last two parts of its path.
func profiles(run *record.Run, step int) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, kind := range []string{"cpu", "allocs", "goroutine", "mutex", "block"} {
		raw, err := run.Profile(step, kind)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p, err := profile.ParseData(raw)
		if err != nil {
			return nil, err
		}
		for _, f := range p.Function {
			parts := strings.Split(f.Filename, "/")
			f.Filename = strings.Join(parts[max(len(parts)-2, 0):], "/")
		}
		for _, m := range p.Mapping {
			m.File = path.Base(m.File)
		}
		var out bytes.Buffer
		if err := p.Write(&out); err != nil {
			return nil, err
		}
		all[kind] = out.Bytes()
	}
	return all, nil
}

// pack writes a folder as an archive that is the same for the same content.
func pack(dir, archive string) error {
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return err
	}
	packed := tar.NewWriter(zipped)
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := packed.WriteHeader(&tar.Header{
			Name: name,
			Mode: 0o644,
			Size: int64(len(content)),
		}); err != nil {
			return err
		}
		_, err = packed.Write(content)
		return err
	})
	if err := errors.Join(err, packed.Close(), zipped.Close()); err != nil {
		return err
	}
	return os.WriteFile(archive, out.Bytes(), 0o644)
}
