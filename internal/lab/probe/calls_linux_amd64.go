package probe

import (
	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/measure"
)

// moreCalls are the system calls that Linux lacks on newer architectures.
var moreCalls = map[int]call{
	unix.SYS_POLL:       {"poll", measure.TargetWaitingPoll},
	unix.SYS_SELECT:     {"select", measure.TargetWaitingPoll},
	unix.SYS_EPOLL_WAIT: {"epoll_wait", measure.TargetWaitingEvents},
}
