package tier

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/cache/store"
	"plimsoll/internal/redis"
)

// Response is a stored response that is to be written. The queue owns it.
type Response struct {
	Entry   *store.Entry // held; the queue releases it
	Mark    Mark         // from before it was fetched
	Primary []byte       // the primary key, if Vary is not nil
	Vary    []byte       // names by which responses for Primary vary
	Tags    [][]byte
	More    int64 // how many nanoseconds longer than it says it may be useful
	Lock    *Lock // to be released when it is written; nil for none
}

// markerTime is the least time for which a marker is kept. That may be longer than for the response
// with which it was written, because other variants are found by it.
const markerTime = time.Hour

// responseOverhead is how many bytes a response in the queue counts in addition to its body.
const responseOverhead = 4 << 10

// queue is the queue of responses to be written to Redis, bounded in bytes. It holds entries of the
// memory, not copies.
type queue struct {
	mu    sync.Mutex // held for moments: loops add
	list  []Response
	bytes int64
	most  int64
	over  bool
	more  chan struct{}

	body []byte // of the response being written; reused, only for the writing goroutine
}

func (q *queue) init(most int64) { q.most, q.more = most, make(chan struct{}, 1) }

func size(r *Response) int64 { return r.Entry.Length() + responseOverhead }

// Write queues a response to be written, or drops it if the queue is full. Loops may call it.
func (t *Tier) Write(r Response) {
	if r.Mark.Epoch == "" || r.Entry.Length() > t.o.MaxObject {
		if r.Mark.Epoch == "" {
			t.stats.unmarked.Add(1)
		} else {
			t.stats.tooLong.Add(1)
		}
		t.giveUp(&r)
		return
	}
	q := &t.queue
	q.mu.Lock()
	fits := !q.over && q.bytes+size(&r) <= q.most
	if fits {
		q.list = append(q.list, r)
		q.bytes += size(&r)
	}
	q.mu.Unlock()
	if !fits {
		t.stats.dropped.Add(1)
		t.giveUp(&r)
		return
	}
	poke(q.more)
}

// giveUp releases a response that is not written.
func (t *Tier) giveUp(r *Response) {
	r.Entry.Release()
	t.Unlock(r.Lock)
}

// close releases the queued responses.
func (q *queue) close() {
	q.mu.Lock()
	list := q.list
	q.list, q.bytes, q.over = nil, 0, true
	q.mu.Unlock()
	for i := range list {
		list[i].Entry.Release()
	}
}

// next returns the first of the queue, which stays in the queue until written is called.
func (q *queue) next() (r Response, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return r, false
	}
	return q.list[0], true
}

// written removes the first.
func (q *queue) written() {
	q.mu.Lock()
	q.bytes -= size(&q.list[0])
	q.list[0] = Response{}
	q.list = q.list[1:]
	q.mu.Unlock()
}

// write writes responses to Redis until the tier ends.
func (t *Tier) write() {
	var buffer []byte
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-t.queue.more:
		}
		for r, ok := t.queue.next(); ok && t.ctx.Err() == nil; r, ok = t.queue.next() {
			buffer = t.writeOne(buffer[:0], &r)
			t.queue.written()
			t.giveUp(&r)
		}
	}
}

// writeOne writes a response and counts the result. It returns the buffer for reuse, or nil if a
// call was made and no answer came: then the connection's goroutine may still read the buffer, to
// send the abandoned command.
func (t *Tier) writeOne(buffer []byte, r *Response) []byte {
	e, now := r.Entry, t.now()
	keep := e.Meta.Keep(now.Mono, r.More) / int64(time.Millisecond)
	if keep <= 0 || e.Soft() {
		t.stats.useless.Add(1)
		return buffer
	}
	body := t.queue.body[:0]
	var room [64][]byte
	for int64(len(body)) < e.Length() {
		for _, part := range e.Slices(room[:0], int64(len(body)), e.Length()) {
			body = append(body, part...)
		}
	}
	t.queue.body = body
	record := Record{Key: e.Key(), Epoch: r.Mark.Epoch, Count: r.Mark.Count, Tags: r.Tags, Block: e.Block(),
		Body: body, Meta: e.Meta, Cost: e.Cost}
	buffer = t.codec.append(buffer, &record, now)
	whole := len(buffer)
	if r.Vary != nil {
		marker := Record{Key: r.Primary, Epoch: r.Mark.Epoch, Count: r.Mark.Count, Vary: r.Vary}
		buffer = t.codec.append(buffer, &marker, now)
	}
	refused := false
	err := t.call(func(ctx context.Context, client rueidis.Client) error {
		set := func(key, value []byte, keep int64) error {
			return client.Do(ctx, client.B().Set().Key(t.name("", key)).Value(rueidis.BinaryString(value)).
				PxMilliseconds(keep).Build()).Error()
		}
		err := set(record.Key, buffer[:whole], keep)
		if err == nil && r.Vary != nil {
			err = set(r.Primary, buffer[whole:], max(keep, markerTime.Milliseconds()))
		}
		if _, refused = rueidis.IsRedisErr(err); refused {
			return nil // Redis may be full but not unavailable: purges must go on
		}
		return err
	})
	switch {
	case refused:
		t.stats.refused.Add(1)
	case err != nil:
		t.stats.writeFailed.Add(1)
		if !errors.Is(err, redis.ErrOpen) && !errors.Is(err, redis.ErrBusy) {
			return nil
		}
	default:
		t.stats.written.Add(1)
	}
	return buffer
}

func (t *Tier) now() rules.Instant { return rules.Instant{Mono: t.o.Redis.Now(), Wall: t.o.Wall()} }
