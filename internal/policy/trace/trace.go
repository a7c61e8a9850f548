// Package trace forwards a W3C trace context, or begins one, so that everything behind the gateway
// can be seen to belong together. It runs early, next to requestid.
//
// The gateway creates no spans of its own, so a valid traceparent is forwarded unchanged: a span id
// that nobody records would cut the trace in two. If there is none, or if it is malformed or
// repeated, a new one is begun, not sampled, and tracestate is removed, because it belongs to a
// trace that is not known (W3C Trace Context, sections 3.2 and 4.3).
//
// It must not know of exporters or of the gateway's own telemetry.
package trace

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

var name = []byte("traceparent") // lower case, as section 3.2.1 asks of senders

// Options of the policy.
type Options struct {
	// Random returns uniform 64-bit numbers and is called by all loops concurrently. Default:
	// math/rand/v2's, a state for each thread.
	Random func() uint64
}

// Policy forwards trace contexts.
type Policy struct {
	random func() uint64
}

var _ exchange.RequestPolicy = (*Policy)(nil)

// New cannot fail at present. It returns an error because New of every policy does.
func New(o Options) (*Policy, error) {
	p := &Policy{random: o.Random}
	if p.random == nil {
		p.random = rand.Uint64
	}
	return p, nil
}

// OnRequest leaves a valid context unchanged and replaces any other by a new one.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	fields := &x.Request.Fields
	if fields.Has(head.Traceparent) {
		if one(fields) && valid(fields.Value(head.Traceparent)) {
			return exchange.Continue
		}
		fields.RemoveID(head.Traceparent)
	}
	fields.RemoveID(head.Tracestate)

	f := fields.Extend(head.Traceparent)
	f.Name, f.Value = name, p.begin(x)
	return exchange.Continue
}

// The positions of the parts of a traceparent of version 00: "00-", 32 digits of trace id, "-", 16
// of parent id, "-", 2 of flags.
const (
	traceAt  = 3
	parentAt = traceAt + 32 + 1
	flagsAt  = parentAt + 16 + 1
	length   = flagsAt + 2
)

// begin makes a traceparent with random ids. They are not zero, which is forbidden.
func (p *Policy) begin(x *exchange.Exchange) []byte {
	var bits [24]byte
	binary.LittleEndian.PutUint64(bits[:], p.random())
	binary.LittleEndian.PutUint64(bits[8:], p.random()|1)
	binary.LittleEndian.PutUint64(bits[16:], p.random()|1)
	v := x.Alloc(length)
	copy(v, "00-")
	hex.Encode(v[traceAt:], bits[:16])
	v[parentAt-1] = '-'
	hex.Encode(v[parentAt:], bits[16:])
	copy(v[flagsAt-1:], "-00")
	return v
}

// one reports whether there is exactly one traceparent: of several, different readers could use
// different ones.
func one(fields *head.List) bool {
	n := 0
	for i := range fields.Len() {
		if fields.At(i).ID == head.Traceparent {
			n++
		}
	}
	return n == 1
}

// valid checks a traceparent (section 3.2.2). Later versions may be longer, after a dash.
func valid(v []byte) bool {
	if len(v) < length || v[2] != '-' || v[parentAt-1] != '-' || v[flagsAt-1] != '-' {
		return false
	}
	version := v[:2]
	if !digits(version) || string(version) == "ff" {
		return false
	}
	if len(v) > length && (string(version) == "00" || v[length] != '-') {
		return false
	}
	trace, parent := v[traceAt:parentAt-1], v[parentAt:flagsAt-1]
	return digits(trace) && digits(parent) && digits(v[flagsAt:length]) && !zero(trace) && !zero(parent)
}

func digits(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != '0' {
			return false
		}
	}
	return true
}
