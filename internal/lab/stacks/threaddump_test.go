package stacks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"plimsoll/internal/lab/stacks"
)

// threadDump is a thread dump of OpenJDK 17 with these threads, without the fields that are not read.
func threadDump(threads ...string) []byte {
	return []byte("2026-11-29 13:00:00\nFull thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed " +
		"mode, sharing):\n\nThreads class SMR info:\n_java_thread_list=0x1, length=2, elements={\n" +
		"0x1, 0x2\n}\n\n" + strings.Join(threads, "\n") + "\n\"VM Thread\" os_prio=0 runnable\n\n")
}

const (
	entersMonitor = `"pool-1-thread-2" #23 prio=5 cpu=12.30ms elapsed=3.01s waiting for monitor entry
   java.lang.Thread.State: BLOCKED (on object monitor)
	at shop.Rates.of(Rates.java:50)
	- waiting to lock <0x00000000f5a0b0c8> (a shop.Rates)
	at shop.Cart$$Lambda$14/0x0000000800c03000.apply(Unknown Source)
	at shop.Cart.total(Cart.java:12)
	- locked <0x00000000f5a0b0d8> (a shop.Cart)
`
	entersLock = `"pool-1-thread-3" #24 prio=5 cpu=12.30ms elapsed=3.01s waiting on condition
   java.lang.Thread.State: WAITING (parking)
	at jdk.internal.misc.Unsafe.park(java.base@17.0.15/Native Method)
	- parking to wait for  <0x00000000f5a0b0e8> (a java.util.concurrent.locks.ReentrantLock$NonfairSync)
	at java.util.concurrent.locks.LockSupport.park(java.base@17.0.15/LockSupport.java:211)
	at shop.Stock.take(Stock.java:7)
`
	waitsForWork = `"pool-1-thread-4" #25 prio=5 cpu=12.30ms elapsed=3.01s waiting on condition
   java.lang.Thread.State: WAITING (parking)
	at jdk.internal.misc.Unsafe.park(java.base@17.0.15/Native Method)
	- parking to wait for  <0x1> (a java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject)
	at java.util.concurrent.LinkedBlockingQueue.take(java.base@17.0.15/LinkedBlockingQueue.java:435)
`
	readsRequests = `"dispatcher" #11 prio=5 cpu=12.30ms elapsed=3.01s tid=0x9 runnable
   java.lang.Thread.State: RUNNABLE
	at sun.nio.ch.EPoll.wait(java.base@17.0.15/Native Method)
	at shop.Server.run(Server.java:9)
`
	looksUp = `"pool-1-thread-6" #27 prio=5 cpu=12.30ms elapsed=3.01s tid=0xb runnable
   java.lang.Thread.State: RUNNABLE
	at java.net.Inet6AddressImpl.lookupAllHostAddr(java.base@17.0.15/Native Method)
	at shop.Counter.count(Counter.java:44)
`
	// idle counts as running, in a call of the kernel that is not known to wait.
	idle = `"console" #12 prio=5 cpu=12.30ms elapsed=3.01s tid=0xa runnable
   java.lang.Thread.State: RUNNABLE
	at java.io.FileInputStream.readBytes(java.base@17.0.15/Native Method)
	at shop.Console.run(Console.java:9)
`
	works = `"pool-1-thread-5" #26 prio=5 cpu=12.30ms elapsed=3.01s tid=0x7 runnable
   java.lang.Thread.State: RUNNABLE
	at shop.Rates.of(Rates.java:52)
	- locked <0x00000000f5a0b0c8> (a shop.Rates)
`
)

func TestThreadsThatWaitForLocksAreReadFromThreadDumps(t *testing.T) {
	d := stacks.NewThreadDumps()
	for range 2 {
		err := d.Add(threadDump(entersMonitor, entersLock, waitsForWork, works), time.Second/2)
		if err != nil {
			t.Fatal(err)
		}
	}
	p := d.Waits()
	if err := p.CheckValid(); err != nil {
		t.Fatal(err)
	}
	const lock = "jdk.internal.misc.Unsafe.park java.util.concurrent.locks.LockSupport.park shop.Stock.take"
	waited := weights(p)
	if len(waited) != 2 || waited["shop.Rates.of shop.Cart.total"] != 1e9 || waited[lock] != 1e9 {
		t.Errorf("of four threads two wait for locks, a second each: %v", waited)
	}
	if at := p.Sample[0].Location[0].Line[0]; at.Line != 50 || at.Function.Filename != "shop/Rates.java" {
		t.Errorf("the first waits at %s:%d", at.Function.Filename, at.Line)
	}
	if p.DurationNanos != 1e9 {
		t.Errorf("dumps that stand for a second are of %d ns", p.DurationNanos)
	}
}

// weights returns the time of each stack.
func weights(p *profile.Profile) map[string]int64 {
	times := map[string]int64{}
	for _, s := range p.Sample {
		var stack []string
		for _, l := range s.Location {
			stack = append(stack, l.Line[0].Function.Name)
		}
		times[strings.Join(stack, " ")] = s.Value[1]
	}
	return times
}

