package probe

import (
	"maps"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// cpuClock is the processor time in seconds of a process, with its threads that have ended, without
// its children. /proc only tells it in ticks of 10 ms, which is too coarse for a gentle step. The
// clock's number is what clock_getcpuclockid(3) makes of a process's number.
func cpuClock(pid int) (float64, error) {
	const sched = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &t); err != nil {
		return 0, err
	}
	return float64(t.Sec) + float64(t.Nsec)/1e9, nil
}

// cpuModel is the name of the machine's processor, empty when the kernel does not say.
func cpuModel(proc procfs.FS) string {
	info, err := proc.CPUInfo()
	if err != nil || len(info) == 0 {
		return ""
	}
	return info[0].ModelName
}

// calls are the system calls in which threads wait, and where that is. Those that only some
// processors' Linux has are in moreCalls.
var calls = map[int]call{
	unix.SYS_FUTEX:           {"futex", waitsForFutex},
	unix.SYS_EPOLL_PWAIT:     {"epoll_pwait", waitsForEvents},
	unix.SYS_IO_URING_ENTER:  {"io_uring_enter", waitsForEvents},
	unix.SYS_PPOLL:           {"ppoll", waitsForFew},
	unix.SYS_PSELECT6:        {"pselect6", waitsForFew},
	unix.SYS_ACCEPT:          {"accept", waitsForAccept},
	unix.SYS_ACCEPT4:         {"accept4", waitsForAccept},
	unix.SYS_CONNECT:         {"connect", waitsForAnswer},
	unix.SYS_RECVFROM:        {"recvfrom", waitsForAnswer},
	unix.SYS_RECVMSG:         {"recvmsg", waitsForAnswer},
	unix.SYS_SENDTO:          {"sendto", waitsForRoom},
	unix.SYS_SENDMSG:         {"sendmsg", waitsForRoom},
	unix.SYS_NANOSLEEP:       {"nanosleep", waitsForTime},
	unix.SYS_CLOCK_NANOSLEEP: {"clock_nanosleep", waitsForTime},
	unix.SYS_FSYNC:           {"fsync", waitsForDisk},
	unix.SYS_FDATASYNC:       {"fdatasync", waitsForDisk},
	unix.SYS_FLOCK:           {"flock", waitsForLockedFile},
	unix.SYS_FCNTL:           {"fcntl", waitsForLockedFile},
	unix.SYS_READ:            {"read", waitsForOther},
	unix.SYS_WRITE:           {"write", waitsForOther},
	unix.SYS_READV:           {"readv", waitsForOther},
	unix.SYS_WRITEV:          {"writev", waitsForOther},
	unix.SYS_WAIT4:           {"wait4", waitsForOther},
}

func init() { maps.Copy(calls, moreCalls) }
