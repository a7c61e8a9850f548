package proxy

import (
	"encoding/binary"
	"reflect"
	"unsafe"

	"plimsoll/internal/head"
	"plimsoll/internal/invariant"
	"plimsoll/internal/reactor"
)

// packedFlow is an exchange that waits, in less than a tenth of the memory of a flow. A flow is
// large because it has room for whatever may happen to an exchange. Most of its words are zero, and
// its lists, its arena and the buffer of its head are mostly empty.
//
// Every word is packed by its type, not by its name, so a new field of a flow, or of a type in it,
// needs no change here. What a flow keeps between its lives is left out (see unpacked). The memory
// that it borrows, the head's bytes and its arena, is copied, and unpacking makes the pointers into
// it point into the copy.
type packedFlow struct {
	bytes    []byte           // the memory that was borrowed, and the words behind it
	pointers []unsafe.Pointer // to what is outside of both the flow and that memory
	borrowed int
}

// word is the kind of a word of a flow.
type word uint8

const (
	scalar word = iota
	pointer
	slice    // the pointer of a slice; its length and capacity are packed with it
	unpacked // belongs to the flow, and not to its exchange
)

const wordSize = unsafe.Sizeof(uintptr(0))

// flowWords are the kinds of the words of a flow, in order.
var flowWords = func() []word {
	t := reflect.TypeFor[flow]()
	words := make([]word, t.Size()/wordSize)
	noteWords(words, t, 0)
	// The request's fields are packed separately. The response's fields are not needed any more,
	// because the client has been sent them: see onlyWaits.
	for _, path := range [][]string{{"Exchange", "arena"}, {"Exchange", "life"}, {"w"}, {"next"},
		{"req", "Request", "Fields"}, {"res", "Response", "Fields"}, {"timer"}, {"pace"}, {"wait"}} {
		part, at := t, uintptr(0)
		for _, name := range path {
			f, _ := part.FieldByName(name)
			part, at = f.Type, at+f.Offset
		}
		for i := range part.Size() / wordSize {
			words[at/wordSize+i] = unpacked
		}
	}
	return words
}()

// noteWords notes which words of a value of type t, at an offset, are pointers.
func noteWords(words []word, t reflect.Type, at uintptr) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			noteWords(words, t.Field(i).Type, at+t.Field(i).Offset)
		}
	case reflect.Array:
		for i := range t.Len() {
			noteWords(words, t.Elem(), at+uintptr(i)*t.Elem().Size())
		}
	case reflect.Pointer, reflect.UnsafePointer, reflect.Map, reflect.Chan, reflect.Func, reflect.String:
		words[at/wordSize] = pointer
	case reflect.Slice:
		words[at/wordSize] = slice
	case reflect.Interface:
		words[at/wordSize], words[at/wordSize+1] = pointer, pointer
	}
}

// mostPacked is how many bytes an exchange may have borrowed and still be packed.
const mostPacked = 16 << 10

// packer packs one flow at a time. The worker has one, because a local variable would escape to the
// heap.
type packer struct {
	flow     unsafe.Pointer
	borrowed [2][]byte // the head's bytes, and the arena
	out      []byte
	pointers []unsafe.Pointer
}

// pack packs the exchange of f, whose head is in fields, and makes f ready for its next use. It
// returns nil, and changes nothing, if packing would save little.
func (w *Worker) pack(f *flow, fields []byte) *packedFlow {
	p := &w.packer
	p.flow, p.borrowed = unsafe.Pointer(f), [2][]byte{fields, f.Allocated()}
	borrowed := len(p.borrowed[0]) + len(p.borrowed[1])
	if borrowed > mostPacked {
		return nil
	}
	p.out = append(append(append(p.out[:0], p.borrowed[0]...), p.borrowed[1]...), 0)
	p.pointers = p.pointers[:0]
	p.words()
	p.fields(f)
	packed := &packedFlow{append([]byte(nil), p.out...), append([]unsafe.Pointer(nil), p.pointers...),
		borrowed + 1}
	clear(p.pointers)
	p.flow, p.borrowed = nil, [2][]byte{}
	f.Finish()
	f.req.Reset()
	f.res.Reset()
	w.loop.StopTimer(&f.timer)
	f.life = life{}
	w.keepFlow(f)
	return packed
}

// words packs the words that are not zero, behind a bit for each word.
func (p *packer) words() {
	bits := len(p.out)
	p.out = append(p.out, make([]byte, (len(flowWords)+7)/8)...)
	for i := 0; i < len(flowWords); i++ {
		at := unsafe.Add(p.flow, uintptr(i)*wordSize)
		kind := flowWords[i]
		if kind == unpacked || *(*uintptr)(at) == 0 {
			continue
		}
		p.out[bits+i/8] |= 1 << (i % 8)
		switch kind {
		case scalar:
			p.number(*(*uintptr)(at))
		case pointer:
			p.pointer(*(*unsafe.Pointer)(at))
		case slice:
			p.slice(*(*[]byte)(at))
			i += 2
		}
	}
}

