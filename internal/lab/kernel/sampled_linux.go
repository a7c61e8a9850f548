package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/stacks"
	"plimsoll/internal/lab/symbols"
)

const (
	// hertz is how often a second of each busy processor a stack is taken: not a round number, so
	// that it does not keep step with timers.
	hertz = 99
	// ringPages is a ring's size, a power of two: 1 MB, as 99 stacks of 127 frames a second are
	// 100 KB, and who reads them may have to wait for a processor. fewPages are the 128 KB that an
	// ordinary user may lock for each processor.
	ringPages = 256
	fewPages  = 32
	// copyPages is the size of rings that take copies of stacks, 8 MB: 99 of them a second are 1.6.
	copyPages = 2048
	// stackCopy is how much of a thread's stack is copied with a sample, in bytes from its top. Some
	// 40 calls of Python functions fit in.
	stackCopy = 16 << 10
	// drainEvery is how often rings are emptied: four times as often as the fastest could fill them.
	drainEvery = 250 * time.Millisecond
	// mostStacks bounds the different stacks of one profile; what is over it counts as lost.
	mostStacks = 100_000
)

// Sampler takes profiles of the target's processor time by the kernel's clock: user and kernel
// stacks of all its threads, 99 times a second of each processor that they use.
//
// Where this process may, it opens one event for each processor, which sees all processes, and
// keeps the target's samples: an event costs at each of its interrupts then, and nothing when
// threads are switched, and new threads and processes are seen from their first moment. Otherwise
// it opens events for each of the target's threads on each processor, as a ring cannot be shared by
// a thread that changes processors; without the kernel's part where that is forbidden. What was
// rejected: one event for each thread alone, as the kernel refuses inheritance with a ring then,
// and threads that are made later would be missed.
type Sampler struct {
	target *target
	names  *namer
	notes  []string // what the last profile did not see, for a person
}

// OpenSampler prepares the profiles of the process with this number and those that descend from it.
// An error says why there can be none, and what to do about it. Close ends it.
func OpenSampler(pid int) (*Sampler, error) {
	if pid == 0 {
		return nil, errors.New("the target's process is not known: name it with --pid when it " +
			"runs on this machine")
	}
	t, err := newTarget(pid)
	if err != nil {
		return nil, err
	}
	s := &Sampler{target: t, names: newNamer()}
	rings, _, err := s.open(false)
	if err != nil {
		return nil, err
	}
	shutAll(rings)
	return s, nil
}

// Close lets go of what was read of symbols.
func (s *Sampler) Close() { s.names.close() }

// Notes say for a person what the last profile did not see: samples that were lost, binaries
// without symbols. They are bounded in number.
func (s *Sampler) Notes() []string { return s.notes }

// Take takes a profile for so long. When ctx ends it returns what there is by then. The names of
// the code are looked up afterwards, which takes some tenths of a second of a processor the first
// time. It is called by one goroutine at a time.
func (s *Sampler) Take(ctx context.Context, length time.Duration) (*profile.Profile, error) {
	s.notes = nil
	compilers := s.compilers()
	rings, whole, err := s.open(len(compilers) > 0)
	if err != nil && len(compilers) > 0 {
		// an ordinary user may not lock so much memory
		compilers = nil
		rings, whole, err = s.open(false)
	}
	if err != nil {
		return nil, err
	}
	defer shutAll(rings)
	c := newCollector(s.target, whole, compilers)
	began := time.Now()
	over := time.NewTimer(length)
	defer over.Stop()
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case <-tick.C:
		case <-over.C:
			done = true
		case <-ctx.Done():
			done = true
		}
		if done {
			for _, r := range rings {
				for _, fd := range r.fds {
					unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_DISABLE, 0)
				}
			}
		}
		for _, r := range rings {
			r.drain(c)
		}
		if err := s.target.check(); err != nil && len(c.counts) == 0 {
			return nil, err
		}
	}
	b := stacks.NewBuilder(time.Since(began).Seconds())
	s.notes = s.names.build(b, c)
	p := b.Profile()
	p.Period = int64(time.Second / hertz)
	return p, nil
}

// compilers are the processes of the target that run CPython with its perf support. Python is
// mostly built without frame pointers, so that the kernel sees one frame of it and nothing above.
// But each call of a Python function goes through a piece of code of its own, whose return address
// is on the stack: it is looked for in a copy of the stack. What is found may once in a while be
// left from a call that is over.
func (s *Sampler) compilers() map[int]*symbols.Process {
	members, err := s.target.members()
	if err != nil {
		return nil
	}
	found := map[int]*symbols.Process{}
	for pid := range members {
		if p, err := s.names.table.Process(pid); err == nil && p.Trampolines() {
			found[pid] = p
		}
	}
	return found
}

// open opens the events, for all processes where that is allowed; copied has a part of the stack
// come with each sample.
func (s *Sampler) open(copied bool) (rings []*ring, whole bool, err error) {
	rings, err = openRings(nil, false, copied)
	if err == nil {
		return rings, true, nil
	}
	threads, failed := s.target.threads(maxThreads)
	if failed != nil {
		return nil, false, failed
	}
	for _, userOnly := range []bool{false, true} {
		if rings, err = openRings(threads, userOnly, copied); err == nil {
			return rings, false, nil
		}
	}
	return nil, false, s.explain(err)
}

