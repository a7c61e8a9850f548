package proxy

import (
	"plimsoll/internal/head"
	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

// trailerSection is the trailers that came on an HTTP/2 stream. The stream has it until it is over;
// then the loop keeps it for another, because every response of gRPC has one.
type trailerSection struct {
	list  head.List
	bytes *reactor.Buffer // that the fields are in
	next  *trailerSection // in the worker's list of free ones
}

const (
	maxSpareTrailers = 64

	// maxKeptFields is how many fields a section has whose list is kept.
	maxKeptFields = 32
)

func (w *Worker) takeTrailers() *trailerSection {
	t := w.freeTrailers
	if t == nil {
		return &trailerSection{}
	}
	w.freeTrailers, t.next = t.next, nil
	w.spareTrailers--
	return t
}

// keepTrailers makes a section ready for its next use.
func (w *Worker) keepTrailers(t *trailerSection) {
	if t.bytes != nil {
		w.loop.PutBuffer(t.bytes)
		t.bytes = nil
	}
	if w.spareTrailers >= maxSpareTrailers || t.list.Len() > maxKeptFields {
		return
	}
	t.list.Reset()
	w.freeTrailers, t.next = t, w.freeTrailers
	w.spareTrailers++
}

// trailers implements stream and upstreamStream.
func (d *streamData) trailers() *head.List {
	if d.trailer == nil {
		return nil
	}
	return &d.trailer.list
}

// takeTrailers decodes the field block that ends the stream's message, as blockEnds must say that it
// does, and keeps what goes on of it. ok false means that the connection is over.
func (d *streamData) takeTrailers(block []byte, lim *http2.Limits) (why http2.Reason, ok bool) {
	l := d.link
	bytes := l.w.fieldBytes()[:0]
	var judge http2.TrailerHead
	judge.Reset(lim)
	t := l.w.takeTrailers()
	l.decoder.Begin(block)
	var field hpack.Field
	for {
		out, more, err := l.decoder.Next(&field, bytes)
		if err != nil {
			l.w.keepTrailers(t)
			l.side.fail(http2.BadBlock)
			return http2.OK, false
		}
		if !more {
			break
		}
		bytes = out
		if why == http2.OK {
			why = judge.Field(&t.list, field.Name, field.Value)
		}
	}
	switch {
	case why != http2.OK:
	case l.decoder.TooLarge():
		why = http2.TrailersTooLarge
	default:
		why = judge.End(l.blockEnds)
	}
	if t.list.Len() == 0 || why != http2.OK || d.ended {
		l.w.keepTrailers(t)
		return why, true
	}
	t.bytes = l.w.loop.GetBuffer(len(bytes))
	t.bytes.End = copy(t.bytes.Bytes, bytes)
	rebaseFields(&t.list, bytes, t.bytes.Bytes)
	d.trailer = t
	return http2.OK, true
}
