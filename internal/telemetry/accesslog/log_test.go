package accesslog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/telemetry/accesslog"
)

func open(t *testing.T, o accesslog.Options) *accesslog.Log {
	t.Helper()
	o.Loops = max(o.Loops, 1)
	l, err := accesslog.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func closeLog(t *testing.T, l *accesslog.Log) {
	t.Helper()
	if err := l.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// record is a request for a path; its line in the combined format is a little over a hundred bytes.
func record(path string) *accesslog.Record {
	return &accesslog.Record{
		Time: 1772366400e9, Client: netip.MustParseAddr("203.0.113.7"), Method: []byte("GET"), Path: []byte(path), Protocol: "HTTP/1.1",
		Status: 200, BytesOut: 128, UserAgent: []byte("curl/8.5"),
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// wait lets the writer have its next round. Inside a synctest bubble it takes no real time.
func wait() {
	<-time.After(accesslog.Every + time.Millisecond)
	synctest.Wait()
}

func TestLinesReachTheFileWithinATenthOfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "access.log")
		l := open(t, accesslog.Options{Path: path, Format: accesslog.Combined, Loops: 2, Zone: time.UTC})
		l.Ring(0).Write(record("/a"))
		l.Ring(1).Write(record("/b"))
		wait()
		want := `203.0.113.7 - - [01/Mar/2026:12:00:00 +0000] "GET /a HTTP/1.1" 200 128 "-" "curl/8.5"` + "\n"
		want += strings.Replace(want, "/a ", "/b ", 1)
		if got := read(t, path); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		closeLog(t, l)
	})
}

func TestAFlushBringsTheRingsToTheFileAtOnceWhileLoopsWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, begin := filepath.Join(t.TempDir(), "access.log"), time.Now()
		l := open(t, accesslog.Options{Path: path, Loops: 2})
		for n := range 50 {
			var other sync.WaitGroup
			other.Go(func() {
				for range 20 {
					l.Ring(1).Write(record("/other"))
				}
			})
			l.Ring(0).Write(record(fmt.Sprintf("/n%d/", n)))
			l.Flush()
			if got := read(t, path); !strings.Contains(got, fmt.Sprintf("/n%d/", n)) {
				t.Fatalf("line %d is not in the file after a flush", n)
			}
			other.Wait()
		}
		if !time.Now().Equal(begin) {
			t.Error("a flush waited for the writer's next round")
		}
		closeLog(t, l)
		l.Flush() // must return: the writer is gone
	})
}

func TestWriterIsWokenBeforeItsTimeWhenARingIsHalfFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, accesslog.Options{Path: accesslog.Stdout, Output: io.Discard})
		begin := time.Now()
		for range 2_000 { // about 600 KB
			l.Ring(0).Write(record("/" + strings.Repeat("p", 200)))
		}
		synctest.Wait()
		if l.Counters().Written.Load() == 0 || !time.Now().Equal(begin) {
			t.Errorf("%d lines were written before the tick", l.Counters().Written.Load())
		}
		closeLog(t, l)
	})
}

func TestLineIsDroppedAndCountedWhenTheRingIsFull(t *testing.T) {
	stuck := &gate{entered: make(chan struct{}), opened: make(chan struct{})}
	l := open(t, accesslog.Options{Path: accesslog.Stdout, Output: stuck, RingSize: 1})
	long := record("/" + strings.Repeat("p", 1000))
	const lines = 2_000
	for range lines {
		l.Ring(0).Write(long)
	}
	dropped := l.Counters().Dropped.Load()
	if dropped == 0 || dropped >= lines {
		t.Errorf("%d of %d lines were dropped", dropped, lines)
	}
	<-stuck.entered
	close(stuck.opened)
	closeLog(t, l)
	if written := l.Counters().Written.Load(); written != lines-dropped {
		t.Errorf("%d lines written, %d dropped, of %d", written, dropped, lines)
	}
}

// gate is an output that holds its first write until it is opened.
type gate struct {
	once    sync.Once
	entered chan struct{}
	opened  chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	g.once.Do(func() { close(g.entered) })
	<-g.opened
	return len(p), nil
}

func TestCloseGivesUpOnAnOutputThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := &gate{entered: make(chan struct{}), opened: make(chan struct{})}
		l := open(t, accesslog.Options{Path: accesslog.Stdout, Output: stuck})
		l.Ring(0).Write(record("/"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closing ended with %v", err)
		}
		close(stuck.opened)
		closeLog(t, l)
	})
}

func TestCloseWritesWhatIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l := open(t, accesslog.Options{Path: path, Loops: 3})
	for i := range 30 {
		l.Ring(i % 3).Write(record("/"))
	}
	closeLog(t, l)
	if n := strings.Count(read(t, path), "\n"); n != 30 || l.Counters().Written.Load() != 30 {
		t.Errorf("%d lines in the file, %d counted", n, l.Counters().Written.Load())
	}
}

