package stacks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// The types of events that are read.
const (
	jfrSample = "jdk.ExecutionSample"
	jfrEnter  = "jdk.JavaMonitorEnter"
)

// jfrEvent is an event with a stack, without the fields that are not read.
type jfrEvent struct {
	Type   string
	Values struct {
		StartTime  string
		Duration   string // "PT0.0123S", of a wait
		State      string
		StackTrace struct {
			Frames []struct {
				Method struct {
					Name string
					Type struct{ Name string }
				}
				LineNumber int
			}
		}
	}
}

// jfrObjects is how many objects the jfr tool prints per frame, with room to spare.
const jfrObjects = 20

// readJFR reads the output of jfr print --json --events jdk.ExecutionSample. Its samples are of
// threads that ran Java code. Samples of native code (jdk.NativeMethodSample) are left out: a
// thread that waits in a system call looks the same as one that computes there.
func readJFR(d *document, o Options) (*profile.Profile, error) {
	each := o.nanos(jfrHertz)
	return readEvents(d, NewBuilder(o.Seconds), jfrSample, func(*jfrEvent) int64 { return each })
}

// ReadWaits reads the output of jfr print --json --events jdk.JavaMonitorEnter: threads that waited
// for the lock of an object (synchronized), each for longer than the recording's settings say. Its
// weights are those of a Go mutex profile, but the stacks are those of who waited. The profile is nil if
// there are no such events. seconds is how long the recording went on. It may be called from any
// goroutine.
func ReadWaits(data []byte, seconds float64) (*profile.Profile, error) {
	p, err := readEvents(newDocument(data), newWaits(seconds), jfrEnter, func(e *jfrEvent) int64 {
		waited, err := time.ParseDuration(strings.ToLower(strings.TrimPrefix(e.Values.Duration, "PT")))
		if err != nil {
			return 0
		}
		return max(waited.Nanoseconds(), 0)
	})
	if errors.Is(err, errNothing) {
		return nil, nil
	}
	return p, err
}

// newWaits returns a Builder for a profile of waits, with the weights of a Go mutex profile.
func newWaits(seconds float64) *Builder {
	b := NewBuilder(seconds)
	b.out.SampleType = []*profile.ValueType{
		{Type: "contentions", Unit: "count"}, {Type: "delay", Unit: "nanoseconds"},
	}
	b.out.PeriodType = &profile.ValueType{Type: "contentions", Unit: "count"}
	return b
}

// readEvents adds the stacks of the events of a type, each with its weight in nanoseconds.
func readEvents(
	d *document, b *Builder, kind string, weight func(e *jfrEvent) int64,
) (*profile.Profile, error) {
	known := b.out.DurationNanos != 0
	var first, last time.Time
	var stack []Frame
	event := func() error {
		// The three bytes of "{}," become a frame of forty bytes, so frames are counted first.
		var raw json.RawMessage
		if err := d.from.Decode(&raw); err != nil {
			return err
		}
		if bytes.Count(raw, []byte("{")) > jfrObjects*mostDepth {
			return fmt.Errorf("an event has more than %d frames", mostDepth)
		}
		var e jfrEvent
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		if e.Type != kind {
			return nil
		}
		if at, err := time.Parse(time.RFC3339Nano, e.Values.StartTime); err == nil {
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if at.After(last) {
				last = at
			}
		}
		stack = stack[:0]
		for _, f := range e.Values.StackTrace.Frames {
			stack = append(stack,
				javaFrame(f.Method.Type.Name+"."+f.Method.Name, max(f.LineNumber, 0)))
		}
		return b.Add(stack, 1, weight(&e))
	}
	err := d.object(func(key string) error {
		if key != "recording" {
			return d.skip()
		}
		return d.object(func(key string) error {
			if key != "events" {
				return d.skip()
			}
			return d.array(mostSamples, "events", event)
		})
	})
	if err != nil {
		return nil, d.at(err)
	}
	p, err := b.finish()
	if length := last.Sub(first); err == nil && !known && length < 1e6*time.Second {
		p.DurationNanos = length.Nanoseconds()
	}
	return p, err
}
