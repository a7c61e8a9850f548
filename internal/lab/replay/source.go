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

// Source is a log that is being replayed: the schedule and the script of a load. It is the
// load.Script; Arrivals is the load.Options' field of that name. Methods without a note may be
// called from any goroutine.
type Source struct {
	log    *Log
	speed  float64
	feeds  []*feed
	cancel context.CancelFunc
	done   chan struct{} // closed when the reading has ended
	// closed when the reader has had to wait for a loop, or the reading has ended
	full chan struct{}
	some chan struct{} // closed when the first requests are ready

	// The reading goroutine's.
	reader *reader
	order  order
	start  int64 // the log's time that is due at 0
	begun  bool
	last   int64 // due time of the newest arrival
	dealt  int

	mu     sync.Mutex // of what follows, which others may ask for
	stats  Stats
	plan   ArrivalPlan
	failed error
}

// prefillWait bounds how long Start waits for more once there is something to send: a log that is
// being written fills no queue.
const prefillWait = time.Second

// errDuration ends the reading when nothing more is due.
var errDuration = errors.New("the longest duration is over")

// longestPause bounds how long the replay waits for the next request, when the log has such a pause
// too. Longer ones are lines whose time is wrong, more often than not: a server that had not set
// its clock yet, or a line that somebody made.
const longestPause = 7 * 24 * time.Hour

// errPause ends the reading at a pause that is longer.
var errPause = errors.New("the replay would have to wait for more than a week")

// Start begins to read, for so many loops, and returns when there is enough to begin with.
// authority is the Host that requests are sent with. With a rate it first reads the whole log once.
// It fails when ctx is done before that, or when there is nothing to send; the log is closed then.
// The run may begin at any time after it; what is due counts from its beginning. Close ends the
// reading.
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
	ctx, cancel := context.WithCancel(ctx)
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
	l.input.before = func() error { return s.flush(ctx) }
	go s.read(ctx)
	if err := s.prefill(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// prefill waits for the first requests, and a little longer for more.
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
	// What the log has given until it failed is sent all the same.
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

// finish gives away what is left and says why the reading ended.
func (s *Source) finish(ctx context.Context, err error) {
	s.flush(ctx)
	for _, f := range s.feeds {
		// It fails when the replay is being ended, and then what is left is not wanted.
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

// open closes a channel that says that something is so, once. Only the reading goroutine does it.
func (s *Source) open(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// deal says when each of a group that has the same time is due, and gives it to the next loop in
// turn.
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

// pauseAfter says between which times of the log the pause is, and what to do.
func pauseAfter(before time.Time, next int64) error {
	return fmt.Errorf("%w: the log goes from %s to %s; give a higher --speed, "+
		"or leave one of them out with --from or --to",
		errPause, before.Format(time.DateTime), time.Unix(0, next).UTC().Format(time.DateTime))
}

// send sends a full batch. When it has to wait, the other loops are given what there is for them
// first: their batches may be the older ones.
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

// flush gives every loop what there is for it, as the next read may have to wait.
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

// note makes the counts visible to others.
func (s *Source) note(stats *Stats) {
	s.mu.Lock()
	s.stats = *stats
	s.mu.Unlock()
}

// Stats is what became of the lines that were read so far.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	st := s.stats
	s.mu.Unlock()
	for _, f := range s.feeds {
		st.Taken += f.count.Load()
	}
	return st
}

// Plan is how many of the requests that were read so far are due in each second of the replay; the
// copy is the caller's. The last second may be incomplete while the reading goes on.
func (s *Source) Plan() ArrivalPlan {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ArrivalPlan{Step: s.plan.Step, Counts: slices.Clone(s.plan.Counts)}
}

// Err is what ended the reading early, nil when nothing did or it goes on: a log that is damaged,
// or an error of the disk. What stood before it has been sent.
func (s *Source) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Close ends the reading and closes the log. It waits for the reading goroutine, but not where that
// may wait for somebody who writes: standard input cannot be woken up.
func (s *Source) Close() {
	s.cancel()
	s.log.Close()
	if !s.log.waits {
		<-s.done
	}
}

// Names is load.Script's: requests are distinguished by their method.
func (s *Source) Names() []string {
	if s.log.o.Unsafe {
		return methods
	}
	return methods[:safeMethods]
}

// Requests is load.Script's.
func (s *Source) Requests() float64 { return 1 }

// Player is load.Script's. The seed is of no use: the log says what comes.
func (s *Source) Player(loop, loops int, _ uint64) load.Player {
	return &player{s.feed(loop, loops)}
}

// Arrivals is load.Options's. The schedule is a pace.Streamed.
func (s *Source) Arrivals(loop, loops int) pace.Schedule { return s.feed(loop, loops) }

// feed is a loop's. The log is dealt among the loops that Start was told of, so another number of
// them is a mistake of the program's.
func (s *Source) feed(loop, loops int) *feed {
	if loops != len(s.feeds) {
		panic(fmt.Sprintf("replay: started for %d loops, run on %d", len(s.feeds), loops))
	}
	return s.feeds[loop]
}
