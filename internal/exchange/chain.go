package exchange

import "plimsoll/internal/head"

// Chain is a route's policies, compiled when the config is loaded: only those that the route names,
// in the documented order.
type Chain struct {
	Request  []RequestPolicy
	Response []ResponsePolicy

	RequestRemoved  Names // from trailers too
	ResponseRemoved Names // from trailers and interim responses too

	// FetchRequest and FetchResponse are where the policies behind the one that fetches begin: fetches
	// run through these alone. What is answered without a fetch does not come to them.
	FetchRequest, FetchResponse int
	Fetches                     bool // there is such a policy

	standIn StandIn
	// standIn is asked for exchanges whose request so many policies have seen, at least and at most
	standFrom, standTo int

	done      []doneEntry
	fetchDone int // where those begin that hear of fetches
	all       []any
}

// doneEntry is a policy that hears of the end of exchanges of which this many policies saw the
// request.
type doneEntry struct {
	policy DonePolicy
	after  int
}

// Append adds a policy to each phase it acts in. It panics when it acts in none, which no config
// can cause.
func (c *Chain) Append(policy any) {
	acts := false
	if p, ok := policy.(RequestPolicy); ok {
		c.Request, acts = append(c.Request, p), true
	}
	if p, ok := policy.(ResponsePolicy); ok {
		c.Response, acts = append(c.Response, p), true
	}
	if p, ok := policy.(DonePolicy); ok {
		c.done, acts = append(c.done, doneEntry{p, len(c.Request)}), true
	}
	if p, ok := policy.(RequestRemover); ok {
		c.RequestRemoved = c.RequestRemoved.with(p.RequestRemoved())
	}
	if p, ok := policy.(ResponseRemover); ok {
		c.ResponseRemoved = c.ResponseRemoved.with(p.ResponseRemoved())
	}
	if !acts {
		panic("exchange: a policy that acts in no phase")
	}
	if _, ok := policy.(FetchingPolicy); ok {
		c.FetchRequest, c.FetchResponse, c.Fetches = len(c.Request), len(c.Response), true
		c.fetchDone = len(c.done)
	}
	if p, ok := policy.(StandIn); ok {
		c.setStandIn(p)
	}
	c.all = append(c.all, policy)
}

// setStandIn takes the last request policy as the one that stands in for refusals of its own, and of
// the shedding policies directly in front of it.
func (c *Chain) setStandIn(p StandIn) {
	c.standIn, c.standFrom, c.standTo = p, len(c.Request), len(c.Request)
	for c.standFrom > 1 {
		if _, sheds := c.Request[c.standFrom-2].(SheddingPolicy); !sheds {
			return
		}
		c.standFrom--
	}
}

// StandIn asks for another answer in the place of a refusal, where the exchange is one that may have
// it and so many policies have seen its request.
func (c *Chain) StandIn(x *Exchange, asked int) {
	if c.standIn != nil && c.standFrom <= asked && asked <= c.standTo && x.MayDegrade() {
		c.standIn.StandIn(x)
	}
}

// Policies are those of the chain, in its order.
func (c *Chain) Policies() []any { return c.all }

// Done tells the policies that an exchange is over of whose request so many policies were asked.
func (c *Chain) Done(x *Exchange, end End, asked int) {
	for i := range c.done {
		if d := &c.done[i]; d.after <= asked {
			d.policy.OnDone(x, end)
		}
	}
}

// DoneFetch is Done for an exchange that is a fetch.
func (c *Chain) DoneFetch(x *Exchange, end End, asked int) {
	for i := range c.done[c.fetchDone:] {
		if d := &c.done[c.fetchDone+i]; d.after <= asked {
			d.policy.OnDone(x, end)
		}
	}
}

// Names are names of header fields, in any case.
type Names [][]byte

// Has says whether name is one of them.
func (n Names) Has(name []byte) bool {
	for _, one := range n {
		if head.EqualFold(one, name) {
			return true
		}
	}
	return false
}

// Remove takes the fields of these names out of l.
func (n Names) Remove(l *head.List) {
	for _, name := range n {
		l.Remove(name)
	}
}

func (n Names) with(more []string) Names {
	for _, name := range more {
		n = append(n, []byte(name))
	}
	return n
}
