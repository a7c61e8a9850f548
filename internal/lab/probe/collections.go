package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/measure"
)

const (
	// maxCollectors bounds the collectors of a JVM; there are two or three.
	maxCollectors = 8
	// maxTemporary bounds the names to read from /tmp.
	maxTemporary = 4096
	// maxCauses bounds the causes of collections to report.
	maxCauses = 8
	// maxJVMs bounds the processes of a target whose statistics are read.
	maxJVMs = 16
)

// collections reports what HotSpot's collectors have done in the target. It reads the statistics
// file that each JVM keeps in its /tmp unless started with -XX:-UsePerfData. It costs 25 µs per JVM
// (BenchmarkCollections), and a little more every 16th time, when it looks for the files.
type collections struct {
	of     *processes
	files  []figuresFile // kept open until the sampler is garbage-collected
	looked int           // of's lookup count when the files were looked up
	data   []byte
	// counted is each process's number of collections at the last look. causes counts the
	// collections per cause since the first look.
	counted map[int]float64
	causes  map[string]float64
}

// figuresFile is the statistics file of a process.
type figuresFile struct {
	*os.File
	pid int
}

func (*collections) Name() string { return "the target's garbage collections" }

func (c *collections) Read(into map[string]float64) error {
	if c.of.lost != nil {
		c.forget()
		return nil
	}
	if c.looked != c.of.looked {
		c.looked = c.of.looked
		c.lookUp()
	}
	var broken error
	for _, f := range c.files {
		data, err := c.whole(f.File)
		if err == nil {
			err = c.add(f.pid, data, into)
		}
		broken = errors.Join(broken, err)
	}
	for cause, n := range c.causes {
		into[measure.TargetCollectedFor+cause] = n
	}
	return broken
}

// add adds a JVM's statistics to a sample. If there were several collections since the last look,
// all count under the cause of the last one.
func (c *collections) add(pid int, data []byte, into map[string]float64) error {
	p, err := parsePerfData(data, wantedFigure)
	if err != nil || p == nil {
		return err
	}
	runs, err := p.sample(into)
	if err != nil {
		return err
	}
	before, seen := c.counted[pid]
	if c.counted == nil {
		c.counted, c.causes = map[int]float64{}, map[string]float64{}
	}
	c.counted[pid] = runs
	cause := p.texts[nowCause]
	if cause == "" || cause == noCause {
		cause = p.texts[lastCause]
	}
	_, told := c.causes[cause]
	if seen && runs > before && cause != "" && cause != noCause &&
		(told || len(c.causes) < maxCauses) {
		c.causes[cause] += runs - before
	}
	return nil
}

// forget closes the files.
func (c *collections) forget() {
	for _, f := range c.files {
		f.Close()
	}
	c.files = c.files[:0]
}

// lookUp opens the files of the target's processes. Most programs have none.
func (c *collections) lookUp() {
	c.forget()
	for _, m := range c.of.members {
		if len(c.files) == maxJVMs {
			break
		}
		if f := figuresFileOf(filepath.Join(c.of.root, strconv.Itoa(m.pid))); f != nil {
			c.files = append(c.files, figuresFile{f, m.pid})
		}
	}
	maps.DeleteFunc(c.counted, func(pid int, _ float64) bool {
		return !slices.ContainsFunc(c.files, func(f figuresFile) bool { return f.pid == pid })
	})
}

// whole reads all of a file.
func (c *collections) whole(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil || info.Size() > maxPerfData {
		return nil, errPerfData
	}
	if c.data == nil {
		c.data = make([]byte, maxPerfData)
	}
	n, err := f.ReadAt(c.data[:info.Size()], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("its figures (hsperfdata) cannot be read: %w", err)
	}
	return c.data[:n], nil
}

