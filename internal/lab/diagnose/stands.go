package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
)

// meaning is what threads wait for in one place of the kernel.
type meaning struct {
	// calls and channels are prefixes of the names of system calls and of the kernel's wait
	// channels. kind is the kind of place, without the prefix that all kinds have. The first entry
	// of the table of which any of them fits is taken.
	calls, channels []string
	kind            string
	what            string // follows "wait for"
	does            string // replaces "wait for" and what, if that reads better
	// works says that a thread is there in the midst of a request, and not when it has none.
	works bool
	look  Action // how to see more; may be empty
}

// meanings in the order in which a place is compared with them: the precise ones first.
var meanings = []meaning{
	{
		calls:    []string{"fsync", "fdatasync"},
		channels: []string{"jbd2_", "ext4_sync", "xfs_log_force"},
		what:     "what they have written to reach the disk (fsync)",
		works:    true,
		look: Action{
			Text: "see which files are written through to the disk, and how often: one fsync may " +
				"do for what several requests have written",
			Command: "strace -f -y -e trace=fsync,fdatasync,sync_file_range -p PID",
		},
	},
	{
		calls:    []string{"wait4", "waitid"},
		channels: []string{"do_wait"},
		what:     "a process that they have started to end",
		works:    true,
		look: Action{
			Text:    "see which programs it starts for a request, and do their work in the process",
			Command: "strace -f -e trace=execve -p PID",
		},
	},
	{
		calls:    []string{"connect"},
		channels: []string{"inet_wait_for_connect", "inet_stream_connect"},
		what:     "a connection to be accepted by what they ask",
		works:    true,
	},
	{
		kind:  kindOf(measure.TargetWaitingFileLock),
		what:  "a lock on a file that another one holds",
		works: true,
		look: Action{
			Text:    "see which file it is, and who holds the lock",
			Command: "lslocks; lsof -p PID",
		},
	},
	{
		kind:  kindOf(measure.TargetWaitingDisk),
		what:  "a disk",
		works: true,
		look: Action{
			Text:    "see whether the disk is busy, and who reads and writes",
			Command: "iostat -x 1; pidstat -d 1",
		},
	},
	{
		kind:  kindOf(measure.TargetWaitingPipe),
		what:  "the other end of a pipe",
		works: true,
		look: Action{
			Text: "see which program is at the other end: one that is started, or that takes logs, " +
				"takes what is written as fast as it can",
			Command: "ls -l /proc/PID/fd | grep pipe; lsof -p PID",
		},
	},
	{
		kind:  kindOf(measure.TargetWaitingSocketRead),
		what:  "an answer on a connection",
		works: true,
	},
	{
		kind:  kindOf(measure.TargetWaitingSocketWrite),
		what:  "the other end of a connection to take what they send",
		works: true,
	},
	{
		kind:  kindOf(measure.TargetWaitingPoll),
		what:  "an answer within a given time, or any of a few things (poll, select)",
		works: true,
	},
	{
		kind:  kindOf(measure.TargetWaitingSleep),
		what:  "a time to pass",
		does:  "sleep for a time, as one does that tries again or waits for its turn",
		works: true,
		look: Action{
			Text: "look for a sleep in a loop that tries again (for a lock, for a place, after a " +
				"refusal): have it woken when its turn comes, or hold what it waits for for less; " +
				"and for a limit on the rate, or a batch with a timer",
			Command: "strace -f -e trace=nanosleep,clock_nanosleep -p PID 2>&1 | head -40",
		},
	},
	{
		kind: kindOf(measure.TargetWaitingFutex),
		what: "a lock, a condition or work: idle threads of a pool stand there too",
		does: "wait for a lock, or for a place that a condition guards",
		look: Action{
			Text: "look for a lock that is held while something is waited for (a disk, another " +
				"service, a sleep), for a pool that is taken, and for workers that are too few",
			Command: "gdb -p PID -batch -ex 'thread apply all backtrace 12'   # or the " +
				"runtime's own: jstack, py-spy dump, rbspy snapshot",
		},
	},
	{
		kind: kindOf(measure.TargetWaitingEvents),
		what: "any of many connections: an event loop without work",
	},
	{kind: kindOf(measure.TargetWaitingAccept), what: "a client to connect"},
}

