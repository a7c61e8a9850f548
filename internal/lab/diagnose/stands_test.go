package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

const at = " target.threads.at."

// told reports whether a fact of a finding's evidence contains all of the words.
func (f *Finding) told(words ...string) bool {
	return slices.ContainsFunc(f.Evidence, func(fact Fact) bool {
		said := fact.What + ": " + fact.Value
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(said, w) })
	})
}

func TestWhereThreadsWaitIsEvidenceWhereThereAreNoGoroutines(t *testing.T) {
	for place, words := range map[string]string{
		"futex;futex;futex_wait_queue":              "a lock, a condition or work",
		"events;epoll_wait;ep_poll":                 "any of many connections",
		"socket_read;recvfrom;wait_woken":           "an answer on a connection",
		"socket_read;;tcp_recvmsg":                  "in tcp_recvmsg for an answer on a connection",
		"disk;fsync;jbd2_log_wait_commit":           "reach the disk (fsync)",
		"disk;pread64;folio_wait_bit":               "for a disk",
		"pipe;read;pipe_read":                       "the other end of a pipe",
		"file_lock;flock;locks_lock_inode_wait":     "a lock on a file",
		"other;wait4;do_wait":                       "that they have started to end",
		"socket_read;connect;inet_wait_for_connect": "to be accepted",
	} {
		lines := append([]string{
			"all" + at + "worker;" + place + " = 1", "over" + at + "worker;" + place + " = 40",
			"at-line" + at + "worker;" + place + " = 8",
			// Threads that are there whatever the load is do not count.
			"all" + at + "timer;sleep;clock_nanosleep;hrtimer_nanosleep = 9",
			"at-line service 20ms", "all target.outgoing.established = 1",
		}, stuck...)
		d := runsOn(t, measure.RuntimeJVM, lines...)
		f := d.found("slow-dependency")
		if f == nil {
			f = d.found("concurrency-limited")
		}
		if f == nil || !f.told(`threads "worker"`, words, "1.00, 8.00, 40.0") ||
			f.told(`threads "timer"`) {
			t.Errorf("%s: found %v: %+v", place, names(d), f)
		}
	}
}

func TestThreadsOfGoStandNowhereForARequest(t *testing.T) {
	waits := []string{
		"over" + at + "svc;futex;futex;futex_wait_queue = 40",
		"over" + at + "svc;disk;fsync;jbd2_log_wait_commit = 4", "at-line service 20ms",
	}
	f := runsOn(t, measure.RuntimeGo, append(waits, stuck...)...).found("concurrency-limited")
	if f == nil || f.told("futex") || !f.told("fsync") || !f.says("strace") {
		t.Errorf("%+v", f)
	}
	waits = append(waits, "at-line profile goroutine count 18 internal/poll.runtime_pollWait < "+
		"net.(*conn).Read < main.fetch"+servesHTTP)
	f = runsOn(t, measure.RuntimeGo, append(waits, stuck...)...).found("slow-dependency")
	if f == nil || f.told("fsync") {
		t.Errorf("goroutines say it better: %+v", f)
	}
}

func TestThreadsThatWaitForProcessesHoldThePlaces(t *testing.T) {
	f := runsOn(t, measure.RuntimeCPython, append([]string{
		"all target.outgoing.established = 0", "all target.threads = 9",
		"half" + at + "python;other;wait4;do_wait = 2", "over" + at + "python;other;wait4;do_wait = 5",
	}, stuck...)...).found("concurrency-limited")
	if f == nil || !f.says(`5.00 threads "python" wait for a process`) || !f.says("execve -p 77") {
		t.Errorf("%+v", f)
	}
}

func TestWhereNothingIsFoundItIsSaidWhereThreadsWait(t *testing.T) {
	d := runsOn(t, measure.RuntimeRuby, append([]string{
		"at-line" + at + "puma srv tp;futex;futex;futex_wait_queue = 12", "over goodput 1390",
	}, idleService...)...)
	if f := d.found("concurrency-limited"); f == nil ||
		!f.says(`12.0 threads "puma srv tp" wait for a lock`) {
		t.Errorf("found %v; %+v", names(d), d.First)
	}
}
