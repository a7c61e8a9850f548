package forwarded

import (
	"net/netip"

	"github.com/gaissmai/bart"

	"plimsoll/internal/cidr"
)

// Trust is a listener's set of trusted proxies. It is immutable, so that all loops may use it at
// once.
type Trust struct {
	prefixes bart.Lite
}

// NewTrust reads addresses and CIDR prefixes. With an empty list no peer is trusted.
func NewTrust(list []string) (*Trust, error) {
	t := &Trust{}
	for _, text := range list {
		prefix, err := cidr.Parse(text)
		if err != nil {
			return nil, err
		}
		t.prefixes.Insert(prefix)
	}
	return t, nil
}

// Contains reports whether the address is that of a trusted proxy. IPv4-mapped IPv6 addresses count
// as IPv4. The data plane calls it once per connection, for Exchange.PeerTrusted. It does not
// allocate.
func (t *Trust) Contains(a netip.Addr) bool {
	return a.IsValid() && t.prefixes.Contains(bare(a))
}

// bare is an address in the form in which addresses are compared: unmapped, and without a zone.
func bare(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
