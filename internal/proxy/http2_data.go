package proxy

import (
	"fmt"

	"plimsoll/internal/head"
	"plimsoll/internal/http2"
	"plimsoll/internal/invariant"
	"plimsoll/internal/reactor"
)

// streamData holds the data of one HTTP/2 stream in both directions, whether the peer is a client
// or a target: content that has come and was not taken yet, and content to be sent that the peer's
// windows hold back.
//
// Content that has come is in arrived during the call that brought it, and in the chain in
// afterwards. It is bounded by the windows that the peer was given. Content that the peer's windows
// hold back is copied into queue. Nothing else is read for a stream that has a queue, so the queue
// has at most about what one read brought.
type streamData struct {
	link          *http2Link
	owner         streamOwner
	chain         *streamData // in its bucket
	before, after *streamData // in the link's list

	in      reactor.Chain // content that came and was not taken
	arrived []byte        // content that follows in, still in the link's buffer
	window  http2.SendWindow
	receive http2.ReceiveWindow
	length  http2.BodyLength
	trailer *trailerSection // the trailers that came; nil for none

	queue *reactor.Buffer // content that the windows hold back
	tail  *reactor.Buffer // trailers behind it, as a frame
	went  int64           // bytes of content that were sent

	id uint32

	// See turns.
	priority              http2.Priority
	waits                 bool // it is in the list of streams that wait
	waitBefore, waitAfter *streamData
	since                 uint64 // the turn in which it began to wait

	credit   int64 // bytes by which the peer has opened the stream's window
	ended    bool  // the peer has sent all
	deaf     bool  // what comes is discarded
	behind   bool  // what came was shown to the exchange, which has not taken it yet
	finished bool  // the end is in queue, or sent
	headSent bool
	endSent  bool // END_STREAM is sent
}

// streamOwner is the stream that a streamData belongs to.
type streamOwner interface {
	deliver(data []byte) // content has come, or the end of it
	resume()             // the stream waited, and the peer takes more
	shed()               // ends the stream: the loop holds too much, and this stream the most
}

func (l *http2Link) find(id uint32) *streamData {
	for d := l.streams[id/2%streamBuckets]; d != nil; d = d.chain {
		if d.id == id {
			return d
		}
	}
	return nil
}

// add makes d the data of an open stream.
func (l *http2Link) add(d *streamData, owner streamOwner, id uint32) {
	bucket := &l.streams[id/2%streamBuckets]
	d.link, d.owner, d.id, d.chain, d.before = l, owner, id, *bucket, l.newest
	*bucket = d
	if l.newest == nil {
		l.first = d
	} else {
		l.newest.after = d
	}
	l.newest = d
	l.open++
	d.window = http2.SendWindow(l.peer.InitialWindowSize)
	d.receive = http2.NewReceiveWindow(streamWindow)
}

// remove removes a stream from its link, and gives back what it holds.
func (d *streamData) remove() {
	l := d.link
	for at := &l.streams[d.id/2%streamBuckets]; ; at = &(*at).chain {
		if *at == d {
			*at = d.chain
			break
		}
	}
	if d.before == nil {
		l.first = d.after
	} else {
		d.before.after = d.after
	}
	if d.after == nil {
		l.newest = d.before
	} else {
		d.after.before = d.before
	}
	l.open--
	d.unwait()
	d.dropBody()
	d.dropQueue()
	if d.trailer != nil {
		l.w.keepTrailers(d.trailer)
		d.trailer = nil
	}
	l.intake.extra -= extraOf(d.receive.Size())
}

// data deals with a part of a DATA frame.
func (l *http2Link) data(f *http2.Frame) {
	if f.First {
		if bad := l.intake.window.Consume(f.Length); bad != http2.OK {
			l.side.fail(bad)
			return
		}
		l.passOver(f.Overhead)
	}
	d := l.find(f.Stream)
	if d == nil || d.ended || d.deaf {
		l.passOver(len(f.Payload))
		l.side.stray(f, d)
		return
	}
	if f.First {
		if bad := d.receive.Consume(f.Length); bad != http2.OK {
			l.passOver(len(f.Payload))
			l.side.resetFor(d.id, bad)
			return
		}
		d.release(f.Overhead)
	}
	bad := d.length.Add(len(f.Payload))
	if d.ended = f.Ends(); bad == http2.OK && d.ended {
		bad = d.length.End()
	}
	if bad != http2.OK {
		l.passOver(len(f.Payload))
		l.side.resetFor(d.id, bad)
		return
	}
	if len(f.Payload) > 0 || d.ended {
		d.owner.deliver(f.Payload)
	}
}

