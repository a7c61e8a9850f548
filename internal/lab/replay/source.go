package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/pace"
)

// Source is a log that is being replayed. It is a load's schedule and its script: Source implements
// load.Script, and Arrivals is for the field of that name in load.Options. Unless noted otherwise,
// any goroutine may call its methods.
type Source struct {
	log    *Log
	speed  float64
	feeds  []*feed
	cancel context.CancelFunc
	done   chan struct{} // closed when the reading has ended
	// closed when the reader had to wait for a loop, or the reading has ended
	full chan struct{}
	some chan struct{} // closed when the first requests are ready

	// For the reading goroutine.
	reader *reader
	order  order
	start  int64 // the log's time at due time 0
	begun  bool
	last   int64 // due time of the newest arrival
	dealt  int

	mu     sync.Mutex // guards the fields below, which other goroutines read
	stats  Stats
	plan   ArrivalPlan
	failed error
}

// prefillWait bounds how long Start waits for more requests after the first: a log that is still
// being written never fills a queue.
const prefillWait = time.Second

// errDuration ends the reading when no more requests are due.
var errDuration = errors.New("the longest duration is over")

// longestPause is the longest time that the replay waits for the next request, if the log also has
// such a pause. A longer pause usually means a wrong time: a server whose clock was not set yet, or
// a line that someone made up.
const longestPause = 7 * 24 * time.Hour

// errPause ends the reading at a longer pause.
var errPause = errors.New("the replay would have to wait for more than a week")

