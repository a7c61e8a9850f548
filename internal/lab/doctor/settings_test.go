//go:build !race

package doctor

import (
	"context"
	"debug/buildinfo"
	"errors"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

func TestWithoutAProcessTheMachineIsLookedAt(t *testing.T) {
	f := newFake(t)
	r := f.examine(0)
	for _, found := range r.Findings {
		if found.Verdict != Good || strings.Contains(found.Name, "process") ||
			strings.HasPrefix(found.Name, "GO") {
			t.Errorf("%+v", found)
		}
	}
	if r.Process != nil || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "--pid") {
		t.Errorf("%+v", r)
	}
}

func files(all map[string]string) func(f *fake) { return func(f *fake) { f.files(all) } }

func process(all map[string]string) func(f *fake) { return func(f *fake) { f.process(all) } }

var advisedCases = map[string]struct {
	change                           func(f *fake)
	finding                          string
	value, why, recommended, command string
}{
	"few descriptors": {
		process(map[string]string{
			"limits": "Max open files            1024                 4096                 " +
				"files     \n",
		}),
		"descriptors of the process", "2 of 1024 (hard limit 4096)",
		"it can hold 1022 connections", "65536", "prlimit --pid 42 --nofile=65536:65536",
	},
	"few descriptors below a high hard limit": {
		process(map[string]string{
			"limits": "Max open files            1024                 524288               " +
				"files     \n",
		}),
		"descriptors of the process", "2 of 1024 (hard limit 524288)",
		"it can hold 1022 connections", "65536",
		"prlimit --pid 42 --nofile=65536:524288 # until it ends; for good: " +
			"LimitNOFILE=65536:524288 in its systemd unit, or --ulimit nofile=65536:524288",
	},
	"used up descriptors": {
		process(map[string]string{
			"limits": "Max open files            2                 4096                 " +
				"files     \n",
		}),
		"descriptors of the process", "2 of 2", "100 % are in use", "65536",
		"LimitNOFILE=65536:65536",
	},
	"the system's descriptors": {
		files(map[string]string{"proc/sys/fs/file-nr": "90000\t0\t100000\n"}),
		"descriptors of the system", "90000 of 100000",
		"90 %", "200000", "fs.file-max=200000",
	},
	"a small somaxconn": {
		files(map[string]string{"proc/sys/net/core/somaxconn": "128\n"}), "net.core.somaxconn",
		"128",
		"burst of more than 128", "4096", "sysctl -w net.core.somaxconn=4096",
	},
	"no SYN cookies": {
		files(map[string]string{"proc/sys/net/ipv4/tcp_syncookies": "0\n"}),
		"net.ipv4.tcp_max_syn_backlog", "512",
		"SYN cookies are off", "net.ipv4.tcp_syncookies=1",
		"sysctl -w net.ipv4.tcp_syncookies=1",
	},
	"few ports": {
		files(map[string]string{"proc/sys/net/ipv4/ip_local_port_range": "50000 50999\n"}),
		"net.ipv4.ip_local_port_range",
		"50000-50999", "16 new connections a second", "32768-60999", "'32768 60999'",
	},
	"ports in use": {
		process(map[string]string{"net/tcp": waiting(20000, "0200000A")}),
		"net.ipv4.ip_local_port_range", "32768-60999",
		"20000 of 28232 ports are taken by connections to 10.0.0.2:5432", "10240-65535",
		"'10240 65535'",
	},
	"an exposed port": {
		process(map[string]string{"net/tcp": tcpHead + listens(40000, 1001)}),
		"net.ipv4.ip_local_port_range", "32768-60999",
		"cannot start again", "reserve 40000", "ip_local_reserved_ports=40000",
	},
	"TIME_WAIT": {
		process(map[string]string{"net/tcp": waiting(4000, "0200000A")}),
		"net.ipv4.tcp_tw_reuse", "2, 4000 ports in TIME_WAIT",
		"4000 connections to other machines", "1",
		"sysctl -w net.ipv4.tcp_tw_reuse=1",
	},
	"TIME_WAIT with reuse off": {
		func(f *fake) {
			f.process(map[string]string{"net/tcp": waiting(4000, "0100007F")})
			f.files(map[string]string{"proc/sys/net/ipv4/tcp_tw_reuse": "0\n"})
		}, "net.ipv4.tcp_tw_reuse", "0, 4000 ports in TIME_WAIT",
		"4000 connections that were closed here", "1", "sysctl -w net.ipv4.tcp_tw_reuse=1",
	},
	"small buffers": {
		files(map[string]string{"proc/sys/net/ipv4/tcp_rmem": "4096 87380 174760\n"}),
		"net.ipv4.tcp_rmem", "4096 87380 174760",
		"no more than 1.75 MB a second", "4096 87380 6291456",
		"net.ipv4.tcp_rmem='4096 87380 6291456'",
	},
	"HTTP/3's buffers": {
		process(map[string]string{
			"net/udp": "   1: 00000000:1F90 00000000:0000 07 00000000:00000000 00:00000000 " +
				"00000000  1000        0 1001 2 0 0\n",
		}), "net.core.rmem_max", "212992", "UDP", "7500000", "net.core.rmem_max=7500000",
	},
	"a full table": {
		files(map[string]string{"proc/sys/net/netfilter/nf_conntrack_count": "9000\n",
			"proc/sys/net/netfilter/nf_conntrack_max": "10000\n"}), "connection tracking",
		"9000 of 10000", "90 % full", "20000",
		"nf_conntrack_max=20000",
	},
	"a quota that binds": {
		files(map[string]string{
			"cg/app/cpu.max": "150000 100000\n",
			"cg/app/cpu.stat": "usage_usec 5\nnr_periods 1000\nnr_throttled " +
				"100\nthrottled_usec 9\n",
		}), "CPU quota",
		"1.5 cores, throttled in 10.0 % of its periods", "in the middle of requests",
		"more than 1.5 cores", "cpu.max",
	},
	"little memory left": {
		files(map[string]string{"cg/app/memory.max": "4500000\n"}), "memory limit",
		"of 4.50 MB", "the kernel kills it", "5324800",
		"memory.max",
	},
	"more threads than quota": {
		func(f *fake) {
			f.files(map[string]string{"cg/app/cpu.max": "150000 100000\n"})
			f.process(map[string]string{"environ": "GODEBUG=containermaxprocs=0\x00"})
		}, "GOMAXPROCS", "4, by its default", "4 threads share a quota of 1.5 cores", "2",
		"GOMAXPROCS=2",
	},
	"idle cores": {
		process(map[string]string{"environ": "GOMAXPROCS=1\x00A=b\x00"}), "GOMAXPROCS",
		"1, by its environment", "3 are left idle",
		"4", "GOMAXPROCS=4",
	},
	"a limit unknown": {
		files(map[string]string{"cg/app/memory.max": "1073741824\n"}), "GOMEMLIMIT", "not set",
		"kills the process", "921MiB",
		"GOMEMLIMIT=921MiB",
	},
	"the process swaps": {
		process(map[string]string{"status": "VmSwap:\t    2048 kB\nCpus_allowed:\tf\n"}),
		"vm.swappiness", "60, 0 B of 1.02 GB",
		"2.10 MB of the process", "10", "vm.swappiness=10",
	},
	"huge pages stall": {
		files(map[string]string{
			"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
			"sys/kernel/mm/transparent_hugepage/defrag":  "[always] never",
		}), "transparent huge pages", "always, defrag always", "wait", "defer+madvise",
		"echo defer+madvise",
	},
	"huge pages for Go": {
		files(map[string]string{
			"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
		}),
		"transparent huge pages",
		"always",
		"Go",
		"max_ptes_none 0",
		"echo 0 > /sys/kernel",
	},
	"nodes": {
		files(map[string]string{
			"sys/devices/system/node/online":        "0-1\n",
			"sys/devices/system/node/node0/cpulist": "0-1\n",
			"sys/devices/system/node/node1/cpulist": "2-3\n",
		}), "NUMA nodes", "2", "may run on 2 of them", "a process for each of 2 nodes",
		"numactl",
	},
	"a slow clock": {
		files(map[string]string{
			"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
		}),
		"clock source",
		"hpet",
		"system call",
		"tsc",
		"echo tsc >",
	},
	"no AES": {
		files(map[string]string{"proc/cpuinfo": "flags\t: fpu avx2\n"}), "crypto instructions",
		"avx2", "ten times", "a processor",
		"-cpu host",
	},
	"half of the AES": {
		files(map[string]string{"proc/cpuinfo": "flags\t: aes avx2\n"}), "crypto instructions",
		"aes avx2", "without pclmulqdq",
		"a processor", "-cpu host",
	},
	"a quota of version 1": {
		func(f *fake) {
			f.process(map[string]string{"cgroup": "4:cpu,cpuacct:/app\n"})
			f.files(map[string]string{
				"proc/self/mountinfo": "31 23 0:28 / " + f.root + "/cg rw,relatime - cgroup " +
					"cgroup rw,cpu,cpuacct\n",
				"cg/app/cpu.cfs_quota_us":  "50000\n",
				"cg/app/cpu.cfs_period_us": "100000\n",
				"cg/app/cpu.stat":          "nr_periods 10\nnr_throttled 5\nthrottled_time 5\n",
			})
		}, "CPU quota", "0.5 cores, throttled in 50.0 %", "in the middle of requests",
		"more than 0.5 cores", "cpu.max",
	},
}