// figuresFileOf opens /tmp/hsperfdata_USER/PID as the process sees it; nil if there is none. In a
// shared /tmp, anyone may create such a name, so the file must belong to the process's user, and
// links are not followed.
func figuresFileOf(dir string) *os.File {
	status, err := readSmall(filepath.Join(dir, "status"), make([]byte, 8192))
	if err != nil {
		return nil
	}
	number := strconv.Itoa(ownNumber(status, filepath.Base(dir)))
	const folder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	top, err := unix.Open(filepath.Join(dir, "root"), folder, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(top)
	fd, err := unix.Openat(top, "tmp", folder|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	temporary := os.NewFile(uintptr(fd), "tmp")
	defer temporary.Close()
	names, err := temporary.Readdirnames(maxTemporary)
	if err != nil {
		return nil
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "hsperfdata_") {
			continue
		}
		users, err := unix.Openat(fd, name, folder|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		f := openOwn(users, number, status)
		unix.Close(users)
		if f != nil {
			return f
		}
	}
	return nil
}

// openOwn opens a regular file if it belongs to the user of a process.
func openOwn(folder int, name string, status []byte) *os.File {
	fd, err := unix.Openat(folder, name,
		unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	var is unix.Stat_t
	_, rest, found := bytes.Cut(status, []byte("\nUid:"))
	users := bytes.Fields(rest)
	if unix.Fstat(fd, &is) == nil && is.Mode&unix.S_IFMT == unix.S_IFREG && found &&
		len(users) > 1 && string(users[1]) == strconv.FormatUint(uint64(is.Uid), 10) {
		return os.NewFile(uintptr(fd), name)
	}
	unix.Close(fd)
	return nil
}

// ownNumber returns a process's PID as it sees it itself; in a container it differs.
func ownNumber(status []byte, otherwise string) int {
	own, _ := strconv.Atoi(otherwise)
	_, rest, _ := bytes.Cut(status, []byte("\nNSpid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if numbers := bytes.Fields(line); len(numbers) > 0 {
		if n, err := strconv.Atoi(string(numbers[len(numbers)-1])); err == nil {
			own = n
		}
	}
	return own
}

const (
	aCollector = "sun.gc.collector."
	// oldName holds the name of the second generation, and oldSpace is the prefix of its
	// statistics. Only if the name is "old", as with the serial and parallel collectors and G1, is
	// its usage what collections have left: Shenandoah counts its whole heap there.
	oldName  = "sun.gc.generation.1.name"
	oldSpace = "sun.gc.generation.1.space.0."
	// One of the two is the cause of the collection under way, the other the cause of the last one.
	// One of them is always set, and the other is noCause.
	nowCause, lastCause, noCause = "sun.gc.cause", "sun.gc.lastCause", "No GC"
)

// wantedFigure reports whether a statistic is sampled.
func wantedFigure(name string) bool {
	return strings.HasPrefix(name, aCollector) || name == "sun.os.hrt.frequency" ||
		name == "sun.rt.safepoints" || name == "sun.rt.safepointTime" ||
		name == lastCause || name == nowCause || name == oldName ||
		name == oldSpace+"used" || name == oldSpace+"maxCapacity"
}

// sample adds a JVM's statistics to a sample, and returns the number of collections so far.
func (p *perfData) sample(into map[string]float64) (all float64, err error) {
	ticks := float64(p.numbers["sun.os.hrt.frequency"])
	if ticks <= 0 {
		return 0, errPerfData
	}
	for i := range maxCollectors {
		of := aCollector + strconv.Itoa(i) + "."
		name := p.texts[of+"name"]
		runs, counted := p.numbers[of+"invocations"]
		time, timed := p.numbers[of+"time"]
		if name == "" || !counted || !timed || runs < 0 || time < 0 {
			continue
		}
		all += float64(runs)
		into[measure.TargetCollections+name] += float64(runs)
		into[measure.TargetCollecting+name] += float64(time) / ticks
	}
	points, counted := p.numbers["sun.rt.safepoints"]
	time, timed := p.numbers["sun.rt.safepointTime"]
	if counted && timed && points >= 0 && time >= 0 && points < math.MaxInt32 {
		into[measure.TargetSafepoints] += float64(points)
		into[measure.TargetSafepointTime] += float64(time) / ticks
	}
	old, most := p.numbers[oldSpace+"used"], p.numbers[oldSpace+"maxCapacity"]
	if p.texts[oldName] == "old" && !strings.HasPrefix(p.texts[aCollector+"0.name"], "ZGC") &&
		old >= 0 && most > 0 {
		into[measure.TargetOld] += float64(old)
		into[measure.TargetOldMost] += float64(most)
	}
	return all, nil
}
