// Package accesslog writes a line for every exchange and never makes a loop wait for it. A loop
// encodes its line straight into a ring of its own; one goroutine carries what is in the rings to
// the file in large writes. What cannot be carried is dropped and counted. The package knows
// records, bytes and files; it knows nothing of exchanges, codecs or sockets.
package accesslog

import (
	"net/netip"
	"unicode/utf8"
)

// Record is what is logged of one exchange. The loop that fills it keeps it: nothing of it, nor of
// the bytes it points to, is used after Ring.Write has returned. Every string and slice may hold
// any bytes, as they come from outside; an empty one means that there is no value.
type Record struct {
	Time     int64      // when the exchange was over, wall clock, Unix nanoseconds
	Client   netip.Addr // whose request it was; the zero Addr for unknown
	Listener string     // address of the listener as configured
	TLS      string     // version, such as "1.3"; empty for plain text

	Method   []byte
	Host     []byte
	Path     []byte // the canonical path
	Query    []byte // without "?"
	Protocol string // such as "HTTP/1.1"
	Status   int    // as sent to the client; 0 when it was not sent any
	BytesIn  int64  // of the request's body
	BytesOut int64  // of the response's body, as far as it was sent

	Total    int64 // ns from the request's head to the end of the response
	Upstream int64 // ns of that spent waiting for the upstream; only written when Attempts is not 0
	Gateway  int64 // ns of that which the gateway itself added

	Route        string
	UpstreamName string // name of the upstream
	Target       string // address of the target used last
	Class        uint8  // SLA class, 0 for P0
	Attempts     uint8  // tries made upstream
	Reason       string // why the gateway answered in the upstream's stead
	Degraded     string // which step of the ladder the answer is: a short word of ours
	GRPC         string // status of a gRPC call, such as "UNAVAILABLE"
	ID           []byte // request id
	UserAgent    []byte
	Referer      []byte

	// The four that follow are of a tunnel of WebSocket, and written where WebSocket is set.
	WebSocket   bool
	MessagesIn  uint64 // from the client
	MessagesOut uint64 // from the upstream
	CloseCode   uint16 // of the first close frame
	ClosedBy    string // one word
}

// The longest value of each kind that is written, in bytes before escaping. Longer ones are cut
// there and end in "…".
const (
	maxMethod = 64
	maxPath   = 2048 // the path, and the query
	maxOther  = 512
)

// An escape makes six bytes of one at most (\u001f, and \ufffd for a byte that is not UTF-8).
const widest = 6

// fixed is more than everything but the text values: names, punctuation, numbers, time and the
// marks of cut values.
const fixed = 1024

// maxLine is the longest possible line in bytes.
const maxLine = fixed + widest*(maxMethod+2*maxPath+12*maxOther)

// bound is a number of bytes that the record's line does not exceed in any format. Short values
// make it tight, which keeps the room that a ring must have free for a line near to the line's real
// size.
func (r *Record) bound() int {
	text := min(len(r.Method), maxMethod) + min(len(r.Path), maxPath) + min(len(r.Query), maxPath)
	for _, n := range [...]int{
		len(r.Host),
		len(r.Listener),
		len(r.TLS),
		len(r.Protocol),
		len(r.Route),
		len(r.UpstreamName),
		len(r.Target),
		len(r.Reason),
		len(r.Degraded),
		len(r.GRPC),
		len(r.ID),
		len(r.UserAgent),
		len(r.Referer),
		len(r.ClosedBy),
	} {
		text += min(n, maxOther)
	}
	return fixed + widest*text
}

// mark ends a value that was cut.
const mark = "…"

// cut shortens a value to at most limit bytes, not within a character, and says whether it had to.
func cut[T string | []byte](v T, limit int) (T, bool) {
	if len(v) <= limit {
		return v, false
	}
	for back := range utf8.UTFMax {
		if utf8.RuneStart(v[limit-back]) {
			return v[:limit-back], true
		}
	}
	return v[:limit], true
}
