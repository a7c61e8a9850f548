package diagnose

import (
	"slices"
	"testing"

	"plimsoll/internal/lab/measure"
)

// A flight recording has the stacks of those that waited, where Go's profile has those of the holders.
func TestALockOfJavaIsKnownFromAFlightRecording(t *testing.T) {
	lines := append(slices.Clone(idleService), "at-line service 20ms", "over goodput 1010",
		"at-line profile mutex nanoseconds 40000000000 java.util.Collections$SynchronizedMap.get@"+
			"java/util/Collections.java < shop.Cache.rate@shop/Cache.java < shop.Main.handle@shop/Main.java")
	d := ofRuntime(t, measure.RuntimeJVM, "", lines...)
	f := d.found("lock-contention")
	if f == nil || !f.says("Requests wait for a lock, in shop.Cache.rate: 50.0 %") || names(d)[0] != f.Rule {
		t.Errorf("found %v: %+v", names(d), f)
	}
}
