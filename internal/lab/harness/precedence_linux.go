package harness

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// precedence is the nice value of a generator beside its target. A target that is at its line has a
// runnable thread for every processor, and the scheduler then lets a generator of equal rank wait 5
// to 12 ms for its turn: requests would be late, and the step INVALID, just where it matters. The
// generator takes no more processor time than before; it takes it when it is due, as another
// machine's would arrive.
const precedence = -10

// precede gives this process precedence over the others of the machine, where it may. Threads that
// are made later have it from those that make them.
func precede() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("the generator's priority cannot be raised: %w", err)
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		// A thread that has ended meanwhile needs none.
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, precedence); err != nil &&
			!errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("the generator's priority cannot be raised (it takes "+
				"CAP_SYS_NICE): beside a busy target it may be late: %w", err)
		}
	}
	return nil
}
