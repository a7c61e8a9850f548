package probe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"plimsoll/internal/lab/measure"
)

const (
	// maxProcesses bounds the processes of the target that are added up.
	maxProcesses = 512
	// maxEnded bounds the names of those that have ended.
	maxEnded = 8
	// maxTasks bounds the threads whose context switches are read: each costs a file, 5 to 10 µs.
	maxTasks = 64
	// treeEvery is after how many samples the target's descendants are searched again; a search
	// reads a file for each process of the machine. A worker that starts in between counts late,
	// but its processor time is not lost.
	treeEvery = 16
	// tick is the unit of processor time in /proc, in seconds. It is 10 ms for every program on
	// Linux, whatever the kernel uses internally.
	tick = 0.01
)

// pageSize is the unit of resident memory in /proc, in bytes.
var pageSize = float64(os.Getpagesize())

// processes is the target: one process and its descendants. It costs 40 µs for one process with ten
// descriptors. Every 16th time it looks for the descendants, which takes 1 ms on a machine of 100
// processes (BenchmarkProcesses).
type processes struct {
	proc  procfs.FS
	root  string
	pid   int
	name  string
	start uint64 // its start time: its number may be reused
	alone bool
	// except is a descendant to leave out, together with its own descendants; 0 for none.
	except int
	// exact reports that the processes' clocks can be read.
	exact   bool
	members []member
	fresh   int   // samples until the next lookup of members
	looked  int   // number of lookups of members
	allowed int   // processors that its busy processes may run on; 0 if unknown
	lost    error // why it can no longer be followed
	// used is the processor time of each member at the last sample, without its children's, and
	// left that of members which have ended since: their parents have it now. ended is what all
	// that ended had used at the last sample.
	used        map[life]float64
	left, ended float64
	// gone counts the members that have ended since they were looked up, by name.
	gone map[string]float64
}

// life is one process, whoever has its number later.
type life struct {
	pid   int
	start uint64
}

// member is a process of the target. PIDs are reused, so it is identified by its start time too.
type member struct {
	pid   int
	start uint64
	name  string
	limit float64 // of its descriptors, at the last lookup; 0 if unknown
}

func newProcesses(proc procfs.FS, o Options) (*processes, error) {
	first, err := statOf(o.Root, o.PID)
	if err != nil {
		return nil, err
	}
	p := &processes{
		proc:  proc,
		root:  o.Root,
		pid:   o.PID,
		name:  first.name,
		start: first.start,
		alone: o.Alone,
		gone:  map[string]float64{},
	}
	if o.Root == procfs.DefaultMountPoint {
		_, err := cpuClock(o.PID)
		p.exact = err == nil
	}
	return p, nil
}

func (p *processes) Name() string { return "the target" }

