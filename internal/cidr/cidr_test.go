package cidr_test

import (
	"net/netip"
	"strings"
	"testing"

	"plimsoll/internal/cidr"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.1":            "10.0.0.1/32",
		"10.0.0.0/8":          "10.0.0.0/8",
		"0.0.0.0/0":           "0.0.0.0/0",
		"::1":                 "::1/128",
		"2001:db8::/32":       "2001:db8::/32",
		"::/0":                "::/0",
		"::ffff:10.0.0.1":     "10.0.0.1/32",
		"::ffff:10.0.0.0/104": "10.0.0.0/8",
		"::ffff:0:0/96":       "0.0.0.0/0",
	} {
		got, err := cidr.Parse(text)
		if err != nil || got.String() != want {
			t.Errorf("Parse(%q) = %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, hint := range map[string]string{
		"":                "neither an address nor a CIDR prefix",
		"localhost":       "neither an address nor a CIDR prefix",
		"10.0.0.1:80":     "neither an address nor a CIDR prefix",
		"010.0.0.1":       "neither an address nor a CIDR prefix",
		"10.0.0.0/33":     "not a CIDR prefix",
		"10.0.0/8":        "not a CIDR prefix",
		"fe80::1%eth0":    "zone",
		"fe80::1%eth0/64": "not a CIDR prefix",
		"10.1.2.3/8":      "write 10.0.0.0/8",
		"2001:db8::1/32":  "write 2001:db8::/32",
	} {
		if got, err := cidr.Parse(text); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("Parse(%q) = %v, %v, want an error with %q", text, got, err, hint)
		}
	}
}

func TestAClientIsAnAddressOrA64(t *testing.T) {
	for given, want := range map[string]string{
		"192.0.2.7":          "192.0.2.7",
		"::ffff:192.0.2.7":   "192.0.2.7",
		"2001:db8:1:2:3::4":  "2001:db8:1:2::",
		"fe80::1:2:3:4%eth0": "fe80::",
	} {
		if got := cidr.Client(netip.MustParseAddr(given)); got != netip.MustParseAddr(want) {
			t.Errorf("%s counts as %s, want %s", given, got, want)
		}
	}
	if got := cidr.Client(netip.Addr{}); got.IsValid() {
		t.Errorf("no address counts as %s", got)
	}
}
