//go:build !race

package profiler

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestAFlightRecordingIsReadByTheJDK(t *testing.T) {
	if _, err := exec.LookPath("jfr"); err != nil {
		t.Log("not tested: there is no JDK here, whose jfr tool reads recordings")
		return
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "App.java")
	if err := os.WriteFile(source, []byte(`public class App {
  static int deep(int n, int t) { return n == 0 ? score(t) : deep(n - 1, t); }
  static int score(int t) {
    for (int i = 0; i < 300000; i++) t = Math.floorMod(t * 31 + i, 1000003);
    return t; }
  static synchronized void hold() {
    try { Thread.sleep(40); } catch (InterruptedException e) { throw new RuntimeException(e); } }
  static void wait(int times) { for (int i = 0; i < times; i++) hold(); }
  public static void main(String[] a) throws Exception { int t = 1;
    var other = new Thread(() -> wait(5)); other.start(); wait(5); other.join();
    var clock = java.lang.management.ManagementFactory.getThreadMXBean();
    long end = clock.getCurrentThreadCpuTime() + 500000000L;
    while (clock.getCurrentThreadCpuTime() < end) t = deep(9, t); System.out.println(t); }
}`), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "a.jfr")
	// The simpler compiler and collector are enough for it, and use less of the processor. It works
	// for so long by the processor's clock: a crowded machine leaves as many samples.
	out, err := exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"-XX:StartFlightRecording=settings=profile,filename="+file, source).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// A command may return the recorder's output unconverted.
	c := &Command{Text: "cp " + file + " {out}", PID: 1, grace: time.Minute, blocks: mostFile}
	p, err := c.Take(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	waits, waited := false, c.Waits()
	if waited == nil || len(c.Notes()) > 0 {
		t.Fatalf("no waits for locks: %q", c.Notes())
	}
	for _, s := range waited.Sample {
		for _, at := range s.Location {
			waits = waits || at.Line[0].Function.Name == "App.wait" && s.Value[1] > 10e6
		}
	}
	if !waits {
		t.Errorf("that a thread waited for a lock is not among %d waits", len(waited.Sample))
	}
	// The compiler decides which frame is the top one: floorMod may be a call.
	var seen []string
	for _, s := range p.Sample {
		scores := false
		for _, at := range s.Location {
			line := at.Line[0]
			scores = scores || line.Function.Name == "App.score" && line.Line == 4
			if scores && line.Function.Name == "App.main" {
				return
			}
		}
		seen = append(seen, s.Location[0].Line[0].Function.Name)
	}
	t.Errorf("App.score, line 4, called by App.main is not in the recording; there are %d samples, of %q", len(seen), seen)
}
