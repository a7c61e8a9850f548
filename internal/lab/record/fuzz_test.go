package record

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Whatever is in the files, they are read or refused.
func FuzzOpen(f *testing.F) {
	seed := filepath.Join(f.TempDir(), "run")
	w, err := Create(seed, Manifest{Kind: "survey"})
	if err != nil {
		f.Fatal(err)
	}
	if err := w.Step(aStep(1)); err != nil {
		f.Fatal(err)
	}
	if err := w.Result(&Result{}); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	names := []string{manifestFile, stepsFile, resultFile}
	for _, name := range stepFiles {
		names = append(names, filepath.Join(stepDir(1), name))
	}
	texts := make([][]byte, len(names))
	for i, name := range names {
		if texts[i], err = os.ReadFile(filepath.Join(seed, name)); err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), texts[i])
	}
	dir := filepath.Join(f.TempDir(), "run")
	if err := os.MkdirAll(filepath.Join(dir, stepDir(1)), 0o755); err != nil {
		f.Fatal(err)
	}
	put := func(t testing.TB, i int, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, names[i]), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range names {
		put(f, i, texts[i])
	}
	f.Fuzz(func(t *testing.T, which uint8, text []byte) {
		i := int(which) % len(names)
		put(t, i, text)
		defer put(t, i, texts[i])
		run, err := Open(dir)
		if err != nil && bytes.ContainsRune([]byte(err.Error()), '\n') {
			t.Errorf("an error of more than one line: %q", err)
		}
		if err == nil {
			for k := range run.Steps {
				run.Steps[k].Totals.Quantile(.99)
			}
		}
	})
}

func FuzzInterval(f *testing.F) {
	var log bytes.Buffer
	s := aStep(1)
	if err := writeStepFile(&log, totalsFile, s); err != nil {
		f.Fatal(err)
	}
	for line := range bytes.Lines(log.Bytes()) {
		f.Add(bytes.TrimSuffix(line, []byte("\n")))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) > maxInterval {
			return
		}
		_, cells, _, err := readInterval(line)
		if err != nil {
			return
		}
		for i := 1; i < len(cells); i++ {
			if cells[i].Bucket <= cells[i-1].Bucket {
				t.Fatalf("buckets are out of order: %v", cells)
			}
		}
	})
}