func TestFullDiskLosesLinesCountsThemAndSaysSoRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said lockedBuffer
		l := open(t, accesslog.Options{Path: "/dev/full", Logger: slog.New(slog.NewTextHandler(&said, nil))})
		for range 30 { // about three seconds
			l.Ring(0).Write(record("/"))
			wait()
		}
		if c := l.Counters(); c.Lost.Load() != 30 || c.Written.Load() != 0 || c.Dropped.Load() != 0 {
			t.Errorf("%d lost, %d written, %d dropped", c.Lost.Load(), c.Written.Load(), c.Dropped.Load())
		}
		if n := strings.Count(said.String(), "no space left on device"); n != 1 {
			t.Errorf("said %d times in three seconds:\n%s", n, said.String())
		}
		<-time.After(10 * time.Second)
		l.Ring(0).Write(record("/"))
		wait()
		if n := strings.Count(said.String(), "no space left on device"); n != 2 || !strings.Contains(said.String(), "lost=31") {
			t.Errorf("said %d times in thirteen seconds:\n%s", n, said.String())
		}
		closeLog(t, l)
	})
}

// lockedBuffer is a buffer that a logger and a test may use at the same time.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// shortDisk takes room bytes and then fails as a full disk does, in the middle of a write, until it
// gets more room.
type shortDisk struct {
	lockedBuffer
	room atomic.Int64
}

func (d *shortDisk) Write(p []byte) (int, error) {
	n := min(int(d.room.Load()), len(p))
	d.room.Add(-int64(n))
	d.lockedBuffer.Write(p[:n])
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func TestLogGoesOnAfterAFullDiskAndGarblesOnlyTheBrokenLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &shortDisk{}
		var said lockedBuffer
		l := open(t, accesslog.Options{Path: accesslog.Stdout, Output: disk, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		send := func(path string) {
			l.Ring(0).Write(record(path))
			wait()
		}
		disk.room.Store(50)
		send("/broken")
		send("/lost")
		disk.room.Store(1 << 20)
		send("/whole")
		closeLog(t, l)
		lines := strings.Split(strings.TrimSuffix(disk.String(), "\n"), "\n")
		if len(lines) != 2 || json.Valid([]byte(lines[0])) || !json.Valid([]byte(lines[1])) || !strings.Contains(lines[1], "/whole") {
			t.Errorf("the file holds %q", lines)
		}
		if c := l.Counters(); c.Lost.Load() != 2 || c.Written.Load() != 1 {
			t.Errorf("%d lost, %d written", c.Lost.Load(), c.Written.Load())
		}
		if !strings.Contains(said.String(), "written again") {
			t.Errorf("the end of the trouble was not said:\n%s", said.String())
		}
	})
}

func TestFileIsRotatedBetweenLinesAndOldOnesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "access.log")
	if err := os.WriteFile(path+".4", []byte("of a time when more were kept\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, accesslog.Options{Path: path, MaxSize: 1000, Keep: 3})
	for i := range 100 {
		l.Ring(0).Write(record(fmt.Sprintf("/%03d", i)))
	}
	closeLog(t, l)
	next := 99
	for _, name := range []string{path, path + ".1", path + ".2", path + ".3"} {
		content := read(t, name)
		if len(content) > 1000 || len(content) == 0 {
			t.Errorf("%s has %d bytes", name, len(content))
		}
		lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
		for i := len(lines) - 1; i >= 0; i-- {
			if want := fmt.Sprintf("/%03d", next); !json.Valid([]byte(lines[i])) || !strings.Contains(lines[i], want) {
				t.Fatalf("%s: line %d is %q, not that of %s", name, i, lines[i], want)
			}
			next--
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 4 {
		t.Errorf("%d files are left: %v", len(entries), entries)
	}
	if l.Counters().Written.Load() != 100 {
		t.Errorf("%d lines counted", l.Counters().Written.Load())
	}
}

func TestRotationKeepsNothingWhenToldSoAndCountsWhatWasThereAtTheStart(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "access.log")
	if err := os.WriteFile(path, bytes.Repeat([]byte("old\n"), 250), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, accesslog.Options{Path: path, MaxSize: 1000})
	l.Ring(0).Write(record("/new"))
	closeLog(t, l)
	if content := read(t, path); strings.Contains(content, "old") || !strings.Contains(content, "/new") {
		t.Errorf("the file holds %q", content)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d files are left", len(entries))
	}
}

func TestFileThatAnotherProcessRotatedIsOnlyReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l := open(t, accesslog.Options{Path: path, MaxSize: 300, Keep: 3})
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("theirs\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Ring(0).Write(record("/1"))
	l.Ring(0).Write(record("/2"))
	closeLog(t, l)
	if old, now := read(t, path+".1"), read(t, path); !strings.Contains(old, "/1") ||
		!strings.HasPrefix(now, "theirs\n") || !strings.Contains(now, "/2") {
		t.Errorf("the old file holds %q, the new one %q", old, now)
	}
}

func TestFailedRotationLosesNoLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "access.log")
		if err := os.MkdirAll(filepath.Join(path+".1", "in the way"), 0o700); err != nil {
			t.Fatal(err)
		}
		var said lockedBuffer
		l := open(t, accesslog.Options{Path: path, MaxSize: 300, Keep: 1, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		for range 20 {
			l.Ring(0).Write(record("/"))
			wait()
		}
		closeLog(t, l)
		if n := strings.Count(read(t, path), "\n"); n != 20 {
			t.Errorf("%d lines in the file", n)
		}
		if n := strings.Count(said.String(), "could not be rotated"); n != 1 {
			t.Errorf("said %d times:\n%s", n, said.String())
		}
	})
}

func TestReopenAfterTheFileWasMovedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path, moved := filepath.Join(dir, "access.log"), filepath.Join(dir, "moved.log")
		l := open(t, accesslog.Options{Path: path})
		l.Ring(0).Write(record("/1"))
		wait()
		if err := os.Rename(path, moved); err != nil {
			t.Fatal(err)
		}
		l.Ring(0).Write(record("/2"))
		l.Reopen()
		synctest.Wait()
		l.Ring(0).Write(record("/3"))
		closeLog(t, l)
		if old := read(t, moved); !strings.Contains(old, `"/1"`) || !strings.Contains(old, `"/2"`) || strings.Contains(old, `"/3"`) {
			t.Errorf("the moved file holds %q", old)
		}
		if now := read(t, path); strings.Count(now, "\n") != 1 || !strings.Contains(now, `"/3"`) {
			t.Errorf("the new file holds %q", now)
		}
	})
}

func TestReopenThatFailsGoesOnInTheOldFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "logs")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "access.log")
		l := open(t, accesslog.Options{Path: path})
		if err := os.Rename(dir, dir+".moved"); err != nil {
			t.Fatal(err)
		}
		l.Reopen()
		synctest.Wait()
		l.Ring(0).Write(record("/1"))
		closeLog(t, l)
		if got := read(t, filepath.Join(dir+".moved", "access.log")); strings.Count(got, "\n") != 1 {
			t.Errorf("the old file holds %q", got)
		}
	})
}

func TestPipeWithoutAReaderIsAnErrorAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := accesslog.Open(accesslog.Options{Path: path, Loops: 1}); err == nil ||
		!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "nobody reads the pipe") {
		t.Errorf("opening it ended with %v", err)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing", "access.log")
	for name, c := range map[string]struct {
		options accesslog.Options
		want    string
	}{
		"no directory": {accesslog.Options{Path: missing, Loops: 1}, missing},
		"no path":      {accesslog.Options{Loops: 1}, "path"},
		"no loop":      {accesslog.Options{Path: "stdout"}, "loop"},
	} {
		if _, err := accesslog.Open(c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := accesslog.ParseFormat("common"); err == nil || !strings.Contains(err.Error(), `"combined"`) {
		t.Errorf("an unknown format: %v", err)
	}
}

func TestLoopsWriteWhileTheFileIsReopenedAndRotated(t *testing.T) {
	const loops, lines = 4, 3_000
	dir := t.TempDir()
	l := open(t, accesslog.Options{Path: filepath.Join(dir, "access.log"), Loops: loops, MaxSize: 1 << 20, Keep: 100})
	var writers sync.WaitGroup
	for loop := range loops {
		writers.Go(func() {
			for i := range lines {
				l.Ring(loop).Write(record(fmt.Sprintf("/%d/%d", loop, i)))
			}
		})
	}
	for range 50 {
		l.Reopen()
	}
	writers.Wait()
	closeLog(t, l)
	got := uint64(0)
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		for line := range strings.Lines(read(t, filepath.Join(dir, e.Name()))) {
			if !json.Valid([]byte(line)) {
				t.Fatalf("line %q", line)
			}
			got++
		}
	}
	c := l.Counters()
	if got != c.Written.Load() || got+c.Dropped.Load() != loops*lines || c.Lost.Load() != 0 {
		t.Errorf("%d lines in files, %d written, %d dropped, %d lost, of %d", got, c.Written.Load(),
			c.Dropped.Load(), c.Lost.Load(), loops*lines)
	}
}

func TestWritingARecordDoesNotAllocate(t *testing.T) {
	l := open(t, accesslog.Options{Path: accesslog.Stdout, Output: io.Discard})
	r := record("/items/42")
	if n := testing.AllocsPerRun(5_000, func() { l.Ring(0).Write(r) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
	closeLog(t, l)
}
