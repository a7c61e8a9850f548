package limit

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"plimsoll/internal/hash"
)

var update = flag.Bool("update", false, "write the comparison into docs/protection-limits.md")

// compared is a limit of ten requests a second in each algorithm.
func compared(a Algorithm) numbers {
	n := numbers{algorithm: a, rate: Rate{10, time.Second}, cost: 1}
	switch a {
	case TokenBucket:
		n.burst = 10
	case GCRA:
		n.burst = 1
	case LeakyBucket:
		n.queue, n.wait = 5, time.Second
	}
	return n
}

// onTheTrace says what a trace makes of an algorithm: after a quiet time, 30 requests at once 100
// ms before a window ends, 30 at its end, then one each 10 ms for two seconds.
func onTheTrace(t *testing.T, a Algorithm) string {
	s := newSubject(t, compared(a))
	ms := int64(time.Millisecond)
	edge := 10 * second
	var at []int64
	passed := func(times ...int64) (n int) {
		for _, now := range times {
			if o := s.ask(now); o.pass {
				n++
				at = append(at, now+o.wait)
			}
		}
		return n
	}
	burst := func(now int64) (times []int64) {
		for range 30 {
			times = append(times, now)
		}
		return times
	}
	before, after := passed(burst(edge-100*ms)...), passed(burst(edge)...)
	var steady []int64
	for now := edge + 10*ms; now <= edge+2*second; now += 10 * ms {
		steady = append(steady, now)
	}
	later := passed(steady...)
	most := 0
	for i := range at {
		n := 0
		for _, other := range at[i:] {
			if other-at[i] < second {
				n++
			}
		}
		most = max(most, n)
	}
	memory := unsafe.Sizeof(set{}) / ways
	if a == SlidingLog {
		memory += uintptr(8 * s.p.quota)
	}
	return fmt.Sprintf("| `%s` | %d | %d | %d | %d | %d |", a, before, after, later, most, memory)
}

// The table in the documentation is what the code does.
func TestTheComparisonInTheDocumentationIsTrue(t *testing.T) {
	const file, begin, end = "../../../docs/protection-limits.md", "<!-- comparison -->\n", "<!-- end -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(text), begin)
	old, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the comparison", file)
	}
	table := "| algorithm | 100 ms before the edge | at the edge | in the two seconds after | most in any second | bytes a value |\n" +
		"|---|---|---|---|---|---|\n"
	for _, a := range allAlgorithms {
		table += onTheTrace(t, a) + "\n"
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+begin+table+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != table {
		t.Errorf("%s has\n%s\nwant\n%s\nwrite it with: go test ./internal/policy/limit -update", file, old, table)
	}
}

// cpu is the processor time that the process has used, in nanoseconds: on a machine that others use
// too, it says more than the time of day.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func reportCPU(b *testing.B, since int64) {
	b.ReportMetric(float64(cpu()-since)/float64(b.N), "cpu-ns/op")
}

// BenchmarkDecision is one decision about one of 10,000 values, hash and search included.
func BenchmarkDecision(b *testing.B) {
	for _, a := range allAlgorithms {
		b.Run(a.String(), func(b *testing.B) {
			k := newKeyed(b, compared(a), 1<<16)
			var values [10_000][16]byte
			for i := range values {
				copy(values[i][:], fmt.Sprint("client-", i))
			}
			b.ReportAllocs()
			i, now := 0, second
			var p place
			began := cpu()
			for b.Loop() {
				if i++; i == len(values) {
					i = 0
				}
				now += 1000
				k.locate(&p, k.secret, values[i][:], now)
				p.take(now)
			}
			reportCPU(b, began)
		})
	}
}

// BenchmarkContended is a decision about one value that four goroutines ask about at the same time:
// first with requests that pass, so that all write; then with those that do not.
func BenchmarkContended(b *testing.B) {
	for _, a := range allAlgorithms {
		n := numbers{algorithm: a, rate: Rate{8000, 10 * time.Millisecond}, cost: 1}
		switch a {
		case LeakyBucket:
			n.queue, n.wait = 8000, time.Second
		case TokenBucket, GCRA:
			n.burst = 8000
		}
		for _, c := range []struct {
			name string
			step int64 // of the clock between two requests
		}{{"passing", 10_000}, {"refused", 0}} {
			b.Run(a.String()+"/"+c.name, func(b *testing.B) { contend(b, newKeyed(b, n, 1<<16), c.step) })
		}
	}
}

func contend(b *testing.B, k keyed, step int64) {
	const goroutines = 4
	key := []byte("the one key")
	secret := hash.NewSecret(func() uint64 { return 0x9e3779b97f4a7c15 })
	var started sync.WaitGroup
	var passed atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	began := cpu()
	for range goroutines {
		started.Go(func() {
			var p place
			count, now := int64(0), 1000*second
			for range b.N / goroutines {
				k.locate(&p, secret, key, now)
				if p.take(now).pass {
					count++
				}
				now += step
			}
			passed.Add(count)
		})
	}
	started.Wait()
	reportCPU(b, began)
	b.ReportMetric(float64(passed.Load())/float64(b.N), "passed/op")
}

// BenchmarkFullTable is a decision about a value that finds no place: what an attacker's cost.
func BenchmarkFullTable(b *testing.B) {
	k := newKeyed(b, sample(TokenBucket, 10), 1<<16)
	for i := range 1 << 18 {
		k.ask(fmt.Sprint(i), second)
	}
	var value [8]byte
	i := uint64(0)
	b.ReportAllocs()
	var p place
	began := cpu()
	defer func() { reportCPU(b, began) }()
	for b.Loop() {
		i++
		value = [8]byte{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24), 'x'}
		k.locate(&p, k.secret, value[:], second)
		p.take(second)
	}
}

// BenchmarkPolicy is the whole policy on one loop, for a request with one limit by address.
func BenchmarkPolicy(b *testing.B) {
	l := by("client_address", perMinute(1000))
	bench := newBench(b, l)
	bench.request("192.0.2.1")
	b.ReportAllocs()
	began := cpu()
	defer func() { reportCPU(b, began) }()
	for b.Loop() {
		client := bench.x.Client
		bench.x.Begin(bench.loop)
		bench.x.Client = client
		bench.now += second
		bench.OnRequest(&bench.x)
	}
}
