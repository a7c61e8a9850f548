package diagnose

import (
	"slices"
	"strings"
	"testing"
)

func TestLinesThatAreWrittenOneByOneAreSeenWithoutAProfile(t *testing.T) {
	const file = "target.files.appended_bytes./srv/app.log"
	lines := []string{
		"all target.writes += 60000", "half target.writes += 30000", "all goodput 1000",
		"half goodput 500", "all target.written_bytes += 5400000", "half target.written_bytes += 2700000",
		"all " + file + " += 5000000", "half " + file + " += 2500000", "all target.cpu.seconds += 1.6",
		"all target.cpu.system_seconds += .25", "all host.cpu.busy_seconds += 1.8",
	}
	f := diagnosed(t, lines...).found("logging-hot")
	if f == nil || !f.says("60.0 write calls") || !f.says("/srv/app.log") || f.Rank != Cost ||
		f.Gain.Factor < 2 {
		t.Errorf("found %+v", f)
	}
	for name, c := range map[string][]string{
		"a few lines":                {"all target.writes += 9000", "half target.writes += 4500"},
		"no more of them at half":    {"half target.writes += 90000"},
		"large ones":                 {"all target.written_bytes += 54000000"},
		"a file that grows slowly":   {"all " + file + " += 400000"},
		"half of it goes elsewhere":  {"all " + file + " += 3000000"},
		"it asks a store many times": {asks("before", "20000"), asks("half", "10000"), asks("at-line", "20000")},
		"little work for the kernel": {"all target.cpu.system_seconds += .1"},
		"a profile without them":     {"at-line profile cpu nanoseconds 1000000000 main.show < runtime.main"},
	} {
		if f := diagnosed(t, slices.Concat(lines, c)...).found("logging-hot"); f != nil {
			t.Errorf("%s: found %+v", name, f)
		}
	}
	// Two workers have a file each. The one that grows most is named.
	more := append(lines, "all "+file+" += 3000000", "half "+file+" += 1500000")
	for _, stage := range []string{"all", "half"} {
		more = append(more, strings.ReplaceAll(stage+" "+file+" += 2000000", "app.log", "a.log"))
	}
	if f := diagnosed(t, more...).found("logging-hot"); f == nil ||
		!f.says("/srv/app.log and 1 more grew by 5.00 kB") {
		t.Errorf("two files: found %+v", f)
	}
}
