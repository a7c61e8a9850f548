package probe

import (
	"runtime"
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestProcessorsAreSlowWhenTheSameWorkTakesFourTimesAsLong(t *testing.T) {
	const ms = 1_000_000
	type look struct{ at, took int64 }
	for name, c := range map[string]struct {
		looks []look
		want  int64
	}{
		"as quick as ever":   {[]look{{5 * ms, 16}, {10 * ms, 16}, {15 * ms, 31}, {20 * ms, 50}}, 0},
		"slow for a while":   {[]look{{5 * ms, 16}, {10 * ms, 200}, {15 * ms, 160}, {20 * ms, 64}}, 10 * ms},
		"an interrupt":       {[]look{{5 * ms, 16}, {10 * ms, 200}, {15 * ms, 16}, {20 * ms, 200}}, 0},
		"a look that waited": {[]look{{5 * ms, 16}, {10 * ms, 200}, {90 * ms, 200}}, int64(pulseMost)},
		"slow at first":      {[]look{{5 * ms, 200}, {10 * ms, 200}, {15 * ms, 16}, {20 * ms, 200}, {25 * ms, 200}}, 5 * ms},
		"too quick to see":   {[]look{{5 * ms, 0}, {10 * ms, 0}, {15 * ms, 3}}, 0},
	} {
		var p pulse
		var got int64
		for _, l := range c.looks {
			got += p.look(l.at, l.took)
		}
		if got != c.want {
			t.Errorf("%s: %d ns were slow, want %d", name, got, c.want)
		}
	}
}

func TestTheSpeedIsReadUntilItIsStopped(t *testing.T) {
	s := NewSpeed()
	for s.looks.Load() < 2 {
		runtime.Gosched()
	}
	values := map[string]float64{}
	if err := s.Read(values); err != nil {
		t.Fatal(err)
	}
	if slowed, is := values[measure.HostCPUSlowed]; !is || slowed < 0 {
		t.Errorf("it tells %v", values)
	}
	s.Stop()
	select {
	case <-s.done:
	default:
		t.Error("it goes on after it was stopped")
	}
}

func TestASpeedThatWasNotLookedAtIsNotTold(t *testing.T) {
	values := map[string]float64{}
	if err := (&Speed{}).Read(values); err != nil || len(values) > 0 {
		t.Errorf("it tells %v, %v", values, err)
	}
}
