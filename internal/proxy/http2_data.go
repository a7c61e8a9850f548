package proxy

import (
	"fmt"

	"plimsoll/internal/head"
	"plimsoll/internal/http2"
	"plimsoll/internal/invariant"
	"plimsoll/internal/reactor"
)

// streamData is the data of one HTTP/2 stream both ways, whichever side the gateway is on: what came
// and was not taken, and what is to be sent and the peer's windows hold back.
//
// What came is in memory: arrived during the call that brought it, and in afterwards. It is bounded
// by the windows that the peer was given. What is to be sent is copied into queue where the windows
// hold it back; a stream with a queue is sent nothing else, so it has about what one read brought.
type streamData struct {
	link          *http2Link
	owner         streamOwner
	chain         *streamData // in its bucket
	before, after *streamData // in the link's list

	in      reactor.Chain // content that came and was not taken
	arrived []byte        // likewise, behind it and in the link's buffer
	window  http2.SendWindow
	receive http2.ReceiveWindow
	length  http2.BodyLength
	trailer *trailerSection // that came; nil for none

	queue *reactor.Buffer // content that the windows hold back
	tail  *reactor.Buffer // trailers behind it, as a frame
	went  int64           // bytes of content that were sent

	id uint32

	// See turns.
	priority              http2.Priority
	waits                 bool // it is in the list of those that wait
	waitBefore, waitAfter *streamData
	since                 uint64 // the turn in which it began to wait

	credit   int64 // bytes by which the peer has opened the stream's window
	ended    bool  // the peer has sent all
	deaf     bool  // nobody takes what comes
	behind   bool  // what came was shown, and is not taken yet
	finished bool  // the end is in queue, or sent
	headSent bool
	endSent  bool // END_STREAM is sent
}

// streamOwner is the stream whose data a streamData is.
type streamOwner interface {
	deliver(data []byte) // content came, or the end of it
	resume()             // it waited, and the peer takes more
	shed()               // the loop holds too much, and this stream most of it: it ends
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

// remove takes a stream off its link, and gives back what it holds.
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

// data takes a part of a Data frame.
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

// takeContent takes content from in, most bytes at the most: see reactor.Chain.
func (d *streamData) takeContent(most int) (buf []byte, from, to int) {
	had := d.in.Memory()
	buf, from, to = d.in.Take(d.link.w.loop, most)
	d.link.hold(from-to, d.in.Memory()-had)
	return buf, from, to
}

// dropBody gives what was not taken back to the connection's window.
func (d *streamData) dropBody() {
	if n := len(d.arrived); n > 0 {
		d.arrived = nil
		d.link.passOver(n)
	}
	content, memory := d.in.Len(), d.in.Memory()
	d.in.Drop(d.link.w.loop)
	d.link.hold(-content, -memory)
}

// buffered is how many bytes came and were not taken.
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

// put sends content, or keeps what the windows hold back. ends says that it is the last, with trailers
// behind it or nil.
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

// hold keeps content that the windows hold back.
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

// sendQueue sends what the windows held back, and says whether that was all. What is left waits on.
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

// sendTail sends the trailers once nothing is in front of them.
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

// dropQueue forgets what the windows hold back.
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
