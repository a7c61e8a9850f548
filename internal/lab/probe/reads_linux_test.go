package probe

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestReadsAndTheFoldersOfFilesThatAreOpenedAreCounted(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for i := range 3 {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
	}
	s := New(Options{PID: os.Getpid()})
	first := s.Sample(0).Values
	if first[measure.TargetReads] == 0 || first[measure.TargetReadBytes] == 0 {
		t.Errorf("%v calls, %v bytes", first[measure.TargetReads], first[measure.TargetReadBytes])
	}
	// Open at one look and not at the one before: each time.
	for i, name := range append(files, files[0]) {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			f.ReadAt(make([]byte, 1), 0)
		}
		values := s.Sample(1).Values
		f.Close()
		again := s.Sample(2).Values
		if got := again[measure.TargetOpened+dir]; got != float64(i+1) || got != values[measure.TargetOpened+dir] {
			t.Errorf("after %d files %v were seen", i+1, got)
		}
		if got, want := again[measure.TargetOpened+name], float64(1+i/3); got != want {
			t.Errorf("after %d files %s was seen %v times, want %v", i+1, name, got, want)
		}
		// pread counts as a read.
		if more := values[measure.TargetReads] - first[measure.TargetReads]; more < float64(100*(i+1)) {
			t.Errorf("%v more calls after %d", more, 100*(i+1))
		}
	}
}

// A file that is read whole takes few calls.
func TestFilesAreLookedForWhereMuchIsReadInFewCalls(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rules.json")
	must(t, os.WriteFile(name, []byte("{}"), 0o644))
	for bytes, want := range map[float64]float64{muchRead: 1, muchRead - 1: 0} {
		r := reads{of: &processes{root: "/proc"}}
		look := func() { r.look(map[int]ioCalls{os.Getpid(): {reads: 2, readBytes: bytes}}) }
		look()
		f, err := os.Open(name)
		must(t, err)
		look()
		must(t, f.Close())
		if got := r.files[name]; got != want {
			t.Errorf("after %v bytes: it was seen %v times, want %v", bytes, got, want)
		}
	}
}

