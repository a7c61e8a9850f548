package proxy

import (
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"

	"plimsoll/internal/crash"
	"plimsoll/internal/head"
	"plimsoll/internal/http2"
	"plimsoll/internal/http3"
	"plimsoll/internal/reactor"
)

// The frames of a response go to quic-go at once if they are few and the client is not behind: that
// costs a copy and a lock, and wakes the connection's goroutine. Otherwise they wait in the
// stream's outbox, and a goroutine writes them as fast as the client's windows and the path allow.
// The goroutine ends when the outbox is empty.

const (
	// quickBytes is how many bytes of a response go to quic-go without waiting until they are sent.
	quickBytes = 8 << 10
	// outboxWindow is how many bytes of a response may be in the outbox before no more is read, and
	// outboxLow how few before reading goes on.
	outboxWindow = 64 << 10
	outboxLow    = outboxWindow / 2
	// writePiece is how many bytes are written at once: the client's pace is judged by whole
	// pieces.
	writePiece = 8 << 10
)

// outbox holds the part of a response that waits to be written.
type outbox struct {
	mu      sync.Mutex
	pending []byte        // to be written next
	queued  int           // bytes of pending, and of what is being written
	held    *atomic.Int64 // the process-wide count of these bytes
	went    int64         // bytes that were written
	quick   int           // bytes that went to quic-go without the goroutine
	writing bool          // the goroutine runs
	fin     bool          // the stream ends behind pending
	waits   bool          // the loop is to be told when there is room again
	dropped bool          // nothing is written any more
	closed  bool          // the end was given to quic-go
}

// waiting returns how many bytes the client has not taken yet.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queued
}

// full reports whether window bytes or more wait. If so, the loop is told when there is room again.
func (o *outbox) full(window int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits = o.queued >= window
	return o.waits
}

// progress returns how many bytes were written.
func (o *outbox) progress() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.went
}

// drop discards what waits. It reports whether quic-go had not been given the stream's end yet.
func (o *outbox) drop() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held.Add(-int64(o.queued))
	o.dropped, o.pending, o.queued = true, nil, 0
	return !o.closed
}

// push gives quic-go three pieces of a response, now or as it takes them, and, if end is set, the
// end of the stream. An error means that the client is gone.
func (st *http3Stream) push(first, content, last []byte, end bool) error {
	o := &st.out
	n := len(first) + len(content) + len(last)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dropped {
		return errConnectionLost
	}
	if !o.writing && o.quick+n <= quickBytes {
		all := append(append(append(st.h.w.quick[:0], first...), content...), last...)
		st.h.w.quick = all[:0]
		switch err := st.q.TryWriteAll(all); err {
		case nil:
			o.quick += n
			if end {
				st.endSend()
				st.outDone = true
			}
			return nil
		case quic.ErrWouldBlock:
		default:
			return errConnectionLost
		}
	}
	o.pending = append(append(append(o.pending, first...), content...), last...)
	o.queued += n
	o.held.Add(int64(n))
	o.fin = end
	if !o.writing {
		o.writing = true
		go st.write()
	}
	return nil
}

// endSend gives quic-go the stream's end. The caller holds the mutex of the outbox.
func (st *http3Stream) endSend() {
	st.out.closed = true
	if st.unwatchCancel != nil {
		st.unwatchCancel()
	}
	st.q.Close()
}

// write writes what is in the outbox until it is empty. It runs on a goroutine of its own.
func (st *http3Stream) write() {
	defer crash.Guard("where a response of HTTP/3 is written")
	o := &st.out
	var piece []byte
	for {
		o.mu.Lock()
		if len(o.pending) == 0 || o.dropped {
			o.writing, o.quick = false, 0
			if o.fin && !o.dropped {
				st.endSend()
				st.h.w.loop.Post(st.sentAll)
			}
			o.mu.Unlock()
			return
		}
		piece, o.pending = o.pending, piece[:0]
		o.mu.Unlock()
		if !st.writeAll(piece) {
			return
		}
	}
}

// writeAll writes bytes in pieces. It returns false if the stream is over.
func (st *http3Stream) writeAll(p []byte) bool {
	o := &st.out
	for len(p) > 0 {
		n, err := st.q.Write(p[:min(len(p), writePiece)])
		p = p[n:]
		o.mu.Lock()
		if o.dropped {
			o.writing = false
			o.mu.Unlock()
			return false
		}
		o.queued -= n
		o.held.Add(-int64(n))
		o.went += int64(n)
		drained := o.waits && o.queued <= outboxLow
		if drained {
			o.waits = false
		}
		if err != nil {
			o.writing = false
		}
		o.mu.Unlock()
		switch {
		case err != nil:
			st.h.w.loop.Post(st.cancelled)
			return false
		case drained:
			st.h.w.loop.Post(st.drained)
		}
	}
	return true
}

// sentAll is called when quic-go has been given the whole response.
func (st *http3Stream) sentAll() {
	st.outDone = true
	st.unwatch()
	st.over()
}

// drained is called when the client takes more.
func (st *http3Stream) drained() {
	if st.flow != nil && !st.finished && !st.out.full(st.window()) {
		st.unwatch()
		st.flow.clientDrained()
	}
}

