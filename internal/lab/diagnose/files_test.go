package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestFilesThatAreReadForEachRequestAreSeenWithoutAProfile(t *testing.T) {
	reads := []string{
		"all target.reads += 160000", "all target.read_bytes += 6400000",
		"all target.cpu.system_seconds += .5", "over target.files.opened./srv/partials = 9",
		"over target.files.opened./var/log = 1",
	}
	f := diagnosed(t, reads...).found("files-reopened")
	if f == nil || !f.says(`"/srv/partials"`) || !f.says("160 read calls") || f.Rank != Cost {
		t.Fatalf("found %+v", f)
	}
	// A folder's file is named if it is mostly one file, and not if there are several.
	for file, named := range map[string]bool{"9": true, "8": true, "5": false} {
		f = diagnosed(t, append(reads, "over target.files.opened./srv/partials/head = "+file)...).
			found("files-reopened")
		if is := f.says(`"/srv/partials/head" is opened again and again`); is != named {
			t.Errorf("of 9 files %s are the same: %s", file, f.Claim)
		}
	}
	for name, change := range map[string][2]string{
		"few reads":                  {"target.reads += 160000", "target.reads += 9000"},
		"large ones":                 {"read_bytes += 6400000", "read_bytes += 6400000000"},
		"the kernel does little":     {"system_seconds += .5", "system_seconds += .1"},
		"no files that come and go":  {"partials = 9", "partials = 2"},
		"a profile says where it is": {"over target.files.opened./var/log = 1", "at-line profile cpu nanoseconds 3600000000 main.work"},
	} {
		lines := strings.Split(strings.Replace(strings.Join(reads, "\n"), change[0], change[1], 1), "\n")
		if d := diagnosed(t, lines...); d.found("files-reopened") != nil {
			t.Errorf("%s: found %v", name, names(d))
		}
	}
}

// A request that parses a list of 90 kB has two or three read calls, and nearly all of its time is its own.
func TestALargeFileThatIsReadForEachRequestIsSeen(t *testing.T) {
	reads := []string{
		"all answers 2000", "before target.reads += 1000", "half target.reads += 1500",
		"at-line target.reads += 3000", "before target.read_bytes += 36000000",
		"half target.read_bytes += 45000000", "at-line target.read_bytes += 90000000",
		"over target.files.opened./srv/rules.json = 9", "over target.files.opened./srv = 9",
	}
	f := diagnosed(t, reads...).found("files-reopened")
	if f == nil || !f.says(`"/srv/rules.json" is opened again and again`) || !f.says("90.0 kB of them") ||
		f.Gain.Factor < 1.3 {
		t.Fatalf("found %+v", f)
	}
	uploads := newFixture(t, append(strings.Split(base, "\n"), reads...)...).open(t)
	for i := range uploads.Steps {
		all := &uploads.Steps[i].Totals
		all.BytesOut = 80000 * all.Ended[measure.OK]
	}
	if d := Run(uploads); d.found("files-reopened") != nil {
		t.Errorf("clients send them: found %v", names(d))
	}
	for name, line := range map[string]string{
		"they are what is asked for": "all answers 40000",
		"few were seen": "over target.files.opened./srv = 5\n" +
			"over target.files.opened./srv/rules.json = 5",
		"they are read by the clock":  "half target.read_bytes += 90000000",
		"it is little of the work":    "at-line target.cpu.seconds += 3\nhalf target.cpu.seconds += 1.5",
		"they are pages":              "over target.files.opened./srv/shop.sqlite = 1",
		"they come over a connection": "at-line target.outgoing.received_bytes.127.0.0.1:5432 += 80000000",
	} {
		lines := append(slices.Clone(reads), strings.Split(line, "\n")...)
		if d := diagnosed(t, lines...); d.found("files-reopened") != nil {
			t.Errorf("%s: found %v", name, names(d))
		}
	}
}

// Each second read finds the end of a file.
func TestFilesOfAFewKilobytesTakeTwoReadsEach(t *testing.T) {
	reads := []string{
		"half target.reads += 12500", "at-line target.reads += 25000", "all target.read_bytes += 150000000",
		"all target.cpu.system_seconds += .5", "over target.files.opened./srv/partials = 9",
	}
	if d := diagnosed(t, reads...); d.found("files-reopened") == nil {
		t.Errorf("found %v", names(d))
	}
	for name, line := range map[string]string{
		"copied by eight KiB":    "all target.read_bytes += 197000000",
		"few files were seen":    "over target.files.opened./srv/partials = 5",
		"they are read by clock": "half target.reads += 25000",
	} {
		if d := diagnosed(t, append(reads, line)...); d.found("files-reopened") != nil {
			t.Errorf("%s: found %v", name, names(d))
		}
	}
}

// A flight recording, or V8's profile, does not have what the kernel does for the service.
func TestFilesThatAreReadAreSeenBesideAProfileWithoutTheKernel(t *testing.T) {
	for runtime, found := range map[string]bool{
		measure.RuntimeJVM: true, measure.RuntimeNode: true, measure.RuntimeGo: false, measure.RuntimeC: false,
	} {
		d := ofRuntime(t, runtime, "", "all target.reads += 160000", "all target.read_bytes += 6400000",
			"all target.cpu.system_seconds += .5", "over target.files.opened./srv/partials = 9",
			"at-line profile cpu nanoseconds 3600000000 handle")
		if f := d.found("files-reopened"); (f != nil) != found {
			t.Errorf("%s: found %v", runtime, names(d))
		}
	}
}

// A service that parses what it reads spends little of its time in the kernel.
func TestManyReadsForEachRequestAreSeenThoughTheKernelDoesLittle(t *testing.T) {
	reads := []string{
		"all target.reads += 50000", "at-line target.reads += 100000",
		"all target.read_bytes += 6400000", "all target.cpu.system_seconds += .2",
		"over target.files.opened./srv/partials = 9",
	}
	f := diagnosed(t, reads...).found("files-reopened")
	if f == nil || !f.says(`"/srv/partials"`) || !f.says("100 read calls") || f.Confidence > .7 ||
		f.Gain.Factor < 1.5 {
		t.Fatalf("found %+v", f)
	}
	for name, change := range map[string][2]string{
		"not so many":            {"target.reads += 100000", "target.reads += 55000"},
		"pages of a database":    {"read_bytes += 6400000", "read_bytes += 380000000"},
		"the kernel does less":   {"system_seconds += .2", "system_seconds += .1"},
		"few files were seen":    {"partials = 9", "partials = 5"},
		"they are read by clock": {"target.reads += 50000", "target.reads += 100000"},
	} {
		lines := strings.Split(strings.Replace(strings.Join(reads, "\n"), change[0], change[1], 1), "\n")
		if d := diagnosed(t, lines...); d.found("files-reopened") != nil {
			t.Errorf("%s: found %v", name, names(d))
		}
	}
	// The small reads are answers to what is asked again and again.
	again := append(reads, "half target.outgoing.exchanges.127.0.0.1:5432 += 25000",
		"at-line target.outgoing.exchanges.127.0.0.1:5432 += 50000")
	if d := diagnosed(t, again...); d.found("files-reopened") != nil {
		t.Errorf("answers of a database: found %v", names(d))
	}
}
