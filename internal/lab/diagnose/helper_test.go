package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

// helped is a service that has a program of another language do most of the work of a request, on
// one thread, over a pipe.
var helped = strings.Split(`
	all host.cpu.busy_seconds += .9
	over host.cpu.busy_seconds += 1.3
	all target.processes = 2
	all target.cpu.seconds += .3
	at-line target.cpu.seconds += .8
	over target.cpu.seconds += 1.2
	all target.threads.cpu_seconds.python += .2
	at-line target.threads.cpu_seconds.python += .5
	over target.threads.cpu_seconds.python += .75
	at-line target.threads.hottest_share = .5
	all target.threads.at.python;pipe;read;pipe_read = 1
	all service 3ms
	at-line service 12ms
	over service 40ms`, "\n")

// Node asks over a pair of sockets. A thread with a processor to itself is not the service's own.
func TestAProgramThatIsAskedOverAPairOfSocketsIsWhatRequestsWaitFor(t *testing.T) {
	paired := strings.ReplaceAll(strings.Join(helped, "\n"), ";pipe;read;pipe_read",
		";socket_read;read;unix_stream_read_generic")
	d := diagnosed(t, append(strings.Split(paired, "\n"), "all target.threads.full = 0",
		"over target.threads.full = 1")...)
	if f := d.found("slow-dependency"); f == nil || d.found("single-threaded") != nil ||
		!f.says("asks over a pair of sockets") {
		t.Errorf("found %v: %+v", names(d), f)
	}
}

func TestAProgramThatIsAskedOverAPipeIsWhatRequestsWaitFor(t *testing.T) {
	const claim = "python, a program that the service has started and asks over a pipe"
	f := diagnosed(t, helped...).found("slow-dependency")
	if f == nil || !f.says(claim) {
		t.Errorf("found %+v", f)
	}
	named := strings.ReplaceAll(strings.Join(helped, "\n"), "python", "`id`")
	if f := diagnosed(t, strings.Split(named, "\n")...).found("slow-dependency"); f == nil || !f.says("pgrep -n -- '`id`'") {
		t.Errorf("a name that a shell would run: %+v", f)
	}
	for what, lines := range map[string][]string{
		"it is one process":      {"all target.processes = 1"},
		"it has several threads": {"at-line target.threads.hottest_share = .2"},
		"it is the whole thing":  {"at-line target.threads.cpu_seconds.python += .78"},
		"it does the lesser part": {
			"at-line target.threads.cpu_seconds.python += .3",
		},
		"it is mostly idle": {
			"at-line target.cpu.seconds += .5", "at-line target.threads.cpu_seconds.python += .3",
			"over target.threads.cpu_seconds.python += .4",
		},
		"it reads a pipe for each request": {"all target.threads.at.python;pipe;read;pipe_read = .2"},
		"no processor is idle": {
			"at-line host.cpu.busy_seconds += 1.9", "over host.cpu.busy_seconds += 1.9",
		},
	} {
		f := diagnosed(t, slices.Concat(helped, lines)...).found("slow-dependency")
		if f != nil && f.says(claim) {
			t.Errorf("%s: found %+v", what, f)
		}
	}
}

// A service of Python that has started an nginx, and asks it over the network: what that uses is
// measured as the service's, too.
func TestAServerThatTheServiceHasStartedIsWhatKeepsProcessorsBusy(t *testing.T) {
	const nginx = "behind.cpu_seconds.127.0.0.1:9000/nginx += "
	lines := []string{
		"all target.processes = 6", "all target.threads.cpu_seconds.nginx += .3", "all " + nginx + ".3",
		"at-line target.threads.cpu_seconds.nginx += 1", "over target.threads.cpu_seconds.nginx += 1.1",
		"at-line " + nginx + "1.02", "over " + nginx + "1.1",
	}
	f := ofRuntime(t, measure.RuntimeCPython, "", lines...).found("slow-dependency")
	if f == nil || !f.says("busy with nginx at 127.0.0.1:9000") || !f.says("the service itself uses 0.48") ||
		f.Gain.Factor < 1.5 {
		t.Errorf("found %+v", f)
	}
	for what, line := range map[string]string{
		"it does the lesser part": "at-line " + nginx + ".6",
		"another one":             "at-line target.threads.cpu_seconds.nginx += .2",
	} {
		d := ofRuntime(t, measure.RuntimeCPython, "", append(lines, line)...)
		if d.found("slow-dependency") != nil {
			t.Errorf("%s: found %v", what, names(d))
		}
	}
}

// The child has one thread, which is full.
func TestAChildOfOneThreadIsNotTheServicesOwnThread(t *testing.T) {
	const store = "behind.cpu_seconds.127.0.0.1:6400/redis-server += "
	lines := []string{
		"all target.processes = 3", "all target.threads.cpu_seconds.redis-server += .3", "all " + store + ".3",
		"at-line target.threads.cpu_seconds.redis-server += .75",
		"over target.threads.cpu_seconds.redis-server += .98", "at-line " + store + ".75",
		"over " + store + ".98", "at-line target.cpu.seconds += .95", "over target.cpu.seconds += 1.2",
		"at-line host.cpu.busy_seconds += 1.1", "over host.cpu.busy_seconds += 1.35",
		"over target.threads.full = 1", "at-line target.threads.hottest_share = .75", "over goodput 1100",
	}
	d := ofRuntime(t, measure.RuntimeCPython, "", lines...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "slow-dependency" ||
		!d.Findings[0].says("redis-server at 127.0.0.1:6400") {
		t.Errorf("found %v: %+v", names(d), d.Findings)
	}
}
