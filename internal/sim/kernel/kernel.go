package kernel

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing/synctest"
	"time"

	"plimsoll/internal/reactor"
)

// Profile says how benign the kernel and its network are. Shares are between 0 and 1.
type Profile struct {
	Latency     time.Duration // the usual longest travel time of data; a Unix socket has none
	Fragment    float64       // share of pieces that arrive in parts; not on a Unix socket
	ShortWrite  float64       // share of sends that accept only a part
	SendBuffer  int           // bytes accepted by a loop's socket and not acknowledged by its peer
	RecvBuffer  int           // bytes waiting to be read
	Subset      float64       // share of polls that report only some of what is ready
	Stall       float64       // share of turns after which a loop lacks the processor for a while
	StallFor    time.Duration // the longest such while
	Delay       time.Duration // the usual longest wait of a loop for the processor
	DialFails   float64       // share of connects that fail at once: no route, no memory
	DialRefused float64       // share of connects that are refused although the service listens
	DialLost    float64       // share of connects that are never answered
	WallSteps   float64       // share of turns before which the time of day is set
	Descriptors int           // the most that a process may have open
	Meanwhile   float64       // share of calls before which data on its way arrives, within a turn
	Sudden      float64       // share of sends at which the network resets the connection
}

// Kernel is the model. Only the goroutine that calls Drive may use its exported methods, except
// those of reactor.Kernel.
type Kernel struct {
	Profile Profile
	// Trace is called with a line for each thing that happens; nil for none.
	Trace func(format string, args ...any)
	// Preemptible lets other goroutines run in the middle of an event, as can happen on a busy
	// machine. It allows recovering from a panic; otherwise a panic ends the process.
	Preemptible bool
	// Process is the process of code that no loop runs. The descriptors of each process are counted
	// separately.
	Process int
	// Lost counts the connections that were reset in an accept queue although their process still
	// had descriptors to accept them, and they had arrived before EndsAt.
	Lost int
	// EndsAt is when the last process is told to end. Later connections may find nobody.
	EndsAt int64

	began  time.Time
	mu     sync.Mutex // guards the rest: TLS handshakes use sockets on goroutines of their own
	seed   uint64
	rng    *rand.Rand // only for the driving goroutine; others draw from Endpoint.rng
	agenda agenda
	kick   chan struct{} // something is due earlier than what Drive waits for
	alarm  *time.Timer   // the timer of Drive's wait
	driven bool          // Drive is executing what is due, and will check the agenda again

	files     map[int]descriptor
	opened    map[int]int // descriptors of each process
	nextFile  int
	endpoints int                    // number of endpoints ever made
	listening map[string][]*listener // of loops, by address
	services  map[string]*Service    // of actors, by address
	occupied  map[string]bool        // addresses on which other programs listen
	texts     map[reactor.Address]string
	nextPort  uint16
	loops     []*loop
	wall      time.Duration // how far the time of day is off
	cpu       int64         // the last value of CPU
	running   *loop         // the loop whose turn it is
	touched   []*Endpoint   // sockets used in this turn
	violation error
}

// descriptor is a process's number for a file.
type descriptor struct {
	process int
	file    *file
}

// file is an open file description (open(2)), to which descriptors refer. It lives until the last
// of them is closed.
type file struct {
	socket      *Endpoint // one of these, or neither
	listens     *listener
	descriptors int
	watches     []*watch
	linger      bool // the last Close resets
}

// New makes a kernel whose draws depend on seed. It must be called in the bubble in which Drive
// runs.
func New(seed uint64, p Profile) *Kernel {
	return &Kernel{
		Profile: p, began: time.Now(), seed: seed, rng: newRand(seed, 0), EndsAt: never,
		kick: make(chan struct{}, 1), files: map[int]descriptor{}, opened: map[int]int{},
		nextFile: 100, nextPort: 20000,
		listening: map[string][]*listener{}, services: map[string]*Service{},
		occupied: map[string]bool{},
		texts:    map[reactor.Address]string{},
	}
}

// Clock implements reactor.Kernel.
func (k *Kernel) Clock() int64 { return int64(time.Since(k.began)) + 1 }

// CPU implements reactor.Kernel. There is no processor time to measure here: each call finds that
// some work was done since the last.
func (k *Kernel) CPU() int64 {
	k.cpu += int64(100 * time.Microsecond)
	return k.cpu
}

// Wall implements reactor.Kernel.
func (k *Kernel) Wall() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Now().Add(k.wall)
}

// At calls do at a time of Clock, or at once if that has passed.
func (k *Kernel) At(at int64, do func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.at(at, 0, do)
}

// After calls do after a duration.
func (k *Kernel) After(d time.Duration, do func()) { k.At(k.Clock()+int64(d), do) }

func (k *Kernel) at(at int64, by int, do func()) {
	first, some := k.agenda.peek()
	k.agenda.enter(max(at, k.Clock()), by, do)
	if !some || at < first {
		k.stir()
	}
}

