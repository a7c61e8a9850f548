package proxy

import (
	"unsafe"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/policy/forwarded"
)

// Three kinds of fields go from a message whatever its route: those of one connection
// (http1.HopByHop), those that Connection names, and those that the route's policies remove. The
// head loses them where it is read and written; this file sees to the same names in trailers, in
// the Trailer field that announces those, and in interim responses.

// connectionOptions is what the Connection fields of a head say, for http1.StripNamed. It is a copy
// that lives as long as the exchange: the memory of a response's head is used again before its
// trailers come.
func (f *flow) connectionOptions(l *head.List) []byte {
	if !http1.NamesFields(l) {
		return nil // as nearly always: Connection says keep-alive or close
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

// requestTrailers is the trailers that the upstream gets, or nil. The body is complete.
func (f *flow) requestTrailers() *head.List {
	l := f.stream.trailers()
	if l != nil {
		http1.StripNamed(l, f.connectionOptions(&f.req.Fields))
		f.route.Chain.RequestRemoved.Remove(l)
		f.view.Claims.Drop(l) // a trusted peer's too: they count in the head alone
	}
	return l
}

// responseTrailers is the trailers that the client gets, or nil. The body is complete.
func (f *flow) responseTrailers() *head.List {
	if f.call != nil && f.call.web.down {
		return nil // they are in the body
	}
	return f.trailersBehind()
}

// trailersBehind is what stands behind the response's content: the upstream's trailers, as far as
// they are passed on, or the gateway's own in their place, or nil.
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

// sourceTrailers is the trailers of an answer whose content comes from a source, or nil. Those of one
// connection went when they came.
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

// trimRequest readies the request's Trailer field for the upstream. It may be called again for
// another try.
func (f *flow) trimRequest() {
	if fields := &f.req.Fields; fields.Has(head.Trailer) {
		trimTrailer(fields, f.connectionOptions(fields), f.route.Chain.RequestRemoved, f.view.Claims)
	}
}

// trimResponse readies the response's Trailer field for the client, and keeps what its trailers
// will be judged by.
func (f *flow) trimResponse() {
	fields := &f.res.Fields
	f.downOptions = nil
	if f.res.Framing == http1.Chunked || fields.Has(head.Trailer) {
		f.downOptions = f.connectionOptions(fields)
		trimTrailer(fields, f.downOptions, f.route.Chain.ResponseRemoved, nil)
	}
}

// interimDrop are the fields that no interim response passes on: it has no trailers to announce.
const interimDrop = hopByHop | 1<<head.Trailer

// stripInterim takes out of an interim response what would go from the response itself.
func (f *flow) stripInterim() {
	f.route.Chain.ResponseRemoved.Remove(&f.res.Fields)
}

// appendVia adds the gateway to Via, where the route asks for it, behind what others have said (RFC
// 9110, section 7.6.3). came is the version in which the message came.
func (f *flow) appendVia(out []byte, came version) []byte {
	if f.route.Via == "" {
		return out
	}
	out = append(append(out, "Via: "...), viaVersions[came]...)
	out = append(out, f.route.Via...)
	return append(out, crlf...)
}

// passesOn says that the response is an upstream's, be it a stored one.
func (f *flow) passesOn() bool { return !f.is(answered) || f.Relayed }

// viaValue is the value of Via for a response that came in HTTP/1.
func (f *flow) viaValue() []byte {
	return f.viaOf(f.answeredIn)
}

// viaOf is the value of Via for a message that came in a version.
func (f *flow) viaOf(came version) []byte {
	v := viaVersions[came]
	return append(append(f.Alloc(len(v) + len(f.route.Via))[:0], v...), f.route.Via...)
}

var viaVersions = [...]string{http10: "1.0 ", http11: "1.1 ", http20: "2 ", http30: "3 "}

var altSvcName = []byte("alt-svc")

// mustSayAltSvc says whether a response over TCP tells the client of HTTP/3 (RFC 7838, section 3). A
// service that says something itself knows better.
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

// appendRequestConnection says what concerns the connection to the upstream: which protocols the
// client would upgrade to, and that it takes trailers (RFC 9110, sections 7.8 and 10.1.4). An
// HTTP/1.0 client gets no chunks, so no trailers.
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

// rebaseFields moves what is in old of a list's fields to the same places in new.
func rebaseFields(l *head.List, old, new []byte) {
	for i := range l.Len() {
		field := l.At(i)
		field.Name, field.Value = rebase(field.Name, old, new), rebase(field.Value, old, new)
		field.Line = rebase(field.Line, old, new)
	}
}

// rebase is the part of new that p was of old; what was not part of old stays.
func rebase(p, old, new []byte) []byte {
	at := offset(p, old)
	if len(p) == 0 || at < 0 || at >= len(old) {
		return p
	}
	return new[at : at+len(p)]
}

// offset is where p begins in buf. Of a p that is not a part of buf it is below 0, or beyond buf's end.
func offset(p, buf []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(p))) - uintptr(unsafe.Pointer(unsafe.SliceData(buf))))
}
