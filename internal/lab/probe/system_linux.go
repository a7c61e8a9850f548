package probe

import (
	"maps"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/measure"
)

// cpuClock returns the processor time of a process in seconds, including threads that have ended
// and without its children. /proc only has ticks of 10 ms, which is too coarse for a gentle step.
// The clock's number is computed from the PID as clock_getcpuclockid(3) does.
func cpuClock(pid int) (float64, error) {
	const sched = 2 // CPUCLOCK_SCHED
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &t); err != nil {
		return 0, err
	}
	return float64(t.Sec) + float64(t.Nsec)/1e9, nil
}

// cpuModel returns the name of the machine's processor; empty if the kernel does not report it.
func cpuModel(proc procfs.FS) string {
	info, err := proc.CPUInfo()
	if err != nil || len(info) == 0 {
		return ""
	}
	return info[0].ModelName
}

// calls are the system calls in which threads wait, and the kind of place of each. moreCalls has
// those that exist only on some architectures.
var calls = map[int]call{
	unix.SYS_FUTEX:           {"futex", measure.TargetWaitingFutex},
	unix.SYS_EPOLL_PWAIT:     {"epoll_pwait", measure.TargetWaitingEvents},
	unix.SYS_IO_URING_ENTER:  {"io_uring_enter", measure.TargetWaitingEvents},
	unix.SYS_PPOLL:           {"ppoll", measure.TargetWaitingPoll},
	unix.SYS_PSELECT6:        {"pselect6", measure.TargetWaitingPoll},
	unix.SYS_ACCEPT:          {"accept", measure.TargetWaitingAccept},
	unix.SYS_ACCEPT4:         {"accept4", measure.TargetWaitingAccept},
	unix.SYS_CONNECT:         {"connect", measure.TargetWaitingSocketRead},
	unix.SYS_RECVFROM:        {"recvfrom", measure.TargetWaitingSocketRead},
	unix.SYS_RECVMSG:         {"recvmsg", measure.TargetWaitingSocketRead},
	unix.SYS_SENDTO:          {"sendto", measure.TargetWaitingSocketWrite},
	unix.SYS_SENDMSG:         {"sendmsg", measure.TargetWaitingSocketWrite},
	unix.SYS_NANOSLEEP:       {"nanosleep", measure.TargetWaitingSleep},
	unix.SYS_CLOCK_NANOSLEEP: {"clock_nanosleep", measure.TargetWaitingSleep},
	unix.SYS_FSYNC:           {"fsync", measure.TargetWaitingDisk},
	unix.SYS_FDATASYNC:       {"fdatasync", measure.TargetWaitingDisk},
	unix.SYS_FLOCK:           {"flock", measure.TargetWaitingFileLock},
	unix.SYS_FCNTL:           {"fcntl", measure.TargetWaitingFileLock},
	unix.SYS_READ:            {"read", measure.TargetWaitingOther},
	unix.SYS_WRITE:           {"write", measure.TargetWaitingOther},
	unix.SYS_READV:           {"readv", measure.TargetWaitingOther},
	unix.SYS_WRITEV:          {"writev", measure.TargetWaitingOther},
	unix.SYS_WAIT4:           {"wait4", measure.TargetWaitingOther},
	unix.SYS_WAITID:          {"waitid", measure.TargetWaitingOther},
}

func init() { maps.Copy(calls, moreCalls) }
