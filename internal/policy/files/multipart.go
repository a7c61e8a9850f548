package files

import (
	"plimsoll/internal/exchange"
)

// multipart frames several ranges of a file as multipart/byteranges (RFC 9110, section 14.6).
type multipart struct {
	spans       []span
	size        int64
	partType    []byte // the file's Content-Type
	boundary    [32]byte
	contentType []byte
}

// newMultipart chooses the boundary: 128 random bits, so that nobody can put it into a file on
// purpose.
func (p *Policy) newMultipart(x *exchange.Exchange, f *file, spans []span) *multipart {
	m := &multipart{spans: append([]span(nil), spans...), size: f.size, partType: f.contentType.Value}
	b := m.boundary[:0]
	for range 2 {
		n := p.random()
		for i := range 16 {
			b = append(b, "0123456789abcdef"[n>>(4*i)&15])
		}
	}
	m.contentType = append(x.Alloc(64)[:0], "multipart/byteranges; boundary="...)
	m.contentType = append(m.contentType, m.boundary[:]...)
	return m
}

// head is what precedes the i-th part, including the line end after the previous part.
func (m *multipart) head(i int) []byte {
	var b []byte
	if i > 0 {
		b = append(b, "\r\n"...)
	}
	b = append(append(b, "--"...), m.boundary[:]...)
	b = append(append(b, "\r\nContent-Type: "...), m.partType...)
	b = appendRange(append(b, "\r\nContent-Range: bytes "...), m.spans[i], m.size)
	return append(b, "\r\n\r\n"...)
}

// tail is what follows the last part.
func (m *multipart) tail() []byte {
	return append(append([]byte("\r\n--"), m.boundary[:]...), "--\r\n"...)
}

// length is the length of the whole body.
func (m *multipart) length() int64 {
	n := int64(len(m.tail()))
	for i, part := range m.spans {
		n += int64(len(m.head(i))) + part.len()
	}
	return n
}
