// Package tier is the second tier of the cache: stored responses in Redis, which instances of the
// gateway share. What is not in an instance's memory is looked up there before the origin is asked,
// and what an instance has stored is written there in the background.
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
// Nothing here blocks a loop, and the gateway never depends on Redis: any failure of Redis, or
// error in its data, is a miss. The rules decide what may be served; this package must not know
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
	// Redis are the options of the Redis client. Its Timeout is that of a look-up.
	Redis redis.Options
	// MaxObject is the longest body that is written and read, in bytes.
	MaxObject int64
	// CompressAbove is the longest body, in bytes, that is written uncompressed; 0 means that none
	// is compressed.
	CompressAbove int64
	// QueueBytes bounds the bodies that wait to be written.
	QueueBytes int64
	// Lock is for how long one instance keeps the others from fetching the same resource; 0 means
	// no locks.
	Lock time.Duration
	// Channel is the channel on which instances notify each other of purges.
	Channel string
	// Random is the source of the names of this instance and its locks.
	Random func() uint64
	// Wall is the wall clock, nanoseconds since 1970.
	Wall func() int64
	// Purged applies a purge of another instance to the memory of this one. After an error it is
	// tried again.
	Purged func(Purge) error
	// Forget empties the memory. It is called when it is not possible to find out what others have
	// purged.
	Forget func()
	Log    *slog.Logger
}

const (
	// failures and reopen make a slow Redis cost its timeout only once. Not using a healthy Redis
	// for a moment costs only look-ups, and the trials are look-ups for which no request waits.
	failures = 1
	reopen   = 250 * time.Millisecond
	// writeTime is the least timeout for writing, purging and reading the log of purges.
	writeTime = 2 * time.Second
)

// Tier is the second tier. Any goroutine may call its methods.
type Tier struct {
	o        Options
	instance string
	// Look-ups and writes have separate connections: a look-up must not wait behind megabytes.
	reader, writer *redis.Client
	codec          *codec
	queue          queue
	purges         purges
	mark           atomic.Pointer[Mark]
	stats          counters

	started sync.Once
	stop    context.CancelFunc
	ctx     context.Context
	all     sync.WaitGroup // goroutines that end when ctx ends
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

// Start connects and begins to listen for purges. It may be called more than once.
func (t *Tier) Start() {
	t.started.Do(func() {
		t.reader.Start()
		t.all.Go(t.write)
		t.all.Go(t.listen)
		t.all.Go(t.follow)
		t.all.Go(t.send)
	})
}

// Close ends the tier. It drops queued writes and purges. It may wait for some calls to end, so
// loops must not call it. No look-up may begin afterwards.
func (t *Tier) Close() {
	t.stop()
	t.all.Wait()
	t.queue.close()
	t.reader.Release()
	t.writer.Release()
}

// Timeout is how long a look-up takes at most. Lock is for how long it may additionally wait for
// another instance.
func (t *Tier) Timeout() time.Duration { return t.o.Redis.Timeout }

// Lock is Options.Lock.
func (t *Tier) Lock() time.Duration { return t.o.Lock }

// MaxObject is Options.MaxObject.
func (t *Tier) MaxObject() int64 { return t.o.MaxObject }

// Mark is a moment in the history of purges. Purges before it do not affect what is fetched after
// it. The zero Mark means none; responses with it are not written.
type Mark struct {
	Epoch string // a new one begins when Redis has lost the history
	Count int64  // of purges
}

// Mark is the latest moment that this instance knows of.
func (t *Tier) Mark() Mark { return *t.mark.Load() }

// name is the name in Redis of what is stored under a key. It is a hash, because keys may be long
// and contain any bytes.
func (t *Tier) name(kind string, key []byte) string {
	sum := sha256.Sum256(key)
	return t.o.Redis.Prefix + "cache:" + kind + hex.EncodeToString(sum[:])
}

// pause waits for d, and reports whether the tier has not been closed.
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
