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
	// hertz is how many stacks are taken per second of each busy processor. It is not a round
	// number, to stay out of step with timers.
	hertz = 99
	// ringPages is the size of a ring, a power of two: 1 MB. 99 stacks of 127 frames per second are
	// 100 KB, and the reader may have to wait for a processor. fewPages is 128 KB, which an
	// ordinary user may lock per processor.
	ringPages = 256
	fewPages  = 32
	// copyPages is the size of rings that take copies of stacks, 8 MB: 99 copies per second are 1.6
	// MB.
	copyPages = 2048
	// stackCopy is how much of a thread's stack is copied with a sample, in bytes from its top.
	// That is enough for about 40 calls of Python functions.
	stackCopy = 16 << 10
	// drainEvery is how often rings are emptied: four times as often as the fastest could fill
	// them.
	drainEvery = 250 * time.Millisecond
	// mostStacks bounds the different stacks of a profile; samples of further ones count as lost.
	mostStacks = 100_000
)

// Sampler takes profiles of the target's processor time by the kernel's clock: user and kernel
// stacks of all its threads, 99 times per second on each processor that they use.
//
// If this process may, it opens one event per processor, which sees all processes, and keeps the
// target's samples. An event then costs only at its interrupts, not at thread switches, and new
// threads and processes are seen from their first moment. Otherwise it opens events for each of the
// target's threads on each processor, because a thread that changes processors cannot share a ring;
// if necessary, without the kernel's part. Rejected: one event per thread alone. The kernel does
// not allow inheritance with a ring then, so threads created later would be missed.
type Sampler struct {
	target *target
	names  *namer
	notes  []string // what the last profile did not see, for humans
}

// OpenSampler prepares profiles of the process with this number and its descendants. An error says
// why they are impossible, and what to do about it. Close the sampler after use.
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

// Close releases the symbols that were read.
func (s *Sampler) Close() { s.names.close() }

// Notes returns, for humans, what the last profile did not see: lost samples, binaries without
// symbols. Their number is bounded.
func (s *Sampler) Notes() []string { return s.notes }

// Take takes a profile of the given length. If ctx ends, it returns the profile so far. The names
// are looked up afterwards, which takes a few tenths of a second of a processor the first time.
// Take must not be called concurrently.
func (s *Sampler) Take(ctx context.Context, length time.Duration) (*profile.Profile, error) {
	s.notes = nil
	compilers := s.compilers()
	rings, whole, err := s.open(len(compilers) > 0)
	if err != nil && len(compilers) > 0 {
		// An ordinary user may not lock that much memory.
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

// compilers returns the processes of the target that run CPython with its perf support. Python is
// mostly built without frame pointers, so the kernel sees one frame of it and no callers. But each
// call of a Python function goes through code of its own, whose return address is on the stack, so
// a copy of the stack is searched for it. Occasionally, a match is left over from a call that has
// returned.
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

// open opens the events, for all processes if allowed. If copied is set, each sample includes a
// part of the stack.
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

// explain says what to do if a process may not be profiled.
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

// ring is the buffer of one processor. The kernel writes it and one goroutine reads it.
type ring struct {
	fds    []int // the first owns the ring, the others write into it
	memory []byte
	head   *uint64 // where the kernel writes next, counted from the start
	tail   *uint64 // where to read next
	data   []byte
	record []byte // a record that wraps around the end of the ring, joined
}

// openRings opens an event on each processor, for the given threads, or for everything if threads
// is nil. If copied is set, each sample includes a part of the stack.
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
				break // no such processor, or it is offline
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

// present reports whether the machine has a processor of this number.
func present(cpu int) bool {
	_, err := os.Stat(fmt.Sprintf("/sys/devices/system/cpu/cpu%d", cpu))
	return err == nil
}

// add takes over an event. The first one maps the memory.
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

// drain passes all available records to a collector. It reads the head before the records, and
// writes the tail after them, which tells the kernel that their space is free.
func (r *ring) drain(c *collector) {
	head, tail := atomic.LoadUint64(r.head), *r.tail
	size := uint64(len(r.data))
	for head-tail >= 8 {
		length := uint64(binary.NativeEndian.Uint16(r.at(tail, 8)[6:]))
		if length < 8 || length > head-tail || length > size {
			tail = head // the kernel does not do this; nothing after it can be read
			c.lost++
			break
		}
		c.take(r.at(tail, length))
		tail += length
	}
	atomic.StoreUint64(r.tail, tail)
}

// at returns a part of the ring, valid until the next call.
func (r *ring) at(from, length uint64) []byte {
	size := uint64(len(r.data))
	from %= size
	if from+length <= size {
		return r.data[from : from+length]
	}
	r.record = append(append(r.record[:0], r.data[from:]...), r.data[:from+length-size]...)
	return r.record
}
