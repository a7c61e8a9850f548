package proxy

import (
	"plimsoll/internal/head"
	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

// trailerSection holds the trailers that came on an HTTP/2 stream. It belongs to the stream until
// that is over. Then the loop keeps it for another stream, because every gRPC response has one.
type trailerSection struct {
	list  head.List
	bytes *reactor.Buffer // the memory that the fields are in
	next  *trailerSection // in the worker's list of free ones
}

const (
	maxSpareTrailers = 64

	// maxKeptFields is how many fields a section may have and still be kept.
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

// keepTrailers frees a section, and keeps it for its next use unless it is large or enough are
// kept.
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

// takeTrailers decodes the field block that ends the stream's message, and keeps the fields that
// are passed on. It is an error if the link's blockEnds is not set. If ok is false, the connection
// is over.
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
