package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/lab/measure"
)

const (
	// maxOthers bounds the processes of the machine to look at: each costs a file, 10 µs.
	maxOthers = 4096
	// leastUsed is how many ticks a process must have used between two looks to count under its own
	// name: most processes of a machine sleep, and there is room for only maxNames.
	leastUsed = 5
)

// others reports the processor time, by name, of the machine's processes that take processors from
// the generator and the target. These are neither the target, nor the services behind it, nor this
// program and its children. A process that starts and ends between two looks is not seen, so the
// machine's busy time may be more. It looks every second, or less often if that would take more
// than a two hundredth of a processor.
type others struct {
	root   string
	self   int
	target *processes // nil if there is none
	behind *behind
	now    func() time.Time
	next   time.Time
	used   *usage[member]     // at the last look; nil before the first
	spent  map[string]float64 // by name, since the first look
	text   [1024]byte
}

func newOthers(root string, target *processes, b *behind) *others {
	return &others{
		root:   root,
		self:   os.Getpid(),
		target: target,
		behind: b,
		now:    time.Now,
		spent:  make(map[string]float64),
	}
}

func (*others) Name() string { return "other processes" }

// running is a process that a look has found.
type running struct {
	member
	parent int
	name   string
	ticks  float64
}

func (o *others) Read(into map[string]float64) error {
	now := o.now()
	if now.Before(o.next) {
		return nil
	}
	before := threadTime()
	all, err := o.look()
	if len(all) > 0 {
		o.count(all)
	}
	cost := time.Duration((threadTime() - before) * float64(time.Second))
	cost = min(max(cost, 0), o.now().Sub(now)) // see threads.Read
	o.next = now.Add(min(max(threadsShare*cost, censusEvery), censusRarely))
	for name, seconds := range o.spent {
		into[measure.OthersCPU+name] = seconds
	}
	return err
}

// look reads what each of the machine's processes has used.
func (o *others) look() (all []running, err error) {
	names, err := list(o.root, maxOthers+maxScan)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		pid, isNumber := strconv.Atoi(name)
		if isNumber != nil {
			continue
		}
		if len(all) == maxOthers {
			return all, fmt.Errorf("there are more than %d processes, and only that many are looked at",
				maxOthers)
		}
		text, err := readSmall(filepath.Join(o.root, name, "stat"), o.text[:])
		if err != nil {
			continue // it has ended
		}
		if s, ok := parseStat(text); ok {
			all = append(all, running{member{pid: pid, start: s.start}, s.parent, s.name, s.user + s.system})
		}
	}
	return all, nil
}

// count adds up what has been used since the last look.
func (o *others) count(all []running) {
	parents := make(map[int]int, len(all))
	for _, r := range all {
		parents[r.pid] = r.parent
	}
	known := o.known()
	used := usageAfter(o.used)
	for _, r := range all {
		used.add(r.member, r.ticks, r.start)
		if o.used == nil || isOf(r.pid, parents, known) {
			continue
		}
		since := o.used.since(r.member, r.ticks, r.start)
		if since == 0 {
			continue
		}
		name, _, _ := strings.Cut(called(r.name), "/") // "kworker/0:1H-kblockd" is one of many
		if _, there := o.spent[name]; !there && since < leastUsed {
			name = theRest
		}
		name = orRest(o.spent, name, maxNames)
		o.spent[name] += since * tick
	}
	o.used = used
}

// known returns this program, and the processes whose time is reported elsewhere.
func (o *others) known() map[int]bool {
	all := map[int]bool{o.self: true}
	if o.target != nil {
		for _, m := range o.target.members {
			all[m.pid] = true
		}
	}
	for _, s := range o.behind.known {
		for _, m := range s.processes.members {
			all[m.pid] = true
		}
	}
	return all
}

// isOf reports whether a process is in from, or descends from one of those.
func isOf(pid int, parents map[int]int, from map[int]bool) bool {
	const deepest = 64 // racing process starts and exits may make a cycle
	for range deepest {
		if from[pid] {
			return true
		}
		if pid = parents[pid]; pid == 0 {
			return false
		}
	}
	return false
}
