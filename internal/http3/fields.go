package http3

import (
	"bytes"
	"io"
	"unsafe"

	"github.com/quic-go/qpack"
)

// Field is one field of a section, as it was decoded.
type Field struct{ Name, Value []byte }

// fieldOverhead is what a field counts for beyond its name and value (RFC 9114, section 4.2.2).
const fieldOverhead = 32

// DecodeFields decodes a field section. It stops after the first field that is beyond maxBytes,
// which counts names, values and fieldOverhead for each, or beyond maxFields: who judges the fields
// by the same limits refuses the message for it. The fields are the caller's. BadBlock is the only
// error.
func DecodeFields(block []byte, maxBytes, maxFields int) ([]Field, Reason) {
	next := new(qpack.Decoder).Decode(block)
	var decoded []qpack.HeaderField
	bytes, size := 0, 0
	for bytes <= maxBytes && len(decoded) <= maxFields {
		f, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, BadBlock
		}
		decoded = append(decoded, f)
		size += len(f.Name) + len(f.Value)
		bytes += len(f.Name) + len(f.Value) + fieldOverhead
	}
	fields := make([]Field, len(decoded))
	memory := make([]byte, 0, size)
	own := func(s string) []byte {
		from := len(memory)
		memory = append(memory, s...)
		return memory[from:len(memory):len(memory)]
	}
	for i, f := range decoded {
		fields[i] = Field{own(f.Name), own(f.Value)}
	}
	return fields, OK
}

// Encoder makes field sections. The zero value is ready. Its memory is used again, so it belongs to
// one goroutine, or one loop.
type Encoder struct {
	section bytes.Buffer
	qpack   *qpack.Encoder
	name    []byte // in lower case
}

// Begin begins a field section.
func (e *Encoder) Begin() {
	if e.qpack == nil {
		e.qpack = qpack.NewEncoder(&e.section)
	}
	e.section.Reset()
	e.qpack.Close() // the next section begins with a prefix of its own
}

// Field adds a field. The name is sent in lower case.
func (e *Encoder) Field(name, value []byte) {
	// It fails only where the buffer does, and that grows. It keeps neither string.
	e.qpack.WriteField(qpack.HeaderField{Name: view(e.lower(name)), Value: view(value)})
}

// view is b as a string, for as long as b does not change.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// AppendSection appends the section as a HEADERS frame.
func (e *Encoder) AppendSection(dst []byte) []byte {
	section := e.section.Bytes()
	if len(section) == 0 {
		section = emptySection
	}
	return AppendFrame(dst, Headers, section)
}

// emptySection is the prefix alone.
var emptySection = []byte{0, 0}

// lower is a field's name in lower case, until the next one.
func (e *Encoder) lower(name []byte) []byte {
	e.name = e.name[:0]
	for _, b := range name {
		if 'A' <= b && b <= 'Z' {
			b |= 0x20
		}
		e.name = append(e.name, b)
	}
	return e.name
}
