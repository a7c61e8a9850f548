package probe

import "golang.org/x/sys/unix"

// moreCalls are the system calls that newer processors' Linux has not.
var moreCalls = map[int]call{
	unix.SYS_POLL:       {"poll", waitsForFew},
	unix.SYS_SELECT:     {"select", waitsForFew},
	unix.SYS_EPOLL_WAIT: {"epoll_wait", waitsForEvents},
}
