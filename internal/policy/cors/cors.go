// Package cors tells browsers which other origins' scripts may use a route. It answers preflights
// itself, with 204, before anything counts them as requests, and sets the headers of all other
// responses, refusals of later policies included.
//
// Only the listed origins are ever named in an answer. Access-Control-* fields of a service behind
// the gateway are replaced. "Vary: Origin" is on every response, even to requests without an
// Origin, because a cache must not give one origin an answer that was meant for another. The origin
// "null", which sandboxed pages and local files share, is never allowed, not even by "*".
//
// It is not protection of the service: a client that is not a browser may send what it likes.
package cors

import (
	"bytes"
	"net/http"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// Policy answers preflights and marks responses. It holds the fields of all answers ready-made.
type Policy struct {
	origins     origins
	credentials bool
	preflight   []head.Field // fields of an allowed preflight's answer, besides the origin
	expose      []head.Field // fields of other responses, besides the origin
}

var (
	allowOrigin  = []byte("Access-Control-Allow-Origin")
	askedMethod  = []byte("Access-Control-Request-Method")
	ownPrefix    = []byte("access-control-")
	originName   = []byte(head.Text[head.Origin])
	anyOrigin    = exchange.StaticField(string(allowOrigin), "*")
	credentials  = exchange.StaticField("Access-Control-Allow-Credentials", "true")
	vary         = exchange.StaticField("Vary", "Origin")
	varyAnswered = exchange.StaticField("Vary", "Origin, Access-Control-Request-Method, "+
		"Access-Control-Request-Headers")
)

var (
	_ exchange.RequestPolicy  = (*Policy)(nil)
	_ exchange.ResponsePolicy = (*Policy)(nil)
)

// OnRequest answers a preflight: OPTIONS with an Origin and a requested method (Fetch standard,
// section 4.8). A preflight from an origin that is not allowed gets 204 too, but no permission.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	fields := &x.Request.Fields
	if !fields.Has(head.Origin) || string(x.Request.Method) != http.MethodOptions ||
		fields.Find(askedMethod) == nil {
		return exchange.Continue
	}
	x.Answer(http.StatusNoContent, exchange.Preflight, nil)
	answer := &x.Response.Fields
	if p.allow(x, answer) {
		for i := range p.preflight {
			answer.Append(p.preflight[i])
		}
	}
	answer.Append(varyAnswered)
	return exchange.Answered
}

// OnResponse replaces the service's fields about origins. The answers of OnRequest to preflights
// are already complete.
func (p *Policy) OnResponse(x *exchange.Exchange) exchange.PolicyVerdict {
	if x.Reason == exchange.Preflight {
		return exchange.Continue
	}
	fields := &x.Response.Fields
	for i := range fields.Len() {
		if isOwn(fields.At(i)) {
			fields.RemoveFunc(isOwn)
			break
		}
	}
	if p.allow(x, fields) {
		for i := range p.expose {
			fields.Append(p.expose[i])
		}
	}
	if !variesByOrigin(fields) {
		fields.Append(vary)
	}
	return exchange.Continue
}

// allow adds the fields that allow the request's origin, and reports whether the origin is allowed.
func (p *Policy) allow(x *exchange.Exchange, answer *head.List) bool {
	origin := one(&x.Request.Fields)
	switch {
	case !p.origins.allow(origin):
		return false
	case p.origins.any:
		answer.Append(anyOrigin)
	default:
		answer.Append(head.Field{Name: allowOrigin, Value: origin})
	}
	if p.credentials {
		answer.Append(credentials)
	}
	return true
}

// one is the request's only Origin; nil if there is none, or several, which no browser sends.
func one(fields *head.List) []byte {
	if !fields.Has(head.Origin) {
		return nil
	}
	var origin []byte
	for i := range fields.Len() {
		if f := fields.At(i); f.ID == head.Origin {
			if origin != nil {
				return nil
			}
			origin = f.Value
		}
	}
	return origin
}

// isOwn reports whether only this policy sets the field of a response.
func isOwn(f *head.Field) bool {
	return f.ID == head.Other && len(f.Name) > len(ownPrefix) &&
		head.EqualFold(f.Name[:len(ownPrefix)], ownPrefix)
}

// variesByOrigin reports whether a Vary field names Origin or "*".
func variesByOrigin(fields *head.List) bool {
	if !fields.Has(head.Vary) {
		return false
	}
	for i := range fields.Len() {
		f := fields.At(i)
		if f.ID != head.Vary {
			continue
		}
		for rest := f.Value; len(rest) > 0; {
			name := rest
			if end := bytes.IndexByte(rest, ','); end >= 0 {
				name, rest = rest[:end], rest[end+1:]
			} else {
				rest = nil
			}
			name = bytes.Trim(name, " \t")
			if string(name) == "*" || head.EqualFold(name, originName) {
				return true
			}
		}
	}
	return false
}
