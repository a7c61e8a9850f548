package doctor

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
)

const (
	// wellDescriptors is enough for 30,000 connections, each with one to an upstream.
	wellDescriptors = 65536
	fewDescriptors  = 4096
	// mostDescriptors is the largest number of descriptors that are searched for UDP sockets.
	mostDescriptors = 1 << 14
)

type descriptors struct {
	used, limit float64
	hard        string
}

func readDescriptors(s *subject) (d descriptors, err error) {
	limits, err := s.ofPID("limits")
	if err != nil {
		return d, err
	}
	for line := range strings.Lines(limits) {
		if rest, is := strings.CutPrefix(line, "Max open files"); is {
			if fields := strings.Fields(rest); len(fields) >= 2 {
				d.hard = fields[1]
				d.limit, err = strconv.ParseFloat(fields[0], 64)
				if fields[0] == "unlimited" {
					d.limit, err = math.MaxInt32, nil
				}
			}
		}
	}
	if err == nil && d.limit == 0 {
		err = fmt.Errorf("its limits are not understood")
	}
	if err != nil {
		return d, err
	}
	d.used, err = s.value(measure.TargetDescriptors)
	return d, err
}

func judgeDescriptors(s *subject, d descriptors) opinion {
	o := opinion{
		value: fmt.Sprintf("%.0f of %.0f (hard limit %s)", d.used, d.limit, d.hard),
		why:   "a connection takes one, and one more where it is proxied",
	}
	well := wellDescriptors
	if d.used > .7*d.limit {
		well = max(well, int(2*d.limit))
	}
	switch {
	case d.used > .7*d.limit:
		o.advise = true
		o.why = fmt.Sprintf("%.0f %% are in use: when they are used up, connections are no "+
			"longer accepted and files not opened", 100*d.used/d.limit)
	case d.limit < fewDescriptors && len(s.listeners) > 0:
		o.advise = true
		o.why = fmt.Sprintf("it is a server, and a connection takes one, and one more where it "+
			"is proxied: it can hold %.0f connections, or half as many", d.limit-d.used)
	}
	if o.advise {
		o.recommended = strconv.Itoa(well)
		// Keep a higher hard limit: only root could raise it again.
		both := o.recommended + ":" + d.hard
		if hard, err := strconv.Atoi(d.hard); err == nil && hard < well {
			both = o.recommended + ":" + o.recommended
		}
		o.command = fmt.Sprintf("prlimit --pid %d --nofile=%s # until it ends; for good: "+
			"LimitNOFILE=%s in its systemd unit, or --ulimit nofile=%s of docker",
			s.pid, both, both, both)
	}
	return o
}

// descriptors returns the kernel's names of what the process has open.
func (s *subject) descriptors() (links []string) {
	dir := filepath.Join(s.proc, strconv.Itoa(s.pid), "fd")
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, err := f.Readdirnames(mostDescriptors)
	if err != nil && err != io.EOF {
		return nil
	}
	for _, name := range names {
		if link, err := os.Readlink(filepath.Join(dir, name)); err == nil {
			links = append(links, link)
		}
	}
	return links
}

// quota is the tightest CPU quota of the process's cgroup and its parents; 0 cores for none.
type quota struct{ cores, periods, throttled float64 }

func readQuota(s *subject) (quota, error) {
	cores, there := s.values[measure.TargetCgroupCPUQuota]
	if !there {
		return quota{}, s.cgroupError()
	}
	return quota{
		cores, s.values[measure.TargetCgroupPeriods], s.values[measure.TargetCgroupThrottledPeriods],
	}, nil
}

// cgroupError says what the probes could not read of the process's cgroup.
func (s *subject) cgroupError() error {
	for _, m := range s.missing {
		if why, is := strings.CutPrefix(m, "the target's cgroup: "); is &&
			!strings.Contains(why, "its memory is not counted") {
			return fmt.Errorf("%s", why)
		}
	}
	return nil
}

func judgeQuota(s *subject, q quota) opinion {
	if q.cores == 0 {
		return opinion{
			value: "none",
			why:   fmt.Sprintf("the process may use all of its %d cores", s.cores()),
		}
	}
	o := opinion{
		value: fmt.Sprintf("%.3g cores", q.cores),
		why:   "no period in which it was used up, or hardly any",
	}
	if q.periods > 0 {
		share := q.throttled / q.periods
		o.value += fmt.Sprintf(", throttled in %s of its periods", format.Percent(share))
		if share > .01 {
			o.advise = true
			o.recommended = fmt.Sprintf("more than %.3g cores, or no quota", q.cores)
			o.why = fmt.Sprintf("in %s of the periods in which it ran, it was stopped until the "+
				"period's end (up to 100 ms), in the middle of requests",
				format.Percent(share))
			o.command = fmt.Sprintf("grep -H . /proc/%d/cgroup # then raise cpu.max there, "+
				"resources.limits.cpu of the pod, --cpus of docker, or CPUQuota= of the unit",
				s.pid)
		}
	}
	return o
}

type memoryLimit struct{ limit, used float64 }

func readMemoryLimit(s *subject) (memoryLimit, error) {
	limit, there := s.values[measure.TargetCgroupMemoryLimit]
	if !there {
		return memoryLimit{}, s.cgroupError()
	}
	return memoryLimit{limit, s.values[measure.TargetCgroupMemory]}, nil
}

