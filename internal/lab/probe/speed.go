package probe

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"plimsoll/internal/lab/measure"
)

const (
	// pulseEvery is how long a Speed waits between two looks, and pulseMost the longest time that
	// one look stands for: the thread itself may wait for a processor.
	pulseEvery = 10 * time.Millisecond
	pulseMost  = 2 * pulseEvery
	// slowTimes is how many times as long as usual the computation takes at least when a processor
	// counts as slowed down, and slowRange the same as a multiple of the ratio of its highest to its
	// lowest clock, if it is known: at gentle rates a processor clocks down. One whose other thread is
	// busy differs by less than two.
	slowTimes, slowRange = 4, 1.5
	// spins is how many steps the computation has: 11 to 16 µs. Waking up for it takes longer, so all
	// looks take 1.2 to 1.7 % of a processor in a program that does nothing else (2.3 % if they come
	// every 5 ms).
	spins = 4000
)

// Speed is a Source that tells for how long the machine's processors ran at less than a quarter of
// their speed, or at less than their lowest clock explains. A hypervisor that gives them to another
// machine, or takes back what was used beyond a quota, need not count that as steal: the machine's own
// clocks then say that its programs ran, at a tenth of their speed for a tenth of a second. A processor
// that is too hot may clock down as far as one that has little to do, and is then not seen.
//
// A thread of its own does the same short computation every 10 ms, and measures by its own processor
// time how long it takes. What other programs take is not in that.
type Speed struct {
	times   float64      // as slowTimes, for this machine
	slowed  atomic.Int64 // nanoseconds
	looks   atomic.Int64
	stopped atomic.Bool
	done    chan struct{}
}

// NewSpeed begins to look. Stop ends it.
func NewSpeed() *Speed {
	s := &Speed{times: slowFrom("/sys"), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.run()
	}()
	return s
}

// Stop ends the looks, and waits for the last of them. Call it once.
func (s *Speed) Stop() {
	s.stopped.Store(true)
	<-s.done
}

// Name describes what is read.
func (*Speed) Name() string { return "the processors' speed" }

// Read puts the seconds so far under measure.HostCPUSlowed, or nothing where no look succeeded.
func (s *Speed) Read(into map[string]float64) error {
	if s.looks.Load() == 0 {
		return nil
	}
	into[measure.HostCPUSlowed] = float64(s.slowed.Load()) / 1e9
	return nil
}

// slowFrom returns how many times as long as usual the computation takes when a processor counts as
// slowed down.
func slowFrom(sys string) float64 {
	low, high := clock(sys, "cpuinfo_min_freq"), clock(sys, "cpuinfo_max_freq")
	if low <= 0 || high <= 0 { // virtual machines do not tell
		return slowTimes
	}
	return max(slowTimes, slowRange*high/low)
}

// clock returns one of the first processor's clock frequencies in kHz; 0 if it is not known.
func clock(sys, name string) float64 {
	text, err := os.ReadFile(filepath.Join(sys, "devices/system/cpu/cpu0/cpufreq", name))
	if err != nil {
		return 0
	}
	khz, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		return 0
	}
	return khz
}

// pulse judges looks one after the other.
type pulse struct {
	times float64 // as Speed's
	usual int64   // the shortest time that the computation took, in nanoseconds; 0 before the first
	slow  bool    // it was slow in the last look
	last  int64   // when that was
}

// look takes the time of a look, in nanoseconds, and how long the computation took. It returns how
// much time was slow before it: 0 unless this look and the one before were. One may be slow because
// of an interrupt, which counts as the thread's time.
func (p *pulse) look(now, took int64) (slowed int64) {
	if p.usual == 0 || took < p.usual {
		p.usual = max(took, 1)
	}
	slow := float64(took) >= p.times*float64(p.usual)
	if slow && p.slow {
		slowed = min(now-p.last, int64(pulseMost))
	}
	p.slow, p.last = slow, now
	return slowed
}

// spin computes something that nothing else has to wait for: no memory, and no branch that is hard to
// predict.
func spin() float64 {
	x := 1.0
	for range spins {
		x = x*1.0000001 + 1e-9
	}
	return x
}
