package proxy

import (
	"net/netip"
	"testing"
)

func TestAClientIsAnIPv4AddressOrAnIPv6Slash64(t *testing.T) {
	q := &Quota{}
	q.Limit(0, 1)
	for _, c := range []struct {
		address string
		want    refusal
	}{
		{"192.0.2.1", admitted}, {"192.0.2.1", tooManyOfAddress}, {"192.0.2.2", admitted},
		{"2001:db8::1", admitted}, {"2001:db8::ffff:1", tooManyOfAddress}, {"2001:db8:0:1::1", admitted},
		{"fe80::1%eth0", admitted}, {"fe80::2%eth1", tooManyOfAddress},
	} {
		if got, _ := q.take(netip.MustParseAddr(c.address)); got != c.want {
			t.Errorf("%s: %d, want %d", c.address, got, c.want)
		}
	}
	if q.Open() != 5 {
		t.Errorf("%d connections are counted, want the 5 that were admitted", q.Open())
	}
	q.give(netip.MustParseAddr("2001:db8::1"), true)
	if got, _ := q.take(netip.MustParseAddr("2001:db8::ffff:1")); got != admitted {
		t.Error("a place that was given back is not there")
	}
}

func TestABoundThatIsSwitchedOnLaterCountsOnlyWhatComesLater(t *testing.T) {
	q, a := &Quota{}, netip.MustParseAddr("192.0.2.1")
	_, before := q.take(a)
	q.Limit(0, 1)
	_, after := q.take(a)
	q.give(a, before)
	q.give(a, after)
	if got, _ := q.take(a); got != admitted || len(q.count) != 1 {
		t.Errorf("got %d with %d addresses counted", got, len(q.count))
	}
}
