// Package requestid gives each exchange a name, which the upstream, the client and the logs all
// see. It runs early, before any policy that might use ${request_id}, and again in the response
// phase, so that refusals carry the name as well.
//
// A trusted peer's X-Request-Id is kept if it is valid: exactly one field of 1 to 128 visible ASCII
// characters. Anything else is replaced by 128 random bits in hexadecimal. The id of other clients
// is never kept: they could give different exchanges the same id, or write into somebody's log.
//
// It must not know who reads the name.
package requestid

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

const (
	maxKept = 128 // characters of a kept name
	made    = 32  // characters of a generated name
)

var name = []byte(head.Text[head.XRequestID])

// Options of the policy.
type Options struct {
	// Random returns uniform 64-bit numbers and is called by all loops concurrently. Default:
	// math/rand/v2's, which is ChaCha8 with a state for each thread: it has no lock and is
	// unpredictable.
	Random func() uint64
}

// Policy names exchanges.
type Policy struct {
	random func() uint64
}

var (
	_ exchange.RequestPolicy  = (*Policy)(nil)
	_ exchange.ResponsePolicy = (*Policy)(nil)
)

// New cannot fail at present. It returns an error because New of every policy does.
func New(o Options) (*Policy, error) {
	p := &Policy{random: o.Random}
	if p.random == nil {
		p.random = rand.Uint64
	}
	return p, nil
}

// OnRequest sets x.ID and the forwarded field.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	fields := &x.Request.Fields
	if fields.Has(head.XRequestID) {
		if x.PeerTrusted {
			if id := sane(fields); id != nil {
				x.ID = id
				return exchange.Continue
			}
		}
		fields.RemoveID(head.XRequestID)
	}
	var bits [made / 2]byte
	binary.LittleEndian.PutUint64(bits[:], p.random())
	binary.LittleEndian.PutUint64(bits[8:], p.random())
	x.ID = x.Alloc(made)
	hex.Encode(x.ID, bits[:])
	add(fields, x.ID)
	return exchange.Continue
}

// OnResponse sends the name to the client, replacing any that the upstream has sent.
func (p *Policy) OnResponse(x *exchange.Exchange) exchange.PolicyVerdict {
	if len(x.ID) == 0 {
		return exchange.Continue // it was answered before this policy ran
	}
	x.Response.Fields.RemoveID(head.XRequestID)
	add(&x.Response.Fields, x.ID)
	return exchange.Continue
}

func add(fields *head.List, id []byte) {
	f := fields.Extend(head.XRequestID)
	f.Name, f.Value = name, id
}

// sane is the value of the one X-Request-Id if it may be kept, or nil.
func sane(fields *head.List) []byte {
	var id []byte
	for i := range fields.Len() {
		f := fields.At(i)
		if f.ID != head.XRequestID {
			continue
		}
		if id != nil || len(f.Value) == 0 || len(f.Value) > maxKept {
			return nil
		}
		id = f.Value
	}
	for _, c := range id {
		if c <= ' ' || c >= 0x7f {
			return nil
		}
	}
	return id
}