// Start begins to read for the given number of loops. It returns when enough requests are ready to
// begin with. authority is the requests' Host. With a rate, Start first reads the whole log once.
// It fails if ctx is done earlier or there is nothing to send; the log is then closed. The run may
// begin at any time after Start; due times count from its beginning. Close ends the reading.
func (l *Log) Start(ctx context.Context, loops int, authority string) (*Source, error) {
	if loops < 1 {
		l.Close()
		return nil, fmt.Errorf("a replay on %d loops: it needs one at least", loops)
	}
	speed := 1.0
	if l.o.Speed > 0 {
		speed = l.o.Speed
	}
	if l.o.Rate > 0 {
		var err error
		if speed, err = l.measure(ctx); err != nil {
			l.Close()
			return nil, err
		}
	}
	reading, cancel := context.WithCancel(ctx)
	s := &Source{
		log:    l,
		speed:  speed,
		cancel: cancel,
		done:   make(chan struct{}),
		full:   make(chan struct{}),
		some:   make(chan struct{}),
		plan:   newPlan(),
	}
	for range loops {
		s.feeds = append(s.feeds, newFeed())
	}
	s.order.window = reorderWindow
	if l.form.sorted {
		s.order.window = math.MaxInt64 / 4
	}
	s.reader = newReader(l, authority, s.note)
	s.reader.stats.Speed = speed
	s.stats.Speed = speed
	l.input.before = func() error { return s.flush(reading) }
	go s.read(reading)
	if err := s.prefill(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// prefill waits for the first requests, and then a little longer for more.
func (s *Source) prefill(ctx context.Context) error {
	select {
	case <-s.some:
	case <-s.full:
	case <-ctx.Done():
		return ctx.Err()
	}
	enough := time.NewTimer(prefillWait)
	defer enough.Stop()
	select {
	case <-s.full:
	case <-enough.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return err // whoever gave up may have ended the reading too
	}
	select {
	case <-s.done:
		if s.reader.stats.Arrivals > 0 {
			return nil
		}
		if err := s.Err(); err != nil {
			return err
		}
		return s.reader.nothing()
	default:
		return nil
	}
}

// read is the reading goroutine.
func (s *Source) read(ctx context.Context) {
	err := s.reader.each(func(it *item) error {
		outOfOrder, late := s.order.push(it)
		if outOfOrder {
			s.reader.stats.OutOfOrder++
		}
		if late {
			s.reader.stats.Late++
		}
		for s.order.ready() {
			if err := s.deal(ctx, s.order.pop()); err != nil {
				return err
			}
		}
		return nil
	})
	// What was read before an error is still sent.
	if !errors.Is(err, errDuration) && !errors.Is(err, errPause) && ctx.Err() == nil {
		for s.order.heap.Len() > 0 {
			if e := s.deal(ctx, s.order.pop()); e != nil {
				err = errors.Join(err, e)
				break
			}
		}
	}
	s.finish(ctx, err)
}

// finish sends what is left and records why the reading ended.
func (s *Source) finish(ctx context.Context, err error) {
	s.flush(ctx)
	for _, f := range s.feeds {
		// This fails if the replay is being ended; then the rest is not needed.
		if f.filling != nil {
			f.send(ctx)
		}
		close(f.ready)
	}
	switch {
	case ctx.Err() != nil:
		s.reader.stats.Ended, err = "the replay was ended", nil
	case errors.Is(err, errDuration):
		s.reader.stats.Ended, err = errDuration.Error(), nil
	case err != nil:
		s.reader.stats.Ended = err.Error()
	}
	s.mu.Lock()
	s.failed = err
	s.mu.Unlock()
	s.note(&s.reader.stats)
	s.log.Close()
	close(s.done)
	s.open(s.full)
	s.open(s.some)
}

// open closes a channel unless it is closed already. Only the reading goroutine calls it.
func (s *Source) open(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// deal computes the due time of each item of a group with the same time, and gives it to the next
// loop in turn.
func (s *Source) deal(ctx context.Context, group []held) error {
	if !s.begun {
		s.begun, s.start = true, group[0].at
		s.reader.stats.First = time.Unix(0, s.start).UTC()
	}
	previous := s.reader.stats.Last
	for i := range group {
		offset := float64(group[i].at-s.start) +
			float64(s.reader.unit)*float64(i)/float64(len(group))
		due := max(s.last, int64(min(offset/s.speed, math.MaxInt64/4)))
		if s.log.o.MaxDuration > 0 && due > int64(s.log.o.MaxDuration) {
			return errDuration
		}
		if due-s.last > int64(longestPause) &&
			group[i].at-previous.UnixNano() > int64(longestPause) {
			return pauseAfter(previous, group[i].at)
		}
		s.last = due
		s.reader.stats.Last = time.Unix(0, group[i].at).UTC()
		s.reader.stats.Length = time.Duration(due)
		s.mu.Lock()
		s.plan.add(due)
		s.mu.Unlock()
		n := s.dealt % len(s.feeds)
		s.dealt++
		full, err := s.feeds[n].add(ctx, due, &group[i])
		if err != nil {
			return err
		}
		if full {
			if err := s.send(ctx, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// pauseAfter says between which times of the log the pause is, and what to do about it.
func pauseAfter(before time.Time, next int64) error {
	return fmt.Errorf("%w: the log goes from %s to %s; give a higher --speed, "+
		"or leave one of them out with --from or --to",
		errPause, before.Format(time.DateTime), time.Unix(0, next).UTC().Format(time.DateTime))
}

// send sends a full batch. Before it has to wait, it sends the other loops' batches, which may be
// older.
func (s *Source) send(ctx context.Context, n int) error {
	if !s.feeds[n].trySend() {
		s.open(s.full)
		for _, f := range s.feeds {
			f.trySend()
		}
		if err := s.feeds[n].send(ctx); err != nil {
			return err
		}
	}
	s.open(s.some)
	return nil
}

// flush sends every loop its batch, because the next read may have to wait.
func (s *Source) flush(ctx context.Context) error {
	for _, f := range s.feeds {
		if f.filling == nil {
			continue
		}
		if f.trySend() {
			s.open(s.some)
		} else {
			s.open(s.full)
		}
	}
	return ctx.Err()
}

// note makes the counts visible to other goroutines.
func (s *Source) note(stats *Stats) {
	s.mu.Lock()
	s.stats = *stats
	s.mu.Unlock()
}

// Stats says what happened to the lines read so far.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	st := s.stats
	s.mu.Unlock()
	for _, f := range s.feeds {
		st.Taken += f.count.Load()
	}
	return st
}

// Plan returns the number of requests, among those read so far, that are due in each second of the
// replay. The caller owns the copy. The last second may be incomplete while the reading continues.
func (s *Source) Plan() ArrivalPlan {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ArrivalPlan{Step: s.plan.Step, Counts: slices.Clone(s.plan.Counts)}
}

// Err is the error that ended the reading early: a damaged log or a disk error. It is nil if there
// was none, or the reading continues. What was read before the error has been sent.
func (s *Source) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Close ends the reading and closes the log. It waits for the reading goroutine, unless that may
// wait for a writer: a read of standard input cannot be interrupted.
func (s *Source) Close() {
	s.cancel()
	s.log.Close()
	if !s.log.waits {
		<-s.done
	}
}

// Names implements load.Script: requests are distinguished by their method.
func (s *Source) Names() []string {
	if s.log.o.Unsafe {
		return methods
	}
	return methods[:safeMethods]
}

// Requests implements load.Script.
func (s *Source) Requests() float64 { return 1 }

// Player implements load.Script. It ignores the seed, because the log determines the requests.
func (s *Source) Player(loop, loops int, _ uint64) load.Player {
	return &player{s.feed(loop, loops)}
}

// Arrivals is for load.Options. The schedule is a pace.Streamed.
func (s *Source) Arrivals(loop, loops int) pace.Schedule { return s.feed(loop, loops) }

// feed returns a loop's feed. The log is dealt among the number of loops given to Start, so another
// number is a programming error.
func (s *Source) feed(loop, loops int) *feed {
	if loops != len(s.feeds) {
		panic(fmt.Sprintf("replay: started for %d loops, run on %d", len(s.feeds), loops))
	}
	return s.feeds[loop]
}
