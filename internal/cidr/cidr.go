// Package cidr reads the addresses and prefixes that a configuration lists, and says which
// addresses count as one client. It does not know what they are listed for.
package cidr

import (
	"fmt"
	"net/netip"
	"strings"
)

// Parse reads an address ("10.0.0.1", "::1"), which is a prefix of one, or a CIDR prefix
// ("10.0.0.0/8"). A prefix of IPv4-mapped IPv6 addresses becomes the IPv4 prefix that it means.
// Bits behind the prefix's length must be zero, because "10.1.2.3/8" is likelier a slip than a
// wish.
func Parse(text string) (netip.Prefix, error) {
	var prefix netip.Prefix
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return prefix, fmt.Errorf("%q is not a CIDR prefix; write one like 10.0.0.0/8 or "+
				"2001:db8::/32", text)
		}
		prefix = p
	} else {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return prefix, fmt.Errorf("%q is neither an address nor a CIDR prefix; write one "+
				"like 10.0.0.1, 10.0.0.0/8 or 2001:db8::/32", text)
		}
		if a.Zone() != "" {
			return prefix, fmt.Errorf("%q has a zone; write the address without it", text)
		}
		prefix = netip.PrefixFrom(a, a.BitLen())
	}
	if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
	}
	if masked := prefix.Masked(); masked != prefix {
		return netip.Prefix{}, fmt.Errorf("%q has bits behind its prefix length; write %s", text, masked)
	}
	return prefix, nil
}

// Client is what one client is taken to have: an IPv4 address, or the /64 of an IPv6 address, in
// which a host may choose its own. It is what limits by client address count by.
func Client(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}