func (p *processes) Read(into map[string]float64) error {
	first, err := p.check()
	if err != nil {
		return err
	}
	if p.fresh--; p.fresh < 0 {
		p.fresh = treeEvery - 1
		if err := p.lookUp(first); err != nil {
			return err
		}
	}
	var seconds, user, system, rss, threads, descriptors, count, minor, major, ended float64
	used := make(map[life]float64, len(p.members))
	var nearest fill
	var denied error
	living := p.members[:0]
	for _, m := range p.members {
		now := first
		if m.pid != p.pid {
			if now, err = statOf(p.root, m.pid); err != nil || now.start != m.start {
				countNamed(p.gone, strings.ToValidUTF8(m.name, "?"), maxEnded)
				continue // it has ended; its parent has its processor time
			}
		}
		living = append(living, m)
		u, s := now.user*tick, now.system*tick
		own := u + s
		used[life{m.pid, m.start}] = own
		ended += (now.childUser + now.childSystem) * tick
		if p.exact {
			if own, err = cpuClock(m.pid); err != nil {
				continue
			}
		}
		if !p.alone {
			u, s = u+now.childUser*tick, s+now.childSystem*tick
			own += (now.childUser + now.childSystem) * tick
			now.minor, now.major = now.minor+now.childMinor, now.major+now.childMajor
		}
		minor, major = minor+now.minor, major+now.major
		seconds, user, system = seconds+own, user+u, system+s
		rss += float64(now.pageCount) * pageSize
		threads += float64(now.threads)
		count++
		n, err := p.descriptors(m.pid)
		if err != nil {
			denied = err
		}
		descriptors += float64(n)
		if f := (fill{float64(n), m.limit}); f.nearer(nearest) {
			nearest = f
		}
	}
	p.members = living // so that other users need not check start times
	if !p.alone {
		into[measure.TargetCPUEnded] = p.unseen(used, ended)
	}
	for name, n := range p.gone {
		into[measure.TargetEnded+name] = n
	}
	into[measure.TargetCPU] = seconds
	into[measure.TargetCPUUser] = user
	into[measure.TargetCPUSystem] = system
	into[measure.TargetRSS] = rss
	into[measure.TargetThreads] = threads
	into[measure.TargetProcesses] = count
	into[measure.TargetMinorFaults], into[measure.TargetMajorFaults] = minor, major
	if nearest.limit > 0 {
		into[measure.TargetDescriptorsLimit] = nearest.limit
	}
	if p.allowed > 0 {
		into[measure.TargetCoresAllowed] = float64(p.allowed)
	}
	if denied != nil {
		return denied
	}
	into[measure.TargetDescriptors], into[measure.TargetDescriptorsMost] = descriptors, nearest.used
	return nil
}

// unseen returns the processor time of processes that ended before they were members: ended is that
// of all that have, as their parents have it, and used what each member has used itself.
//
// No parent has the time of a member that was not waited for, or whose parent ended first. So what
// members leave counts only as far as ended has grown, which keeps the result from falling.
func (p *processes) unseen(used map[life]float64, ended float64) float64 {
	left := 0.0
	for of, seconds := range p.used {
		if _, lives := used[of]; !lives {
			left += seconds
		}
	}
	p.left += min(left, ended-p.ended)
	p.used, p.ended = used, ended
	return ended - p.left
}

// check checks that the process is still the same one.
func (p *processes) check() (stat, error) {
	if p.lost != nil {
		return stat{}, p.lost
	}
	now, err := statOf(p.root, p.pid)
	switch {
	case err != nil:
		p.lost = fmt.Errorf("process %d (%s) ended while it was measured", p.pid, p.name)
	case now.start != p.start:
		p.lost = fmt.Errorf("process %d (%s) ended while it was measured, and its number went to "+
			"another one (%s)", p.pid, p.name, now.name)
	}
	return now, p.lost
}

// lookUp finds the descendants, and reads what rarely changes.
func (p *processes) lookUp(first stat) error {
	p.looked++
	p.members = append(p.members[:0], member{pid: p.pid, start: first.start})
	defer p.limits()
	defer p.affinity()
	if p.alone {
		return nil
	}
	all, err := p.proc.AllProcs()
	if err != nil {
		return err
	}
	children := make(map[int][]member)
	for _, process := range all {
		// A process older than the target cannot descend from it.
		if s, err := statOf(p.root, process.PID); err == nil && s.start >= first.start &&
			process.PID != p.pid && process.PID != p.except {
			children[s.parent] = append(children[s.parent],
				member{pid: process.PID, start: s.start, name: s.name})
		}
	}
	for i := 0; i < len(p.members); i++ {
		p.members = append(p.members, children[p.members[i].pid]...)
		if len(p.members) > maxProcesses {
			p.members = p.members[:maxProcesses]
			return fmt.Errorf("it has more than %d processes, and only that many are added up",
				maxProcesses)
		}
	}
	return nil
}

// limits looks up the descriptor limit of each process: workers may have a lower limit than the
// process that starts them (worker_rlimit_nofile).
func (p *processes) limits() {
	for i := range p.members {
		m := &p.members[i]
		if process, err := p.proc.Proc(m.pid); err == nil {
			if limits, err := process.Limits(); err == nil {
				m.limit = float64(limits.OpenFiles)
			}
		}
	}
}

