//go:build !race

package profiler

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// started starts a program that ends with the test, and returns once it has printed a line.
func started(t *testing.T, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("%s printed nothing: %v", name, lines.Err())
	}
	return cmd
}

// weight returns the time of all stacks in which a function is; of all if it is empty.
func weight(p *profile.Profile, function string) (nanos float64) {
	for _, s := range p.Sample {
		if function == "" || slices.ContainsFunc(s.Location, func(l *profile.Location) bool {
			return l.Line[0].Function.Name == function
		}) {
			nanos += float64(s.Value[1])
		}
	}
	return nanos
}

func TestWhatThreadsOfAJVMDoIsSeenInItsThreadDumps(t *testing.T) {
	if _, err := exec.LookPath("javac"); err != nil {
		t.Log("not tested: there is no JDK here")
		return
	}
	source := filepath.Join(t.TempDir(), "App.java")
	if err := os.WriteFile(source, []byte(`public class App {
  static int sum;
  static synchronized void hold() throws Exception { Thread.sleep(1000000); }
  static void wait(String who) { try { hold(); } catch (Exception e) { } }
  static void count() { for (int i = 0; i < 1000; i++) sum = Math.floorMod(sum * 31 + i, 1000003); }
  public static void main(String[] a) { for (int i = 0; i < 4; i++) new Thread(() -> wait("")).start();
    System.out.println("ready"); while (true) count(); }
}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := started(t, "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", source)
	j, err := NewJVM(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var seen Threads
	// Until threads were seen running often enough: a crowded machine has fewer dumps in that time.
	for length := 60 * dumpInterval; seen.Processor == nil; length *= 2 {
		if seen, err = j.Take(t.Context(), length); err != nil {
			t.Fatal(err)
		}
	}
	if n := weight(seen.Waits, "App.hold") / float64(seen.Waits.DurationNanos); n < 2.5 || n > 3.5 {
		t.Errorf("%.1f threads wait for App.hold on average, want 3", n)
	}
	counts, all := weight(seen.Processor, "App.count"), weight(seen.Processor, "")
	if counts < .8*all || all > 1.5*float64(seen.Processor.DurationNanos) {
		t.Errorf("App.count uses %.1f of %.1f s in %.1f s, want nearly all", counts/1e9, all/1e9,
			float64(seen.Processor.DurationNanos)/1e9)
	}
	if left, _ := filepath.Glob("/tmp/.attach_pid*"); len(left) > 0 {
		t.Errorf("the request to attach is left behind: %v", left)
	}
}

func TestWhatDoesNotListenToSIGQUITIsNotSentOne(t *testing.T) {
	cmd := started(t, "sh", "-c", "echo ready; exec sleep 1000")
	if j, err := NewJVM(cmd.Process.Pid); err == nil || !strings.Contains(err.Error(), "-Xrs") {
		t.Errorf("%v, %v", j, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Errorf("it has ended: %v", err)
	}
}

func TestAnotherProgramThatListensToSIGQUITIsNotSentOne(t *testing.T) {
	cmd := started(t, "sh", "-c", "trap 'exit 1' QUIT; echo ready; while :; do sleep 1; done")
	if j, err := NewJVM(cmd.Process.Pid); err == nil || !strings.Contains(err.Error(), "HotSpot") {
		t.Errorf("%v, %v", j, err)
	}
}
