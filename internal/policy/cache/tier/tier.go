// Package tier is the second tier of the cache: stored responses in Redis, which instances of the
// gateway share. What is not in an instance's memory is looked up there before the origin is asked,
// and what an instance has stored is written there beside everything else.
//
//	tier.go    the tier: its connections, its options, its end
//	record.go  a stored response as the bytes of a value
//	look.go    a look-up, on a goroutine of its own
//	lock.go    one instance fetches, the others wait
//	queue.go   responses on their way into Redis
//	purge.go   what was purged: as Redis has it, and as this instance wants it there
//	sync.go    purges of this instance to the others, and theirs to this one
//	stats.go   counters
//
// Nothing here blocks a loop, and nothing is ever needed from Redis: whatever is wrong with it, or
// with what it says, is a miss. The rules decide what may be served; this room must not know
// exchanges.
package tier

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/redis"
)

// Options of a tier.
type Options struct {
	// Redis says where it is. Its Timeout is that of a look-up.
	Redis redis.Options
	// MaxObject is the longest body that is written and read, bytes.
	MaxObject int64
	// CompressAbove is the longest body that is written as it is, bytes; 0 compresses none.
	CompressAbove int64
	// QueueBytes bounds the bodies that wait to be written.
	QueueBytes int64
	// Lock is how long one instance keeps the others from fetching the same; 0 for not at all.
	Lock time.Duration
	// Channel is where instances tell each other of purges.
	Channel string
	// Random makes the names of this instance and of what it locks.
	Random func() uint64
	// Wall is the wall clock, nanoseconds since 1970.
	Wall func() int64
	// Purged purges the memory of this instance as another one wants it. An error has it tried again.
	Purged func(Purge) error
	// Forget empties the memory: what others have purged cannot be found out.
	Forget func()
	Log    *slog.Logger
}

const (
	// failures and reopen make a slow Redis cost its time limit once. What is lost by leaving a
	// good one alone for a moment are look-ups, and its trials are look-ups that nobody waits for.
	failures = 1
	reopen   = 250 * time.Millisecond
	// writeTime is how long writing, purging and reading the log of purges may take at least.
	writeTime = 2 * time.Second
)

// Tier is the second tier. Its methods are for all goroutines.
type Tier struct {
	o        Options
	instance string
	// Look-ups and what is written have connections of their own: a look-up must not wait behind
	// megabytes.
	reader, writer *redis.Client
	codec          *codec
	queue          queue
	purges         purges
	mark           atomic.Pointer[Mark]
	stats          counters

	started sync.Once
	stop    context.CancelFunc
	ctx     context.Context
	all     sync.WaitGroup // goroutines that end with ctx
}

// New makes a tier that does not connect yet.
func New(o Options) (*Tier, error) {
	if o.MaxObject <= 0 || o.QueueBytes <= 0 || o.Channel == "" {
		return nil, errors.New("give a longest object, a bound for the queue, and a channel")
	}
	t := &Tier{o: o, instance: fmt.Sprintf("%016x", o.Random())}
	t.mark.Store(&Mark{})
	t.ctx, t.stop = context.WithCancel(context.Background())
	read, write := o.Redis, o.Redis
	read.MaxReply = max(2*t.longest(), 16<<20)
	read.User, read.Failures, read.Reopen = "look-ups of the cache", failures, reopen
	write.User, write.Timeout = "the cache's writing and purging", max(writeTime, o.Redis.Timeout)
	var err error
	if t.reader, err = redis.New(read); err != nil {
		return nil, err
	}
	if t.writer, err = redis.New(write); err != nil {
		return nil, err
	}
	t.codec, err = newCodec(int(o.CompressAbove), int(o.MaxObject))
	t.queue.init(o.QueueBytes)
	t.purges.init()
	return t, err
}

// Start connects and begins to listen for purges. It may be called again.
func (t *Tier) Start() {
	t.started.Do(func() {
		t.reader.Start()
		t.all.Go(t.write)
		t.all.Go(t.listen)
		t.all.Go(t.follow)
		t.all.Go(t.send)
	})
}

// Close ends the tier. What waits to be written, or purged elsewhere, is given up. It may wait for some
// calls to end; no loop calls it. No look-up may begin any more.
func (t *Tier) Close() {
	t.stop()
	t.all.Wait()
	t.queue.close()
	t.reader.Release()
	t.writer.Release()
}

// Timeout is how long a look-up takes at most, and Lock how long it may wait besides for another
// instance.
func (t *Tier) Timeout() time.Duration { return t.o.Redis.Timeout }

// Lock is Options.Lock.
func (t *Tier) Lock() time.Duration { return t.o.Lock }

// MaxObject is Options.MaxObject.
func (t *Tier) MaxObject() int64 { return t.o.MaxObject }

// Mark is a moment in the history of the purges. What is fetched after it is not outdated by what was
// purged before. The zero Mark is none, and what has it is not written.
type Mark struct {
	Epoch string // a new one begins when Redis has lost the history
	Count int64  // of purges
}

// Mark is the last moment that this instance knows of.
func (t *Tier) Mark() Mark { return *t.mark.Load() }

// name is the name in Redis of what is stored under a key: keys may be long, and have any bytes.
func (t *Tier) name(kind string, key []byte) string {
	sum := sha256.Sum256(key)
	return t.o.Redis.Prefix + "cache:" + kind + hex.EncodeToString(sum[:])
}

// pause waits, and says whether the tier is still there.
func (t *Tier) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-t.ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
