package probe

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var cgroupCases = map[string]struct {
	cgroup string
	files  map[string]string
	want   map[string]float64
	said   string
}{
	"version 1": {
		"1:cpu,cpuacct:/a/b\n2:memory:/here/a/b\n0::/\n",
		map[string]string{
			"cpu/a/b/cpu.cfs_quota_us":  "-1",
			"cpu/a/b/cpu.cfs_period_us": "100000",
			"cpu/a/cpu.cfs_quota_us":    "150000",
			"cpu/a/cpu.cfs_period_us":   "100000",
			"cpu/a/cpu.stat": "nr_periods 9\nnr_throttled 4\n" +
				"throttled_time 2500000000\n",
			"cpu/cpu.cfs_quota_us":  "400000",
			"cpu/cpu.cfs_period_us": "100000",
			"cpu/cpu.stat": "nr_periods 1\nnr_throttled 1\n" +
				"throttled_time 1\n",
			"memory/a/b/memory.usage_in_bytes": "10",
			"memory/a/b/memory.limit_in_bytes": "9223372036854771712",
			"memory/a/memory.usage_in_bytes":   "20",
			"memory/a/memory.limit_in_bytes":   "1000",
			"memory/memory.usage_in_bytes":     "30",
			"memory/memory.limit_in_bytes":     "5000",
		},
		map[string]float64{
			"cpu_quota_cores":    1.5,
			"periods":            9,
			"throttled_periods":  4,
			"throttled_seconds":  2.5,
			"memory_bytes":       20,
			"memory_limit_bytes": 1000,
		},
		"",
	},
	"version 2": {
		"0::/a/b\n",
		map[string]string{
			"unified/a/b/cpu.max": "50000 100000\n",
			"unified/a/b/cpu.stat": "usage_usec 5\nnr_periods 7\nnr_throttled 3\n" +
				"throttled_usec 1500000\n",
			"unified/a/cpu.max":          "max 100000\n",
			"unified/a/b/memory.current": "77",
			"unified/a/b/memory.max":     "max",
			"unified/a/memory.current":   "99",
			"unified/a/memory.max":       "max\n",
		},
		map[string]float64{
			"cpu_quota_cores":   .5,
			"periods":           7,
			"throttled_periods": 3,
			"throttled_seconds": 1.5,
			"memory_bytes":      77,
		},
		"",
	},
	"no limits": {"1:cpu,cpuacct:/a\n2:memory:/here/a\n", map[string]string{
		"cpu/a/cpu.cfs_quota_us":         "-1",
		"cpu/a/cpu.cfs_period_us":        "100000",
		"cpu/a/cpu.stat":                 "nr_periods 0\n",
		"memory/a/memory.usage_in_bytes": "10",
		"memory/memory.usage_in_bytes":   "30",
	}, map[string]float64{"memory_bytes": 10}, ""},
	"outside of what can be seen": {
		"1:cpu,cpuacct:/../x\n2:memory:/there/app\n", nil, map[string]float64{},
		"/../x (cpu) cannot be seen from here",
	},
	"a name that begins alike": {
		"1:cpu,cpuacct:/\n2:memory:/hereafter\n", nil, map[string]float64{},
		"/hereafter (memory) cannot be seen from here",
	},
	"without the controllers": {"3:pids:/app\n", nil, map[string]float64{}, "there is no controller for cpu"},
	"uncounted":               {"0::/a\n", nil, map[string]float64{}, "its memory is not counted"},
	"too deep": {
		"0::" + strings.Repeat("/x", 40) + "\n", nil, map[string]float64{},
		"it lies below more than 32 others",
	},
}

func TestTheTightestLimitOfACgroupAndThoseAboveItCounts(t *testing.T) {
	for name, c := range cgroupCases {
		t.Run(name, func(t *testing.T) {
			f := newFakeProc(t)
			f.process(process{pid: 20, parent: 1, name: "app", start: 100, cgroup: c.cgroup})
			for name, text := range c.files {
				f.write("../"+name, text)
			}
			s := New(Options{Root: f.root, Sys: f.sys, PID: 20})
			s.Sample(0)
			values := s.Sample(1).Values
			for _, name := range []string{
				"cpu_quota_cores", "periods", "throttled_periods", "throttled_seconds",
				"memory_bytes", "memory_limit_bytes",
			} {
				got, there := values["target.cgroup."+name]
				want, should := c.want[name]
				if got != want || there != should {
					t.Errorf("%s is %v (there: %v), want %v (%v)", name, got, there, want, should)
				}
			}
			missing := strings.Join(s.NotMeasured(), "\n")
			if c.said == "" && missing != "" || !strings.Contains(missing, c.said) ||
				c.said != "" && strings.Count(missing, c.said) != 1 {
				t.Errorf("said: %s\nwant %q, once", missing, c.said)
			}
		})
	}
}

func TestATargetThatIsMovedToAnotherCgroupIsReadThere(t *testing.T) {
	f := newFakeProc(t)
	f.process(process{pid: 20, parent: 1, name: "app", start: 100})
	s := New(Options{Root: f.root, Sys: f.sys, PID: 20})
	if got := s.Sample(0).Values["target.cgroup.memory_bytes"]; got != 5000 {
		t.Fatal(got)
	}
	f.write("20/cgroup", "1:cpu,cpuacct:/\n2:memory:/here/other\n")
	f.write("../memory/other/memory.usage_in_bytes", "6000\n")
	var got float64
	for i := range treeEvery {
		got = s.Sample(int64(i)).Values["target.cgroup.memory_bytes"]
	}
	if got != 6000 {
		t.Errorf("its cgroup uses %v, want 6000", got)
	}
}

// A real cgroup, of whichever version the machine lets one be made in.
func TestAThrottledProcessIsSeenToBe(t *testing.T) {
	name := fmt.Sprintf("plimsoll-probe-test-%d", os.Getpid())
	folder, limit := "", ""
	for _, c := range []struct{ root, file, text string }{
		{"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "10000"},
		{"/sys/fs/cgroup/cpu,cpuacct", "cpu.cfs_quota_us", "10000"},
		{"/sys/fs/cgroup", "cpu.max", "10000 100000"},
	} {
		made := filepath.Join(c.root, name)
		if os.Mkdir(made, 0o755) != nil {
			continue
		}
		if os.WriteFile(filepath.Join(made, c.file), []byte(c.text), 0o644) == nil {
			folder, limit = made, c.file
			break
		}
		os.Remove(made)
	}
	if folder == "" {
		t.Log("no cgroup with a limit can be made here: not tested")
		return
	}
	t.Logf("%s by %s", folder, limit)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), roleVariable+"=burner")
	in, err := child.StdinPipe() // it ends with this test, however that ends
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		child.Process.Kill()
		child.Wait()
		os.Remove(folder)
	})
	if err := os.WriteFile(filepath.Join(folder, "cgroup.procs"),
		fmt.Append(nil, child.Process.Pid), 0o644); err != nil {
		t.Fatal(err)
	}
	s := New(Options{PID: child.Process.Pid})
	var values map[string]float64
	for range 20_000 {
		if values = s.Sample(0).Values; values["target.cgroup.throttled_periods"] > 1 &&
			values["target.cgroup.throttled_seconds"] > 0 {
			break
		}
	}
	if values["target.cgroup.cpu_quota_cores"] != .1 ||
		values["target.cgroup.throttled_periods"] < 2 ||
		values["target.cgroup.throttled_seconds"] <= 0 ||
		values["target.cgroup.periods"] < values["target.cgroup.throttled_periods"] {
		t.Errorf("of a tenth of a core: %v; %q", values, s.NotMeasured())
	}
}
