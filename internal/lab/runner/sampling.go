package runner

import (
	"sync"
	"time"

	"plimsoll/internal/lab/measure"
)

// sampling samples the probes during one step, on a goroutine of its own: reading /proc takes too
// long for a loop, and the windows' goroutine has the loops' parts to add up.
//
// The generator's clock starts when its connections are open, which only the generator knows, and
// says. From the first window on samples are taken at the windows' ends, whether or not there are
// windows: the last one is as long as the drain.
type sampling struct {
	sample  func(at int64) measure.Sample
	every   time.Duration
	start   time.Time // of the generator's clock; zero before that is known
	first   bool      // a window has ended
	stop    chan struct{}
	running sync.WaitGroup
	taken   []measure.Sample // the goroutine's until it has ended
}

func newSampling(sample func(at int64) measure.Sample, every time.Duration) *sampling {
	return &sampling{sample: sample, every: every, stop: make(chan struct{})}
}

// began says when the generator's clock starts, before the first window.
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

// untilNext is the time until the end of the window that is running.
func (s *sampling) untilNext() time.Duration {
	return s.every - time.Since(s.start)%s.every
}

func (s *sampling) take() {
	s.taken = append(s.taken, s.sample(time.Since(s.start).Nanoseconds()))
}

// end takes a last sample and gives them all, in order. It is called once, when no more windows
// come.
func (s *sampling) end() []measure.Sample {
	close(s.stop)
	s.running.Wait()
	return s.taken
}
