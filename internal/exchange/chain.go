package exchange

import "plimsoll/internal/head"

// Chain is a route's policies, compiled when the config is loaded: only those that the route names,
// in the documented order.
type Chain struct {
	Request  []RequestPolicy
	Response []ResponsePolicy

	RequestRemoved  Names // from trailers too
	ResponseRemoved Names // from trailers and interim responses too

	// FetchRequest and FetchResponse are the indexes in Request and Response of the first policy
	// after the FetchingPolicy. Fetches run only through these policies. Exchanges that are
	// answered without a fetch do not reach them.
	FetchRequest, FetchResponse int
	Fetches                     bool // there is a FetchingPolicy

	standIn StandIn
	// standIn is asked if at least standFrom and at most standTo policies have seen the request
	standFrom, standTo int

	done      []doneEntry
	fetchDone int // index in done of the first policy that is told of the end of fetches
	all       []any
}

// doneEntry is a policy that is told of the end of exchanges whose request at least after policies
// have seen.
type doneEntry struct {
	policy DonePolicy
	after  int
}

// Append adds a policy to each phase it acts in. It panics if the policy acts in none, which no
// config can cause.
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

// setStandIn makes p, the last request policy so far, stand in for its own refusals and those of
// the shedding policies directly before it.
func (c *Chain) setStandIn(p StandIn) {
	c.standIn, c.standFrom, c.standTo = p, len(c.Request), len(c.Request)
	for c.standFrom > 1 {
		if _, sheds := c.Request[c.standFrom-2].(SheddingPolicy); !sheds {
			return
		}
		c.standFrom--
	}
}

// StandIn asks the chain's StandIn for an answer instead of a refusal, if the exchange may have
// one. asked is how many policies have seen its request.
func (c *Chain) StandIn(x *Exchange, asked int) {
	if c.standIn != nil && c.standFrom <= asked && asked <= c.standTo && x.MayDegrade() {
		c.standIn.StandIn(x)
	}
}

// Policies returns the policies in the chain's order.
func (c *Chain) Policies() []any { return c.all }

// Done tells the policies that an exchange is over. asked is how many policies have seen its
// request.
func (c *Chain) Done(x *Exchange, end End, asked int) {
	for i := range c.done {
		if d := &c.done[i]; d.after <= asked {
			d.policy.OnDone(x, end)
		}
	}
}

// DoneFetch is Done for a fetch.
func (c *Chain) DoneFetch(x *Exchange, end End, asked int) {
	for i := range c.done[c.fetchDone:] {
		if d := &c.done[c.fetchDone+i]; d.after <= asked {
			d.policy.OnDone(x, end)
		}
	}
}

// Names are names of header fields. Case does not matter.
type Names [][]byte

// Has reports whether name is one of n.
func (n Names) Has(name []byte) bool {
	for _, one := range n {
		if head.EqualFold(one, name) {
			return true
		}
	}
	return false
}

// Remove removes the fields with these names from l.
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
