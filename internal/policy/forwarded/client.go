package forwarded

import (
	"bytes"
	"net/netip"
	"unsafe"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// maxHops bounds the walk back along a chain of trusted proxies. A longer chain is a loop or
// forged.
const maxHops = 32

// ResolveClient sets x.Client, for every exchange and before any policy runs: to the peer's
// address, or, where the peer is a trusted proxy, to the right-most address that the proxies report
// and that is not itself trusted (where all are trusted, the left-most). The peers' reports are
// X-Forwarded-For or, where there is none, Forwarded (RFC 7239).
//
// It reads from the right and stops at the first untrusted address: what stands left of it came
// from a stranger and may be anything. A part that it has to read and that makes no sense
// ("unknown", an obfuscated name, text, more than 32 hops) makes the whole report worthless:
// x.Client is then the peer, and x.PeerTrusted is set to false, so that nothing else of the report
// is believed either.
//
// A trusted proxy has to write or remove both fields: one that passes a client's own
// X-Forwarded-For on unchanged lets the client choose its address.
//
// x.Peer and x.PeerTrusted must be set. Loop only. It does not allocate, and for untrusted peers it
// takes some nanoseconds.
func ResolveClient(x *exchange.Exchange, t *Trust) {
	x.Client = bare(x.Peer.Addr())
	if !x.PeerTrusted {
		return
	}
	w := walk{trust: t, left: maxHops}
	fields := &x.Request.Fields
	switch {
	case fields.Has(head.XForwardedFor):
		w.fields(fields, head.XForwardedFor, addressOf)
	case fields.Has(head.Forwarded):
		w.fields(fields, head.Forwarded, forOf)
	}
	switch {
	case w.bad:
		x.PeerTrusted = false
	case w.client.IsValid():
		x.Client = w.client
	}
}

// walk is a walk back along a chain of proxies.
type walk struct {
	trust  *Trust
	client netip.Addr // the left-most address so far
	left   int        // elements that may still be looked at
	done   bool       // client is the first untrusted address
	bad    bool       // an element is invalid
}

// fields walks the values of all fields called id from the right, since several are one list (RFC
// 9110, section 5.3). read finds the address in an element.
func (w *walk) fields(l *head.List, id head.ID, read func([]byte) (netip.Addr, bool)) {
	for i := l.Len() - 1; i >= 0 && !w.done && !w.bad; i-- {
		if f := l.At(i); f.ID == id {
			w.list(f.Value, read)
		}
	}
}

// list walks one value's elements. Commas in quotes do not divide; read from the right, quotes pair
// up whatever a stranger wrote further left. Empty elements are skipped, as section 5.6.1.2 asks,
// but they count.
func (w *walk) list(value []byte, read func([]byte) (netip.Addr, bool)) {
	end, quoted := len(value), false
	for i := len(value) - 1; i >= -1; i-- {
		if i >= 0 {
			if value[i] == '"' {
				quoted = !quoted
			}
			if value[i] != ',' || quoted {
				continue
			}
		}
		element := bytes.Trim(value[i+1:end], " \t")
		end = i
		if w.left--; w.left < 0 {
			w.bad = true
			return
		}
		if len(element) == 0 {
			continue
		}
		address, ok := read(element)
		if !ok {
			w.bad = true
			return
		}
		w.client = address
		if !w.trust.Contains(address) {
			w.done = true
			return
		}
	}
}

// forOf is the address in the "for" of an element of Forwarded (RFC 7239, section 4), which
// consists of pairs token=value separated by ";". Addresses need no backslash, so quoted pairs are
// not read.
func forOf(element []byte) (netip.Addr, bool) {
	for len(element) > 0 {
		pair, quoted := element, false
		for i, c := range element {
			if c == '"' {
				quoted = !quoted
			}
			if c == ';' && !quoted {
				pair = element[:i]
				break
			}
		}
		element = element[min(len(pair)+1, len(element)):]
		name, value, ok := bytes.Cut(pair, []byte("="))
		if !ok || !head.EqualFold(bytes.Trim(name, " \t"), forName) {
			continue
		}
		value = bytes.Trim(value, " \t")
		if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
			value = value[1 : n-1]
		}
		return addressOf(value)
	}
	return netip.Addr{}, false
}

var forName = []byte("for")

// longestAddress is the length of "[0000:0000:0000:0000:0000:ffff:255.255.255.255]:65535".
const longestAddress = 53

// addressOf reads an address as proxies write it: "192.0.2.1", "192.0.2.1:80", "2001:db8::1",
// "[2001:db8::1]" or "[2001:db8::1]:80".
func addressOf(b []byte) (netip.Addr, bool) {
	if len(b) == 0 || len(b) > longestAddress {
		return netip.Addr{}, false
	}
	port := []byte(nil)
	if b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		if end < 0 || bytes.IndexByte(b[:end], ':') < 0 {
			return netip.Addr{}, false
		}
		b, port = b[1:end], b[end+1:]
	} else if i := bytes.IndexByte(b, ':'); i >= 0 && i == bytes.LastIndexByte(b, ':') {
		b, port = b[:i], b[i:]
	}
	if len(port) > 0 && !isPort(port) || bytes.IndexByte(b, '%') >= 0 {
		return netip.Addr{}, false
	}
	// ParseAddr keeps its argument only in errors and zones: the error is dropped here, and a zone
	// was refused above. So the bytes need not be copied.
	a, err := netip.ParseAddr(unsafe.String(unsafe.SliceData(b), len(b)))
	return a.Unmap(), err == nil
}

// isPort reports whether b is a colon and one to five digits.
func isPort(b []byte) bool {
	if b[0] != ':' || len(b) < 2 || len(b) > 6 {
		return false
	}
	for _, c := range b[1:] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
