package runner

import (
	"sync"
	"time"

	"plimsoll/internal/lab/measure"
)

// sampling samples the probes during one step, on its own goroutine: reading /proc takes too long
// for a loop, and the goroutine of the windows has to add up the loops' parts.
//
// The generator's clock starts when its connections are open. Only the generator knows that moment,
// and reports it (began). From the first window on, samples are taken at the ends of windows, even
// without a window there: the last window is as long as the drain.
// windows: the last one is as long as the drain.
type sampling struct {
	sample  func(at int64) measure.Sample
	every   time.Duration
	start   time.Time // start of the generator's clock; zero until known
	first   bool      // a window has ended
	stop    chan struct{}
	running sync.WaitGroup
	taken   []measure.Sample // only for the goroutine until it has ended
}

func newSampling(sample func(at int64) measure.Sample, every time.Duration) *sampling {
	return &sampling{sample: sample, every: every, stop: make(chan struct{})}
}

// began sets the start of the generator's clock, before the first window.
func (s *sampling) began(at time.Time) { s.start = at }

// windowEnded starts the sampling with the first window.
func (s *sampling) windowEnded() {
	if s.first {
		return
	}
	s.first = true
	s.running.Go(s.loop)
}

func (s *sampling) loop() {
	s.take()
	next := time.NewTimer(s.untilNext())
	defer next.Stop()
	for {
		select {
		case <-next.C:
			s.take()
			next.Reset(s.untilNext())
		case <-s.stop:
			s.take()
			return
		}
	}
}

// untilNext is the time until the end of the current window.
func (s *sampling) untilNext() time.Duration {
	return s.every - time.Since(s.start)%s.every
}

func (s *sampling) take() {
	s.taken = append(s.taken, s.sample(time.Since(s.start).Nanoseconds()))
}

// end takes a last sample and returns all samples, in order. It is called once, after the last
// window.
func (s *sampling) end() []measure.Sample {
	close(s.stop)
	s.running.Wait()
	return s.taken
}
