package accesslog

import (
	"strconv"
	"time"
)

// combinedEncoder writes nginx's "combined" format, byte for byte:
//
//	$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent
//	    "$http_referer" "$http_user_agent"
//
// The user is always "-". The request is the method, the canonical path with the query, and the
// protocol. Values are cut as in JSON, and escaped as nginx does by default: a quote, a backslash,
// control characters and every byte from 0x7f on become \xHH; an empty referer or user agent
// becomes "-". Status 0 is written as 000, as nginx does.
type combinedEncoder struct {
	zone   *time.Location
	second int64
	stamp  []byte // ` - - [02/Jan/2006:15:04:05 -0700] "`
}

func newCombined(zone *time.Location) *combinedEncoder {
	return &combinedEncoder{zone: zone, second: -1 << 63, stamp: make([]byte, 0, 64)}
}

// Append appends the record's line. It allocates nothing when dst has bound bytes of room.
func (e *combinedEncoder) Append(dst []byte, r *Record) []byte {
	if r.Client.IsValid() {
		dst = r.Client.WithZone("").AppendTo(dst)
	} else {
		dst = append(dst, '-')
	}
	dst = e.appendTime(dst, r.Time)
	dst = appendHex(dst, r.Method, maxMethod)
	if len(r.Path) > 0 {
		dst = appendHex(append(dst, ' '), r.Path, maxPath)
	}
	if len(r.Query) > 0 {
		dst = appendHex(append(dst, '?'), r.Query, maxPath)
	}
	if len(r.Protocol) > 0 {
		dst = appendHex(append(dst, ' '), r.Protocol, maxOther)
	}
	dst = appendDigits(append(dst, '"', ' '), int64(max(r.Status, 0)), 100)
	dst = strconv.AppendInt(append(dst, ' '), r.BytesOut, 10)
	dst = appendHexOrDash(append(dst, ' ', '"'), r.Referer)
	dst = appendHexOrDash(append(dst, `" "`...), r.UserAgent)
	return append(dst, '"', '\n')
}

// appendTime writes what stands between the address and the request. It is kept until the second
// changes.
func (e *combinedEncoder) appendTime(dst []byte, ns int64) []byte {
	second, _ := floorSecond(ns)
	if second != e.second {
		e.second = second
		e.stamp = time.Unix(second, 0).In(e.zone).AppendFormat(e.stamp[:0],
			` - - [02/Jan/2006:15:04:05 -0700] "`)
	}
	return append(dst, e.stamp...)
}

func appendHexOrDash(dst, v []byte) []byte {
	if len(v) == 0 {
		return append(dst, '-')
	}
	return appendHex(dst, v, maxOther)
}

const upperHex = "0123456789ABCDEF"

// appendHex writes a value with nginx's escapes. A cut value ends in three plain dots, as the mark
// is not ASCII.
func appendHex[T string | []byte](dst []byte, v T, limit int) []byte {
	shortened := len(v) > limit
	v = v[:min(len(v), limit)]
	start := 0
	for i := range len(v) {
		c := v[i]
		if plain[c] {
			continue
		}
		dst = append(dst, v[start:i]...)
		dst = append(dst, '\\', 'x', upperHex[c>>4], upperHex[c&15])
		start = i + 1
	}
	dst = append(dst, v[start:]...)
	if shortened {
		dst = append(dst, "..."...)
	}
	return dst
}
