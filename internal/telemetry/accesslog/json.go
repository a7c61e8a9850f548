package accesslog

import (
	"encoding/binary"
	"strconv"
	"time"
	"unicode/utf8"
)

// jsonEncoder writes one JSON object a line. Fields come in this order; those marked * are left out
// when there is no value.
//
//	time               RFC 3339 in UTC with microseconds, when the exchange was over
//	client           * address of the client, without the port
//	method, host, path *
//	query            * what follows "?"
//	protocol         * such as "HTTP/1.1"
//	status             as sent to the client, 0 when none was sent
//	bytes_in           of the request's body
//	bytes_out          of the response's body
//	duration           seconds, from the request's head to the end of the response
//	upstream_duration* seconds, of that spent waiting for the upstream
//	gateway_duration   seconds, of that which the gateway itself added
//	route            * name of the route
//	upstream, target * name of the upstream, address of the target used last
//	class              SLA class, such as "P1"
//	attempts         * tries made upstream
//	reason           * why the gateway answered in the upstream's stead, or cut the exchange
//	degraded         * what stands in for the live answer: "cache", "stale" or "static"
//	messages_in, messages_out * messages of a WebSocket, from the client and from the upstream
//	close_code, closed_by     * of its first close frame; 1006 and "nobody" for none
//	grpc_status      * of a gRPC call, such as "UNAVAILABLE"
//	request_id, user_agent, referer *
//	tls              * version, such as "1.3"
//	listener         * address of the listener as configured
//
// Lines are always valid JSON in valid UTF-8, whatever the client sent: bytes that are not UTF-8
// become U+FFFD, control characters are escaped. The path and the query are cut at 2,048 bytes, the
// method at 64, other values at 512.
type jsonEncoder struct {
	second int64  // Unix second that stamp is for
	stamp  []byte // `{"time":"2006-01-02T15:04:05.`
}

func newJSON() *jsonEncoder {
	return &jsonEncoder{second: -1 << 63, stamp: make([]byte, 0, 64)}
}

// Append appends the record's line. It allocates nothing when dst has bound bytes of room.
func (e *jsonEncoder) Append(dst []byte, r *Record) []byte {
	dst = e.appendTime(dst, r.Time)
	if r.Client.IsValid() {
		dst = append(dst, `,"client":"`...)
		dst = append(r.Client.WithZone("").AppendTo(dst), '"')
	}
	dst = appendText(dst, `,"method":"`, r.Method, maxMethod)
	dst = appendText(dst, `,"host":"`, r.Host, maxOther)
	dst = appendText(dst, `,"path":"`, r.Path, maxPath)
	dst = appendText(dst, `,"query":"`, r.Query, maxPath)
	dst = appendText(dst, `,"protocol":"`, r.Protocol, maxOther)
	dst = strconv.AppendInt(append(dst, `,"status":`...), int64(r.Status), 10)
	dst = strconv.AppendInt(append(dst, `,"bytes_in":`...), r.BytesIn, 10)
	dst = strconv.AppendInt(append(dst, `,"bytes_out":`...), r.BytesOut, 10)
	dst = appendSeconds(append(dst, `,"duration":`...), r.Total)
	if r.Attempts > 0 {
		dst = appendSeconds(append(dst, `,"upstream_duration":`...), r.Upstream)
	}
	dst = appendSeconds(append(dst, `,"gateway_duration":`...), r.Gateway)
	dst = appendText(dst, `,"route":"`, r.Route, maxOther)
	dst = appendText(dst, `,"upstream":"`, r.UpstreamName, maxOther)
	dst = appendText(dst, `,"target":"`, r.Target, maxOther)
	dst = append(strconv.AppendInt(append(dst, `,"class":"P`...), int64(r.Class), 10), '"')
	if r.Attempts > 0 {
		dst = strconv.AppendInt(append(dst, `,"attempts":`...), int64(r.Attempts), 10)
	}
	dst = appendText(dst, `,"reason":"`, r.Reason, maxOther)
	dst = appendText(dst, `,"degraded":"`, r.Degraded, maxOther)
	if r.WebSocket {
		dst = strconv.AppendUint(append(dst, `,"messages_in":`...), r.MessagesIn, 10)
		dst = strconv.AppendUint(append(dst, `,"messages_out":`...), r.MessagesOut, 10)
		dst = strconv.AppendUint(append(dst, `,"close_code":`...), uint64(r.CloseCode), 10)
		dst = appendText(dst, `,"closed_by":"`, r.ClosedBy, maxOther)
	}
	dst = appendText(dst, `,"grpc_status":"`, r.GRPC, maxOther)
	dst = appendText(dst, `,"request_id":"`, r.ID, maxOther)
	dst = appendText(dst, `,"user_agent":"`, r.UserAgent, maxOther)
	dst = appendText(dst, `,"referer":"`, r.Referer, maxOther)
	dst = appendText(dst, `,"tls":"`, r.TLS, maxOther)
	dst = appendText(dst, `,"listener":"`, r.Listener, maxOther)
	return append(dst, '}', '\n')
}

