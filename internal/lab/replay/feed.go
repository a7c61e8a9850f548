package replay

import (
	"context"
	"sync/atomic"
)

// A feed carries requests from the reading goroutine to one loop, in batches, so that there is one
// channel operation for a few hundred requests.
//
// Steps: the reader fills a batch and sends it (ready); the loop's schedule takes requests from it
// one by one (next), its player begins them in the same order (begin), and when the last one's
// bytes have been copied out the batch goes back (spare). Invariants: a batch is touched by the
// side that has it alone; the loop never waits, as spare has room for all batches there are; the
// number of batches of a feed is bounded, and with it what the generator can hold of arrivals that
// wait for a connection. Rejected: a ring of entries with atomics, which moves a cache line for
// each request, and a batch that lives until its last answer, as one slow answer would hold
// hundreds of requests.

const (
	batchEntries = 256
	batchBytes   = 32 << 10 // a batch with more is full
	// aheadBatches is how far the reader may be ahead of the loop, and maxBatches how many there
	// are in all: the rest may wait for connections.
	aheadBatches = 16
	maxBatches   = 1024
)

// entry is a request in a batch.
type entry struct {
	due    int64 // nanoseconds since the replay's start
	at     uint32
	length uint32
	status uint16
	name   uint8
}

// batch is a number of requests one behind the other.
type batch struct {
	entries []entry
	bytes   []byte
	left    int    // requests whose bytes may still be asked for; the loop's
	next    *batch // the one that was received after it; the loop's
}

// feed is the way to one loop.
type feed struct {
	ready chan *batch
	spare chan *batch

	// The reader's.
	filling *batch
	made    int

	// The loop's.
	taking   *batch // the schedule takes from it
	taken    int    // entries of it that were taken
	begin    *batch // the player begins those of it; nil when all that was taken has been begun
	begun    int
	last     *batch // the newest that was received
	over     bool
	sessions []*session // that are free
	count    atomic.Uint64
}

func newFeed() *feed {
	return &feed{ready: make(chan *batch, aheadBatches), spare: make(chan *batch, maxBatches)}
}

// add puts a request into the batch that is being filled. full asks the reader to send it.
func (f *feed) add(ctx context.Context, due int64, h *held) (full bool, err error) {
	if f.filling == nil {
		if f.filling, err = f.empty(ctx); err != nil {
			return false, err
		}
	}
	b := f.filling
	b.entries = append(b.entries, entry{
		due, uint32(len(b.bytes)), uint32(len(h.bytes)), h.status, h.name,
	})
	b.bytes = append(b.bytes, h.bytes...)
	return len(b.entries) == batchEntries || len(b.bytes) >= batchBytes, nil
}

// empty is a batch to fill; it waits when there are as many as there may be.
func (f *feed) empty(ctx context.Context) (*batch, error) {
	select {
	case b := <-f.spare:
		return b, nil
	default:
	}
	if f.made < maxBatches {
		f.made++
		return &batch{}, nil
	}
	select {
	case b := <-f.spare:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// trySend sends what has been filled, if there is something and if there is room for it.
func (f *feed) trySend() (sent bool) {
	if f.filling == nil {
		return true
	}
	f.filling.left = len(f.filling.entries)
	select {
	case f.ready <- f.filling:
		f.filling = nil
		return true
	default:
		return false
	}
}

// send waits until there is room.
func (f *feed) send(ctx context.Context) error {
	if f.trySend() {
		return nil
	}
	select {
	case f.ready <- f.filling:
		f.filling = nil
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Next is pace.Schedule's. Only the feed's loop may call it.
func (f *feed) Next() (due int64, ok bool) {
	if f.taking == nil && !f.receive() {
		return 0, false
	}
	due = f.taking.entries[f.taken].due
	if f.taken++; f.taken == len(f.taking.entries) {
		f.taking = nil
	}
	f.count.Store(f.count.Load() + 1)
	return due, true
}

// receive takes the next batch, if there is one.
func (f *feed) receive() bool {
	select {
	case b, open := <-f.ready:
		if !open {
			f.over = true
			return false
		}
		f.taking, f.taken = b, 0
		if f.begin == nil {
			f.begin, f.begun = b, 0
		} else {
			f.last.next = b
		}
		f.last = b
		return true
	default:
		return false
	}
}

// Pending is pace.Streamed's.
func (f *feed) Pending() bool { return !f.over }

// session begins the oldest request that has been taken and not begun.
func (f *feed) session() (*batch, *entry) {
	b := f.begin
	e := &b.entries[f.begun]
	if f.begun++; f.begun == len(b.entries) {
		f.begin, f.begun = b.next, 0
	}
	return b, e
}

// release says that one request's bytes are not needed any more.
func (f *feed) release(b *batch) {
	if b.left--; b.left > 0 {
		return
	}
	b.entries, b.next = b.entries[:0], nil
	if b.bytes = b.bytes[:0]; cap(b.bytes) > 2*batchBytes {
		b.bytes = nil
	}
	f.spare <- b
}