func TestFilesThatGrowByManySmallWritesAreCounted(t *testing.T) {
	log, err := os.OpenFile(filepath.Join(t.TempDir(), "app.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(t, err)
	defer log.Close()
	name := measure.TargetAppended + log.Name()
	s := New(Options{PID: os.Getpid()})
	first := s.Sample(0).Values
	write := func(times, bytes int) map[string]float64 {
		for range times {
			_, err := log.Write(make([]byte, bytes))
			must(t, err)
		}
		return s.Sample(1).Values
	}
	known := write(manyWrites, 10)[name] // the file's size is known from now on
	// Of very large writes the files are not looked for.
	for i, c := range []struct {
		times, bytes int
		grown        float64
	}{
		{manyWrites, 10, 10 * manyWrites}, {manyWrites, 20, 30 * manyWrites},
		{manyWrites, 10 * largeWrites, 30 * manyWrites}, {manyWrites, 10, 30 * manyWrites},
	} {
		values := write(c.times, c.bytes)
		if grown := values[name] - known; grown != c.grown {
			t.Errorf("look %d: it has grown by %v, want %v", i, grown, c.grown)
		}
		if calls := values[measure.TargetWrites] - first[measure.TargetWrites]; calls < float64((i+1)*manyWrites) {
			t.Errorf("look %d: %v calls", i, calls)
		}
	}
	// Another file of the same name is not what has grown.
	must(t, os.Rename(log.Name(), log.Name()+".1"))
	other, err := os.Create(log.Name())
	must(t, err)
	defer other.Close()
	_, err = other.WriteAt([]byte("x"), 1e6)
	must(t, err)
	_, err = other.Seek(1e6, io.SeekStart)
	must(t, err)
	if grown := write(manyWrites, 10)[name] - known; grown != 30*manyWrites {
		t.Errorf("another file: it has grown by %v", grown)
	}
	must(t, other.Close())
	must(t, os.Rename(log.Name()+".1", log.Name()))
	if grown := write(manyWrites, 10)[name] - known; grown != 30*manyWrites {
		t.Errorf("the file again: it has grown by %v", grown)
	}
	must(t, log.Truncate(0))
	if grown := write(manyWrites, 10)[name] - known; grown != 30*manyWrites {
		t.Errorf("it became shorter: it has grown by %v", grown)
	}
}

func TestOnlyFilesThatAreWrittenToGrow(t *testing.T) {
	for info, want := range map[string]bool{
		"pos:\t7\nflags:\t0100000\nmnt_id:\t29\nino:\t5\n": false, // O_RDONLY
		"pos:\t7\nflags:\t0102001\nmnt_id:\t29\nino:\t5\n": true,  // O_WRONLY | O_APPEND
		"pos:\t7\nflags:\t02100002\nmnt_id:\t29\n":         true,  // O_RDWR | O_CLOEXEC
		"pos:\t7\n":               false,
		"pos:\t7\nflags:\tmany\n": false,
		"":                        false,
	} {
		w, writes := parseWriting([]byte(info))
		if writes != want || want && w.at != 7 {
			t.Errorf("%q: %+v, %v", info, w, writes)
		}
	}
}

func TestFilesThatGrowAreBounded(t *testing.T) {
	var a appended
	grown := map[string]float64{}
	for i := range 2 * maxFiles {
		grown[fmt.Sprint(i)] = float64(i + 1)
	}
	for range 3 {
		a.add(grown)
	}
	// Those that grow most are counted.
	most := fmt.Sprint(2*maxFiles - 1)
	if len(a.files) != maxFiles || a.files[most] != 6*maxFiles || a.files["0"] != 0 {
		t.Errorf("counted %v", a.files)
	}
}

func TestWhatAProcessHasReadStaysCountedWhenItEnds(t *testing.T) {
	f := newFakeProc(t)
	for _, pid := range []string{"100", "101"} {
		f.write(pid+"/io", "rchar: 5000\nwchar: 70\nsyscr: 50\nsyscw: 7\n")
	}
	p := &processes{root: f.root, members: []member{{pid: 100}, {pid: 101}}}
	r := &reads{of: p}
	for i, members := range [][]member{p.members, p.members[:1], p.members[:1]} {
		p.members = members
		into := map[string]float64{}
		if err := r.Read(into); err != nil {
			t.Fatal(err)
		}
		if into[measure.TargetReads] != 100 || into[measure.TargetReadBytes] != 10000 ||
			into[measure.TargetWrites] != 14 || into[measure.TargetWrittenBytes] != 140 {
			t.Errorf("look %d: %v", i, into)
		}
	}
}

func TestOnlyFilesWithANameOfTheirOwnAreTold(t *testing.T) {
	for name, want := range map[string]bool{
		"/srv/partials/a.html": true, "socket:[7]": false, "/dev/null": false, "/memfd:x": false,
		"/tmp/x (deleted)": false, "/proc/self/stat": false, "anon_inode:[eventpoll]": false,
		"/" + strings.Repeat("a", maxPath): false,
	} {
		if regular(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func TestWhoReadsLittleOrMuchAtOnceIsNotLookedInto(t *testing.T) {
	f := newFakeProc(t)
	must(t, os.MkdirAll(filepath.Join(f.root, "100", "fd"), 0o755))
	must(t, os.Symlink("/srv/a", filepath.Join(f.root, "100", "fd", "3")))
	for c, want := range map[ioCalls]int{
		{reads: manyReads - 1, readBytes: 1}:                    0,
		{reads: manyReads, readBytes: smallReads*manyReads + 1}: 0,
		{reads: manyReads, readBytes: 1}:                        1,
	} {
		r := &reads{of: &processes{root: f.root}, open: map[string]bool{}}
		if r.look(map[int]ioCalls{100: c}); len(r.folders) != want || len(r.files) != want {
			t.Errorf("%+v: %v, %v", c, r.folders, r.files)
		}
	}
}

func TestFoldersAndFilesAreBounded(t *testing.T) {
	f := newFakeProc(t)
	p := &processes{root: f.root, members: []member{{pid: 100}}}
	r := &reads{of: p, open: map[string]bool{}}
	for i := range 3 * maxFolders {
		fd := filepath.Join(f.root, "100", "fd")
		must(t, os.RemoveAll(fd))
		must(t, os.MkdirAll(fd, 0o755))
		must(t, os.Symlink(fmt.Sprintf("/srv/%d/a", i), filepath.Join(fd, "3")))
		r.look(map[int]ioCalls{100: {reads: manyReads}})
	}
	if len(r.folders) != maxFolders || len(r.files) != maxFiles {
		t.Errorf("%d folders and %d files are counted, want %d and %d",
			len(r.folders), len(r.files), maxFolders, maxFiles)
	}
}

func BenchmarkReads(b *testing.B) {
	for range 100 {
		f, err := os.Open("/etc/hostname")
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
	}
	idle := &reads{of: &processes{root: "/proc", members: []member{{pid: os.Getpid()}}}}
	into := map[string]float64{}
	b.Run("few", func(b *testing.B) {
		processorTime(b, func() {
			if err := idle.Read(into); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("many small ones, and 100 descriptors", func(b *testing.B) {
		processorTime(b, func() { idle.look(map[int]ioCalls{os.Getpid(): {reads: 1e12, readBytes: 1}}) })
	})
	b.Run("many small writes, and 100 descriptors of as many files", func(b *testing.B) {
		dir := b.TempDir()
		for i := range 100 {
			f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
		}
		now := map[int]ioCalls{os.Getpid(): {writes: 1e12, writtenBytes: 1}}
		processorTime(b, func() { idle.appended.look("/proc", now, nil) })
	})
}
