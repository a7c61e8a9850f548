package harness

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// precedence is the nice value of a generator beside its target. At its line, a target has a
// runnable thread for every processor, and the scheduler then makes a generator of equal priority
// wait 5 to 12 ms for its turn: requests would be late, and the step INVALID, just where it
// matters. With precedence, the generator uses no more processor time than before, but gets it when
// it is due. Its requests arrive as they would from another machine.
const precedence = -10

// precede gives this process precedence over the machine's other processes, if that is allowed. New
// threads inherit it from the threads that create them.
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
		// A thread that has ended meanwhile does not matter.
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, precedence); err != nil &&
			!errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("the generator's priority cannot be raised (it takes "+
				"CAP_SYS_NICE): beside a busy target it may be late: %w", err)
		}
	}
	return nil
}