func (p *packer) fields(f *flow) {
	l := &f.req.Fields
	p.number(uintptr(l.Len()))
	for i := range l.Len() {
		field := l.At(i)
		p.number(uintptr(field.ID))
		p.slice(field.Name)
		p.slice(field.Value)
		p.slice(field.Line)
	}
}

func (p *packer) number(n uintptr) { p.out = binary.AppendUvarint(p.out, uint64(n)) }

// Where a pointer points. It is the number of a packed pointer modulo places; the quotient is the
// offset there.
const (
	nowhere = iota
	outside // the next of pointers
	inside  // the flow itself
	into    // the memory that was borrowed
	places
)

// pointer packs a pointer, and reports whether it points into memory that is copied.
func (p *packer) pointer(at unsafe.Pointer) (copied bool) {
	if at == nil {
		p.number(nowhere)
		return false
	}
	if off := uintptr(at) - uintptr(p.flow); off < unsafe.Sizeof(flow{}) {
		p.number(inside + places*off)
		return false
	}
	before := uintptr(0)
	for _, memory := range p.borrowed {
		off := uintptr(at) - uintptr(unsafe.Pointer(unsafe.SliceData(memory)))
		if off <= uintptr(len(memory)) && off < uintptr(cap(memory)) {
			p.number(into + places*(before+off))
			return true
		}
		before += uintptr(len(memory))
	}
	p.number(outside)
	p.pointers = append(p.pointers, at)
	return false
}

// slice packs a slice. A slice of copied memory gets its length as its capacity: what follows it
// belongs to others.
func (p *packer) slice(s []byte) {
	copied := p.pointer(unsafe.Pointer(unsafe.SliceData(s)))
	p.number(uintptr(len(s)))
	if !copied {
		p.number(uintptr(cap(s)))
	}
}

// unpack makes the exchange a flow again. All the memory that it had borrowed is in fields now.
func (w *Worker) unpack(packed *packedFlow, fields *reactor.Buffer) *flow {
	f := w.takeFlow()
	f.Exchange.Begin(w)
	fields.End = copy(fields.Bytes, packed.bytes[:packed.borrowed])
	u := unpacker{unsafe.Pointer(f), fields.Bytes, packed.bytes[packed.borrowed:], packed.pointers}
	u.words()
	u.fields(f)
	if invariant.On && (len(u.in) > 0 || len(u.pointers) > 0) {
		panic("proxy: a packed exchange has more than it needs")
	}
	return f
}

type unpacker struct {
	flow     unsafe.Pointer
	borrowed []byte
	in       []byte
	pointers []unsafe.Pointer
}

// words sets every word, including those that were zero.
func (u *unpacker) words() {
	bits := u.in
	u.in = u.in[(len(flowWords)+7)/8:]
	for i := 0; i < len(flowWords); i++ {
		at := unsafe.Add(u.flow, uintptr(i)*wordSize)
		kind, zero := flowWords[i], bits[i/8]&(1<<(i%8)) == 0
		switch {
		case kind == unpacked:
		case kind == scalar && zero:
			*(*uintptr)(at) = 0
		case kind == scalar:
			*(*uintptr)(at) = u.number()
		case kind == pointer && zero:
			*(*unsafe.Pointer)(at) = nil
		case kind == pointer:
			*(*unsafe.Pointer)(at), _ = u.pointer()
		case zero:
			*(*[]byte)(at) = nil
			i += 2
		default:
			*(*[]byte)(at) = u.slice()
			i += 2
		}
	}
}

func (u *unpacker) fields(f *flow) {
	for range u.number() {
		field := f.req.Fields.Extend(head.ID(u.number()))
		field.Name, field.Value, field.Line = u.slice(), u.slice(), u.slice()
	}
}

func (u *unpacker) number() uintptr {
	n, used := binary.Uvarint(u.in)
	u.in = u.in[used:]
	return uintptr(n)
}

func (u *unpacker) pointer() (at unsafe.Pointer, copied bool) {
	n := u.number()
	switch off := n / places; n % places {
	case outside:
		at = u.pointers[0]
		u.pointers = u.pointers[1:]
		return at, false
	case inside:
		return unsafe.Add(u.flow, off), false
	case into:
		return unsafe.Pointer(&u.borrowed[off]), true
	}
	return nil, false
}

func (u *unpacker) slice() []byte {
	at, copied := u.pointer()
	length := u.number()
	capacity := length
	if !copied {
		capacity = u.number()
	}
	return unsafe.Slice((*byte)(at), capacity)[:length]
}
