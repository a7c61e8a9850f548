// Package mirror chooses the requests of which a second upstream gets a copy. The answers to copies
// are discarded. It runs after split and before rewrite. It only sets x.Mirror and x.MirrorBody:
// the data plane makes and forgets the copies.
//
// The data plane finds out whether a body is too long to be copied, and counts such requests: the
// length of some shows only while they arrive. Requests that ask for another protocol are not
// copied, because half a tunnel is useless.
//
// It must not know what becomes of a copy.
package mirror

import (
	"fmt"
	"math"
	"math/rand/v2"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// Options of the policy.
type Options struct {
	Upstream int     // index of the upstream that gets the copies, at least 0
	Share    float64 // of the requests that are copied, more than 0 and at most 1
	MaxBody  int64   // bytes of the longest body that is copied; 0 copies only requests without a body
	// Random returns uniform 64-bit numbers and is called by all loops concurrently. Default:
	// math/rand/v2's, a state for each thread.
	Random func() uint64
}

// Policy chooses requests.
type Policy struct {
	upstream int
	below    uint64 // a request is copied if its random number is at most this
	maxBody  int64
	random   func() uint64
}

var _ exchange.RequestPolicy = (*Policy)(nil)

// New checks the options.
func New(o Options) (*Policy, error) {
	p := &Policy{upstream: o.Upstream, maxBody: o.MaxBody, random: o.Random}
	if p.random == nil {
		p.random = rand.Uint64
	}
	switch {
	case o.Upstream < 0:
		return nil, fmt.Errorf("a mirror names upstream %d, which cannot be an index", o.Upstream)
	case !(o.Share > 0 && o.Share <= 1):
		return nil, fmt.Errorf("a mirror of %g of the requests; give a share over 0 %% and up to "+
			"100 %%, or leave it out", o.Share)
	case o.MaxBody < 0:
		return nil, fmt.Errorf("a mirror of bodies up to %d bytes; give 0 or more", o.MaxBody)
	case o.Share == 1:
		p.below = math.MaxUint64
	default:
		p.below = uint64(math.Ldexp(o.Share, 64)) - 1
	}
	return p, nil
}

// OnRequest sets x.Mirror and x.MirrorBody for a request that must be copied.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	chosen := p.below == math.MaxUint64 || p.random() <= p.below
	if chosen && !x.WebSocket && !x.Request.Fields.Has(head.Upgrade) {
		x.Mirror, x.MirrorBody = p.upstream, p.maxBody
	}
	return exchange.Continue
}
