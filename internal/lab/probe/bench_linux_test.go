package probe

import (
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// What each source costs is said in its comment, and in docs/run-directory.md: keep them true.

func BenchmarkSample(b *testing.B) {
	s := New(Options{PID: os.Getpid()})
	b.ReportAllocs()
	processorTime(b, func() { s.Sample(0) })
}

func BenchmarkEntering(b *testing.B) {
	processorTime(b, func() { within("/proc/self/ns/net", func() error { return nil }) })
}

// benchmarkSource reads a source, of this process as the target.
func benchmarkSource(
	b *testing.B, make func(proc procfs.FS, n *network, target *processes) Source,
) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		b.Fatal(err)
	}
	target, err := newProcesses(proc, Options{PID: os.Getpid(), Root: procfs.DefaultMountPoint})
	if err != nil {
		b.Fatal(err)
	}
	into := map[string]float64{}
	if err := target.Read(into); err != nil {
		b.Fatal(err)
	}
	source := make(proc, networkOf(procfs.DefaultMountPoint, proc, target), target)
	b.ReportAllocs()
	processorTime(b, func() {
		if err := source.Read(into); err != nil {
			b.Fatal(err)
		}
	})
}

// processorTime calls do over and over and reports the processor time of it: on a busy machine the
// time that passes says little.
func processorTime(b *testing.B, do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := threadTime()
	for b.Loop() {
		do()
	}
	b.ReportMetric((threadTime()-before)*1e6/float64(b.N), "cpu-µs/op")
}

func BenchmarkProcessors(b *testing.B) {
	benchmarkSource(b, func(proc procfs.FS, _ *network, _ *processes) Source {
		return &processors{proc}
	})
}

func BenchmarkMemory(b *testing.B) {
	benchmarkSource(b, func(proc procfs.FS, _ *network, _ *processes) Source {
		return &memory{proc}
	})
}

func BenchmarkPaging(b *testing.B) {
	benchmarkSource(b, func(procfs.FS, *network, *processes) Source {
		return &paging{root: procfs.DefaultMountPoint}
	})
}

func BenchmarkDisks(b *testing.B) {
	benchmarkSource(b, func(procfs.FS, *network, *processes) Source {
		return newDisks(procfs.DefaultMountPoint, "/sys")
	})
}

func BenchmarkSockets(b *testing.B) {
	benchmarkSource(b, func(_ procfs.FS, n *network, _ *processes) Source { return sockets{n} })
}

func BenchmarkTraffic(b *testing.B) {
	benchmarkSource(b, func(_ procfs.FS, n *network, _ *processes) Source {
		return &traffic{network: n}
	})
}

func BenchmarkTCPCounters(b *testing.B) {
	benchmarkSource(b, func(_ procfs.FS, n *network, _ *processes) Source {
		return &tcpCounters{network: n}
	})
}

func BenchmarkCgroup(b *testing.B) {
	benchmarkSource(b, func(_ procfs.FS, _ *network, target *processes) Source {
		return &cgroup{of: target}
	})
}

func BenchmarkProcesses(b *testing.B) {
	benchmarkSource(b, func(_ procfs.FS, _ *network, target *processes) Source { return target })
}

func BenchmarkSettings(b *testing.B) {
	into := map[string]float64{}
	processorTime(b, func() { settings(procfs.DefaultMountPoint, into) })
}

func BenchmarkDump(b *testing.B) {
	count := 0
	processorTime(b, func() {
		if err := diag(func(socket) { count++ }); err != nil {
			b.Fatal(err)
		}
	})
	b.ReportMetric(float64(count)/float64(b.N), "sockets")
}

func BenchmarkCensus(b *testing.B) {
	for name, connections := range map[string]int{"idle": 0, "of_2000_connections": 2000} {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			for range connections {
				client, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				defer client.Close()
				server, err := l.Accept()
				if err != nil {
					b.Fatal(err)
				}
				defer server.Close()
			}
			s := New(Options{
				PID:    os.Getpid(),
				Listen: []netip.AddrPort{l.Addr().(*net.TCPAddr).AddrPort()},
			})
			s.Sample(0)
			c := censusOf(s)
			into := map[string]float64{}
			processorTime(b, func() {
				c.next = time.Time{}
				if err := c.Read(into); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}