// stir makes Drive check the agenda again.
func (k *Kernel) stir() {
	if k.driven {
		return
	}
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// Drive executes events one by one, until done returns true or an invariant of the model is broken.
// Between two events all goroutines of the bubble come to rest, so no event runs concurrently with
// them.
func (k *Kernel) Drive(done func() bool) error {
	for {
		synctest.Wait()
		k.mu.Lock()
		violation := k.violation
		k.mu.Unlock()
		if violation != nil {
			return violation
		}
		if done() {
			return nil
		}
		k.mu.Lock()
		k.scheduleWoken()
		at, some := k.agenda.peek()
		if wait := at - k.Clock(); !some || wait > 0 {
			k.mu.Unlock()
			k.sleep(some, time.Duration(wait))
			continue
		}
		do := k.agenda.take()
		k.driven = true
		k.mu.Unlock()
		k.alone(do)
		k.mu.Lock()
		k.driven = false
		k.mu.Unlock()
	}
}

// alone executes do while no other goroutine runs.
func (k *Kernel) alone(do func()) {
	if !k.Preemptible {
		pin()
		defer unpin()
	}
	do()
}

// sleep lets virtual time pass until the next entry of the agenda, or until a goroutine enters an
// earlier one.
func (k *Kernel) sleep(some bool, wait time.Duration) {
	if !some {
		wait = time.Second // lets goroutines that wait on their own timers proceed
	}
	if k.alarm == nil {
		k.alarm = time.NewTimer(wait)
	} else {
		k.alarm.Reset(wait)
	}
	select {
	case <-k.alarm.C:
	case <-k.kick:
		k.alarm.Stop()
	}
}

func newRand(seed uint64, stream int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 0x6b65726e+uint64(stream)))
}

// chance draws an event of some probability.
func (k *Kernel) chance(p float64) bool { return chance(k.rng, p) }

func chance(r *rand.Rand, p float64) bool { return p > 0 && r.Float64() < p }

// Draw draws a duration up to most; long ones are rarer.
func Draw(r *rand.Rand, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	f := r.Float64()
	return time.Duration(f * f * float64(most))
}

func (k *Kernel) trace(format string, args ...any) {
	if k.Trace != nil {
		k.Trace(format, args...)
	}
}

func (k *Kernel) violate(format string, args ...any) {
	if k.violation == nil {
		k.violation = fmt.Errorf(format, args...)
	}
}

// open makes a descriptor of a new file for the process whose code runs.
func (k *Kernel) open() (int, *file, syscall.Errno) {
	process := k.process()
	if k.opened[process] >= k.Profile.Descriptors {
		return -1, nil, syscall.EMFILE
	}
	f := &file{}
	return k.describe(f, process), f, 0
}

// describe makes another descriptor of a file. Numbers are never reused, so that a use after close
// is found.
func (k *Kernel) describe(f *file, process int) int {
	k.opened[process]++
	k.nextFile++
	k.files[k.nextFile] = descriptor{process, f}
	f.descriptors++
	return k.nextFile
}

// Open returns the names of what a process has open.
func (k *Kernel) Open(process int) (names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, number := range slices.Sorted(maps.Keys(k.files)) {
		d := k.files[number]
		f := d.file
		switch {
		case d.process != process:
		case f.socket != nil:
			names = append(names, f.socket.Name)
		case f.listens != nil:
			names = append(names, "a socket that listens on "+f.listens.address)
		default:
			names = append(names, "a descriptor held in reserve")
		}
	}
	return names
}

// Dup makes a descriptor of the same file for another process. It returns -1 if fd is not open.
func (k *Kernel) Dup(fd, process int) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := k.files[fd].file
	if f == nil {
		k.violate("dup of descriptor %d, which is not open", fd)
		return -1
	}
	return k.describe(f, process)
}

// caller names who makes the present call, for traces.
func (k *Kernel) caller() string {
	if k.running == nil {
		return fmt.Sprintf("process %d", k.Process)
	}
	return fmt.Sprintf("loop %d", k.running.ID)
}

// process is the process whose code runs: that of the loop whose turn it is, or the one that was
// started last.
func (k *Kernel) process() int {
	if k.running != nil {
		return k.running.process
	}
	return k.Process
}

// Reserve implements reactor.Kernel.
func (k *Kernel) Reserve() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	fd, _, _ := k.open()
	return fd
}

// Close implements reactor.Kernel. A poller continues to watch the file as long as another
// descriptor refers to it (epoll(7)).
func (k *Kernel) Close(fd int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d, open := k.files[fd]
	if !open {
		k.violate("close of descriptor %d, which is not open: it may be another's by now", fd)
		return
	}
	delete(k.files, fd)
	k.opened[d.process]--
	f := d.file
	if f.descriptors--; f.descriptors > 0 {
		return
	}
	for _, w := range f.watches {
		w.gone = true
	}
	switch {
	case f.socket != nil:
		f.socket.file = nil
		if f.linger {
			f.socket.reset()
		} else {
			f.socket.close()
		}
	case f.listens != nil:
		f.listens.release(d.process)
	}
}
