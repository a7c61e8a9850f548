package probe

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"plimsoll/internal/lab/measure"
)

const (
	// maxGroups bounds the folders to read: the target's cgroup and those above it.
	maxGroups = 32
	// unlimited is the value from which version 1 means no limit: it has no word for that, and
	// reports nearly 2⁶³ bytes.
	unlimited = 1 << 60
)

// cgroup reads what the target's cgroup may use and has used, from version 1 or 2, whichever has
// the controller. It costs 50 µs with two cgroups above it, and 10 µs for each further one
// (BenchmarkCgroup).
type cgroup struct {
	of          *processes
	cpu, memory groups
	looked      int // of's lookup count when the groups were looked up
	missing     error
	text        [4096]byte
}

// groups are the folders of a cgroup and of its ancestors for one controller, the target's own
// first. It is empty if the target has no such controller.
type groups struct {
	folders []string
	second  bool // of version 2
}

func (*cgroup) Name() string { return "the target's cgroup" }

func (c *cgroup) Read(into map[string]float64) error {
	if c.of.lost != nil {
		return nil
	}
	// The target may be moved to another cgroup while it runs.
	if c.looked != c.of.looked {
		c.looked = c.of.looked
		c.missing = c.lookUp()
	}
	c.readCPU(into)
	if !c.readMemory(into) && c.missing == nil {
		return errors.New("its memory is not counted: neither its cgroup nor one above has " +
			"that controller")
	}
	return c.missing
}

// lookUp finds the folders.
func (c *cgroup) lookUp() error {
	process, err := c.of.proc.Proc(c.of.pid)
	if err != nil {
		return nil // it has ended; the next sample reports that
	}
	memberships, err := process.Cgroups()
	if err != nil {
		return err
	}
	mounts, err := c.of.proc.GetMounts()
	if err != nil {
		return err
	}
	var err1, err2 error
	c.cpu, err1 = foldersOf("cpu", memberships, mounts)
	c.memory, err2 = foldersOf("memory", memberships, mounts)
	return errors.Join(err1, err2)
}

func foldersOf(
	controller string, memberships []procfs.Cgroup, mounts []*procfs.MountInfo,
) (g groups, err error) {
	at := slices.IndexFunc(memberships, func(m procfs.Cgroup) bool {
		return slices.Contains(m.Controllers, controller)
	})
	if g.second = at < 0; g.second {
		at = slices.IndexFunc(memberships, func(m procfs.Cgroup) bool {
			return m.HierarchyID == 0 && len(m.Controllers) == 0
		})
	}
	if at < 0 {
		return groups{}, fmt.Errorf("there is no controller for %s", controller)
	}
	for _, m := range mounts {
		_, has := m.SuperOptions[controller]
		if g.second && m.FSType != "cgroup2" || !g.second && (m.FSType != "cgroup" || !has) {
			continue
		}
		below, ok := strings.CutPrefix(memberships[at].Path, strings.TrimSuffix(m.Root, "/"))
		if !ok || below != "" && below[0] != '/' || strings.HasPrefix(below, "/..") {
			continue
		}
		for folder := path.Join(m.MountPoint,
			below); len(g.folders) < maxGroups; folder = path.Dir(folder) {
			g.folders = append(g.folders, folder)
			if folder == path.Clean(m.MountPoint) {
				return g, nil
			}
		}
		return groups{}, fmt.Errorf("it lies below more than %d others", maxGroups)
	}
	return groups{}, fmt.Errorf("%s (%s) cannot be seen from here",
		memberships[at].Path, controller)
}

// readCPU reports the tightest quota and its throttling. Without a quota it reports nothing.
func (c *cgroup) readCPU(into map[string]float64) {
	tightest, least := "", 0.0
	for _, folder := range c.cpu.folders {
		if quota, ok := c.quota(folder); ok && (tightest == "" || quota < least) {
			tightest, least = folder, quota
		}
	}
	if tightest == "" {
		return
	}
	into[measure.TargetCgroupCPUQuota] = least
	text, err := readSmall(path.Join(tightest, "cpu.stat"), c.text[:])
	if err != nil {
		return
	}
	text = slices.Concat([]byte("\n"), text)
	into[measure.TargetCgroupPeriods] = number(text, "\nnr_periods ")
	into[measure.TargetCgroupThrottledPeriods] = number(text, "\nnr_throttled ")
	if c.cpu.second {
		into[measure.TargetCgroupThrottled] = number(text, "\nthrottled_usec ") / 1e6
	} else {
		into[measure.TargetCgroupThrottled] = number(text, "\nthrottled_time ") / 1e9
	}
}

// quota returns a cgroup's quota in processors; ok is false if it has none.
func (c *cgroup) quota(folder string) (cores float64, ok bool) {
	if c.cpu.second {
		text, err := readSmall(path.Join(folder, "cpu.max"), c.text[:])
		if err != nil {
			return 0, false // the topmost cgroup has no such file
		}
		quota, period, _ := bytes.Cut(bytes.TrimSpace(text), []byte(" "))
		return ratio(string(quota), string(period))
	}
	var words [2]string
	for i, name := range []string{"cpu.cfs_quota_us", "cpu.cfs_period_us"} {
		text, err := readSmall(path.Join(folder, name), c.text[:])
		if err != nil {
			return 0, false
		}
		words[i] = string(bytes.TrimSpace(text))
	}
	return ratio(words[0], words[1])
}

// ratio divides two positive numbers; "max" and -1 are not numbers here.
func ratio(a, b string) (float64, bool) {
	x, err1 := strconv.ParseUint(a, 10, 63)
	y, err2 := strconv.ParseUint(b, 10, 63)
	if err1 != nil || err2 != nil || x == 0 || y == 0 {
		return 0, false
	}
	return float64(x) / float64(y), true
}

// readMemory reports the tightest limit and the usage of that cgroup. Without a limit, it reports
// the usage of the nearest cgroup that counts memory. ok is false if none does.
func (c *cgroup) readMemory(into map[string]float64) (ok bool) {
	limitName, usedName := "memory.limit_in_bytes", "memory.usage_in_bytes"
	if c.memory.second {
		limitName, usedName = "memory.max", "memory.current"
	}
	least, of := float64(unlimited), 0.0
	for _, folder := range c.memory.folders {
		used, counted := c.bytes(folder, usedName)
		if !counted {
			continue
		}
		if limit, limited := c.bytes(folder, limitName); limited && limit < least {
			least, of = limit, used
		} else if !ok {
			of = used
		}
		ok = true
	}
	if !ok {
		return false
	}
	into[measure.TargetCgroupMemory] = of
	if least < unlimited {
		into[measure.TargetCgroupMemoryLimit] = least
	}
	return true
}

// bytes reads a file that holds one number; ok is false for "max" and the like.
func (c *cgroup) bytes(folder, name string) (float64, bool) {
	text, err := readSmall(path.Join(folder, name), c.text[:])
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 63)
	return float64(n), err == nil
}
