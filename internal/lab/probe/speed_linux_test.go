package probe

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestProcessorsAreSlowWhenTheSameWorkTakesFourTimesAsLong(t *testing.T) {
	const ms = 1_000_000
	type look struct{ at, took int64 } // in milliseconds, in microseconds
	for name, c := range map[string]struct {
		looks []look
		want  int64
	}{
		"as quick as ever":   {[]look{{5, 16}, {10, 16}, {15, 31}, {20, 50}}, 0},
		"slow for a while":   {[]look{{5, 16}, {10, 200}, {15, 160}, {20, 64}}, 10 * ms},
		"an interrupt":       {[]look{{5, 16}, {10, 200}, {15, 16}, {20, 200}}, 0},
		"a look that waited": {[]look{{5, 16}, {10, 200}, {90, 200}}, int64(pulseMost)},
		"slow at first": {
			[]look{{5, 200}, {10, 200}, {15, 16}, {20, 200}, {25, 200}}, 5 * ms,
		},
		"too quick to see": {[]look{{5, 0}, {10, 0}, {15, 3}}, 0},
	} {
		p := pulse{times: slowTimes}
		var got int64
		for _, l := range c.looks {
			got += p.look(l.at*ms, l.took)
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

func TestAProcessorThatOnlyClocksDownIsNotSlow(t *testing.T) {
	for _, c := range []struct {
		low, high string
		want      float64
	}{
		{"800000\n", "4800000\n", 9},
		{"2000000\n", "3000000\n", slowTimes},
		{"0\n", "3000000\n", slowTimes},
		{"many\n", "3000000\n", slowTimes},
		{"", "", slowTimes},
	} {
		sys := t.TempDir()
		folder := filepath.Join(sys, "devices/system/cpu/cpu0/cpufreq")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"cpuinfo_min_freq": c.low, "cpuinfo_max_freq": c.high,
		} {
			if text == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got := slowFrom(sys)
		if got != c.want {
			t.Errorf("from %q to %q kHz: %v times", c.low, c.high, got)
		}
		p := pulse{times: got, usual: 16}
		for took, want := range map[int64]bool{int64(16*got) - 1: false, int64(16 * got): true} {
			p.slow = false
			if p.look(0, took); p.slow != want {
				t.Errorf("%v times: %d µs are slow: %v", got, took, p.slow)
			}
		}
	}
}
