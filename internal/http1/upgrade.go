package http1

import "plimsoll/internal/head"

// NextProtocol splits the first protocol that may be upgraded to off a value of Upgrade (RFC 9110,
// section 7.8). It is nil when there is none any more.
//
// h2c is passed over, as if it had not been asked for, which the RFC allows: behind a tunnel of it
// nobody would check or route what is asked for (CVE-2026-88008).
func NextProtocol(value []byte) (protocol, rest []byte) {
	for len(value) > 0 {
		protocol, value = nextToken(value)
		if len(protocol) > 0 && !isH2C(protocol) {
			return protocol, value
		}
	}
	return nil, nil
}

func isH2C(protocol []byte) bool {
	return head.FoldsTo(protocol, "h2c") || head.FoldsTo(protocol, "h2")
}

// AppendUpgrade appends the Upgrade field of a request, whose value is asked, without what
// NextProtocol passes over.
func AppendUpgrade(dst, asked []byte) []byte {
	dst = append(dst, "Upgrade: "...)
	protocol, rest := NextProtocol(asked)
	for protocol != nil {
		dst = append(dst, protocol...)
		if protocol, rest = NextProtocol(rest); protocol != nil {
			dst = append(dst, ", "...)
		}
	}
	return append(dst, "\r\n"...)
}

// maxProtocols bounds the protocols of a 101 that are looked up one by one. Nobody switches to more
// than two.
const maxProtocols = 8

// Switches says whether a 101 with the Upgrade value answered may follow a request with the value
// asked: it names at least one protocol, and none that was not asked for (RFC 9110, section 7.8).
// Names and versions are compared without regard to case.
func Switches(asked, answered []byte) bool {
	named := 0
	for len(answered) > 0 {
		var protocol []byte
		if protocol, answered = nextToken(answered); len(protocol) == 0 {
			continue
		}
		if named++; named > maxProtocols || !isAsked(asked, protocol) {
			return false
		}
	}
	return named > 0
}

func isAsked(asked, protocol []byte) bool {
	one, rest := NextProtocol(asked)
	for one != nil && !head.EqualFold(one, protocol) {
		one, rest = NextProtocol(rest)
	}
	return one != nil
}

// AcceptsTrailers says whether a TE field has the member "trailers" (RFC 9110, section 10.1.4).
func AcceptsTrailers(l *head.List) bool {
	if !l.Has(head.TE) {
		return false
	}
	for i := range l.Len() {
		f := l.At(i)
		if f.ID != head.TE {
			continue
		}
		for value := f.Value; len(value) > 0; {
			var member []byte
			if member, value = nextToken(value); head.FoldsTo(member, "trailers") {
				return true
			}
		}
	}
	return false
}
