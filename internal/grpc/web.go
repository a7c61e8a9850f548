package grpc

import (
	"bytes"
	"encoding/binary"
)

// gRPC-Web puts the trailers into the body, as the last frame: its flag is 0x80, and its content
// are lines as in HTTP/1.1, with names in lower case, and no empty line behind them ("Trailers" in
// PROTOCOL-WEB).

// BeginTrailers appends the head of a frame of trailers, whose length EndTrailers sets.
func BeginTrailers(out []byte) []byte { return append(out, trailers, 0, 0, 0, 0) }

// AppendTrailer appends a line of trailers. The caller has checked that neither name nor value has
// control characters.
func AppendTrailer(out, name, value []byte) []byte {
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		out = append(out, c)
	}
	return append(append(append(out, ": "...), value...), "\r\n"...)
}

// EndTrailers sets the length of the frame that begins at out[at].
func EndTrailers(out []byte, at int) {
	binary.BigEndian.PutUint32(out[at+1:], uint32(len(out)-at-HeadSize))
}

// NextTrailer takes the first line off the content of a frame of trailers. The line's end may be
// that of HTTP/1.1 or a lone LF, and the last may lack it. Not ok: there is none left, or the next
// is malformed, and then rest is not empty.
func NextTrailer(content []byte) (name, value, rest []byte, ok bool) {
	line, rest, _ := bytes.Cut(content, []byte{'\n'})
	line = bytes.TrimSuffix(line, []byte{'\r'})
	name, value, found := bytes.Cut(line, []byte{':'})
	if !found || len(name) == 0 || bytes.IndexByte(line, '\r') >= 0 {
		return nil, nil, content, false
	}
	return name, bytes.Trim(value, " \t"), rest, true
}