// fill is a process's number of open descriptors and its limit.
type fill struct{ used, limit float64 }

// nearer reports whether a process is closer to its limit than another one. If the limits are
// unknown, or equally used, the number of descriptors decides.
func (f fill) nearer(to fill) bool {
	return cmp.Or(cmp.Compare(f.share(), to.share()), cmp.Compare(f.used, to.used)) > 0
}

func (f fill) share() float64 {
	if f.limit == 0 {
		return 0
	}
	return f.used / f.limit
}

// affinity looks up on how many processors the processes may run that do the work: a master that is
// mostly idle may run on all of them, and its workers on one (worker_cpu_affinity).
func (p *processes) affinity() {
	most := 0.0
	for _, seconds := range p.used {
		most = max(most, seconds)
	}
	var together []uint32
	file := make([]byte, 8192)
	for _, m := range p.members {
		if p.used[life{m.pid, m.start}] < most/10 {
			continue
		}
		status, err := readSmall(filepath.Join(p.root, strconv.Itoa(m.pid), "status"), file)
		if err != nil {
			continue
		}
		for i, group := range allowedTo(status) {
			if i == len(together) {
				together = append(together, 0)
			}
			together[i] |= group
		}
	}
	p.allowed = 0
	for _, group := range together {
		p.allowed += bits.OnesCount32(group)
	}
}

// allowedTo returns the processors that a process may run on (sched_setaffinity, cpusets), from its
// status file: a bit for each, 32 to a group, the lowest first; nil if unknown.
func allowedTo(status []byte) (groups []uint32) {
	_, rest, _ := bytes.Cut(status, []byte("\nCpus_allowed:"))
	mask, _, _ := bytes.Cut(rest, []byte("\n"))
	for group := range bytes.SplitSeq(bytes.TrimSpace(mask), []byte(",")) {
		v, err := strconv.ParseUint(string(group), 16, 32)
		if err != nil {
			return nil
		}
		groups = append(groups, uint32(v))
	}
	slices.Reverse(groups)
	return groups
}

// descriptors counts the descriptors of a process, which may have just ended.
func (p *processes) descriptors(pid int) (int, error) {
	process, err := p.proc.Proc(pid)
	if err != nil {
		return 0, nil
	}
	n, err := process.FileDescriptorsLen()
	if errors.Is(err, fs.ErrPermission) {
		return 0, errors.New("its descriptors may not be counted: run as the same user, or as root")
	}
	return n, nil
}

// switches reports the context switches of the target's threads. /proc has them only per thread. It
// costs 10 µs per thread.
type switches struct {
	of   *processes
	text [8192]byte
}

func (*switches) Name() string { return "the target's context switches" }

func (s *switches) Read(into map[string]float64) error {
	if s.of.lost != nil {
		return nil // reported by processes
	}
	left := maxTasks
	var voluntary, involuntary float64
	for _, m := range s.of.members {
		tasks := filepath.Join(s.of.root, strconv.Itoa(m.pid), "task")
		names, err := list(tasks, left+1)
		if err != nil {
			continue // it has ended
		}
		if left -= len(names); left < 0 {
			return fmt.Errorf("it has more than %d threads", maxTasks)
		}
		for _, name := range names {
			status, err := readSmall(filepath.Join(tasks, name, "status"), s.text[:])
			if err != nil {
				continue
			}
			voluntary += number(status, "\nvoluntary_ctxt_switches:")
			involuntary += number(status, "\nnonvoluntary_ctxt_switches:")
		}
	}
	into[measure.TargetContextSwitchesVoluntary] = voluntary
	into[measure.TargetContextSwitchesInvoluntary] = involuntary
	return nil
}

// number returns the number after a key; 0 if there is none.
func number(text []byte, key string) float64 {
	_, rest, found := bytes.Cut(text, []byte(key))
	if !found {
		return 0
	}
	value, _, _ := bytes.Cut(rest, []byte("\n"))
	n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64)
	if err != nil {
		return 0
	}
	return float64(n)
}

// list returns at most limit names of a directory.
func list(dir string, limit int) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(limit)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}
