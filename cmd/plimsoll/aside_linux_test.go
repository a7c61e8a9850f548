package main

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A demo that is killed must not leave the shop and the gateway behind. This process plays the demo
// when it is started again.
func TestWhatRunsAsideEndsWithItsStarter(t *testing.T) {
	if os.Getenv("PLIMSOLL_TEST_ASIDE") != "" {
		aside := exec.Cmd{Path: "/bin/sleep", Args: []string{"sleep", "600"}, SysProcAttr: aside()}
		if err := aside.Start(); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("pid " + strconv.Itoa(aside.Process.Pid) + "\n")
		select {}
	}
	parent := exec.Command(os.Args[0], "-test.run", t.Name())
	parent.Env = append(os.Environ(), "PLIMSOLL_TEST_ASIDE=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, found := strings.CutPrefix(strings.TrimSpace(line), "pid ")
	if err != nil || !found {
		t.Fatalf("%q, %v", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	parent.Wait()
	// The process is nobody's child now; its entry goes when the signal has been served, or stays
	// as that of one that waits to be reaped.
	for deadline := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("it still runs")
		}
	}
}
