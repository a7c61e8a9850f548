package diagnose

import (
	"slices"
	"testing"

	"plimsoll/internal/lab/measure"
)

// reading is a service that reads 120 KB from a PostgreSQL for each request, of which its client
// gets 2 KB.
var reading = []string{
	"all answers 2000",
	"before target.outgoing.received_bytes.127.0.0.1:5432 += 48000000",
	"half target.outgoing.received_bytes.127.0.0.1:5432 += 60000000",
	"at-line target.outgoing.received_bytes.127.0.0.1:5432 += 120000000",
	"before " + postgres + " += .1", "half " + postgres + " += .12",
	"at-line " + postgres + " += .25", "over " + postgres + " += .25",
}

func TestFarMoreReadFromAStoreThanGivenIsToldOfTheStore(t *testing.T) {
	d := diagnosed(t, reading...)
	f := d.found("slow-dependency")
	if f == nil || !f.says("postgres at 127.0.0.1:5432 gives the service 120 kB") ||
		!f.says("LIMIT") || f.Gain.Factor < 1.5 {
		t.Errorf("found %v: %+v", names(d), f)
	}
	for why, lines := range map[string][]string{
		"clients get most of it": {"all answers 100000"},
		"it is little": {
			"at-line target.outgoing.received_bytes.127.0.0.1:5432 += 60000000",
			"half target.outgoing.received_bytes.127.0.0.1:5432 += 30000000",
		},
		"it has nothing to do with requests": {
			"half target.outgoing.received_bytes.127.0.0.1:5432 += 120000000",
		},
		"most of the work is another": {
			"all target.cpu.seconds += 4", "half target.cpu.seconds += 5",
			"at-line target.cpu.seconds += 10", "all host.cores = 12",
			"at-line host.cpu.busy_seconds += 11.9",
		},
	} {
		lines = append(slices.Clone(reading), lines...)
		if d := diagnosed(t, lines...); d.found("slow-dependency") != nil {
			t.Errorf("%s: found %+v", why, d.found("slow-dependency"))
		}
	}
}

// A thread that is full of what it reads is not the cause.
func TestAThreadThatIsBusyReadingFromAStoreComesAfterIt(t *testing.T) {
	lines := append(slices.Clone(reading),
		"all host.cores = 4", "all service 4ms", "at-line service 9ms", "over service 90ms",
		"all target.cpu.seconds += .35", "half target.cpu.seconds += .45",
		"at-line target.cpu.seconds += .93", "over target.cpu.seconds += .97",
		"over target.threads.full = 1", "over goodput 1010",
		"half target.threads.hottest_share = .45", "at-line target.threads.hottest_share = .9")
	d := ofRuntime(t, measure.RuntimeNode, "", lines...)
	if got := names(d); len(got) < 2 || got[0] != "slow-dependency" || got[1] != "single-threaded" {
		t.Errorf("found %v", got)
	}
}

// What asks a store again and again saves work in both, however many questions it has.
func TestAskingOnceIsAGainOfTheServiceAndOfTheStore(t *testing.T) {
	const to = " target.outgoing.exchanges.127.0.0.1:5432 += "
	lines := []string{
		"before" + to + "8000", "half" + to + "10000", "at-line" + to + "20000",
		"before " + postgres + " += .16", "half " + postgres + " += .2",
		"at-line " + postgres + " += .4", "over " + postgres + " += .4",
		"all target.cpu.seconds += .3", "half target.cpu.seconds += .6",
		"at-line target.cpu.seconds += 1.4", "over target.cpu.seconds += 1.4",
	}
	d := diagnosed(t, lines...)
	f := d.found("slow-dependency")
	if f == nil || !f.says("N+1") {
		t.Fatalf("found %v", names(d))
	}
	few := diagnosed(t, append(slices.Clone(lines), "all "+postgres+" += .001")...)
	g := few.found("slow-dependency")
	if g == nil || f.Gain.Factor < 1.2*g.Gain.Factor {
		t.Errorf("a gain of %.2f where the store works, and %+v where it does not", f.Gain.Factor, g)
	}
}

// A row costs Python more than Go.
func TestWhatAByteFromAStoreCostsIsTheLanguages(t *testing.T) {
	lines := append(slices.Clone(reading), "all target.cpu.seconds += 2", "half target.cpu.seconds += 2.5",
		"at-line target.cpu.seconds += 5", "all host.cores = 6", "at-line host.cpu.busy_seconds += 5.7")
	for runtime, found := range map[string]bool{measure.RuntimeCPython: true, measure.RuntimeGo: false} {
		d := ofRuntime(t, runtime, "", lines...)
		if f := d.found("slow-dependency"); (f != nil) != found {
			t.Errorf("%s: found %v", runtime, names(d))
		}
	}
}
