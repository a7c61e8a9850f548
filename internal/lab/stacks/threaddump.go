package stacks

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

const (
	// leastRunning is how often threads must be seen running for a profile of the processor time: of
	// fewer, a third of its shares would be off by a fifth of the whole.
	leastRunning = 50
	// mostThreads limits the threads of a dump whose processor time is kept.
	mostThreads = 100_000
	// mostName limits a frame in a dump, in bytes, and mostNames all different ones.
	mostName, mostNames = 1 << 10, 16 << 20
)

var errNames = fmt.Errorf("the names in them have more than %d MiB", mostNames>>20)

// ThreadDumps makes profiles from many thread dumps of a JVM, as Thread.print of jcmd prints them: of
// where threads ran, and of where they waited for locks. All threads of a dump are seen at the same
// moment, at which each is between two steps of its code (a safepoint), so lines can be off by a few.
// It may be used by one goroutine only.
type ThreadDumps struct {
	running, waiting *Builder
	// used is the processor time, in nanoseconds, that threads with a stack used between dumps, and
	// before what each had used at the last dump, by its address in the JVM.
	used   int64
	before map[string]int64
	seen   int // running threads
	// frames are the different frames of all dumps. A name is "" for what is not shown.
	frames map[string]Frame
	names  int // their size in bytes
}

// NewThreadDumps returns an empty ThreadDumps.
func NewThreadDumps() *ThreadDumps {
	return &ThreadDumps{running: NewBuilder(0), waiting: newWaits(0), frames: map[string]Frame{}}
}

// dumpedThread is a thread in a dump.
type dumpedThread struct {
	stack   []Frame
	address string
	used    int64 // the processor time that it has used, in nanoseconds; -1 if that is not told
	runs    bool
	waits   bool // for a lock
}

// Add adds a dump, which stands for the time since the one before: each thread that waits is taken to
// have waited that long. It does not retain the text. An error says that a limit is reached.
func (d *ThreadDumps) Add(text []byte, since time.Duration) error {
	for _, b := range []*Builder{d.running, d.waiting} {
		b.out.DurationNanos = sum(b.out.DurationNanos, since.Nanoseconds())
	}
	now := map[string]int64{}
	var t dumpedThread
	for _, line := range lines(text) {
		rest, indented := strings.CutPrefix(line, "\t")
		at, isFrame := strings.CutPrefix(rest, "at ")
		state, isState := strings.CutPrefix(line, "   java.lang.Thread.State: ")
		switch {
		case isState:
			t.runs = strings.HasPrefix(state, "RUNNABLE")
		case !indented:
			if err := d.add(&t, now, since); err != nil {
				return err
			}
			t = dumpedThread{stack: t.stack[:0]}
			t.head(line)
		case isFrame && len(t.stack) < mostDepth:
			f, err := d.frame(at)
			if err != nil {
				return err
			}
			if f.Function != "" {
				t.stack = append(t.stack, f)
			}
		case waitsForLock(rest):
			t.waits = true
		}
	}
	d.before = now
	return d.add(&t, now, since)
}

// add adds a thread, and keeps in now what it has used.
func (d *ThreadDumps) add(t *dumpedThread, now map[string]int64, since time.Duration) error {
	if len(now) == mostThreads {
		return fmt.Errorf("a dump has more than %d threads", mostThreads)
	}
	used := int64(0)
	if t.address != "" && t.used >= 0 {
		now[t.address] = t.used
		if d.before != nil { // no thread uses more than passes
			used = min(max(t.used-d.before[t.address], 0), since.Nanoseconds())
		}
	}
	if len(t.stack) == 0 {
		return nil
	}
	d.used = sum(d.used, used)
	if t.waits {
		return d.waiting.Add(t.stack, 1, since.Nanoseconds())
	}
	if t.runs && used > 0 && !waitsOutside[t.stack[0].Function] {
		d.seen++
		return d.running.Add(t.stack, 1, 0)
	}
	return nil
}

// Processor returns where the processor time was used, with Go's weights, nil if too few threads were
// seen running, or if the JVM does not tell how much they used (before JDK 11). Only code that runs in
// a thread of Java's is seen, and not collectors and compilers.
func (d *ThreadDumps) Processor() *profile.Profile {
	if d.seen < leastRunning || d.used == 0 {
		return nil
	}
	for _, s := range d.running.out.Sample {
		s.Value[1] = int64(float64(d.used) * float64(s.Value[0]) / float64(d.seen))
	}
	return d.running.out
}