// explain says what to do where a process may not be looked into.
func (s *Sampler) explain(err error) error {
	level, _ := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	switch {
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("process %d (%s) may not be profiled (kernel.perf_event_paranoid is %s): "+
			"run as root or with CAP_PERFMON (setcap cap_perfmon,cap_sys_ptrace,cap_syslog=ep on this "+
			"program); or run as the process's user, with sysctl kernel.perf_event_paranoid=2 or less",
			s.target.pid, s.target.name, strings.TrimSpace(string(level)))
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS):
		return errors.New("perf_event_open is forbidden here, as the seccomp profiles of " +
			"containers do: give the container CAP_PERFMON, or run outside of it")
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return errors.New("there are too few descriptors for its events: raise the limit with ulimit -n")
	}
	return err
}

// ring is the buffer of one processor, which the kernel writes and one goroutine reads.
type ring struct {
	fds    []int // the first is the ring's own, the others write into it
	memory []byte
	head   *uint64 // where the kernel will write next, counted from the beginning of time
	tail   *uint64 // where will be read next
	data   []byte
	record []byte // one that wraps around the ring's end, put together
}

// openRings opens an event for each processor, of the threads, or of everything when there are
// none. copied has a part of the stack come with each sample.
func openRings(threads []int, userOnly, copied bool) (rings []*ring, err error) {
	defer func() {
		if err != nil {
			shutAll(rings)
		}
	}()
	attr := unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		// Software clocks count nanoseconds, and their period is exact.
		Sample:      uint64(time.Second / hertz),
		Sample_type: unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_CALLCHAIN,
		Bits:        unix.PerfBitExcludeIdle | unix.PerfBitExcludeHv,
	}
	pages := ringPages
	if copied {
		attr.Sample_type |= unix.PERF_SAMPLE_STACK_USER
		attr.Sample_stack_user = stackCopy
		pages = copyPages
	}
	if userOnly {
		attr.Bits |= unix.PerfBitExcludeKernel
	}
	if threads == nil {
		threads = []int{-1}
	} else {
		attr.Bits |= unix.PerfBitInherit
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err == nil &&
		uint64(len(threads)*runtime.NumCPU()) > limit.Cur/4 {
		return nil, unix.EMFILE
	}
	for cpu := range 4096 {
		r := &ring{}
		for _, tid := range threads {
			fd, err := unix.PerfEventOpen(&attr, tid, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
			if errors.Is(err, unix.ESRCH) {
				continue // the thread has ended
			}
			if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) && cpu > 0 {
				break // no such processor, or it is switched off
			}
			if err != nil {
				r.shut()
				return rings, err
			}
			if err := r.add(fd, pages); err != nil {
				r.shut()
				return rings, err
			}
		}
		if len(r.fds) > 0 {
			rings = append(rings, r)
		} else if cpu >= runtime.NumCPU() && !present(cpu) {
			break
		}
	}
	if len(rings) == 0 {
		return nil, errors.New("no thread of it is left")
	}
	return rings, nil
}

// present says whether the machine has a processor of this number.
func present(cpu int) bool {
	_, err := os.Stat(fmt.Sprintf("/sys/devices/system/cpu/cpu%d", cpu))
	return err == nil
}

// add takes an event over. The first brings the memory.
func (r *ring) add(fd, pages int) error {
	r.fds = append(r.fds, fd)
	if len(r.fds) > 1 {
		return unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, r.fds[0])
	}
	page := os.Getpagesize()
	const access = unix.PROT_READ | unix.PROT_WRITE
	memory, err := unix.Mmap(fd, 0, (1+pages)*page, access, unix.MAP_SHARED)
	if errors.Is(err, unix.EPERM) && pages == ringPages {
		memory, err = unix.Mmap(fd, 0, (1+fewPages)*page, access, unix.MAP_SHARED)
	}
	if err != nil {
		return err
	}
	r.memory, r.data = memory, memory[page:]
	control := (*unix.PerfEventMmapPage)(unsafe.Pointer(&memory[0]))
	r.head, r.tail = &control.Data_head, &control.Data_tail
	return nil
}

func (r *ring) shut() {
	if r.memory != nil {
		unix.Munmap(r.memory)
	}
	for _, fd := range r.fds {
		unix.Close(fd)
	}
	r.memory, r.fds = nil, nil
}

func shutAll(rings []*ring) {
	for _, r := range rings {
		r.shut()
	}
}

// drain gives a collector all records that are there. The head is read before the records, and the
// tail is written after them, which tells the kernel that their room is free.
func (r *ring) drain(c *collector) {
	head, tail := atomic.LoadUint64(r.head), *r.tail
	size := uint64(len(r.data))
	for head-tail >= 8 {
		length := uint64(binary.NativeEndian.Uint16(r.at(tail, 8)[6:]))
		if length < 8 || length > head-tail || length > size {
			tail = head // the kernel does not do this; nothing can be read behind it
			c.lost++
			break
		}
		c.take(r.at(tail, length))
		tail += length
	}
	atomic.StoreUint64(r.tail, tail)
}

// at is a stretch of the ring, valid until the next call.
func (r *ring) at(from, length uint64) []byte {
	size := uint64(len(r.data))
	from %= size
	if from+length <= size {
		return r.data[from : from+length]
	}
	r.record = append(append(r.record[:0], r.data[from:]...), r.data[:from+length-size]...)
	return r.record
}
