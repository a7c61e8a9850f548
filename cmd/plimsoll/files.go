package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/disk"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/report"
)

// tool names this program in what it writes.
func tool() string { return "plimsoll " + buildVersion() }

// emptyDirectory refuses a directory that holds something, before a load is offered whose results
// could then not be kept in it. One that is not there is as good as empty, and so is none.
func emptyDirectory(flag, dir string) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err == nil && len(entries) > 0:
		return fmt.Errorf("%s: %s is not empty (it holds %s): name a new directory",
			flag, dir, entries[0].Name())
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: %s is not a folder: name a new directory", flag, dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// hasFolder refuses a file that cannot be written, as its folder is not there or it is one itself,
// for the same reason.
func hasFolder(flag, path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return fmt.Errorf("%s: %s is not a folder that a file can be written to: create it first",
			flag, filepath.Dir(path))
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s: %s is a folder: name a file in it", flag, path)
	}
	return nil
}

// writeFile writes a file whole or not at all: what was there before stays until the new one is
// complete.
func writeFile(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".plimsoll-*")
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, disk.Cause(err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("%s cannot be written: %w", path, disk.Cause(err)),
				os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// diagnosisOf is what a survey's run shows; nil for other runs, which say nothing of a line.
func diagnosisOf(run *record.Run) *diagnose.Diagnosis {
	if diagnose.Possible(run) != nil {
		return nil
	}
	return diagnose.Run(run)
}

// writeReport writes a run's report, with its diagnosis where it has one, and returns where it is.
func writeReport(run *record.Run, d *diagnose.Diagnosis, path string) (string, error) {
	var page bytes.Buffer
	if err := report.Write(&page, run, d); err != nil {
		return "", fmt.Errorf("the report of %s: %w", run.Dir, err)
	}
	return path, writeFile(path, page.Bytes())
}
