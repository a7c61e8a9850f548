// Package access allows or denies client addresses by lists of prefixes. It is the first policy of
// a chain. It uses the client's address, which forwarded.ResolveClient has found, and a client that
// is denied costs nothing more.
//
// The most specific prefix that contains the address decides, so that "allow 10.0.0.0/8, deny
// 10.1.0.0/16, allow 10.1.2.3" means what it seems to mean. An address that no prefix contains is
// allowed exactly when the allow list is empty. This also applies to a client without an address,
// on a Unix socket. IPv4-mapped IPv6 addresses count as IPv4.
//
// It must not know where the address came from.
package access

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gaissmai/bart"

	"plimsoll/internal/cidr"
	"plimsoll/internal/exchange"
)

// Options are lists of addresses and CIDR prefixes; at least one of them is not empty.
type Options struct {
	Allow []string
	Deny  []string
}

// Policy decides by a trie: one look-up of some nanoseconds, however many prefixes there are.
type Policy struct {
	prefixes bart.Table[bool] // whether the prefix is allowed
	others   bool             // whether addresses that no prefix contains are allowed
}

var _ exchange.RequestPolicy = (*Policy)(nil)

// New reads the lists. It is an error if a prefix is in both.
func New(o Options) (*Policy, error) {
	if len(o.Allow)+len(o.Deny) == 0 {
		return nil, errors.New("access allows and denies nothing; list addresses under allow or " +
			"deny, or leave it out")
	}
	p := &Policy{others: len(o.Allow) == 0}
	add := func(list []string, allowed bool) error {
		for _, text := range list {
			prefix, err := cidr.Parse(text)
			if err != nil {
				return err
			}
			if before, ok := p.prefixes.Get(prefix); ok && before != allowed {
				return fmt.Errorf("%s is allowed and denied; leave one out", prefix)
			}
			p.prefixes.Insert(prefix, allowed)
		}
		return nil
	}
	if err := add(o.Allow, true); err != nil {
		return nil, err
	}
	if err := add(o.Deny, false); err != nil {
		return nil, err
	}
	return p, nil
}

// OnRequest answers 403 to a client that is denied.
func (p *Policy) OnRequest(x *exchange.Exchange) exchange.PolicyVerdict {
	allowed, listed := p.prefixes.Lookup(x.Client.Unmap())
	if !listed {
		allowed = p.others
	}
	if !allowed {
		return x.Refuse(http.StatusForbidden, exchange.Denied)
	}
	return exchange.Continue
}