func TestEachSettingThatIsInTheWayIsAdvisedOn(t *testing.T) {
	for name, c := range advisedCases {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			c.change(f)
			got := named(t, f.examine(fakePID), c.finding)
			if got.Verdict != Advise || !strings.Contains(got.Value, c.value) ||
				!strings.Contains(got.Why, c.why) ||
				!strings.Contains(got.Recommended, c.recommended) ||
				!strings.Contains(got.Command, c.command) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestWhatOthersAdviseForIsNotAReason(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(f *fake)
		finding string
	}{
		"swappiness without swap": {func(f *fake) {
			f.files(map[string]string{
				"proc/meminfo": "MemTotal: 8 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
			})
		}, "vm.swappiness"},
		"a little of the process swapped": {func(f *fake) {
			f.process(map[string]string{"status": "VmSwap:\t     900 kB\nCpus_allowed:\tf\n"})
		}, "vm.swappiness"},
		"less than a hundredth of the process swapped": {func(f *fake) {
			f.process(map[string]string{
				"status": "VmSwap:\t   39000 kB\nCpus_allowed:\tf\n",
				"stat":   stat(1_000_000),
			})
		}, "vm.swappiness"},
		"reuse with few waiting": {
			func(f *fake) { f.files(map[string]string{"proc/sys/net/ipv4/tcp_tw_reuse": "0\n"}) },
			"net.ipv4.tcp_tw_reuse",
		},
		"waiting for oneself": {
			func(f *fake) { f.process(map[string]string{"net/tcp": waiting(20000, "0100007F")}) },
			"net.ipv4.tcp_tw_reuse",
		},
		"ports used again by oneself": {
			func(f *fake) { f.process(map[string]string{"net/tcp": waiting(20000, "0100007F")}) },
			"net.ipv4.ip_local_port_range",
		},
		"a port that is reserved": {func(f *fake) {
			f.process(map[string]string{"net/tcp": tcpHead + listens(40000, 1001)})
			f.files(map[string]string{
				"proc/sys/net/ipv4/ip_local_reserved_ports": "30,39990-40010\n",
			})
		}, "net.ipv4.ip_local_port_range"},
		"a port of somebody else": {
			func(f *fake) { f.process(map[string]string{"net/tcp": tcpHead + listens(40000, 77)}) },
			"net.ipv4.ip_local_port_range",
		},
		"a quota that is followed": {func(f *fake) {
			f.files(map[string]string{
				"cg/app/cpu.max":  "250000 100000\n",
				"cg/app/cpu.stat": "nr_periods 1000\nnr_throttled 1\n",
			})
		}, "GOMAXPROCS"},
		"a quota that hardly binds": {func(f *fake) {
			f.files(map[string]string{
				"cg/app/cpu.max":  "250000 100000\n",
				"cg/app/cpu.stat": "nr_periods 1000\nnr_throttled 1\n",
			})
		}, "CPU quota"},
		"a clock with no better": {func(f *fake) {
			f.files(map[string]string{
				"sys/devices/system/clocksource/clocksource0/current_clocksource":   "hpet",
				"sys/devices/system/clocksource/clocksource0/available_clocksource": "hpet",
			})
		}, "clock source"},
		"Go knows of the limit": {func(f *fake) {
			f.files(map[string]string{"cg/app/memory.max": "1073741824\n"})
			f.process(map[string]string{"environ": "GOMEMLIMIT=900MiB\x00"})
		}, "GOMEMLIMIT"},
	} {
		f := newFake(t)
		c.change(f)
		if got := named(t, f.examine(fakePID), c.finding); got.Verdict != Good {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWithoutAProcessSwapMattersFromATenthOn(t *testing.T) {
	for free, want := range map[string]SettingVerdict{"890000": Advise, "910000": Good} {
		f := newFake(t)
		f.files(map[string]string{
			"proc/meminfo": "MemTotal: 8000000 kB\nSwapTotal: 1000000 kB\nSwapFree: " + free +
				" kB\n",
		})
		if got := named(t, f.examine(0), "vm.swappiness"); got.Verdict != want {
			t.Errorf("%s kB of 1000000 are free: %+v", free, got)
		}
	}
}

func TestTheCoresAreThoseThatTheProcessMayRunOn(t *testing.T) {
	for status, want := range map[string]string{
		"Name:\tshop\nCpus_allowed:\t3\n":                 "its 2 cores",
		"Name:\tshop\nCpus_allowed:\tf\n":                 "its 4 cores",
		"Name:\tshop\nCpus_allowed:\tffffffff,ffffffff\n": "its 4 cores",
		"Name:\tshop\n": "its 4 cores",
	} {
		f := newFake(t)
		f.process(map[string]string{"status": status})
		if got := named(t, f.examine(fakePID), "CPU quota"); !strings.Contains(got.Why, want) {
			t.Errorf("%q: %+v, want %s", status, got, want)
		}
	}
}

func TestTheSettingsOfAContainerAreSetWithinIt(t *testing.T) {
	at := netip.MustParseAddrPort("0.0.0.0:40000")
	inside := &subject{pid: 42, apart: true, listeners: []listener{{at: at, limit: 128}},
		settings: map[string]string{"net.core.somaxconn": "128", "net.ipv4.tcp_syncookies": "0"}}
	for _, c := range []struct{ setting, command string }{
		{"net.core.somaxconn=4096", judgeSomaxconn(inside, []int{128}).command},
		{"net.core.somaxconn=4096", judgeBacklogs(inside, inside.listeners).command},
		{"net.ipv4.tcp_syncookies=1", judgeSynBacklog(inside, []int{128}).command},
		{"net.ipv4.ip_local_port_range='10240 65535'", judgePorts(inside, ports{low: 1, high: 30000, used: 20000}).command},
		{"net.ipv4.ip_local_port_range='32768 60999'", judgePorts(inside, ports{low: 50000, high: 50999}).command},
		{"net.ipv4.ip_local_reserved_ports=40000", judgePorts(inside, ports{low: 32768, high: 60999}).command},
		{"net.ipv4.tcp_tw_reuse=1", judgeReuse(inside, ports{waiting: 4000}).command},
		{"net.ipv4.tcp_rmem='1 2 6291456'", judgeBuffers("net.ipv4.tcp_rmem", 6<<20)(inside, []int{1, 2, 3}).command},
	} {
		if !strings.HasPrefix(c.command, "nsenter -t 42 -n sysctl -w "+c.setting+" # ") ||
			!strings.Contains(c.command, "--sysctl "+c.setting+" of docker") ||
			!strings.Contains(c.command, "securityContext.sysctls") ||
			strings.Contains(c.command, "/etc/") || strings.Count(c.command, "#") != 1 {
			t.Errorf("%s: %s", c.setting, c.command)
		}
	}
	// What all namespaces share is set in the machine's own.
	for _, command := range []string{
		judgeConntrack(inside, conntrack{count: 9, most: 10}).command,
		judgeSwap(inside, swap{eager: 60, total: 9e9, process: 2e6}).command,
	} {
		if !strings.HasPrefix(command, "sysctl -w ") {
			t.Error(command)
		}
	}
}

func TestWhatCannotBeReadIsSaidAndTheRestIsThere(t *testing.T) {
	for file, finding := range map[string]string{
		"proc/42/limits":                 "descriptors of the process",
		"proc/sys/fs/file-nr":            "descriptors of the system",
		"proc/42/fd":                     "backlog in force",
		"proc/sys/net/core/somaxconn":    "net.core.somaxconn",
		"proc/sys/net/ipv4/tcp_rmem":     "net.ipv4.tcp_rmem",
		"proc/42/environ":                "GOMAXPROCS",
		"proc/sys/vm/swappiness":         "vm.swappiness",
		"sys/kernel/mm":                  "transparent huge pages",
		"sys/devices/system/clocksource": "clock source",
		"proc/cpuinfo":                   "crypto instructions",
	} {
		f := newFake(t)
		f.remove(file)
		r := f.examine(fakePID)
		if got := named(t, r, finding); got.Verdict != Unreadable || got.Why == "" ||
			got.Command != "" {
			t.Errorf("%s: %+v", file, got)
		}
		if got := named(t, r, "NUMA nodes"); got.Verdict != Good {
			t.Errorf("%s: %+v", file, got)
		}
	}
	f := newFake(t)
	f.files(map[string]string{
		"proc/sys/net/ipv4/ip_local_port_range":      "many\n",
		"proc/sys/net/core/somaxconn":                "\n",
		"proc/sys/fs/file-nr":                        "1\n",
		"sys/kernel/mm/transparent_hugepage/enabled": "?\n",
	})
	for _, finding := range []string{
		"net.ipv4.ip_local_port_range",
		"net.core.somaxconn",
		"descriptors of the system",
		"transparent huge pages",
	} {
		if got := named(t, f.examine(fakePID), finding); got.Verdict != Unreadable ||
			!strings.Contains(got.Why, "not understood") {
			t.Errorf("%+v", got)
		}
	}
}

func TestAProcessThatIsNotThereIsAnError(t *testing.T) {
	_, err := Examine(context.Background(), Options{Root: newFake(t).root, PID: 4711, Speed: -1})
	if err == nil || !strings.Contains(err.Error(), "there is no process 4711") {
		t.Error(err)
	}
}

func TestBacklogsAreComparedWithBursts(t *testing.T) {
	at := netip.MustParseAddrPort("0.0.0.0:80")
	for name, c := range map[string]struct {
		listeners []listener
		overflows float64
		most      string
		verdict   SettingVerdict
		contains  string
	}{
		"as large as can be":    {[]listener{{at: at, queue: 0, limit: 4096}}, 0, "4096", Good, "burst"},
		"nginx":                 {[]listener{{at: at, queue: 0, limit: 511}}, 0, "4096", Good, "burst"},
		"nginx that overflowed": {[]listener{{at: at, queue: 0, limit: 511}}, 12, "4096", Advise, "12 connections were dropped"},
		"the program asks little": {
			[]listener{{at: at, queue: 0, limit: 4096}, {at: at, queue: 0, limit: 16}}, 0, "4096",
			Advise, "the program asks for less than net.core.somaxconn (4096)",
		},
		"the kernel gives little": {[]listener{{at: at, queue: 0, limit: 128}}, 0, "128", Advise, "sysctl -w net.core.somaxconn=4096"},
		"it does not accept":      {[]listener{{at: at, queue: 4090, limit: 4096}}, 0, "4096", Advise, "4090 connections wait"},
		"it is not a server":      {nil, 0, "4096", Good, "no TCP socket that listens"},
	} {
		s := &subject{
			settings:  map[string]string{"net.core.somaxconn": c.most},
			values:    map[string]float64{"host.tcp.listen_overflows": c.overflows},
			listeners: c.listeners,
		}
		got := judgeBacklogs(s, c.listeners).finding("backlog")
		if got.Verdict != c.verdict || !strings.Contains(got.Why+got.Command, c.contains) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestWhetherGoFollowsAQuotaDependsOnItsVersionAndSettings(t *testing.T) {
	for name, c := range map[string]struct {
		built   buildinfo.BuildInfo
		debug   string
		follows bool
	}{
		"1.24":        {buildinfo.BuildInfo{GoVersion: "go1.24.9"}, "", false},
		"1.9":         {buildinfo.BuildInfo{GoVersion: "go1.9"}, "", false},
		"1.25":        {buildinfo.BuildInfo{GoVersion: "go1.25rc1"}, "", true},
		"development": {buildinfo.BuildInfo{GoVersion: "devel go1.27-abcdef"}, "", true},
		"an old go.mod": {
			buildinfo.BuildInfo{
				GoVersion: "go1.26.0",
				Settings: []debug.BuildSetting{{Key: "DefaultGODEBUG",
					Value: "a=1,containermaxprocs=0"}},
			}, "", false,
		},
		"told in spite of it": {
			buildinfo.BuildInfo{
				GoVersion: "go1.26.0",
				Settings: []debug.BuildSetting{{Key: "DefaultGODEBUG",
					Value: "containermaxprocs=0"}},
			}, "containermaxprocs=1", true,
		},
		"told not to": {buildinfo.BuildInfo{GoVersion: "go1.26.0"}, "x=y,containermaxprocs=0", false},
		"a library does it": {
			buildinfo.BuildInfo{
				GoVersion: "go1.20",
				Deps:      []*debug.Module{{Path: "go.uber.org/automaxprocs"}},
			},
			"",
			true,
		},
		"one without versions": {buildinfo.BuildInfo{GoVersion: "custom"}, "", true},
	} {
		if got, why := followsQuota(&subject{built: &c.built}, c.debug); got != c.follows ||
			why == "" {
			t.Errorf("%s: %v, %s", name, got, why)
		}
	}
}

func TestEveryCheckHasANameOfItsOwn(t *testing.T) {
	var names []string
	for _, c := range checks {
		names = append(names, c.name)
	}
	for _, c := range outsideChecks {
		names = append(names, c.name)
	}
	slices.Sort(names)
	if compact := slices.Compact(slices.Clone(names)); len(compact) != len(names) {
		t.Error(names)
	}
}

func TestAnInvalidURLIsRefusedBeforeAnythingIsAsked(t *testing.T) {
	for _, bad := range []string{"shop", "ftp://127.0.0.1/", "http://", "http://%zz/"} {
		if _, err := Examine(context.Background(), Options{URL: bad, Speed: -1}); !errors.Is(err,
			ErrURL) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
