package diagnose

import (
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// cause is a rule whose finding causes those of other rules. If both are found, the cause comes
// first, whatever its own gain.
type cause struct {
	rule  string
	makes []string // the rules whose findings it causes
	// when reports whether it does so in this run; nil means always.
	when func(e *Evidence) bool
	// gain is what is gained without the cause, if that is more than without what it causes.
	gain func(e *Evidence) Gain
}

// causes in the order in which they are checked.
var causes = []cause{
	{
		rule:  "leak",
		makes: []string{"descriptors-near-limit", "ports-exhausted", "accept-queue-overflow"},
		when: func(e *Evidence) bool {
			g := e.growth()
			return g != nil && g.what != "memory" && g.what != "goroutines"
		},
	},
	{
		rule:  "leak",
		makes: []string{"swapping", "major-faults", "gc-heavy", "gc-pauses"},
		when: func(e *Evidence) bool {
			g := e.growth()
			return g != nil && (g.what == "memory" || g.what == "goroutines")
		},
	},
	// Connections that are never closed are opened for each request. A client of Java's that is made for
	// each request stays, with its connection and a thread, until the collector finds it.
	{
		rule:  "leak",
		makes: []string{"upstream-connections-not-reused", "database-connections-churn"},
		when:  (*Evidence).keepsWhatItOpens,
	},
	{
		rule:  "upstream-connections-not-reused",
		makes: []string{"leak"},
		when:  (*Evidence).makesClients,
	},
	{
		rule:  "goroutine-leak",
		makes: []string{"descriptors-near-limit", "ports-exhausted", "accept-queue-overflow"},
		when:  (*Evidence).keepsWhatItOpens,
	},
	// Something that kept growing made requests more and more expensive. What is full at the end
	// was not full before.
	{
		rule: "leak",
		makes: []string{
			"single-threaded", "gomaxprocs-low", "concurrency-limited", "cpu-hot-function",
			"lock-contention", "slow-dependency",
		},
		when: func(e *Evidence) bool { return e.degraded() > 0 },
	},
	// The more garbage there is, the more often the collector runs. The code that makes the garbage
	// is the cause, unless the heap was given little room.
	{rule: "json-hot", makes: []string{"gc-heavy"}, when: makesGarbage(classJSON)},
	{
		rule:  "cpu-hot-function",
		makes: []string{"json-hot"},
		when:  func(e *Evidence) bool { w := e.wasting(); return w != nil && w.encodes },
	},
	{rule: "logging-hot", makes: []string{"gc-heavy"}, when: makesGarbage(classLogging)},
	// A logger holds a lock while it makes and writes a line. Fewer lines make requests cheaper, too.
	{
		rule:  "logging-hot",
		makes: []string{"lock-contention"},
		when:  (*Evidence).locksToLog,
		gain:  func(e *Evidence) Gain { return e.gain(e.without(classLogging)) },
	},
	{rule: "reflection-hot", makes: []string{"gc-heavy"}, when: makesGarbage(classReflection)},
	// A service without free descriptors, or without processor time, accepts no connections.
	{rule: "descriptors-near-limit", makes: []string{"accept-queue-overflow", "backlog-small"}},
	{
		rule:  "single-threaded",
		makes: []string{"accept-queue-overflow", "backlog-small"},
		when: func(e *Evidence) bool {
			return e.AtLine.Last(measure.ListenerQueueLimit) >= fairBacklog
		},
	},
	{
		rule:  "client-connections-closed",
		makes: []string{"accept-queue-overflow", "backlog-small", "time-wait-high"},
		when: func(e *Evidence) bool {
			return e.AtLine.Last(measure.ListenerQueueLimit) >= fairBacklog
		},
	},
	{rule: "upstream-connections-not-reused", makes: []string{"time-wait-high"}},
	// To accept a connection for each request, with its handshake, is what the dependency is busy with.
	{
		rule:  "upstream-connections-not-reused",
		makes: []string{"slow-dependency"},
		when: func(e *Evidence) bool {
			d, is := e.saturatedBehind()
			return is && e.busyAccepting(d) && (e.freshTo() == d.address || e.mostlyOpens(d))
		},
	},
	// The thread is busy asking.
	{
		rule:  "slow-dependency",
		makes: []string{"single-threaded", "gomaxprocs-low"},
		when:  (*Evidence).onlyTalks,
	},
}

// keepsWhatItOpens reports whether half of the connections that the service opens stay open: from one
// look to the next their number grows with the requests.
func (e *Evidence) keepsWhatItOpens() bool {
	opened := e.AtLine.opened()
	grown := 0.0
	for _, name := range []string{measure.TargetOutgoingEstablished, measure.TargetOutgoingCloseWait} {
		all, from, to := e.AtLine.values(name)
		if len(all) > 1 && to > from {
			grown += (all[len(all)-1] - all[0]) / (float64(to-from) / 1e9)
		}
	}
	return opened > 0 && grown >= mostlyOpened*opened
}

// makesClients reports whether the service seems to make a client of java.net.http for most requests:
// they are known by the name of a thread that each of them has.
func (e *Evidence) makesClients() bool {
	return e.AtLine.opened() >= mostlyOpened*e.AtLine.Goodput() &&
		slices.ContainsFunc(e.sampledOf(measure.ThreadsCPU), func(thread string) bool {
			return strings.HasPrefix(thread, "HttpClient-")
		})
}

// mostlyOpened is the minimum number of connections opened for each request that are what keeps a
// dependency busy.
const mostlyOpened = .5

// mostGarbage is the minimum share of the allocated bytes for one class to be the cause of the
// collections.
const mostGarbage = .5

// makesGarbage reports whether a class allocates most of the bytes, and no setting makes the
// collector run more often than by default.
func makesGarbage(class string) func(e *Evidence) bool {
	return func(e *Evidence) bool {
		percent, limited := e.gogc()
		return e.Garbage[class] >= mostGarbage && !limited && percent >= gogcDefault
	}
}

// locksToLog reports whether most of what waits for a lock waits for a logger's.
func (e *Evidence) locksToLog() bool {
	const log, other = "log", "other"
	of := func(p *profile.Profile, kind string) map[string]float64 {
		if p == nil {
			return nil
		}
		return p.Classify(kind, func(stack []profile.Frame) string {
			if kind == profile.Goroutine {
				if _, locks := takesLock(stack); !locks {
					return ""
				}
			}
			own := slices.IndexFunc(stack, func(f profile.Frame) bool {
				return profile.User(f) && classIndex.of(f)&loggers == 0
			})
			if own > 0 && classIndex.among(stack[:own])&loggers != 0 {
				return log
			}
			return other
		})
	}
	for _, waits := range []map[string]float64{
		of(e.AtLine.Profile("mutex"), profile.Delay),
		of(e.Over.Profile(kindGoroutine), profile.Goroutine),
		of(e.AtLine.Profile(kindGoroutine), profile.Goroutine),
	} {
		if waits[log]+waits[other] > 0 {
			return waits[log] > waits[other]
		}
	}
	return false
}

// fairBacklog is the minimum length of an accept queue that is not itself too short.
const fairBacklog = 64

// causesFirst moves findings before those that they cause. A cause affects the line as its
// consequence does, so it takes the consequence's rank, if that is higher, and its gain with it.
func (e *Evidence) causesFirst(findings []Finding) {
	at := func(rule string) int {
		return slices.IndexFunc(findings, func(f Finding) bool { return f.Rule == rule })
	}
	for _, c := range causes {
		from := at(c.rule)
		if from < 0 || c.when != nil && !c.when(e) {
			continue
		}
		to := from
		for _, rule := range c.makes {
			if i := at(rule); i >= 0 {
				to = min(to, i)
			}
		}
		if to == from {
			continue
		}
		f := findings[from]
		if made := &findings[to]; made.Rank < f.Rank {
			f.Rank, f.Gain, f.whatever = made.Rank, made.Gain, f.whatever || made.whatever
			if c.gain != nil {
				if g := c.gain(e); g.Factor > made.Gain.Factor {
					f.Gain = g
				}
			}
			f.Gain.Why = "what it makes, " + made.Rule + ", is gone with it: " + f.Gain.Why
		}
		copy(findings[to+1:from+1], findings[to:from])
		findings[to] = f
	}
}
