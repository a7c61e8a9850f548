package profiler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/pprof/profile"

	"plimsoll/internal/lab/stacks"
)

const (
	// dumpInterval is the least time between two thread dumps. All threads stop for one, for a
	// millisecond, or some where there are hundreds; it takes longer where processors are busy, as it
	// waits for its turn. dumpPause is the least time between two as a multiple of what the first took.
	dumpInterval = 50 * time.Millisecond
	dumpPause    = 4
	// dumpWait limits the time that one dump may take, dumpGrace how much later than asked the last
	// one may end, and mostDump the size of one in bytes.
	dumpWait  = 5 * time.Second
	dumpGrace = 250 * time.Millisecond
	mostDump  = 16 << 20
)

// JVM takes thread dumps of a JVM on this machine as jcmd does, through the socket that HotSpot opens
// for whoever may signal it. It needs no JDK. It may be used by any goroutine, one at a time.
type JVM struct {
	// dump returns a thread dump, or an error at the latest dumpWait after it was called, or soon
	// after ctx has ended.
	dump  func(ctx context.Context) ([]byte, error)
	close func() error
	// failed is the first error: a JVM that refused once is not asked again, as it may print
	// something each time.
	failed error
}

// Threads is what a JVM's threads did: where they used the processor, and where they waited for locks,
// with the weights of Go's profiles. Each is nil if too little was seen of it.
type Threads struct{ Processor, Waits *profile.Profile }

// Take takes dumps for the given length. It returns at the latest dumpGrace after its time, or soon
// after ctx has ended.
func (j *JVM) Take(ctx context.Context, length time.Duration) (Threads, error) {
	if j.failed != nil {
		return Threads{}, j.failed
	}
	over, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	late, stop := context.WithTimeout(ctx, length+dumpGrace)
	defer stop()
	dumps, last := stacks.NewThreadDumps(), time.Now()
	next := time.NewTimer(dumpInterval)
	defer next.Stop()
	for {
		select {
		case <-over.Done():
		case <-next.C:
		}
		if over.Err() != nil {
			break
		}
		begun := time.Now()
		text, err := j.dump(late)
		if late.Err() != nil {
			break // a dump that is not ready in time is left out
		}
		if err == nil {
			err = dumps.Add(text, begun.Sub(last))
		}
		if err != nil {
			j.failed = fmt.Errorf("thread dumps of the JVM: %w", err)
			return Threads{}, j.failed
		}
		last = begun
		next.Reset(max(dumpInterval, dumpPause*time.Since(begun)))
	}
	return Threads{dumps.Processor(), dumps.Waits()}, ctx.Err()
}

// Close releases what refers to the process. The JVM keeps its socket open.
func (j *JVM) Close() error { return j.close() }

// answered returns the dump in a JVM's answer, whose first line is 0 unless it failed.
func answered(data []byte) ([]byte, error) {
	if len(data) > mostDump {
		return nil, fmt.Errorf("one has more than %d MiB", mostDump>>20)
	}
	text, ok := bytes.CutPrefix(data, []byte("0\n"))
	if !ok || !stacks.IsThreadDump(text) {
		return nil, errors.New("its answer is not one: only HotSpot's are read")
	}
	return text, nil
}
