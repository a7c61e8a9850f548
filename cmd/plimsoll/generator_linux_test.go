package main

import (
	"strings"
	"testing"
)

// A Ctrl-C ends the generators, and what was measured is told.
func TestALoadFromGeneratorsThatIsStopped(t *testing.T) {
	host, _ := sshServer(t)
	code, text, errs := command(nil, "load", interrupting(t, 10), "--rate", "100", "-d", "10m", "-c", "2",
		"-t", "1", "--generator", host)
	if code != 3 || errs != "" || !strings.Contains(text, "Ended early: it was stopped.") ||
		!strings.Contains(text, host) {
		t.Errorf("exit %d, %q:\n%s", code, errs, text)
	}
}
