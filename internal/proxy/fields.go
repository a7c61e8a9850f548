package proxy

import (
	"unsafe"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/policy/forwarded"
)

// Three kinds of fields are removed from a message: those of one connection (http1.HopByHop), those
// that Connection names, and those that the route's policies remove. From heads they are removed
// when these are read and written. This file removes them from trailers, from the Trailer field
// that announces those, and from interim responses.

// connectionOptions returns what the Connection fields of a head name, for http1.StripNamed. It is
// a copy that lives as long as the exchange: the memory of a response's head is used again before
// its trailers come.
func (f *flow) connectionOptions(l *head.List) []byte {
	if !http1.NamesFields(l) {
		return nil // this is usual: Connection says keep-alive or close
	}
	n := 0
	for i := range l.Len() {
		if field := l.At(i); field.ID == head.Connection {
			n += len(field.Value) + len(",")
		}
	}
	return http1.AppendOptions(f.Alloc(n)[:0], l)
}

// trimTrailer makes Trailer name only what is passed on.
func trimTrailer(l *head.List, options []byte, removed exchange.Names, claims forwarded.Names) {
	http1.TrimTrailer(l, func(name []byte) bool {
		return removed.Has(name) || claims.Has(name) || http1.Named(options, name)
	})
}

// requestTrailers returns the trailers that the upstream gets, or nil. The body must be complete.
func (f *flow) requestTrailers() *head.List {
	l := f.stream.trailers()
	if l != nil {
		http1.StripNamed(l, f.connectionOptions(&f.req.Fields))
		f.route.Chain.RequestRemoved.Remove(l)
		f.view.Claims.Drop(l) // even a trusted peer's: claims count only in the head
	}
	return l
}

// responseTrailers returns the trailers that the client gets, or nil. The body must be complete.
func (f *flow) responseTrailers() *head.List {
	if f.call != nil && f.call.web.down {
		return nil // they are in the body
	}
	return f.trailersBehind()
}

// trailersBehind returns the trailers behind the response's content, or nil: those of the upstream
// that are passed on, or the gateway's own instead of them.
func (f *flow) trailersBehind() *head.List {
	if f.call != nil && f.call.own != nil {
		return f.call.own
	}
	if f.up == nil {
		return f.sourceTrailers()
	}
	l := f.up.trailers()
	if l != nil {
		if f.call != nil {
			f.call.takeStatus(l)
		}
		http1.StripNamed(l, f.downOptions)
		f.route.Chain.ResponseRemoved.Remove(l)
		if f.Encoder != nil {
			staleTrailers.Remove(l)
		}
	}
	return l
}

// sourceTrailers returns the trailers of an answer whose content comes from a source, or nil. Those
// of one connection were removed when the trailers were received.
func (f *flow) sourceTrailers() *head.List {
	source, ok := f.Source.(exchange.TrailingSource)
	if !ok {
		return nil
	}
	l := source.Trailers()
	if l != nil {
		f.route.Chain.ResponseRemoved.Remove(l)
		if f.Encoder != nil {
			staleTrailers.Remove(l)
		}
	}
	return l
}

// trimRequest prepares the request's Trailer field for the upstream. It may be called again for
// another try.
func (f *flow) trimRequest() {
	if fields := &f.req.Fields; fields.Has(head.Trailer) {
		trimTrailer(fields, f.connectionOptions(fields), f.route.Chain.RequestRemoved, f.view.Claims)
	}
}

// trimResponse prepares the response's Trailer field for the client, and keeps the names in its
// Connection fields for the trailers.
func (f *flow) trimResponse() {
	fields := &f.res.Fields
	f.downOptions = nil
	if f.res.Framing == http1.Chunked || fields.Has(head.Trailer) {
		f.downOptions = f.connectionOptions(fields)
		trimTrailer(fields, f.downOptions, f.route.Chain.ResponseRemoved, nil)
	}
}

// interimDrop are the fields that are not passed on in interim responses, which have no trailers to
// announce.
const interimDrop = hopByHop | 1<<head.Trailer

// stripInterim removes the fields from an interim response that policies remove from the response.
func (f *flow) stripInterim() {
	f.route.Chain.ResponseRemoved.Remove(&f.res.Fields)
}

// appendVia adds the gateway to Via if the route asks for it, behind the entries of others (RFC
// 9110, section 7.6.3). came is the version of HTTP in which the message was received.
func (f *flow) appendVia(out []byte, came version) []byte {
	if f.route.Via == "" {
		return out
	}
	out = append(append(out, "Via: "...), viaVersions[came]...)
	out = append(out, f.route.Via...)
	return append(out, crlf...)
}

// passesOn reports whether the response is one of an upstream, perhaps a stored one.
func (f *flow) passesOn() bool { return !f.is(answered) || f.Relayed }

// viaValue returns the value of Via for the response.
func (f *flow) viaValue() []byte {
	return f.viaOf(f.answeredIn)
}

// viaOf returns the value of Via for a message that was received in the version came.
func (f *flow) viaOf(came version) []byte {
	v := viaVersions[came]
	return append(append(f.Alloc(len(v) + len(f.route.Via))[:0], v...), f.route.Via...)
}

var viaVersions = [...]string{http10: "1.0 ", http11: "1.1 ", http20: "2 ", http30: "3 "}

var altSvcName = []byte("alt-svc")

// mustSayAltSvc reports whether a response over TCP has to announce HTTP/3 to the client (RFC 7838,
// section 3). If the service has set the field itself, that stays.
func (f *flow) mustSayAltSvc(l *Listener) bool {
	return l.AltSvc != nil && f.Response.Fields.Find(altSvcName) == nil
}

var (
	earlyDataName  = []byte("Early-Data")
	earlyDataValue = []byte("1")
)

var (
	teLine        = []byte("TE: trailers\r\nConnection: TE\r\n")
	teUpgradeLine = []byte("TE: trailers\r\nConnection: TE, upgrade\r\n")
	upgradeLine   = []byte("Connection: upgrade\r\n")
)

// appendRequestConnection appends the fields that concern the connection to the upstream: the
// protocols to which the client would upgrade, and whether it takes trailers (RFC 9110, sections
// 7.8 and 10.1.4). An HTTP/1.0 client gets no chunks, so no trailers.
func (f *flow) appendRequestConnection(out []byte) []byte {
	trailers := f.version > http10 && http1.AcceptsTrailers(&f.req.Fields)
	switch {
	case f.req.Upgrade != nil && trailers:
		out = append(out, teUpgradeLine...)
	case f.req.Upgrade != nil:
		out = append(out, upgradeLine...)
	case trailers:
		return append(out, teLine...)
	default:
		return out
	}
	return http1.AppendUpgrade(out, f.req.Upgrade)
}

// rebaseFields makes the fields of a list that point into old point to the same places in new.
func rebaseFields(l *head.List, old, new []byte) {
	for i := range l.Len() {
		field := l.At(i)
		field.Name, field.Value = rebase(field.Name, old, new), rebase(field.Value, old, new)
		field.Line = rebase(field.Line, old, new)
	}
}

// rebase returns the part of new that is at the place that p has in old. If p is not a part of old,
// it returns p.
func rebase(p, old, new []byte) []byte {
	at := offset(p, old)
	if len(p) == 0 || at < 0 || at >= len(old) {
		return p
	}
	return new[at : at+len(p)]
}

// offset returns where p begins in buf. If p is not a part of buf, it is negative, or at or beyond
// the end of buf.
func offset(p, buf []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(p))) - uintptr(unsafe.Pointer(unsafe.SliceData(buf))))
}
