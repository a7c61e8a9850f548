package cidr

import (
	"fmt"
	"net/netip"
)

// Network is the network of so many bits that text names: an address that is the network's first,
// or the network itself. The error says what to write instead.
func Network(text string, bits4, bits6 int) (netip.Prefix, error) {
	named, err := netip.ParsePrefix(text)
	address := named.Addr()
	if err != nil {
		address, err = netip.ParseAddr(text)
		if err != nil || address.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("%.40q is not an address; write one such as "+
				"192.0.2.7, or a network", text)
		}
		address = address.Unmap()
		named = netip.PrefixFrom(address, address.BitLen())
	}
	bits := bits6
	if address.Is4() {
		bits = bits4
	}
	network := netip.PrefixFrom(address, bits).Masked()
	if named.Addr() != network.Addr() || named.Bits() != bits && !named.IsSingleIP() {
		return network, fmt.Errorf("%s is not one of the networks of %d bits that count; write %s",
			named, bits, network)
	}
	return network, nil
}
