package cidr_test

import (
	"testing"

	"plimsoll/internal/cidr"
)

func TestNetworkOfAnAddress(t *testing.T) {
	for _, c := range []struct {
		text  string
		bits4 int
		bits6 int
		want  string // empty for an error
	}{
		{"192.0.2.7", 32, 64, "192.0.2.7/32"},
		{"::ffff:192.0.2.7", 32, 64, "192.0.2.7/32"},
		{"192.0.2.7/32", 32, 64, "192.0.2.7/32"},
		{"192.0.2.0", 24, 64, "192.0.2.0/24"},
		{"192.0.2.0/24", 24, 64, "192.0.2.0/24"},
		{"192.0.2.7", 24, 64, ""},
		{"192.0.2.0/23", 24, 64, ""},
		{"192.0.2.0/25", 24, 64, ""},
		{"2001:db8::", 32, 64, "2001:db8::/64"},
		{"2001:db8::/64", 32, 64, "2001:db8::/64"},
		{"2001:db8::1", 32, 64, ""},
		{"2001:db8::1", 32, 128, "2001:db8::1/128"},
		{"fe80::1%eth0", 32, 128, ""},
		{"acme", 32, 64, ""},
		{"", 32, 64, ""},
	} {
		got, err := cidr.Network(c.text, c.bits4, c.bits6)
		if err != nil && c.want != "" || err == nil && got.String() != c.want {
			t.Errorf("%q with %d and %d bits: %v, %v, want %q", c.text, c.bits4, c.bits6, got, err, c.want)
		}
	}
}
