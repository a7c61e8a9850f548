package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

// standingIn returns lines for threads in a place: their number well below the line, at it and
// beyond it.
func standingIn(place, below, line, over string) []string {
	name := at + place + " = "
	return []string{
		"before" + name + below, "half" + name + below, "after" + name + below,
		"at-line" + name + line, "over" + name + over,
	}
}

const asks64 = "all target.outgoing.established = 64"

func TestTheCrowdThatGrowsWithTheLoadIsTheQueueAndNotWhatItsHolderAsks(t *testing.T) {
	const (
		flock  = "puma;file_lock;flock;locks_lock_inode_wait"
		poll   = "puma;poll;ppoll;poll_schedule_timeout"
		sleep  = "python;sleep;clock_nanosleep;hrtimer_nanosleep"
		futex  = "svc;futex;futex;futex_do_wait"
		fsync  = "svc;disk;fsync;jbd2_log_wait_commit"
		answer = "svc;socket_read;recvfrom;wait_woken"
		child  = "svc;other;wait4;do_wait"
	)
	asksNobody := []string{"all target.outgoing.established = 0"}
	for name, c := range map[string]struct {
		lines []string
		rule  string
		says  []string
	}{
		"a lock on a file is the queue, and idle polls are not": {
			slices.Concat(standingIn(flock, "0", "5", "19"), standingIn(poll, "15", "38", "20"),
				[]string{asks64}), "concurrency-limited", []string{"lock on a file", "lslocks"},
		},
		"those that sleep try again": {
			slices.Concat(standingIn(sleep, "0", "2", "4"), []string{asks64}),
			"concurrency-limited", []string{"sleep"},
		},
		"a lock whose holder syncs": {
			slices.Concat(standingIn(futex, "0.3", "4", "17"), standingIn(fsync, "0.2", "0.9", "1"),
				standingIn(answer, "29", "45", "80"), asksNobody),
			"concurrency-limited", []string{"wait for a lock", "fsync"},
		},
		"a lock whose holder asks others": {
			slices.Concat(standingIn(futex, "0.3", "4", "17"), standingIn(answer, "0.3", "1", "1"),
				[]string{asks64}),
			"concurrency-limited", []string{"wait for a lock", "an answer on a connection"},
		},
		"programs are started": {
			slices.Concat(standingIn(child, "1", "4", "9"), asksNobody),
			"concurrency-limited", []string{"that they have started to end"},
		},
		"threads that wait for answers wait for a dependency": {
			slices.Concat(standingIn(answer, "1", "9", "40"), standingIn(futex, "30", "22", "4"),
				[]string{asks64}), "slow-dependency", nil,
		},
		"few ask at a time, and are answered as quickly as ever": {
			slices.Concat(standingIn(answer, "2", "5", "5"), []string{asks64}),
			"concurrency-limited", []string{"as quickly as ever", "that many wait for"},
		},
		// By these, a request would wait there for twice as long as it takes in all.
		"few are seen to ask, by chance": {
			slices.Concat(standingIn(answer, "5", "6", "9"), []string{asks64}),
			"slow-dependency", nil,
		},
		"few ask at a time, and are answered later": {
			slices.Concat(standingIn(answer, "1", "5", "5"), []string{asks64}),
			"slow-dependency", nil,
		},
	} {
		lines := slices.Concat(c.lines, []string{"at-line service 20ms"}, stuck)
		d := runsOn(t, measure.RuntimeCPython, lines...)
		if f := d.found(c.rule); len(d.Findings) != 1 || f == nil || slices.ContainsFunc(c.says,
			func(w string) bool { return !f.says(w) && !strings.Contains(f.Claim, w) }) {
			t.Errorf("%s: found %v: %+v", name, names(d), f)
		}
		// The same crowd is not a finding if the processors are busy: it waits for them.
		busy := append(lines, "all host.cpu.busy_seconds += 1.9", "all target.cpu.seconds += 1.8")
		if d := runsOn(t, measure.RuntimeCPython, busy...); len(d.Findings) != 0 {
			t.Errorf("%s, with processors busy: found %v", name, names(d))
		}
		quick := append(lines, "at-line service 6ms", "over service 7ms", "over goodput 1400")
		if d := runsOn(t, measure.RuntimeCPython, quick...); len(d.Findings) != 0 {
			t.Errorf("%s, and nobody waits: found %v", name, names(d))
		}
	}
}

func TestAnAddressHasTheNameOfWhatListensThere(t *testing.T) {
	e := newEvidence(newFixture(t, append(strings.Split(base, "\n"), "all "+postgres+" += .1",
		"all target.outgoing.to.192.0.2.7:6379 = 3", "all target.outgoing.to.192.0.2.8:18080 = 3",
	)...).open(t))
	if got := strings.Join(e.asked(), ", "); got != "192.0.2.7:6379 (usually Redis), "+
		"192.0.2.8:18080, postgres at 127.0.0.1:5432" {
		t.Errorf("it asks %s", got)
	}
}
