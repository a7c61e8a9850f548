package grpc

import "encoding/binary"

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
