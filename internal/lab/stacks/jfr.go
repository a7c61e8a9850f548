package stacks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/pprof/profile"
)

// jfrEvent is a jdk.ExecutionSample or jdk.NativeMethodSample event, without the fields that are
// not read.
type jfrEvent struct {
	Type   string
	Values struct {
		StartTime  string
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
	b := NewBuilder(o.Seconds)
	each := o.nanos(jfrHertz)
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
		if e.Type != "jdk.ExecutionSample" {
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
		return b.Add(stack, 1, each)
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
	if length := last.Sub(first); err == nil && o.Seconds == 0 && length < 1e6*time.Second {
		p.DurationNanos = length.Nanoseconds()
	}
	return p, err
}
