package accesslog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/internal/crash"
)

// Format is how a record becomes a line.
type Format uint8

const (
	JSON     Format = iota // one object a line; the fields are listed at jsonEncoder
	Combined               // nginx's "combined"
)

// ParseFormat reads a format's name as it stands in a config: "json" or "combined".
func ParseFormat(name string) (Format, error) {
	switch name {
	case "json":
		return JSON, nil
	case "combined":
		return Combined, nil
	}
	return 0, fmt.Errorf(`access log: format %q is not known: use "json" or "combined"`, name)
}

// Stdout is the path that stands for standard output.
const Stdout = "stdout"

// Every is how long a line waits in its ring at most before the writer takes it, as long as the
// file takes it.
const Every = 100 * time.Millisecond

// defaultRing is 1 MB: 2,500 lines of 400 bytes, which is how many may come between two rounds of
// the writer.
const defaultRing = 1 << 20

// Options are what a Log needs to know.
type Options struct {
	Path   string // of the file, which is created with mode 0640 and appended to; or Stdout
	Format Format
	// bytes after which the file is rotated; 0 for never. Only regular files are rotated.
	MaxSize int64
	Keep    int // rotated files kept, Path.1 being the newest; 0 for none
	Loops   int // how many loops write, at least 1

	// bytes of each loop's ring, rounded up to a power of two of at least 256 KB; 0 for 1 MB
	RingSize int
	// where lines are counted, so that counts outlive a Log that a reload replaces; nil for its own
	Counters *Counters
	Logger   *slog.Logger   // for what goes wrong, at a limited rate; nil for none
	Output   io.Writer      // what Stdout writes to; nil for os.Stdout
	Zone     *time.Location // of the combined format's times; nil for the local one
}

// Counters count lines. They are read from any goroutine.
type Counters struct {
	Written atomic.Uint64 // lines that the file took
	Dropped atomic.Uint64 // lines that found their loop's ring full
	Lost    atomic.Uint64 // lines that the file did not take, as when the disk is full
}

// Log is an open access log. Its methods may be called from any goroutine.
type Log struct {
	rings    []*Ring
	counters *Counters
	sink     *sink

	wake    chan struct{} // a ring is half full
	reopen  chan struct{}
	flush   chan chan struct{} // each is closed when what was in the rings is in the file
	closing chan struct{}
	done    chan struct{}
	once    sync.Once
	err     error // of closing the file; read after done
}

// Ring is one loop's way into the log. Only that loop may call Write.
type Ring struct {
	buffer  *ringBuffer
	encode  encoder
	dropped *atomic.Uint64
	wake    chan<- struct{}
}

type encoder interface {
	Append(dst []byte, r *Record) []byte
}

// Open opens the log's file and starts the writer. Until the log is closed, a panic that ends the
// process writes out first what is in the rings. The error says what is wrong with the options or
// the file.
func Open(o Options) (*Log, error) {
	if o.Path == "" || o.Loops < 1 || o.MaxSize < 0 || o.Keep < 0 {
		return nil, errors.New("access log: it needs a path, at least one loop, " +
			"and no negative size or count of files")
	}
	l := &Log{
		counters: o.Counters,
		wake:     make(chan struct{}, 1),
		reopen:   make(chan struct{}, 1),
		flush:    make(chan chan struct{}),
		closing:  make(chan struct{}),
		done:     make(chan struct{}),
	}
	if l.counters == nil {
		l.counters = new(Counters)
	}
	var err error
	if l.sink, err = openSink(o, l.counters); err != nil {
		return nil, err
	}
	for range o.Loops {
		l.rings = append(l.rings, &Ring{
			buffer:  newRingBuffer(ringSize(o.RingSize)),
			encode:  newEncoder(o),
			dropped: &l.counters.Dropped,
			wake:    l.wake,
		})
	}
	go l.run(crash.OnPanic(l.Flush))
	return l, nil
}

func ringSize(want int) int {
	if want == 0 {
		want = defaultRing
	}
	size := 1 << 18
	for size < want && size < 1<<30 {
		size <<= 1
	}
	return size
}

func newEncoder(o Options) encoder {
	if o.Format == Combined {
		zone := o.Zone
		if zone == nil {
			zone = time.Local
		}
		return newCombined(zone)
	}
	return newJSON()
}

// Ring is the ring of a loop, counted from 0.
func (l *Log) Ring(loop int) *Ring { return l.rings[loop] }

// Write puts a record's line into the ring. It never blocks, takes no lock and does not allocate;
// when the ring is too full the line is dropped and counted. After Close it does the same, and
// nobody will read the line.
func (n *Ring) Write(r *Record) {
	room, ok := n.buffer.reserve(r.bound())
	if !ok {
		n.dropped.Add(1)
		return
	}
	n.buffer.commit(len(n.encode.Append(room, r)))
	if n.buffer.wantsWriter() {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// Reopen makes the writer open Path again, after an outside log rotation has moved the file away.
// What was in the rings before goes to the old file. When opening fails the old file is used on,
// and the failure is logged.
func (l *Log) Reopen() {
	select {
	case l.reopen <- struct{}{}:
	default:
	}
}

// Counters are the log's counters.
func (l *Log) Counters() *Counters { return l.counters }

// Close writes out what is in the rings and closes the file. No loop may call Ring.Write any more.
// When ctx ends first, as it may with a pipe that nobody reads, Close gives up with ctx's error and
// leaves the writer to itself.
func (l *Log) Close(ctx context.Context) error {
	l.once.Do(func() { close(l.closing) })
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return fmt.Errorf("access log: closing %s: lines may be lost, "+
			"the file does not take them: %w", l.sink.path, ctx.Err())
	}
}

// Flush has the writer carry what is in the rings now to the file and waits until it has, for as
// long as the file takes, or until the log is closed. Loops may write meanwhile; what they write
// then may be left in the rings.
func (l *Log) Flush() {
	flushed := make(chan struct{})
	select {
	case l.flush <- flushed:
	case <-l.done:
		return
	}
	select {
	case <-flushed:
	case <-l.done:
	}
}

// run is the writer: it empties all rings every now and then until it is told to end. Then nothing
// needs to be saved from a panic.
func (l *Log) run(forget func()) {
	defer crash.Guard("in the access log's writer")
	defer close(l.done)
	defer forget()
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.drain()
		case <-l.wake:
			l.drain()
		case <-l.reopen:
			l.drain()
			l.sink.reopen()
		case flushed := <-l.flush:
			l.drain()
			close(flushed)
		case <-l.closing:
			l.drain()
			l.err = l.sink.close()
			return
		}
	}
}

// drain carries what is in the rings to the file. A lap's end divides a ring's content, so each
// gets two turns; a ring that fills as fast as it is emptied does not keep the others waiting.
func (l *Log) drain() {
	for range 2 {
		for _, n := range l.rings {
			lines := n.buffer.readable()
			l.sink.write(lines)
			n.buffer.release(len(lines))
		}
	}
}

// stdout is what Stdout writes to.
func (o *Options) stdout() io.Writer {
	if o.Output != nil {
		return o.Output
	}
	return os.Stdout
}