// Waits returns where threads waited for locks, nil if none did. The weights are those of a Go mutex
// profile, but the stacks are those of who waited.
func (d *ThreadDumps) Waits() *profile.Profile {
	if len(d.waiting.out.Sample) == 0 {
		return nil
	}
	return d.waiting.out
}

// head parses a thread's first line: its name in quotes, and then words such as cpu=12.30ms.
func (t *dumpedThread) head(line string) {
	t.used = -1
	words := strings.Fields(line[strings.LastIndexByte(line, '"')+1:])
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "tid":
			t.address = value
		case "cpu":
			ms, err := strconv.ParseFloat(strings.TrimSuffix(value, "ms"), 64)
			if err == nil && ms >= 0 && ms < math.MaxInt64/1e7 {
				t.used = int64(ms * 1e6)
			}
		}
	}
}

// waitsOutside are the methods in which a thread counts as running while the kernel has it wait. To read a
// file is not one of them.
var waitsOutside = map[string]bool{
	"io.netty.channel.epoll.Native.epollWait":             true,
	"io.netty.channel.epoll.Native.epollWait0":            true,
	"io.netty.channel.uring.Native.ioUringEnter":          true,
	"java.io.FileDescriptor.sync":                         true,
	"java.lang.ProcessHandleImpl.waitForProcessExit0":     true,
	"java.lang.ref.Reference.waitForReferencePendingList": true,
	"java.net.Inet4AddressImpl.getHostByAddr":             true,
	"java.net.Inet4AddressImpl.lookupAllHostAddr":         true,
	"java.net.Inet6AddressImpl.getHostByAddr":             true,
	"java.net.Inet6AddressImpl.lookupAllHostAddr":         true,
	"java.net.PlainSocketImpl.socketAccept":               true,
	"java.net.PlainSocketImpl.socketConnect":              true,
	"java.net.SocketInputStream.socketRead0":              true,
	"sun.nio.ch.DatagramChannelImpl.receive0":             true,
	"sun.nio.ch.EPoll.wait":                               true,
	"sun.nio.ch.EPollArrayWrapper.epollWait":              true,
	"sun.nio.ch.FileDispatcherImpl.force0":                true,
	"sun.nio.ch.FileDispatcherImpl.lock0":                 true,
	"sun.nio.ch.Net.accept":                               true,
	"sun.nio.ch.Net.connect0":                             true,
	"sun.nio.ch.Net.poll":                                 true,
}

// waitsForLock reports whether a note in a thread's stack says that it waits for a lock: of an object
// (synchronized), or one of java.util.concurrent.locks. Queues and pools park on other objects.
func waitsForLock(note string) bool {
	if strings.HasPrefix(note, "- waiting to lock ") {
		return true
	}
	_, class, parks := strings.Cut(note, "(a java.util.concurrent.locks.")
	return parks && strings.HasPrefix(note, "- parking to wait for ") &&
		(strings.HasPrefix(class, "Reentrant") || strings.HasPrefix(class, "StampedLock"))
}

// frame returns what a frame in a dump means, without a name if it is not shown. Nearly all frames were in
// the dump before. What it keeps are parts of lines, which are copies of their own.
func (d *ThreadDumps) frame(text string) (Frame, error) {
	if f, known := d.frames[text]; known {
		return f, nil
	}
	if len(text) > mostName {
		return Frame{}, nil
	}
	if d.names += len(text); d.names > mostNames {
		return Frame{}, errNames
	}
	f := dumpedFrame(text)
	d.frames[text] = f
	return f, nil
}

// dumpedFrame parses "shop.Cart.total(Cart.java:12)". Classes that the JVM makes for lambdas get no name:
// theirs are other ones in each run, and the code's own method follows.
func dumpedFrame(text string) Frame {
	method, source, ok := strings.Cut(text, "(")
	if !ok || method == "" || strings.Contains(method, "$$Lambda") || strings.ContainsAny(method, " \t") {
		return Frame{}
	}
	line := 0
	if i := strings.LastIndexByte(source, ':'); i >= 0 {
		line, _ = strconv.Atoi(strings.TrimSuffix(source[i+1:], ")"))
	}
	return javaFrame(method, max(line, 0))
}

// IsThreadDump reports whether a text begins as thread dumps do: with a title, after the time.
func IsThreadDump(text []byte) bool {
	first, rest, _ := bytes.Cut(text[:min(len(text), 4<<10)], []byte("\n"))
	title := []byte("Full thread dump ")
	return bytes.HasPrefix(first, title) || bytes.HasPrefix(rest, title)
}
