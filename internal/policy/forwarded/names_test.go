package forwarded_test

import (
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/forwarded"
)

func TestNamedClaimsGoInEverySpelling(t *testing.T) {
	names := forwarded.Names{}.With("X-SLA-Class").With("X_Left")
	set := trust(t, "10.0.0.0/8")
	var claims []string
	for _, name := range []string{"X-SLA-Class", "X-Left"} {
		for _, spelt := range []string{name, strings.ToLower(name), strings.ReplaceAll(name, "-", "_")} {
			claims = append(claims, spelt, "1")
		}
	}
	for peer, left := range map[string]int{"192.0.2.1": 2, "10.0.0.1": 8} {
		x := from(set, peer, append(claims, "X-SLA-Classes", "1", "SLA-Class", "1")...)
		forwarded.DropClaims(x, names)
		if n := x.Request.Fields.Len(); n != left {
			t.Errorf("of a request of %s %d fields are left, want %d", peer, n, left)
		}
	}
}

func TestNamedClaimsCostNoMemory(t *testing.T) {
	names := forwarded.Names{}.With("X-SLA-Class")
	x := &exchange.Exchange{Request: &head.Request{}}
	name, value := []byte("x-sla-class"), []byte("P0")
	run := func() {
		x.Request.Fields.Reset()
		x.Request.Fields.Add(name, value)
		names.Drop(&x.Request.Fields)
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 || x.Request.Fields.Len() != 0 {
		t.Errorf("%v allocations, %d fields are left", n, x.Request.Fields.Len())
	}
}