func judgeMemoryLimit(s *subject, m memoryLimit) opinion {
	if m.limit == 0 {
		return opinion{value: "none", why: "the process may use the machine's memory"}
	}
	o := opinion{
		value: fmt.Sprintf("%s of %s", format.Bytes(m.used), format.Bytes(m.limit)),
		why: "the cgroup has room; files that it has read count, and " +
			"go when there is none",
	}
	resident := s.values[measure.TargetRSS]
	if resident > .85*m.limit {
		o.advise, o.recommended = true, fmt.Sprintf("%.0f", 1.3*resident)
		o.why = fmt.Sprintf("the process alone has %s of it: at the limit the kernel kills it, "+
			"or one beside it", format.Bytes(resident))
		o.command = fmt.Sprintf("grep -H . /proc/%d/cgroup # then raise memory.max there, "+
			"resources.limits.memory of the pod, or MemoryMax= of the unit", s.pid)
	}
	return o
}

// maxProcs is how many threads of a Go program run Go code at once, as far as is visible from
// outside.
type maxProcs struct {
	set     string // GOMAXPROCS in its environment
	follows bool   // it follows the quota by itself
	why     string
}

func readMaxProcs(s *subject) (m maxProcs, err error) {
	if m.set, _, err = s.environment("GOMAXPROCS"); err != nil {
		return m, err
	}
	debug, _, err := s.environment("GODEBUG")
	if err != nil {
		return m, err
	}
	m.follows, m.why = followsQuota(s, debug)
	return m, nil
}

// followsQuota reports whether the program sets GOMAXPROCS by the quota: the runtime does since Go
// 1.25 if go.mod has such a version too, and a library can.
func followsQuota(s *subject, debug string) (follows bool, why string) {
	for _, d := range s.built.Deps {
		if d.Path == "go.uber.org/automaxprocs" {
			return true, "the program has automaxprocs built in"
		}
	}
	if !goAtLeast(s.built.GoVersion, 25) {
		return false, s.built.GoVersion + " knows nothing of quotas (Go 1.25 and later do)"
	}
	for _, setting := range s.built.Settings {
		if setting.Key == "DefaultGODEBUG" {
			debug = setting.Value + "," + debug // the last one counts
		}
	}
	on := true
	for part := range strings.SplitSeq(debug, ",") {
		switch strings.TrimSpace(part) {
		case "containermaxprocs=0":
			on = false
		case "containermaxprocs=1":
			on = true
		}
	}
	if !on {
		return false, "it was told not to follow quotas (containermaxprocs=0, " +
			"as by a go.mod that says go 1.24 or less)"
	}
	return true, s.built.GoVersion + " follows the quota by itself"
}

// goAtLeast reports whether a version such as "go1.26.1" or "devel go1.27-abc" is Go 1.minor or
// later. An unknown form counts as new.
func goAtLeast(version string, minor int) bool {
	_, rest, found := strings.Cut(version, "go1.")
	if !found {
		return true
	}
	digits := rest
	if end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = rest[:end]
	}
	n, err := strconv.Atoi(digits)
	return err != nil || n >= minor
}

func judgeMaxProcs(s *subject, m maxProcs) opinion {
	cores := s.cores()
	allowed := float64(cores) // the most that it can use
	limit, limited := s.values[measure.TargetCgroupCPUQuota]
	if limited {
		allowed = min(allowed, limit)
	}
	well := int(max(1, math.Ceil(allowed)))
	in := cores
	o := opinion{}
	if set, err := strconv.Atoi(m.set); err == nil && set > 0 {
		in = set
		o.value = fmt.Sprintf("%d, by its environment", set)
	} else {
		if m.follows && limited {
			in = min(cores, max(2, int(math.Ceil(limit))))
		}
		o.value = fmt.Sprintf("%d, by its default", in)
	}
	o.why = fmt.Sprintf("it may use %.3g cores (%s; what the program sets itself is not "+
		"seen from outside)", allowed, m.why)
	set := strconv.Itoa(well)
	switch {
	case float64(in) >= allowed+1 && in > 2:
		o.advise, o.recommended = true, set
		o.why = fmt.Sprintf("%d threads share a quota of %.3g cores (%s): "+
			"together they use it up early in a period, and all of them stop until its end, "+
			"the garbage collector's too", in, allowed, m.why)
		if !limited {
			o.why = fmt.Sprintf("%d threads share %d cores, and take turns on them where the "+
				"runtime thinks that they run", in, cores)
		}
	case in < well:
		o.advise, o.recommended = true, set
		o.why = fmt.Sprintf("it may use %.3g cores, and %d are left idle", allowed, well-in)
	}
	if o.advise {
		o.command = fmt.Sprintf("GOMAXPROCS=%s # in its environment (systemd: "+
			"Environment=GOMAXPROCS=%s; a pod: env), and start it again", set, set)
	}
	return o
}

type goMemory struct {
	set   string
	limit float64 // of the cgroup
}

func readGoMemory(s *subject) (g goMemory, err error) {
	if g.set, _, err = s.environment("GOMEMLIMIT"); err != nil {
		return g, err
	}
	g.limit = s.values[measure.TargetCgroupMemoryLimit]
	return g, nil
}

func judgeGoMemory(s *subject, g goMemory) opinion {
	o := opinion{value: "not set", why: "there is no memory limit that it would have to know of"}
	if g.set != "" {
		return opinion{
			value: format.Clean(g.set),
			why:   "the collector works harder when the heap comes near to it",
		}
	}
	if g.limit > 0 {
		mebibytes := int(g.limit * .9 / (1 << 20))
		o.advise, o.recommended = true, fmt.Sprintf("%dMiB", mebibytes)
		o.why = fmt.Sprintf("the collector does not know of the limit of %s, "+
			"and lets the heap grow beyond it when there is a peak: the kernel then kills the "+
			"process. 90 %% of the limit leave room for what is not heap",
			format.Bytes(g.limit))
		o.command = fmt.Sprintf("GOMEMLIMIT=%dMiB # in its environment, and start it again",
			mebibytes)
	}
	return o
}
