// Package split divides a route's requests among several upstreams by weight: for example most to
// the current version and a few to the new one. It runs after everything that may still answer by
// itself, and before mirror.
//
// Each request is assigned independently, or a client stays on its upstream by a hash of its
// address, a header or a cookie. The shares lie on a line, in the order of the upstreams' indices,
// and a key always falls on the same point of that line. So with two upstreams, raising the weight
// of the second moves clients only to it, and all its clients stay. A request without the header or
// cookie is assigned at random, since a fixed place for all of them would distort the weights.
//
// It must not know what an upstream is beyond its index.
package split

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"plimsoll/internal/exchange"
	"plimsoll/internal/hash"
)

// Share is an upstream's part of the requests.
type Share struct {
	Upstream int // index, at least 0
	Weight   int // relative to the others, 0 to 1000
}

// Options of the policy.
type Options struct {
	Shares []Share // at least one with a weight
	// Sticky is "client_address", "header:NAME" or "cookie:NAME". Default: each request is assigned
	// at random.
	Sticky string
	// Random returns uniform 64-bit numbers and is called by all loops concurrently. Default:
	// math/rand/v2's, a state for each thread.
	Random func() uint64
}

const maxWeight = 1000

// seed makes this choice independent of others by the same key, such as an upstream's consistent
// hash: otherwise the clients of one upstream would all be assigned to a few of its targets.
const seed = 0xca4a

// Policy chooses upstreams.
type Policy struct {
	ends   []share
	total  uint64
	sticky exchange.Key
	random func() uint64
}

// share is an upstream's part of the line. It ends where the next one begins.
type share struct {
	end      uint64
	upstream int
}

var _ exchange.RequestPolicy = (*Policy)(nil)

// New checks the weights and the key.
func New(o Options) (*Policy, error) {
	p := &Policy{random: o.Random}
	if p.random == nil {
		p.random = rand.Uint64
	}
	shares := slices.Clone(o.Shares)
	slices.SortStableFunc(shares, func(a, b Share) int { return a.Upstream - b.Upstream })
	for i, s := range shares {
		switch {
		case s.Upstream < 0:
			return nil, fmt.Errorf("a split names upstream %d, which cannot be an index", s.Upstream)
		case i > 0 && shares[i-1].Upstream == s.Upstream:
			return nil, errors.New("a split names an upstream twice; give it one weight")
		case s.Weight < 0 || s.Weight > maxWeight:
			return nil, fmt.Errorf("a weight of %d; give 0 to %d", s.Weight, maxWeight)
		case s.Weight > 0:
			p.total += uint64(s.Weight)
			p.ends = append(p.ends, share{p.total, s.Upstream})
		}
	}
	if p.total == 0 {
		return nil, errors.New("a split in which no upstream has a weight; give one at least 1")
	}
	var err error
	p.sticky, err = exchange.ParseKey(o.Sticky, exchange.AddressKey, exchange.HeaderKey, exchange.CookieKey)
	if err != nil {
		return nil, fmt.Errorf("sticky: %w", err)
	}
	return p, nil
}

// OnRequest sets x.Upstream.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	point := hash.Below(p.draw(x), p.total)
	for i := range p.ends {
		if point < p.ends[i].end {
			x.Upstream = p.ends[i].upstream
			break
		}
	}
	return exchange.Continue
}

// draw is the request's place on the line: its key's hash, or a random number.
func (p *Policy) draw(x *exchange.Exchange) uint64 {
	if key := p.sticky.Find(x); len(key) > 0 {
		return hash.Bytes(seed, key)
	}
	return p.random()
}