// kindOf returns the kind of a place, as in the names of measure.ThreadsAt.
func kindOf(gauge string) string { return strings.TrimPrefix(gauge, measure.ThreadsWaiting) }

// stand is the threads of one name in one place of the kernel.
type stand struct {
	thread, kind, call, channel string
	half, atLine, over          float64 // mean numbers of threads
}

// standOf parses the name of a place. It returns false for the name that stands for all places
// beyond the probe's limit.
func standOf(place string) (s stand, ok bool) {
	words := strings.Split(place, ";")
	if len(words) != 4 {
		return s, false
	}
	return stand{thread: words[0], kind: words[1], call: words[2], channel: words[3]}, true
}

// place returns the name that standOf parses.
func (s *stand) place() string {
	return s.thread + ";" + s.kind + ";" + s.call + ";" + s.channel
}

// means returns what the threads wait for; nil if that is not known.
func (s *stand) means() *meaning {
	begins := func(name string, with []string) bool {
		return slices.ContainsFunc(with, func(w string) bool { return strings.HasPrefix(name, w) })
	}
	for i := range meanings {
		if m := &meanings[i]; begins(s.call, m.calls) || begins(s.channel, m.channels) ||
			m.kind != "" && m.kind == s.kind {
			return m
		}
	}
	return nil
}

// in returns the place as the kernel names it.
func (s *stand) in() string {
	switch {
	case s.call == "":
		return s.channel
	case s.channel == "":
		return s.call
	}
	return s.call + " (" + s.channel + ")"
}

// fewestStanding is the minimum mean number of threads in a place that is reported.
const fewestStanding = .8

// stands returns the places in the kernel where more threads wait at the line or beyond it than
// well below the line, the largest first. Threads that wait whatever the load is (timers, idle
// loops, a pool's spare threads) are left out. In Go, threads are not requests: only places that
// keep a thread in a system call are returned, and none if goroutines are known.
func (e *Evidence) stands() (all []stand) {
	if e.AtLine.Profile(kindGoroutine) != nil || e.Over.Profile(kindGoroutine) != nil {
		return nil
	}
	places := map[string]bool{}
	looks := e.looks()
	for _, load := range []int{nearLine, beyondLine} {
		for _, l := range looks[load] {
			for place := range l.at {
				places[place] = true
			}
		}
	}
	for place := range places {
		s, ok := standOf(place)
		if !ok {
			continue
		}
		s.half, s.atLine = mean(looks[gentle], place), mean(looks[nearLine], place)
		s.over = mean(looks[beyondLine], place)
		idle := s.kind == kindOf(measure.TargetWaitingFutex) ||
			s.kind == kindOf(measure.TargetWaitingEvents)
		if most := max(s.atLine, s.over); most < fewestStanding || most < 1.5*s.half ||
			s.means() == nil ||
			idle && e.Run.Manifest.Machine.TargetRuntime == measure.RuntimeGo {
			continue
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b stand) int {
		return cmp.Or(
			cmp.Compare(max(b.atLine, b.over), max(a.atLine, a.over)),
			strings.Compare(a.thread+";"+a.in(), b.thread+";"+b.in()),
		)
	})
	return all
}

// standsTold is how many places are reported.
const standsTold = 3

// standFacts returns where threads wait.
func (e *Evidence) standFacts() (facts []Fact) {
	all := e.stands()
	for _, s := range all[:min(len(all), standsTold)] {
		facts = append(facts, Fact{
			What: fmt.Sprintf("threads %q that wait in %s for %s; at half of the line, at it and beyond",
				s.thread, s.in(), s.means().what),
			Value: number(s.half) + ", " + number(s.atLine) + ", " + number(s.over),
		})
	}
	return facts
}

// standAdvice is how to see more of what threads wait for.
func (e *Evidence) standAdvice() (actions []Action) {
	all := e.stands()
	for _, s := range all[:min(len(all), standsTold)] {
		look := s.means().look
		look.Command = e.filled(look.Command)
		if look.Text != "" && !slices.Contains(actions, look) {
			actions = append(actions, look)
		}
	}
	return actions
}

// standWords says where most threads wait, to follow a sentence; empty if that is not known.
func (e *Evidence) standWords() string {
	all := e.stands()
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s threads %q wait in %s for %s",
		number(max(all[0].atLine, all[0].over)), all[0].thread, all[0].in(), all[0].means().what)
}