// appendTime writes the object's beginning. Formatting a date costs as much as the rest of the
// line, so the part down to the second is kept until the second changes.
func (e *jsonEncoder) appendTime(dst []byte, ns int64) []byte {
	second, rest := floorSecond(ns)
	if second != e.second {
		e.second = second
		e.stamp = time.Unix(second, 0).UTC().AppendFormat(append(e.stamp[:0], `{"time":"`...),
			"2006-01-02T15:04:05.")
	}
	dst = append(dst, e.stamp...)
	return append(appendDigits(dst, rest/1000, 100_000), 'Z', '"')
}

// floorSecond splits Unix nanoseconds into the second and what is over, which is never negative.
func floorSecond(ns int64) (second, rest int64) {
	second, rest = ns/1e9, ns%1e9
	if rest < 0 {
		return second - 1, rest + 1e9
	}
	return second, rest
}

// appendDigits writes n with leading zeros, unit being the value of the first digit.
func appendDigits(dst []byte, n, unit int64) []byte {
	for ; unit > 0; unit /= 10 {
		dst = append(dst, byte('0'+n/unit%10))
	}
	return dst
}

// appendSeconds writes nanoseconds as seconds with six decimals; what is below zero becomes zero.
func appendSeconds(dst []byte, ns int64) []byte {
	ns = max(ns, 0)
	dst = append(strconv.AppendInt(dst, ns/1e9, 10), '.')
	return appendDigits(dst, ns%1e9/1000, 100_000)
}

// appendText writes a field that has a text value, or nothing when the value is empty. name is
// everything before the value.
func appendText[T string | []byte](dst []byte, name string, v T, limit int) []byte {
	if len(v) == 0 {
		return dst
	}
	v, shortened := cut(v, limit)
	dst = appendEscaped(append(dst, name...), []byte(v))
	if shortened {
		dst = append(dst, mark...)
	}
	return append(dst, '"')
}

// plain marks the bytes that a JSON string holds as they are.
var plain = func() (t [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

const hex = "0123456789abcdef"

// appendEscaped writes the inside of a JSON string. Nearly every value is plain ASCII, so it looks
// at eight bytes at a time and copies runs of plain ones whole.
func appendEscaped(dst, v []byte) []byte {
	start := 0
	for i := 0; i < len(v); {
		if len(v)-i >= 8 && allPlain(binary.LittleEndian.Uint64(v[i:])) {
			i += 8
			continue
		}
		c := v[i]
		if plain[c] {
			i++
			continue
		}
		dst = append(dst, v[start:i]...)
		size := 1
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < utf8.RuneSelf:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst, size = appendRune(dst, v[i:])
		}
		i += size
		start = i
	}
	return append(dst, v[start:]...)
}

// allPlain is plain for eight bytes at once. For a byte below 0x80, subtracting n borrows its
// highest bit exactly when the byte is below n; a borrow out of a lower byte can only make a plain
// word look otherwise, never the reverse.
func allPlain(x uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, slash, del := x^'"'*ones, x^'\\'*ones, x^0x7f*ones
	return (x|(x-' '*ones)|(quote-ones)|(slash-ones)|(del-ones))&highs == 0
}

// appendRune writes the first character of v, which is not ASCII, and returns how many bytes of v
// it took. What would break lines in JavaScript (U+2028, U+2029) or is not UTF-8 is escaped.
func appendRune(dst, v []byte) ([]byte, int) {
	ch, size := utf8.DecodeRune(v)
	switch {
	case ch == utf8.RuneError && size == 1:
		return append(dst, `\ufffd`...), 1
	case ch == '\u2028' || ch == '\u2029':
		return append(dst, '\\', 'u', '2', '0', '2', hex[ch&15]), size
	}
	return append(dst, v[:size]...), size
}
