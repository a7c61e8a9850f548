// Package forwarded tells upstreams for whom a request is made, and believes what other proxies say
// about that only if they are listed. It has three parts. ResolveClient finds the client's address,
// and DropClaims removes what only a trusted peer may say. Both run for every exchange before its
// route is looked up. Policy writes the header fields. It is in the chain of every route that
// proxies, after rewrite and before the route's own header changes, and is therefore made to cost
// very little.
//
// X-Forwarded-*, X-Real-Ip, Forwarded and X-Request-Id are removed from requests of peers that are
// not trusted, in any case and with '_' for '-', whether the gateway knows the field or not. Then
// X-Forwarded-For is set to the peer, X-Forwarded-Proto to the client's scheme ("http" or "https")
// and X-Forwarded-Host to the Host that it asked for. From a trusted peer they all stay. The peer
// is appended to X-Forwarded-For and Forwarded, and of the others only missing ones are added.
// Forwarded (RFC 7239) is written only if the options ask for it, because services that read both
// fields could get contradictory information.
//
// It must not know which routes there are, nor whether an upstream will be reached.
package forwarded

import (
	"net/netip"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// Options of the policy.
type Options struct {
	Forwarded bool // write RFC 7239's Forwarded as well
}

// Policy writes the forwarded fields.
type Policy struct {
	standard bool
}

var _ exchange.RequestPolicy = (*Policy)(nil)

// New cannot fail at present. It returns an error because New of every policy does.
func New(o Options) (*Policy, error) { return &Policy{standard: o.Forwarded}, nil }

// claims are the known fields, and aliases of known ones, that only trusted peers may send.
// Serialisers drop aliases, but conditions and policies must not see them either.
const claims = 1<<head.Alias | 1<<head.Forwarded | 1<<head.XForwardedFor | 1<<head.XForwardedHost |
	1<<head.XForwardedProto |
	1<<head.XForwardedPort | 1<<head.XForwardedPrefix | 1<<head.XRealIP | 1<<head.XRequestID

var (
	forText   = []byte(head.Text[head.XForwardedFor])
	hostText  = []byte(head.Text[head.XForwardedHost])
	standard  = []byte(head.Text[head.Forwarded])
	protoHTTP = exchange.StaticField(head.Text[head.XForwardedProto], "http")
	protoTLS  = exchange.StaticField(head.Text[head.XForwardedProto], "https")
)

// DropClaims removes the claims of an untrusted peer, and the fields in more, from the request's
// fields. It runs after ResolveClient, which determines x.PeerTrusted, and before any code reads
// the fields: route conditions, balancers' keys and policies must not depend on what an untrusted
// client claims. Trailers need no such step for the claims that are always known: the codec drops
// these names there, whatever peer sends them. Loop only. Without claims it costs one pass over the
// IDs of unknown names.
func DropClaims(x *exchange.Exchange, more Names) {
	if x.PeerTrusted {
		return
	}
	fields := &x.Request.Fields
	if fields.HasAny(claims) || fields.Has(head.Other) && hasUnknownClaim(fields) {
		fields.RemoveFunc(isClaim)
	}
	more.Drop(fields)
}

func hasUnknownClaim(fields *head.List) bool {
	for i := range fields.Len() {
		if f := fields.At(i); f.ID == head.Other && isClaim(f) {
			return true
		}
	}
	return false
}

// OnRequest appends or sets the fields, after DropClaims. For the usual request, on a connection
// that keeps its peer's text, it appends three fields whose values already exist.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	fields := &x.Request.Fields
	peer := x.PeerText
	if peer == nil {
		peer = peerText(x)
	}
	forwardedFor := peer
	if x.PeerTrusted && fields.Has(head.XForwardedFor) {
		forwardedFor = appendTo(x, fields, head.XForwardedFor, peer)
		fields.RemoveID(head.XForwardedFor)
	}
	if len(forwardedFor) > 0 {
		f := fields.Extend(head.XForwardedFor)
		f.Name, f.Value = forText, forwardedFor
	}
	if !fields.Has(head.XForwardedProto) {
		if string(x.Request.Scheme) == "https" {
			fields.Append(protoTLS)
		} else {
			fields.Append(protoHTTP)
		}
	}
	if !fields.Has(head.XForwardedHost) && len(x.Request.Host) > 0 {
		f := fields.Extend(head.XForwardedHost)
		f.Name, f.Value = hostText, x.Request.Host
	}
	if p.standard {
		setStandard(x, fields, peer)
	}
	return exchange.Continue
}

