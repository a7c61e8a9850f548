package compress

import (
	"sync/atomic"

	"plimsoll/internal/exchange"
)

// reason is why a response was passed on unchanged.
type reason uint8

const (
	fit         reason = iota // it may be encoded
	hasNone                   // it has no content, or a part of one, or is a tunnel
	encoded                   // the service has encoded it
	wrongType                 // its type does not compress well
	small                     // it is shorter than min_size
	noTransform               // the service or the client forbids it
	notAccepted               // the client accepts none of the encodings, or prefers none
	busy                      // the loop had too much to do
	noEncoder                 // no encoder is free within the memory limit
	reasonsCount
)

// reasonNames are the labels of metrics.
var reasonNames = [reasonsCount]string{
	hasNone: "status", encoded: "encoded", wrongType: "type", small: "small", noTransform: "no_transform",
	notAccepted: "not_accepted", busy: "busy", noEncoder: "no_encoder",
}

// counts are the counters of one loop. Only that loop adds to them.
type counts struct {
	encoded [codings]atomic.Uint64
	passed  [reasonsCount]atomic.Uint64
	lowered atomic.Uint64
	in, out atomic.Uint64 // bytes of content, before and after
	_       [64]byte
}

// Inherit continues the previous policy's counts.
func (p *Policy) Inherit(old any) {
	if o := old.(*Policy); len(o.counts) == len(p.counts) {
		p.counts = o.counts
	}
}

// Indexes of the series.
const (
	seriesEncoded = iota
	seriesPassed
	seriesLowered
	seriesIn
	seriesOut
)

// Series are the metrics of this kind of policy.
var Series = []exchange.Series{
	seriesEncoded: {Name: "compress_responses_total", Labels: []string{"encoding"},
		Help: "Responses whose content the gateway has compressed, by encoding."},
	seriesPassed: {Name: "compress_passed_total", Labels: []string{"reason"},
		Help: "Responses of a route with compress that were passed on as they were, by reason."},
	seriesLowered: {Name: "compress_lowered_total",
		Help: "Responses compressed at a lower level than configured, because the loop was busy."},
	seriesIn: {Name: "compress_bytes_in_total",
		Help: "Bytes of content that was compressed, before."},
	seriesOut: {Name: "compress_bytes_out_total",
		Help: "Bytes of content that was compressed, after."},
}

// Status is what the admin API shows of the policy.
type Status struct {
	Responses map[string]uint64 `json:"responses"` // compressed, by encoding
	Passed    map[string]uint64 `json:"passed"`    // unchanged, by reason, if any
	Lowered   uint64            `json:"lowered"`
	BytesIn   uint64            `json:"bytes_in"`
	BytesOut  uint64            `json:"bytes_out"`
}

// Status implements exchange.Shown.
func (p *Policy) Status() any {
	s := Status{Responses: map[string]uint64{}, Passed: map[string]uint64{}}
	for i := range p.counts {
		n := &p.counts[i]
		for _, c := range p.order {
			s.Responses[codingNames[c]] += n.encoded[c].Load()
		}
		for r := fit + 1; r < reasonsCount; r++ {
			if passed := n.passed[r].Load(); passed > 0 {
				s.Passed[reasonNames[r]] += passed
			}
		}
		s.Lowered += n.lowered.Load()
		s.BytesIn += n.in.Load()
		s.BytesOut += n.out.Load()
	}
	return s
}

// Metrics emits the values of Series.
func (p *Policy) Metrics(emit func(series int, value float64, labels ...string)) {
	s := p.Status().(Status)
	for _, c := range p.order {
		emit(seriesEncoded, float64(s.Responses[codingNames[c]]), codingNames[c])
	}
	for r := fit + 1; r < reasonsCount; r++ {
		emit(seriesPassed, float64(s.Passed[reasonNames[r]]), reasonNames[r])
	}
	emit(seriesLowered, float64(s.Lowered))
	emit(seriesIn, float64(s.BytesIn))
	emit(seriesOut, float64(s.BytesOut))
}
