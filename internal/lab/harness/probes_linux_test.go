package harness

import (
	"net/netip"
	"runtime"
	"testing"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

func TestTheSpeedOfAMachineThatDoesNoneOfTheWorkIsNotMeasured(t *testing.T) {
	far := load.Target{Addresses: []reactor.Address{{IP: netip.MustParseAddrPort("192.0.2.1:80")}}}
	for _, here := range []bool{true, false} {
		sampler, _, shut := Probes(&far, 0, nil, false, here)
		_, told := sampler.Sample(0).Values[measure.HostCPUSlowed]
		for here && !told { // until the first look
			runtime.Gosched()
			_, told = sampler.Sample(0).Values[measure.HostCPUSlowed]
		}
		if told != here {
			t.Errorf("does work here: %v, measured: %v", here, told)
		}
		if err := shut(); err != nil {
			t.Error(err)
		}
	}
}
