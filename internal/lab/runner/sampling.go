package runner

import (
	"sync"
	"time"

	"plimsoll/internal/lab/measure"
)

// sampling samples the probes during one step, on a goroutine of its own: reading /proc takes too
// long for a loop, and the windows' goroutine has the loops' parts to add up.
//
// The generator's clock starts when its connections are open, which only the generator knows. So
// the first window's end tells when that was: it is given to Observe within a millisecond or so.
// From then on samples are taken at the windows' ends, whether or not there are windows: the last
// one is as long as the drain.
type sampling struct {
	sample  func(at int64) measure.Sample
	every   time.Duration
	start   time.Time // of the generator's clock; zero before the first window
	stop    chan struct{}
	running sync.WaitGroup
	taken   []measure.Sample // the goroutine's until it has ended
}

func newSampling(sample func(at int64) measure.Sample, every time.Duration) *sampling {
	return &sampling{sample: sample, every: every, stop: make(chan struct{})}
}

// windowEnded starts the sampling with the first window.
func (s *sampling) windowEnded(w *measure.Window) {
	if !s.start.IsZero() {
		return
	}
	s.start = time.Now().Add(-time.Duration(w.End()))
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

// began is when the generator's clock started by the wall clock; zero when there was no window.
func (s *sampling) began() time.Time { return s.start.Round(0) }
