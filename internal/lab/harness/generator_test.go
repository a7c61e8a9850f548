package harness

import (
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/reactor"
)

func TestATargetOnThisMachineGetsHalfOfIt(t *testing.T) {
	all := runtime.GOMAXPROCS(0)
	for _, c := range []struct {
		asked, connections int
		near               bool
		want               int
	}{{0, 1000, false, all}, {0, 1000, true, max(all/2, 1)}, {3, 1000, true, 3}, {8, 5, false, 5}} {
		if got := Loops(c.asked, c.connections, c.near); got != c.want {
			t.Errorf("%+v: %d loops", c, got)
		}
	}
}

func TestLoopsHaveAProcessorBesideThem(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	release, err := Reserve(16, before+2)
	if err != nil {
		t.Fatal(err)
	}
	if got := runtime.GOMAXPROCS(0); got != before+3 {
		t.Errorf("%d processors for %d loops", got, before+2)
	}
	release()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("%d processors afterwards, %d before", got, before)
	}
}

func TestLoopbackAndSocketFilesAreThisMachine(t *testing.T) {
	for address, want := range map[reactor.Address]bool{
		{IP: netip.MustParseAddrPort("127.0.0.1:80")}: true,
		{IP: netip.MustParseAddrPort("[::1]:80")}:     true,
		{Path: "a.sock"}: true,
		{IP: netip.MustParseAddrPort("192.0.2.1:80")}: false,
	} {
		if got := Local(&load.Target{Addresses: []reactor.Address{address}}); got != want {
			t.Errorf("%v: %v", address, got)
		}
	}
}

func TestTooManyConnectionsForTheHardLimitSayHowManyThereMayBe(t *testing.T) {
	_, err := Reserve(1<<40, 1)
	if err == nil || !strings.Contains(err.Error(), "ulimit -Hn") ||
		!strings.Contains(err.Error(), "--connections") {
		t.Error(err)
	}
}
