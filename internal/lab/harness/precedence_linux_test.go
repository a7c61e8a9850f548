package harness

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A process of its own is asked, since what has been raised cannot be lowered again without rights.
func TestAGeneratorTakesPrecedenceOrSaysWhyNot(t *testing.T) {
	if os.Getenv("PRECEDE") != "" {
		err := precede()
		nice, failed := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		// The system call gives 20 less the nice value.
		if err == nil && (failed != nil || 20-nice != precedence) {
			t.Errorf("the nice value is %d (%v)", 20-nice, failed)
		}
		if err != nil && !strings.Contains(err.Error(), "CAP_SYS_NICE") {
			t.Error(err)
		}
		return
	}
	child := exec.Command(os.Args[0], "-test.run", "^TestAGeneratorTakesPrecedenceOrSaysWhyNot$")
	child.Env = append(os.Environ(), "PRECEDE=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