// send implements stream.
func (st *http3Stream) send(f *flow, buf []byte, from, to int, parts parts) error {
	h := st.h
	if h.dead || st.how != endedBoth {
		return errConnectionLost
	}
	var room [http3.MaxHeader]byte
	out := room[:0] // not the worker's: a control frame of a WebSocket may be in that
	if parts&withHead != 0 {
		out = st.appendHead(f, h.w.out[:0])
		f.headOut = int64(len(out))
		f.bodyOut += f.headOut
	}
	f.bodyOut += int64(to - from)
	if to > from {
		out = http3.AppendHeader(out, http3.Data, to-from)
	}
	var tail []byte
	if parts&withEnd != 0 {
		st.finished = true
		if trailers := f.responseTrailers(); trailers != nil {
			h.w.tail3 = h.w.appendTrailers3(h.w.tail3[:0], trailers)
			tail = h.w.tail3
		}
	}
	err := st.push(out, buf[from:to], tail, st.finished)
	if err == nil && st.finished && !st.outDone {
		st.watch()
	}
	return err
}

// congested implements stream. Once a response has begun to wait, it waits until drained is called,
// however much was written meanwhile: the caller of congested may not be the one that would go on.
func (st *http3Stream) congested() bool {
	if !st.waits && st.out.full(st.window()) {
		st.watch()
	}
	return st.waits
}

// space implements stream.
func (st *http3Stream) space() int { return max(0, st.window()-st.out.waiting()) }

// window returns how many bytes of the response may wait before no more of it is read.
func (st *http3Stream) window() int {
	if st.h.w.shared.http3Scarce() {
		return quickBytes
	}
	return outboxWindow
}

// sent implements stream. The last bytes are with quic-go or in the outbox.
func (st *http3Stream) sent() (int64, bool) {
	return reactor.Clock(), !st.h.dead && st.how == endedBoth
}

// startTunnel implements stream. The bytes of the tunnel are DATA, as those of a body are.
func (st *http3Stream) startTunnel() { st.tunnel = true }

// watch begins to measure how fast the client takes a response that waits.
func (st *http3Stream) watch() {
	if !st.waits {
		w := st.h.w
		st.waits, st.went = true, st.out.progress()
		w.loop.SetTimer(&st.stall, st, w.loop.Now()+st.h.listener.SendTimeout)
	}
}

func (st *http3Stream) unwatch() {
	if st.waits {
		st.waits = false
		st.h.w.loop.StopTimer(&st.stall)
	}
}

// Expire implements reactor.Expirer: a response has waited for its client for SendTimeout.
func (st *http3Stream) Expire(*reactor.Timer, int64) {
	st.waits = false
	h := st.h
	if st.out.progress()-st.went >= h.listener.leastAcked() {
		st.watch()
		return
	}
	h.w.shard.SlowStreams3++
	st.how = ourReset
	st.stopSending(http3.RequestCancelled)
	if f := st.flow; f != nil {
		f.endSlow()
		st.free(f)
	}
	st.over()
}

// appendHead appends the response's head.
func (st *http3Stream) appendHead(f *flow, out []byte) []byte {
	e := &f.w.encoder3
	if st.tunnel {
		f.res.Fields.Remove(acceptName)
		e.Begin()
		e.Field(statusName, appendInt(f.w.digits[:0], statusTunnel))
		appendFields3(e, &f.res.Fields, statusTunnel, 1<<head.ContentLength)
		if !f.res.Fields.Has(head.Date) {
			e.Field(dateName, f.w.httpDate())
		}
		return e.AppendSection(out)
	}
	status := f.Response.Status
	length, drop := f.announcedLength()
	e.Begin()
	e.Field(statusName, appendInt(f.w.digits[:0], int64(status)))
	appendFields3(e, &f.Response.Fields, status, drop)
	if length != head.Unknown {
		e.Field(contentLengthName, appendInt(f.w.digits[:0], length))
	}
	if f.passesOn() && f.route.Via != "" {
		e.Field(viaName, f.viaValue())
	}
	if !f.Response.Fields.Has(head.Date) {
		e.Field(dateName, f.w.httpDate())
	}
	return e.AppendSection(out)
}

var (
	statusName        = []byte(":status")
	contentLengthName = []byte("content-length")
)

// appendFields3 adds the fields of a message that HTTP/3 may carry, except those whose ID is in
// drop. They are the same as over HTTP/2 (RFC 9114, section 4.2).
func appendFields3(e *http3.Encoder, l *head.List, status int, drop uint64) {
	for i := range l.Len() {
		field := l.At(i)
		if drop>>field.ID&1 == 0 && http2.MaySend(field, status) {
			e.Field(field.Name, field.Value)
		}
	}
}

// appendTrailers3 appends the frame of a trailer section.
func (w *Worker) appendTrailers3(out []byte, l *head.List) []byte {
	e := &w.encoder3
	e.Begin()
	appendFields3(e, l, 0, 0)
	return e.AppendSection(out)
}

// appendInterim implements stream.
func (st *http3Stream) appendInterim(f *flow, out []byte) []byte {
	e := &f.w.encoder3
	e.Begin()
	e.Field(statusName, appendInt(f.w.digits[:0], int64(f.res.Status)))
	appendFields3(e, &f.res.Fields, f.res.Status, interimDrop)
	return e.AppendSection(out)
}

// sendInterim implements stream.
func (st *http3Stream) sendInterim(out []byte) error {
	if st.h.dead || st.how != endedBoth {
		return errConnectionLost
	}
	return st.push(out, nil, nil, false)
}

// sendContinue implements stream.
func (st *http3Stream) sendContinue() error {
	e := &st.h.w.encoder3
	e.Begin()
	e.Field(statusName, []byte("100"))
	return st.sendInterim(e.AppendSection(st.h.w.out[:0]))
}
