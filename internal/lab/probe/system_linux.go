package probe

import (
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/measure"
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

// callPlaces are where the system calls wait in which a thread stands. Those that only some
// processors' Linux has are left out: the wait channel tells them.
var callPlaces = map[int]string{
	unix.SYS_FUTEX:           measure.TargetWaitingFutex,
	unix.SYS_EPOLL_PWAIT:     measure.TargetWaitingEvents,
	unix.SYS_PPOLL:           measure.TargetWaitingEvents,
	unix.SYS_PSELECT6:        measure.TargetWaitingEvents,
	unix.SYS_ACCEPT:          measure.TargetWaitingAccept,
	unix.SYS_ACCEPT4:         measure.TargetWaitingAccept,
	unix.SYS_RECVFROM:        measure.TargetWaitingSocketRead,
	unix.SYS_RECVMSG:         measure.TargetWaitingSocketRead,
	unix.SYS_SENDTO:          measure.TargetWaitingSocketWrite,
	unix.SYS_SENDMSG:         measure.TargetWaitingSocketWrite,
	unix.SYS_NANOSLEEP:       measure.TargetWaitingSleep,
	unix.SYS_CLOCK_NANOSLEEP: measure.TargetWaitingSleep,
	unix.SYS_FSYNC:           measure.TargetWaitingDisk,
	unix.SYS_FDATASYNC:       measure.TargetWaitingDisk,
	unix.SYS_FLOCK:           measure.TargetWaitingFileLock,
}
