package http1

import "plimsoll/internal/head"

// How many Connection fields, and options in them, are looked at one by one.
const (
	maxConnections = 8
	maxOptions     = 64
)

// StripConnection takes out the fields that Connection names (RFC 9110, section 7.6.1). It is called before the gateway
// adds fields of its own, and costs nothing to speak of without Connection or with the usual ones.
//
// Only fields of unknown names go. A known one is either in HopByHop, and never serialised, or meant for every recipient
// (Host, Content-Length, X-Forwarded-For, Cookie, …): to let a client take those away is what CVE-2021-32813 was. Work
// is bounded: a message with more options than anybody needs loses all fields of unknown names.
func StripConnection(l *head.List) {
	if !l.Has(head.Connection) || !l.Has(head.Other) {
		return
	}
	var values [maxConnections][]byte // to remove a field moves those behind it
	n := 0
	for i := range l.Len() {
		if f := l.At(i); f.ID == head.Connection {
			if n == len(values) {
				l.RemoveID(head.Other)
				return
			}
			values[n] = f.Value
			n++
		}
	}
	options := 0
	for _, value := range values[:n] {
		for len(value) > 0 {
			var option []byte
			option, value = nextToken(value)
			if options++; options > maxOptions {
				l.RemoveID(head.Other)
				return
			}
			if len(option) > 0 && !foldsTo(option, "close") && head.Lookup(option) == head.Other {
				l.Remove(option)
			}
		}
	}
}