// keepContent adds content to in.
func (d *streamData) keepContent(data []byte) {
	had := d.in.Memory()
	d.in.Append(d.link.w.loop, data)
	d.link.hold(len(data), d.in.Memory()-had)
	if held := d.receive.Held(); invariant.On && d.in.Len() > held {
		panic(fmt.Sprintf("proxy: an HTTP/2 stream holds %d bytes, and only %d are missing in its window",
			d.in.Len(), held))
	}
}

// takeContent takes at most most bytes of content from in: see reactor.Chain.
func (d *streamData) takeContent(most int) (buf []byte, from, to int) {
	had := d.in.Memory()
	buf, from, to = d.in.Take(d.link.w.loop, most)
	d.link.hold(from-to, d.in.Memory()-had)
	return buf, from, to
}

// dropBody drops the content that was not taken, and gives it back to the connection's window.
func (d *streamData) dropBody() {
	if n := len(d.arrived); n > 0 {
		d.arrived = nil
		d.link.passOver(n)
	}
	content, memory := d.in.Len(), d.in.Memory()
	d.in.Drop(d.link.w.loop)
	d.link.hold(-content, -memory)
}

// buffered returns how many bytes of content have come and were not taken.
func (d *streamData) buffered() int { return d.in.Len() + len(d.arrived) }

// sendData sends as much of buf[from:to] as the windows allow, and returns where the rest begins.
// ends says that the stream ends with it.
func (d *streamData) sendData(buf []byte, from, to int, ends, scratch bool) int {
	l := d.link
	if from == to && ends && !d.endSent {
		d.endSent = true
		l.wrote(http2.AppendDataHeader(l.room(http2.HeaderSize), d.id, 0, true))
	}
	for from < to {
		space := recordSize - http2.HeaderSize - len(l.room(http2.HeaderSize))
		if space < min(to-from, batchBytes) {
			l.flush()
			space = recordSize - http2.HeaderSize
		}
		n := min(to-from, d.space(), space)
		if n <= 0 {
			break
		}
		d.spend(n)
		d.endSent = ends && from+n == to
		if n <= batchBytes {
			dst := http2.AppendDataHeader(l.room(http2.HeaderSize+n), d.id, n, d.endSent)
			l.wrote(append(dst, buf[from:from+n]...))
		} else {
			l.wrote(http2.AppendDataHeader(l.room(http2.HeaderSize), d.id, n, d.endSent))
			l.writeBehind(buf, from, from+n, scratch)
		}
		from += n
	}
	return from
}

// put sends the content buf[from:to], and keeps what the windows hold back. ends says that it is
// the last; trailers, if not nil, follow it.
func (d *streamData) put(buf []byte, from, to int, ends bool, trailers *head.List, scratch bool) {
	d.finished = d.finished || ends
	if d.queue == nil {
		from = d.sendData(buf, from, to, ends && trailers == nil, scratch)
	}
	if from < to {
		d.hold(buf[from:to])
	}
	if trailers != nil {
		d.tail = d.link.trailerFrame(d.id, trailers)
		d.sendTail()
	}
}

// hold copies content that the windows hold back into queue.
func (d *streamData) hold(data []byte) {
	loop := d.link.w.loop
	old := d.queue
	if old == nil || len(old.Room()) < len(data) {
		size := len(data)
		if old != nil {
			size += len(old.Data())
		}
		d.queue = loop.GetBuffer(size)
		if old != nil {
			d.queue.End = copy(d.queue.Bytes, old.Data())
			loop.PutBuffer(old)
		}
	}
	d.queue.End += copy(d.queue.Room(), data)
	d.wait()
}

// sendQueue sends what the windows held back, and reports whether that was all. Otherwise the
// stream goes on waiting.
func (d *streamData) sendQueue() bool {
	q := d.queue
	if q == nil {
		return true
	}
	q.Start = d.sendData(q.Bytes, q.Start, q.End, d.finished && d.tail == nil, true)
	if q.Start < q.End {
		d.wait()
		return false
	}
	d.queue = nil
	d.link.w.loop.PutBuffer(q)
	d.sendTail()
	return true
}

// sendTail sends the trailers once all content in front of them was sent.
func (d *streamData) sendTail() {
	if d.queue != nil || d.tail == nil {
		return
	}
	l := d.link
	l.gather(d.tail.Data())
	l.budget.Sent()
	l.w.loop.PutBuffer(d.tail)
	d.tail, d.endSent = nil, true
}

// dropQueue drops what the windows hold back, trailers included.
func (d *streamData) dropQueue() {
	if d.queue != nil {
		d.link.w.loop.PutBuffer(d.queue)
		d.queue = nil
	}
	if d.tail != nil {
		d.link.w.loop.PutBuffer(d.tail)
		d.tail = nil
	}
}
