package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// stripped is the profile of a server that compresses with a library without symbols.
var stripped = []string{
	"at-line profile cpu nanoseconds 4500000000 [libz.so.1.2.13] < [unknown]",
	"half profile cpu nanoseconds 1500000000 [libz.so.1.2.13] < [unknown]",
	"at-line profile cpu nanoseconds 500000000 [nginx]",
	"at-line profile cpu nanoseconds 300000000 tcp_sendmsg < vfs_writev",
}

// compressing is the diagnosis of such a server whose answers have so many bytes. A request costs
// 1.5 ms, of which the library has 84.9 %.
func compressing(t *testing.T, server string, bytes uint64) *Diagnosis {
	t.Helper()
	f := newFixture(t, slices.Concat(strings.Split(base, "\n"), stripped)...)
	totals := &f.steps["at-line"].Totals
	totals.BytesIn = bytes * totals.Ended[measure.OK]
	run := f.open(t)
	run.Manifest.Machine.TargetRuntime, run.Manifest.Machine.TargetServer = measure.RuntimeC, server
	return Run(run)
}

func TestALibraryWithoutSymbolsIsKnownByItsName(t *testing.T) {
	d := compressing(t, "nginx", 5000)
	f := d.found("cpu-hot-function")
	if f == nil || !f.says("libz.so.1.2.13 takes 84.9 % of the processor time, for answers and "+
		"data that are compressed each time") || !f.says("gzip_comp_level 4") || f.says("pprof -list") {
		t.Fatalf("found %+v", f)
	}
	if i := slices.IndexFunc(f.Evidence, func(fact Fact) bool {
		return strings.HasPrefix(fact.Value, "compression;")
	}); i < 0 || f.Gain.Factor > 6 {
		t.Errorf("evidence %+v, gain %+v", f.Evidence, f.Gain)
	}
	if len(d.First.Where) == 0 || d.First.Where[0].Function != "[libz.so.1.2.13]" ||
		d.First.Where[0].AtHalf == 0 || d.First.Where[0].At() != "compression" {
		t.Errorf("it is not where the time goes: %+v", d.First)
	}
	// The function of the service that calls it is more precise.
	d = diagnosed(t,
		"at-line profile cpu nanoseconds 4500000000 [libz.so.1] < app.answer < app.main")
	if f = d.found("cpu-hot-function"); f == nil || !f.says("app.answer takes 100 %") {
		t.Errorf("found %+v", f)
	}
}

// A proxy only picks an answer by what it matches; other programs may be there to match.
func TestAProxyThatTriesManyExpressionsIsTold(t *testing.T) {
	for server, want := range map[string]bool{"nginx": true, "haproxy": true, "apache": true, "": false} {
		d := ofRuntime(t, measure.RuntimeC, server,
			"at-line profile cpu nanoseconds 390000000 [libpcre2-8.so.0.11.2] < [unknown]",
			"at-line profile cpu nanoseconds 300000000 [libz.so.1.2.13] < [unknown]",
			"at-line profile cpu nanoseconds 310000000 [nginx]")
		f := d.found("cpu-hot-function")
		if (f != nil) != want || want && !f.says("libpcre2-8.so.0.11.2 takes 39.0 %") {
			t.Errorf("%q: found %v, held back %+v", server, names(d), d.HeldBack)
		}
	}
}

// What a library is for is not a waste by itself.
func TestALibraryThatDoesWhatTheServiceIsThereForIsOnlyShown(t *testing.T) {
	for _, name := range []string{"libcrypto.so.3", "libsqlite3.so.0.8.6", "libjpeg.so.62.3.0"} {
		d := ofRuntime(t, measure.RuntimeC, "nginx",
			"at-line profile cpu nanoseconds 4500000000 ["+name+"] < [unknown]")
		if d.found("cpu-hot-function") != nil || len(d.First.Where) == 0 ||
			d.First.Where[0].Function != "["+name+"]" {
			t.Errorf("%s: found %v, %+v", name, names(d), d.First)
		}
	}
	d := ofRuntime(t, measure.RuntimeC, "nginx",
		"at-line profile cpu nanoseconds 4500000000 [libc.so.6] < [unknown]")
	if len(d.First.Where) > 0 {
		t.Errorf("each program has the C library: %+v", d.First)
	}
}

