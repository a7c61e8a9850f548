package http1

import (
	"net/http"
	"strconv"

	"plimsoll/internal/head"
)

// statusLines are the status lines from 100 to 599.
var statusLines = func() (lines [500]string) {
	for i := range lines {
		lines[i] = "HTTP/1.1 " + strconv.Itoa(100+i) + " " + http.StatusText(100+i) + "\r\n"
	}
	return
}()

// AppendStatusLine appends the status line of an HTTP/1.1 response, with the usual reason. A status
// outside 100 to 599 is not a status, and is sent as 500.
func AppendStatusLine(dst []byte, status int) []byte {
	if status < 100 || status > 599 {
		status = http.StatusInternalServerError
	}
	return append(dst, statusLines[status-100]...)
}

// AppendField appends a field line. Whatever name and value hold, it is one line: a control
// character in a value becomes a space, a byte that no name has becomes '-', and a field without a
// name is left out.
func AppendField(dst, name, value []byte) []byte {
	if len(name) == 0 {
		return dst
	}
	from := len(dst)
	dst = append(dst, name...)
	if !head.IsToken(name) {
		replace(dst[from:], head.TokenByte, '-')
	}
	dst = append(dst, ": "...)
	from = len(dst)
	dst = append(dst, value...)
	if !head.IsText(value) {
		replace(dst[from:], head.TextByte, ' ')
	}
	return append(dst, "\r\n"...)
}

func replace(b []byte, allowed head.Class, by byte) {
	for i, c := range b {
		if !head.Is(c, allowed) {
			b[i] = by
		}
	}
}

// HopByHop is the fields that concern one connection (RFC 9110, section 7.6.1), as a mask of IDs
// for AppendFields. The credentials for proxies are among them, which are for the next hop
// (sections 11.7.1 and 11.7.2). Content-Length is not: who re-frames a body drops it too. Nor is
// Trailer: who drops trailers takes their names out with TrimTrailer. Some statuses need one of
// these fields all the same: see OfStatus.
const HopByHop uint64 = 1<<head.Connection | 1<<head.KeepAlive | 1<<head.ProxyConnection | 1<<head.TE |
	1<<head.TransferEncoding | 1<<head.Upgrade | 1<<head.ProxyAuthenticate |
	1<<head.ProxyAuthorization | 1<<head.HTTP2Settings

// OfStatus is the fields of HopByHop that a response of this status must have, and that are
// therefore passed on: 426 says which protocols it asks for, and 407 which credentials (RFC 9110,
// sections 15.5.22 and 15.5.8).
func OfStatus(status int) uint64 {
	switch status {
	case http.StatusUpgradeRequired:
		return 1 << head.Upgrade
	case http.StatusProxyAuthRequired:
		return 1 << head.ProxyAuthenticate
	}
	return 0
}

// AppendFields appends the lines of all fields but aliases and those whose ID has its bit in drop.
//
// Fields that came from an HTTP/1 wire mostly still are the line they were, next to their
// neighbours: such a run is copied in one piece. The capacity of a Line goes on to the end of its
// buffer, so that the run can grow without unsafe means, and two lines of different buffers are
// never taken for neighbours.
func AppendFields(dst []byte, l *head.List, drop uint64) []byte {
	drop |= 1 << head.Alias
	var run []byte
	for i := range l.Len() {
		f := l.At(i)
		if drop>>(f.ID&63)&1 != 0 {
			continue
		}
		if next := f.Line; len(next) > 0 {
			if n := len(run); n > 0 && cap(run) >= n+len(next) && &run[:n+1][n] == &next[0] {
				run = run[:n+len(next)]
				continue
			}
			dst = append(dst, run...)
			run = next
			continue
		}
		dst = append(dst, run...)
		run = nil
		dst = AppendField(dst, f.Name, f.Value)
	}
	return append(dst, run...)
}

// AppendChunk appends data as one chunk. Empty data appends nothing, because an empty chunk would
// be the last.
func AppendChunk(dst, data []byte) []byte {
	if len(data) == 0 {
		return dst
	}
	dst = AppendChunkSize(dst, len(data))
	dst = append(dst, data...)
	return append(dst, "\r\n"...)
}

// AppendChunkSize appends the line before a chunk of n bytes, n > 0. The chunk and CRLF follow.
func AppendChunkSize(dst []byte, n int) []byte {
	dst = strconv.AppendUint(dst, uint64(n), 16)
	return append(dst, "\r\n"...)
}

// AppendLastChunk ends a chunked body, with trailers, which may be nil.
func AppendLastChunk(dst []byte, trailers *head.List) []byte {
	dst = append(dst, "0\r\n"...)
	if trailers != nil {
		dst = AppendFields(dst, trailers, 0)
	}
	return append(dst, "\r\n"...)
}
