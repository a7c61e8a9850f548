// Package compress encodes the content of responses with zstd, brotli or gzip, for clients that
// accept it (RFC 9110, section 12.5.3), and changes the heads accordingly.
//
// A response is encoded as it passes, piece by piece. Nothing waits for its end, and whenever the
// service pauses, everything that it has sent so far can be decoded, so event streams keep working.
// An encoder takes 0.5 to 1.5 MB. So encoders are reused, belong to their loop, and have a common
// limit (Encoders). If none is free, the content is sent as it is.
//
// Encoding costs ten times as much as passing a response on. When the loop falls behind, the policy
// encodes with less effort, and then not at all (effort.go).
//
// It must not know how content travels: it sets an exchange.Encoder, and the data plane calls that.
package compress

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// Options of the policy.
type Options struct {
	// "zstd", "br" and "gzip". If a client prefers several equally, the first is used. Empty means
	// all three.
	Encodings []string
	MinSize   int64    // bytes; content known to be shorter is not compressed
	Types     []string // media types, "text/*" or "+json" for many; empty for DefaultTypes
	Level     Level
	Fixed     bool // the level stays the same when the loop is busy
	Encoders  *Encoders
}

// Policy encodes the responses of a route.
type Policy struct {
	order    []coding
	minSize  int64
	types    types
	level    Level
	fixed    bool
	encoders *Encoders
	counts   []counts // by loop
}

var (
	_ exchange.ResponsePolicy = (*Policy)(nil)
	_ exchange.Heir           = (*Policy)(nil)
	_ exchange.Metered        = (*Policy)(nil)
	_ exchange.Shown          = (*Policy)(nil)
)

// New checks the options.
func New(o Options) (*Policy, error) {
	p := &Policy{minSize: max(1, o.MinSize), level: o.Level, fixed: o.Fixed, encoders: o.Encoders,
		counts: make([]counts, len(o.Encoders.loops))}
	if o.MinSize < 0 || o.Level >= levels {
		return nil, fmt.Errorf("min_size %d and level %d; give a size of 0 or more and one of the "+
			"levels", o.MinSize, o.Level)
	}
	if o.Encodings == nil {
		o.Encodings = codingNames[:]
	}
	for _, name := range o.Encodings {
		c := coding(slices.Index(codingNames[:], name))
		switch {
		case c < 0:
			return nil, fmt.Errorf("%q is not an encoding; give %s", name, strings.Join(codingNames[:], ", "))
		case slices.Contains(p.order, c):
			return nil, fmt.Errorf("encodings: %s is given twice; keep one", name)
		}
		p.order = append(p.order, c)
	}
	if o.Types == nil {
		o.Types = DefaultTypes
	}
	var err error
	p.types, err = newTypes(o.Types)
	return p, err
}

// OnResponse sets an encoder if compression helps and the client accepts it.
func (p *Policy) OnResponse(x *exchange.Exchange) exchange.PolicyVerdict {
	counts := &p.counts[x.Loop()]
	if x.Response.Status == http.StatusNotModified {
		matchNotModified(x)
	}
	why := p.unfit(x)
	if why != fit {
		counts.passed[why].Add(1)
		return exchange.Continue
	}
	addVary(&x.Response.Fields)
	chosen, ok := choose(&x.Request.Fields, p.order)
	if !ok {
		counts.passed[notAccepted].Add(1)
		return exchange.Continue
	}
	if string(x.Request.Method) == http.MethodHead { // the head that GET would have
		encodeHead(x, chosen)
		return exchange.Continue
	}
	effort := p.level
	if !p.fixed {
		effort, ok = p.encoders.effort(x.Loop(), p.level, x.Now(), x.Backlog())
		if !ok {
			counts.passed[busy].Add(1)
			x.Makeshift = true
			return exchange.Continue
		}
	}
	e := p.encoders.take(x.Loop(), chosen, effort, isEvents(&x.Response.Fields))
	if e == nil {
		counts.passed[noEncoder].Add(1)
		x.Makeshift = true
		return exchange.Continue
	}
	counts.encoded[chosen].Add(1)
	if effort < p.level {
		counts.lowered.Add(1)
	}
	e.counts = counts
	encodeHead(x, chosen)
	x.Encode(e)
	return exchange.Continue
}

// unfit returns why a response must not be encoded for any client; fit if it may be.
func (p *Policy) unfit(x *exchange.Exchange) reason {
	status := x.Response.Status
	switch {
	case x.WebSocket || string(x.Request.Method) == http.MethodConnect || x.Encoder != nil:
		return hasNone
	case status < 200 || status == http.StatusNoContent || status == http.StatusResetContent ||
		status == http.StatusPartialContent || status == http.StatusNotModified:
		return hasNone
	case isCall(&x.Request.Fields) || isCall(&x.Response.Fields):
		return wrongType // gRPC has its own compression, per message
	}
	switch saw := lookAt(&x.Response.Fields); {
	case saw&sawEncoding != 0:
		return encoded
	case saw&sawRange != 0:
		return hasNone
	}
	if !p.types.gain(x.Response.Fields.Value(head.ContentType)) {
		return wrongType
	}
	if length := contentLength(x); length != head.Unknown && length < p.minSize {
		return small
	}
	if forbidsTransform(&x.Response.Fields) || forbidsTransform(&x.Request.Fields) {
		return noTransform
	}
	return fit
}

// contentLength is the length of the content according to the head. For a response to HEAD, only
// the Content-Length field has it.
func contentLength(x *exchange.Exchange) int64 {
	if string(x.Request.Method) != http.MethodHead || x.Response.Length > 0 {
		return x.Response.Length
	}
	n, said := int64(0), x.Response.Fields.Value(head.ContentLength)
	if len(said) == 0 || len(said) > 18 {
		return head.Unknown
	}
	for _, c := range said {
		if c < '0' || c > '9' {
			return head.Unknown
		}
		n = n*10 + int64(c-'0')
	}
	return n
}