// At a usual level compression is most of the work of a server too, and no disease.
func TestALibraryThatCompressesAtAUsualLevelIsOnlyShown(t *testing.T) {
	for name, c := range map[string]struct {
		server string
		bytes  uint64
		found  bool
	}{
		"a high level":                   {"nginx", 5000, true},
		"a usual level":                  {"nginx", 8000, false},
		"nobody knows how long they are": {"nginx", 0, false},
		"it may decompress":              {"gunicorn", 50, false},
	} {
		d := compressing(t, c.server, c.bytes)
		if (d.found("cpu-hot-function") != nil) != c.found || len(d.First.Where) == 0 {
			t.Errorf("%s: found %v, held back %+v", name, names(d), d.HeldBack)
		}
	}
}

// A waste that is renamed must stay known by its libraries.
func TestTheWastesOfLibrariesAreThere(t *testing.T) {
	for does, begins := range wastesOf {
		if !slices.ContainsFunc(wastes, func(w waste) bool {
			return strings.HasPrefix(w.what, begins)
		}) {
			t.Errorf("%s: no waste begins with %q", does, begins)
		}
		if !slices.ContainsFunc(binaries, func(b struct{ begins, does string }) bool {
			return b.does == does && binaryOf(profile.Frame{Function: "[" + b.begins + "]"}) == does
		}) {
			t.Errorf("no library is for %s", does)
		}
	}
}

// Two workers that use half of a processor each use a whole one.
func TestWorkersThatShareTheWorkAreNotASingleThread(t *testing.T) {
	lines := []string{
		"all host.cpu.busy_seconds += .6", "at-line host.cpu.busy_seconds += .8",
		"over host.cpu.busy_seconds += 1.1", "all target.cpu.seconds += .4",
		"half target.cpu.seconds += .4", "at-line target.cpu.seconds += .75",
		"over target.cpu.seconds += 1", "all service 1.2ms", "over service 4ms",
		"all target.processes = 3", "at-line target.threads.hottest_share = .38",
	}
	for runtime, server := range map[string]string{
		measure.RuntimeC: "nginx", measure.RuntimeNode: "",
	} {
		for hottest, single := range map[string]bool{".54": false, ".9": true} {
			d := ofRuntime(t, runtime, server,
				append(lines, "over target.threads.hottest_share = "+hottest)...)
			if (d.found("single-threaded") != nil) != single {
				t.Errorf("%s: the busiest uses %s: found %v", runtime, hottest, names(d))
			}
		}
	}
	// A shell has started a program whose threads share a lock.
	if d := ofRuntime(t, measure.RuntimeC, "",
		append(lines, "over target.threads.hottest_share = .25")...); d.found("single-threaded") == nil {
		t.Errorf("threads of C: found %v", names(d))
	}
	// gunicorn's only worker has threads that share a lock, and a master.
	d := ofRuntime(t, measure.RuntimeCPython, "gunicorn",
		append(lines, "over target.threads.hottest_share = .2")...)
	if d.found("single-threaded") == nil {
		t.Errorf("threads of Python: found %v", names(d))
	}
}

// A process of Node that hashes passwords uses four processors, however many there are.
func TestThePoolOfNodeIsNamed(t *testing.T) {
	lines := []string{
		"all host.cores = 8", "all host.cpu.busy_seconds += 1.5", "all target.cpu.seconds += 1",
		"at-line host.cpu.busy_seconds += 4.2", "over host.cpu.busy_seconds += 4.6",
		"at-line target.cpu.seconds += 3.7", "over target.cpu.seconds += 4.05",
		"all target.processes = 1", "over target.threads.full = 4",
	}
	f := ofRuntime(t, measure.RuntimeNode, "", lines...).found("single-threaded")
	if f == nil || !f.says("as many as libuv's pool has threads") ||
		!strings.Contains(f.Advice[0].Command, "UV_THREADPOOL_SIZE") {
		t.Fatalf("found %+v", f)
	}
	f = ofRuntime(t, measure.RuntimeNode, "", append(lines, "all target.processes = 5")...).
		found("single-threaded")
	if f != nil && f.says("libuv's pool") {
		t.Errorf("five processes have five pools: %s", f.Claim)
	}
}
