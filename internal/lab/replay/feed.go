package replay

import (
	"context"
	"sync/atomic"
)

// A feed carries requests from the reading goroutine to one loop. It sends batches, so that there
// is one channel operation for a few hundred requests.
//
// Steps: the reader fills a batch and sends it (ready). The loop's schedule takes requests from it
// one by one (next), and its player begins them in the same order (begin). When the bytes of the
// last one have been copied out, the batch goes back (spare). Invariants: only the side that has a
// batch touches it. The loop never waits, because spare has room for all batches. The number of a
// feed's batches is bounded, which bounds the arrivals waiting for a connection in the generator.
// Rejected: a ring of entries with atomics, which moves a cache line for each request; and a batch
// that lives until its last answer, because one slow answer would hold hundreds of requests.

const (
	batchEntries = 256
	batchBytes   = 32 << 10 // a batch with at least as many bytes is full
	// aheadBatches is how far the reader may be ahead of the loop. maxBatches is the number of all
	// batches: the rest may wait for connections.
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

// batch is a number of requests, one after the other.
type batch struct {
	entries []entry
	bytes   []byte
	left    int    // requests whose bytes may still be needed; the loop's
	next    *batch // the batch received after it; the loop's
}

// feed is the connection to one loop.
type feed struct {
	ready chan *batch
	spare chan *batch

	// For the reader.
	filling *batch
	made    int

	// For the loop.
	taking   *batch // the schedule takes from it
	taken    int    // number of its entries taken
	begin    *batch // the player begins its entries; nil if all taken entries have begun
	begun    int
	last     *batch // the newest batch received
	over     bool
	sessions []*session // unused ones
	count    atomic.Uint64
}

func newFeed() *feed {
	return &feed{ready: make(chan *batch, aheadBatches), spare: make(chan *batch, maxBatches)}
}

// add puts a request into the batch being filled. If full is true, the reader must send the batch.
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

// empty returns a batch to fill. It waits if the number of batches has reached its limit.
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

// trySend sends the filled batch, if there is one and the channel has room for it. It returns false
// only if there was no room.
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

// send is trySend, but waits for room.
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

// Next implements pace.Schedule. Only the feed's loop may call it.
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

// Pending implements pace.Streamed.
func (f *feed) Pending() bool { return !f.over }

// session begins the oldest request that was taken and has not begun.
func (f *feed) session() (*batch, *entry) {
	b := f.begin
	e := &b.entries[f.begun]
	if f.begun++; f.begun == len(b.entries) {
		f.begin, f.begun = b.next, 0
	}
	return b, e
}

// release is called when the bytes of one request are no longer needed.
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
