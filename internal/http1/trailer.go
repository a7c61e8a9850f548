package http1

import (
	"bytes"

	"plimsoll/internal/head"
)

// trailers holds the trailer fields of one chunked body. They are copied, because the bytes they
// came in are the caller's.
type trailers struct {
	list head.List
	// All lines; those of the fields in list, which alias it, and the one under way matter.
	buf   []byte
	line  int // where that line begins in buf
	count int // of all fields
	next  *trailers
}

// TrailerPool is memory for the trailers of one goroutine's bodies, of which few have some at a
// time. The zero value is ready.
type TrailerPool struct {
	free  *trailers
	spare int
}

const (
	// maxSpareTrailers is how many a pool keeps.
	maxSpareTrailers = 64
	// maxKeptFields and maxKeptBytes are how large trailers are whose memory is kept: gRPC's are
	// far below.
	maxKeptFields = 32
	maxKeptBytes  = 4 << 10
)

func (p *TrailerPool) take() *trailers {
	if p == nil || p.free == nil {
		return new(trailers)
	}
	t := p.free
	p.free, t.next = t.next, nil
	p.spare--
	return t
}

func (p *TrailerPool) put(t *trailers) {
	if p == nil || p.spare >= maxSpareTrailers || t.count > maxKeptFields || cap(t.buf) > maxKeptBytes {
		return
	}
	t.list.Reset()
	t.buf, t.line, t.count = t.buf[:0], 0, 0
	p.free, t.next = t, p.free
	p.spare++
}

// begin makes room for one more field.
func (t *trailers) begin(lim *Limits) Error {
	if lim.Fields > 0 && t.count >= lim.Fields {
		return TooManyFields
	}
	t.count++
	return OK
}

// take takes bytes of a trailer line, up to its end. When the line is whole its field is kept or
// dropped.
func (t *trailers) take(in []byte, lim *Limits) (used int, whole bool, err Error) {
	used = len(in)
	if i := bytes.IndexByte(in, '\n'); i >= 0 {
		used, whole = i+1, true
	}
	if lim.Head > 0 && len(t.buf)+used > lim.Head {
		return 0, false, TrailersTooLarge
	}
	// Where this moves the buffer the fields go on aliasing the old one.
	t.buf = append(t.buf, in[:used]...)
	if !whole {
		return used, false, OK
	}
	line := t.buf[t.line:]
	if len(line) < 2 || line[len(line)-2] != '\r' {
		return 0, false, BareLF
	}
	at, id, err := checkField(line)
	if err != OK {
		if blame(line[:len(line)-2], err) == BareCR {
			return 0, false, BareCR
		}
		return 0, false, BadTrailer
	}
	if head.MayTrail(line[:at], id) {
		fillField(t.list.Extend(id), line, at)
	}
	t.line = len(t.buf)
	return used, true, OK
}

// maxTrailerNames bounds the names in the Trailer fields of one head: those behind them go, so that
// a hostile list costs little to judge.
const maxTrailerNames = 64

// TrimTrailer makes the Trailer fields of a head name only trailers that are passed on: it takes
// out names that may not stand in a trailer section and those for which gone says so, and then the
// fields that name nothing any more. gone is not kept. The names that stay are moved together where
// they are, so that nothing is allocated: a value changes under anybody else who holds it. To do it
// again changes nothing.
func TrimTrailer(l *head.List, gone func(name []byte) bool) {
	if !l.Has(head.Trailer) {
		return
	}
	empty, left := false, maxTrailerNames
	for i := range l.Len() {
		f := l.At(i)
		if f.ID != head.Trailer {
			continue
		}
		left = trimNames(f, left, gone)
		empty = empty || len(f.Value) == 0
	}
	if empty {
		l.RemoveFunc(func(f *head.Field) bool { return f.ID == head.Trailer && len(f.Value) == 0 })
	}
}

// trimNames does it for one field, of which it looks at the first left names; it returns how many
// may still be looked at. It writes only when something goes, and then never more than it has read,
// because each name was followed by a comma.
func trimNames(f *head.Field, left int, gone func(name []byte) bool) int {
	goes := func(name []byte) bool {
		return !head.IsToken(name) || !head.MayTrail(name, head.Lookup(name)) || gone(name)
	}
	var name []byte
	all, seen := true, 0
	for rest := f.Value; len(rest) > 0 && all; seen++ {
		name, rest = nextToken(rest)
		all = seen < left && !goes(name)
	}
	if all {
		return left - seen
	}
	kept := f.Value[:0]
	seen = 0
	for rest := f.Value; len(rest) > 0 && seen < left; seen++ {
		if name, rest = nextToken(rest); goes(name) {
			continue
		}
		if len(kept) > 0 {
			kept = append(kept, ',')
		}
		kept = append(kept, name...)
	}
	f.Value, f.Line = kept, nil
	return left - seen
}