// isClaim reports whether only trusted peers may send the field.
func isClaim(f *head.Field) bool {
	if f.ID != head.Other {
		return claims>>f.ID&1 != 0
	}
	return len(f.Name) > len(prefix) && f.Name[0]|0x20 == 'x' && hasPrefix(f.Name, prefix)
}

const prefix = "x-forwarded-"

// hasPrefix reports whether name begins with prefix, ignoring case and reading '_' as '-'. name
// must be at least as long as prefix.
func hasPrefix(name []byte, prefix string) bool {
	for i := range len(prefix) {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case c == '_':
			c = '-'
		}
		if c != prefix[i] {
			return false
		}
	}
	return true
}

// maxAddressText is the longest text of an address without a zone.
const maxAddressText = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")

// peerText is the peer's address as text; empty for one without an address, on a Unix socket.
func peerText(x *exchange.Exchange) []byte {
	return AppendPeer(x.Alloc(maxAddressText)[:0], x.Peer.Addr())
}

// AppendPeer appends an address as Exchange.PeerText holds it. The data plane calls it once per
// connection.
func AppendPeer(dst []byte, peer netip.Addr) []byte {
	if !peer.IsValid() {
		return dst
	}
	return bare(peer).AppendTo(dst)
}

// appendTo joins the values of all fields called id, and last if it is not empty, into one list.
func appendTo(x *exchange.Exchange, fields *head.List, id head.ID, last []byte) []byte {
	n := len(last)
	for i := range fields.Len() {
		if f := fields.At(i); f.ID == id {
			n += len(f.Value) + len(", ")
		}
	}
	list := x.Alloc(n)[:0]
	join := func(value []byte) {
		if len(value) == 0 {
			return
		}
		if len(list) > 0 {
			list = append(list, ", "...)
		}
		list = append(list, value...)
	}
	for i := range fields.Len() {
		if f := fields.At(i); f.ID == id {
			join(f.Value)
		}
	}
	join(last)
	return list
}

// setStandard appends the peer's element to Forwarded, or sets it as the only one.
func setStandard(x *exchange.Exchange, fields *head.List, peer []byte) {
	element := appendElement(x.Alloc(len(peer) + len(x.Request.Host) +
		len(`for="[]";host="";proto=https`))[:0], x, peer)
	if fields.Has(head.Forwarded) {
		element = appendTo(x, fields, head.Forwarded, element)
		fields.RemoveID(head.Forwarded)
	}
	f := fields.Extend(head.Forwarded)
	f.Name, f.Value = standard, element
}

// appendElement writes an element of Forwarded (RFC 7239, section 4). It leaves out a Host that
// would need escaping within quotes.
func appendElement(dst []byte, x *exchange.Exchange, peer []byte) []byte {
	switch {
	case len(peer) == 0:
		dst = append(dst, "for=unknown"...)
	case bare(x.Peer.Addr()).Is6():
		dst = append(append(append(dst, `for="[`...), peer...), `]"`...)
	default:
		dst = append(append(dst, "for="...), peer...)
	}
	if host := x.Request.Host; len(host) > 0 && quotable(host) {
		dst = append(append(append(dst, `;host="`...), host...), '"')
	}
	if string(x.Request.Scheme) == "https" {
		return append(dst, ";proto=https"...)
	}
	return append(dst, ";proto=http"...)
}

func quotable(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