func TestTheProcessorTimeOfThreadsGoesToWhereTheyWereSeenRunning(t *testing.T) {
	d := stacks.NewThreadDumps()
	for n := range 61 {
		running := strings.Replace(works, "cpu=12.30ms", fmt.Sprintf("cpu=%d.50ms", 100+10*n), 1)
		if n%3 == 0 {
			running = strings.Replace(running, "Rates.of", "Rates.parsed", 1)
		}
		used := func(thread string) string {
			return strings.Replace(thread, "cpu=12.30ms", fmt.Sprintf("cpu=%d.00ms", n), 1)
		}
		reads := used(readsRequests)
		err := d.Add(threadDump(running, reads, used(looksUp), waitsForWork, idle), 50*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
	}
	p := d.Processor()
	if p == nil || d.Waits() != nil {
		t.Fatalf("%v, %v", p, d.Waits())
	}
	if err := p.CheckValid(); err != nil {
		t.Error(err)
	}
	// From the first dump to the last it used 600 ms, and the two that also wait 60 ms each.
	used := weights(p)
	if len(used) != 2 || used["shop.Rates.of"] != 480e6 || used["shop.Rates.parsed"] != 240e6 {
		t.Errorf("%v, want two and one third of 720 ms", used)
	}
}

func TestThreadDumpsInWhichTooLittleIsSeenAreNoProfile(t *testing.T) {
	for name, c := range map[string]struct {
		thread string
		seen   int
		want   bool
	}{
		"often enough":  {works, 50, true},
		"too few":       {works, 49, false},
		"waits only":    {readsRequests, 100, false},
		"before JDK 11": {strings.Replace(works, "cpu=12.30ms ", "", 1), 100, false},
	} {
		d := stacks.NewThreadDumps()
		for n := range 1 + c.seen { // in the first it is not known how much was used
			thread := strings.Replace(c.thread, "cpu=12.30ms", fmt.Sprintf("cpu=%d.00ms", n), 1)
			if err := d.Add(threadDump(waitsForWork, thread), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if (d.Processor() != nil) != c.want || d.Waits() != nil {
			t.Errorf("%s: %v, %v", name, d.Processor(), d.Waits())
		}
	}
}

func TestAThreadUsesNoMoreThanTimePasses(t *testing.T) {
	d := stacks.NewThreadDumps()
	for n := range 61 {
		used := []string{"cpu=1.00ms", "cpu=900000000000000.00ms"}[n%2]
		thread := strings.Replace(works, "cpu=12.30ms", used, 1)
		another := strings.Replace(strings.Replace(works, "tid=0x7", "tid=0x8", 1), "cpu=12.30ms",
			fmt.Sprintf("cpu=%d.00ms", n), 1)
		if err := d.Add(threadDump(thread, another), time.Second); err != nil {
			t.Fatal(err)
		}
	}
	for stack, used := range weights(d.Processor()) {
		if used <= 0 || used > 61*2e9 {
			t.Errorf("%s: %d ns in 61 s", stack, used)
		}
	}
}

func TestAThreadDumpIsKnownByItsHead(t *testing.T) {
	if !stacks.IsThreadDump(threadDump(works)) {
		t.Error("a thread dump is not known")
	}
	for _, text := range []string{"", "java.lang.InternalError", "\"Full thread dump \"",
		"\n\"name\" #1\nFull thread dump "} {
		if stacks.IsThreadDump([]byte(text)) {
			t.Errorf("%q is taken for one", text)
		}
	}
}

func TestWhatIsKeptOfThreadDumpsIsBounded(t *testing.T) {
	d := stacks.NewThreadDumps()
	deep := entersMonitor + strings.Repeat("\tat shop.Cart.total(Cart.java:12)\n", 30_000)
	long := "\tat shop." + strings.Repeat("x", 5000) + "(Cart.java:12)\n"
	if err := d.Add(threadDump(deep+long), time.Second); err != nil {
		t.Errorf("a deep stack is cut off, and not refused: %v", err)
	}
	for _, bad := range []string{"\tat \n", "\tat ()\n", "\tat a(:-7)\n", "\tat a(b\n", "\t- waiting to lock "} {
		if err := d.Add([]byte("\"x\"\n"+bad), time.Second); err != nil {
			t.Errorf("%q: %v", bad, err)
		}
	}
	p := d.Waits()
	if err := p.CheckValid(); err != nil {
		t.Error(err)
	}
	for _, s := range p.Sample {
		if len(s.Location) > 10_000 {
			t.Errorf("a stack of %d frames", len(s.Location))
		}
	}
	for _, f := range p.Function {
		if len(f.Name) > 1024 {
			t.Errorf("a name of %d bytes", len(f.Name))
		}
	}
	var err error
	for n := 0; err == nil && n < 40; n++ { // 1 MB of new names each
		var names strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&names, "\tat %d.%d.%s(X.java:1)\n", n, i, strings.Repeat("x", 980))
		}
		err = d.Add(threadDump(entersMonitor+names.String()), time.Second)
	}
	if err == nil || !strings.Contains(err.Error(), "16 MiB") {
		t.Errorf("40 MB of names: %v", err)
	}
}
