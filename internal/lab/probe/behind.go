package probe

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"plimsoll/internal/lab/measure"
)

const (
	// mostBehind is the maximum number of services to follow behind the target.
	mostBehind = 4
	// mostLookedFor is the maximum number of addresses whose process is looked up, found or not.
	// Each lookup reads all descriptors of the machine, which takes tens of milliseconds.
	mostLookedFor = 8
)

// behind reads how much processor time the services use that the target connects to and that run on
// the same machine, such as a database. It takes the addresses from the census, and looks up the
// process of each address once.
type behind struct {
	proc   procfs.FS
	census *census
	of     *processes
	looked map[string]bool
	known  []*served
	next   time.Time
	values map[string]float64 // of one service, before they get its name
}

// served is one of these services.
type served struct {
	name      string // address and process name, as in the names of its values
	processes *processes
	titled    bool            // its processes show their activity in their titles
	doing     map[string]bool // the activities seen so far
	text      [512]byte
}

const (
	// maxDoing bounds the distinct activities per service.
	maxDoing = 12
	// maxTitles bounds the processes whose titles are read; each costs a file.
	maxTitles = 128
)

func newBehind(proc procfs.FS, c *census) *behind {
	return &behind{
		proc:   proc,
		census: c,
		of:     c.of,
		looked: make(map[string]bool),
		values: make(map[string]float64),
	}
}

func (*behind) Name() string { return "services behind the target" }

func (b *behind) Read(into map[string]float64) error {
	if b.of == nil || b.of.lost != nil {
		return nil
	}
	b.look()
	for _, s := range b.known {
		clear(b.values)
		// A service that has ended reports nothing; the target will notice.
		if s.processes.Read(b.values) == nil || b.values[measure.TargetCPU] > 0 {
			into[measure.Behind+s.name] = b.values[measure.TargetCPU]
			s.read(b.of.root, into)
		}
	}
	return nil
}

// read counts a service's processes by activity, as their titles show it.
func (s *served) read(root string, into map[string]float64) {
	if !s.titled {
		return
	}
	counts := make(map[string]int)
	for _, m := range s.processes.members[:min(len(s.processes.members), maxTitles)] {
		title, err := readSmall(filepath.Join(root, strconv.Itoa(m.pid), "cmdline"), s.text[:])
		if err != nil {
			continue
		}
		if does := activity(title); does != "" {
			counts[s.known(does)]++
		}
	}
	for does := range s.doing {
		into[measure.Doing+s.name+"/"+does] = float64(counts[does])
	}
}

// waitingLock ends the activity of a process that waits for a lock.
const waitingLock = " waiting"

// known returns the name under which an activity is counted, and remembers it. There are no more than
// maxDoing names and two for the rest: that a process waits for a lock must not get lost there.
func (s *served) known(does string) string {
	name := orRest(s.doing, does, maxDoing)
	if name == theRest && strings.HasSuffix(does, waitingLock) {
		name += waitingLock
	}
	s.doing[name] = true
	return name
}

// activity returns what a PostgreSQL process that serves a client shows as its activity, such as
// "idle in transaction", "SELECT" or "UPDATE waiting"; empty for any other process. Its title is
// "postgres: [CLUSTER: ]USER DATABASE HOST(PORT) ACTIVITY", with [local] instead of the host for a
// Unix socket.
func activity(title []byte) string {
	title, _, _ = bytes.Cut(title, []byte{0})
	if !bytes.HasPrefix(title, []byte("postgres: ")) {
		return ""
	}
	for _, mark := range []string{") ", "[local] "} {
		if _, does, is := bytes.Cut(title, []byte(mark)); is {
			return strings.TrimSpace(called(string(does)))
		}
	}
	return ""
}

// look finds the process behind one new address, at the pace of the census.
func (b *behind) look() {
	now := b.census.now()
	if now.Before(b.next) || len(b.known) == mostBehind || len(b.looked) == mostLookedFor {
		return
	}
	b.next = now.Add(censusEvery)
	here := b.census.namespace == ""
	if here && b.lookHere() {
		return
	}
	for to := range b.census.destinations {
		ours := here && LocalTarget(to.Addr())
		if to.Addr().Unmap().IsPrivate() && !ours && !b.looked[to.String()] {
			b.follow(to.String(), func() (int, string, error) {
				return inContainer(b.of.root, plain(to))
			})
			return
		}
	}
}

// lookHere finds the process behind one new address of this machine, if there is any. In another
// network namespace, its addresses belong to something else.
func (b *behind) lookHere() bool {
	for to := range b.census.destinations {
		if LocalTarget(to.Addr()) && !b.looked[to.String()] {
			b.follow(to.String(), func() (int, string, error) {
				return findPID(b.of.root, int(to.Port()))
			})
			return true
		}
	}
	for to, inode := range b.census.paths {
		if !b.looked[to] {
			b.follow(to, func() (int, string, error) { return findHolder(b.of.root, inode) })
			return true
		}
	}
	return false
}

// follow adds the process behind an address, if it can be found.
func (b *behind) follow(to string, find func() (int, string, error)) {
	b.looked[to] = true
	pid, name, err := find()
	if err != nil || b.follows(pid) {
		return
	}
	all, err := newProcesses(b.proc, Options{Root: b.of.root, PID: pid})
	if err != nil {
		return
	}
	b.census.exchanged.found(to, name)
	all.except = b.of.pid // a service may have started its own proxy
	b.known = append(b.known, &served{
		name:      to + "/" + strings.ReplaceAll(printable(name), "/", "_"),
		processes: all,
		titled:    name == "postgres",
		doing:     make(map[string]bool),
	})
}

// follows reports whether a process belongs to the target or to a service that is followed already.
// A child of the target that runs another program and that the target connects to is a service of
// its own: the target waits for it as for any other. Its processor time still counts in the
// target's.
func (b *behind) follows(pid int) bool {
	of := func(m member) bool { return m.pid == pid && b.program(pid) == b.program(b.of.pid) }
	return slices.ContainsFunc(b.of.members, of) ||
		slices.ContainsFunc(b.known, func(s *served) bool { return s.processes.pid == pid })
}

// program returns the path of a process's executable; empty if it may not be read.
func (b *behind) program(pid int) string {
	path, _ := os.Readlink(filepath.Join(b.of.root, strconv.Itoa(pid), "exe"))
	return path
}
