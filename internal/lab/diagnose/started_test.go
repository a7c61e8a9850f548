package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestProgramsThatAreStartedForEachRequestAreSeenWithoutAProfile(t *testing.T) {
	lines := []string{
		"before target.cpu.ended_seconds += .24", "half target.cpu.ended_seconds += .3",
		"at-line target.cpu.ended_seconds += .6", "over target.cpu.ended_seconds += .8",
	}
	d := diagnosed(t, lines...)
	f := d.found("cpu-hot-function")
	if f == nil || f.Rank != Cost || f.Gain.Factor < 1.2 || !f.says("take 40.0 % of") ||
		!f.says("execve") {
		t.Fatalf("found %+v", f)
	}
	named := append(slices.Clone(lines), "over target.processes.ended.openssl = 9",
		"over target.processes.ended.python = 2")
	if f := diagnosed(t, named...).found("cpu-hot-function"); !f.says("(such as openssl)") {
		t.Errorf("the programs were seen: found %+v", f)
	}
	// No profile of the service contains them.
	other := "at-line profile cpu nanoseconds 3600000000 main.work < main.handle < " +
		"net/http.(*conn).serve"
	if d = diagnosed(t, append(lines, other)...); d.found("cpu-hot-function") == nil {
		t.Errorf("with a profile: found %v", names(d))
	}
	for name, change := range map[string][2]string{
		"few": {
			"at-line target.cpu.ended_seconds += .6", "at-line target.cpu.ended_seconds += .3",
		},
		"what is started by the clock": {
			"half target.cpu.ended_seconds += .3", "half target.cpu.ended_seconds += .6",
		},
	} {
		changed := strings.Split(
			strings.Replace(strings.Join(lines, "\n"), change[0], change[1], 1), "\n")
		if d := diagnosed(t, changed...); d.found("cpu-hot-function") != nil {
			t.Errorf("%s: found %v", name, names(d))
		}
	}
	// A program that runs for long does what the request is there for.
	d = diagnosed(t, "all target.cpu.seconds += 90", "half target.cpu.ended_seconds += 30",
		"at-line target.cpu.ended_seconds += 60", "over target.cpu.ended_seconds += 80")
	if long := d.found("cpu-hot-function"); long == nil || long.Gain.Factor >= f.Gain.Factor {
		t.Errorf("programs that run for long: found %+v", long)
	}
	// Without a profile the rule could not see what else it looks for.
	d = diagnosed(t, "all target.cpu.ended_seconds += .01")
	for _, n := range d.NotJudged {
		if n.Rule == "cpu-hot-function" && n.Missing == "profile:cpu" {
			return
		}
	}
	t.Errorf("it was judged: %+v", d.NotJudged)
}

// That threads stand where they wait for the programs is what comes of starting them.
func TestProgramsThatAreStartedComeBeforeThePlacesInWhichTheyAreAwaited(t *testing.T) {
	lines := slices.Concat(standingIn("svc;other;wait4;do_wait", "1", "4", "9"),
		[]string{"at-line service 20ms", "all target.outgoing.established = 0"}, stuck,
		[]string{"all goodput 200", "half goodput 250", "at-line goodput 500", "over goodput 505",
			"all service 10ms", "at-line service 20ms", "over service 100ms",
			"all target.cpu.seconds += .25", "half target.cpu.seconds += .3",
			"at-line target.cpu.seconds += .6", "over target.cpu.seconds += .6",
			"all host.cpu.busy_seconds += .8"})
	for share, want := range map[float64][]string{
		.7: {"cpu-hot-function"}, .45: {"concurrency-limited", "cpu-hot-function"},
	} {
		d := runsOn(t, measure.RuntimeCPython, append(slices.Clone(lines),
			fmt.Sprint("half target.cpu.ended_seconds += ", .3*share),
			fmt.Sprint("at-line target.cpu.ended_seconds += ", .6*share),
			fmt.Sprint("over target.cpu.ended_seconds += ", .6*share))...)
		if got := names(d); !slices.Equal(got, want) {
			t.Errorf("%v: found %v, held back %+v", share, got, d.HeldBack)
		}
		// What is spared is a gain beside that of the room that there is.
		if f := d.found("cpu-hot-function"); share > .5 && (f.Rank != Binding || f.Gain.Factor < 4) {
			t.Errorf("a gain of %+v", f.Gain)
		}
	}
}
