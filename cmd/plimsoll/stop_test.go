package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// interrupting is a service that has its caller's process told to stop when it answers its n-th
// request.
func interrupting(t *testing.T, n uint64) string {
	t.Helper()
	var count atomic.Uint64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if count.Add(1) == n {
			if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
				t.Error(err)
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestALoadThatIsStoppedSaysSoAndWhatItMeasured(t *testing.T) {
	out := filepath.Join(t.TempDir(), "run")
	code, text, errs := command(nil, "load", interrupting(t, 10),
		"--rate", "100", "-d", "10m", "-c", "2", "-t", "1", "--out", out)
	if code != 3 || errs != "" {
		t.Errorf("exit %d, %q; want 3 and nothing", code, errs)
	}
	if !strings.Contains(text, "Ended early: it was stopped.") || !strings.Contains(text, "goodput") {
		t.Errorf("printed:\n%s", text)
	}
	if code, text, errs = command(nil, "model", out); code != 0 {
		t.Errorf("the run directory of a load that was stopped: exit %d, %q\n%s", code, errs, text)
	}
}

func TestAReplayThatIsStoppedSaysSoAndWhatItMeasured(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	var lines strings.Builder
	for range 10 {
		lines.WriteString("127.0.0.1 - - [20/Nov/2026:08:00:00 +0000] \"GET /a HTTP/1.1\" 200 5\n")
	}
	lines.WriteString("127.0.0.1 - - [20/Nov/2026:09:00:00 +0000] \"GET /b HTTP/1.1\" 200 5\n")
	if err := os.WriteFile(log, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	code, text, errs := command(nil, "replay", log, "--target", interrupting(t, 10), "-c", "2", "-t", "1")
	if code != 3 || errs != "" {
		t.Errorf("exit %d, %q; want 3 and nothing", code, errs)
	}
	if !strings.Contains(text, "Ended early: it was stopped.") || !strings.Contains(text, "log lines") {
		t.Errorf("printed:\n%s", text)
	}
}

// Input may never come: nobody writes to these pipes.
func TestACommandThatWaitsForInputIsStopped(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// Signals after the first would end this process.
	more := make(chan os.Signal, 1)
	signal.Notify(more, syscall.SIGTERM)
	defer signal.Stop(more)
	service := interrupting(t, 0)
	for _, args := range [][]string{
		{"profile", pipe},
		{"replay", pipe, "--target", service},
		{"load", service, "--body", "@" + pipe},
		{"survey", service, "--slo", "p99<50ms", "--body", "@" + pipe},
	} {
		ended := make(chan struct{})
		go func() {
			// Until the command has taken the signal, which it asks for as it begins.
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
						t.Error(err)
					}
				case <-ended:
					return
				}
			}
		}()
		code, _, errs := command(nil, args...)
		close(ended)
		if code != 3 || !strings.Contains(errs, "it was stopped before it had begun") {
			t.Errorf("%q: exit %d, %q", args, code, errs)
		}
	}
}

func TestASurveyThatIsStoppedLeavesAReadableRun(t *testing.T) {
	dir := t.TempDir()
	out, page := filepath.Join(dir, "run"), filepath.Join(dir, "again.html")
	code, text, errs := command(nil, "survey", interrupting(t, 200),
		"--slo", "p99<50ms", "--out", out, "-t", "1", "-c", "2", "--json")
	if code != 3 || !strings.Contains(text, `"early": `) {
		t.Errorf("exit %d, %q; want 3\n%s", code, errs, text)
	}
	for _, name := range []string{"run.json", "result.json", "report.html"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
	if code, text, errs = command(nil, "report", out, "-o", page); code != 0 || text != page+"\n" {
		t.Errorf("the report of a survey that was stopped: exit %d, %q\n%s", code, errs, text)
	}
}
