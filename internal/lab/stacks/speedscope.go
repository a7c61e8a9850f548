package stacks

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/pprof/profile"
)

// speedscopeReader reads speedscope's file format. Its profiles, usually one per thread, are merged
// into one.
type speedscopeReader struct {
	d       *document
	b       *Builder
	o       Options
	frames  []Frame
	places  []*profile.Location // of the frames; nil until one is needed
	seen    bool                // the member shared was seen; it may come after the profiles
	longest float64
}

func readSpeedscope(d *document, o Options) (*profile.Profile, error) {
	r := &speedscopeReader{d: d, b: NewBuilder(o.Seconds), o: o}
	// Read the frames first: profiles refer to them by index.
	if err := d.object(func(key string) error {
		if key != "shared" {
			return d.skip()
		}
		return r.shared()
	}); err != nil {
		return nil, d.at(err)
	}
	if !r.seen {
		return nil, errors.New("it has no member shared, where speedscope has its frames")
	}
	r.d = newDocument(d.data)
	if err := r.d.object(func(key string) error {
		if key != "profiles" {
			return r.d.skip()
		}
		return r.d.array(10_000, "profiles", r.profile)
	}); err != nil {
		return nil, r.d.at(err)
	}
	p, err := r.b.finish()
	if err == nil && o.Seconds == 0 {
		p.DurationNanos = int64(r.longest)
	}
	return p, err
}

func (r *speedscopeReader) shared() error {
	r.seen = true
	return r.d.object(func(key string) error {
		if key != "frames" {
			return r.d.skip()
		}
		return r.d.array(mostPlaces, "frames", func() error {
			var f struct {
				Name string
				File string
				Line int
			}
			if err := r.d.from.Decode(&f); err != nil {
				return err
			}
			one := Frame{Function: f.Name, File: f.File, Line: max(f.Line, 0)}
			if f.Name == "" {
				one.Function = anonymous
			}
			if f.File == "" {
				one = foldedFrame(one.Function)
			}
			r.frames = append(r.frames, one)
			return nil
		})
	})
}

// speedscopeProfile is one of the file's profiles. Its lists are read in a first pass that does not
// know the type and the unit yet, because these may come last.
type speedscopeProfile struct {
	unit       string
	start, end float64
	samples    [][]int32 // root first
	weights    []float64
	frames     int
	events     []speedscopeEvent
}

type speedscopeEvent struct {
	Type  string
	At    float64
	Frame int32
}

func (r *speedscopeReader) profile() error {
	var p speedscopeProfile
	err := r.d.object(func(key string) error {
		switch key {
		case "unit":
			return r.d.from.Decode(&p.unit)
		case "startValue":
			return r.d.from.Decode(&p.start)
		case "endValue":
			return r.d.from.Decode(&p.end)
		case "samples":
			return r.d.array(mostSamples, "samples", func() error { return r.sample(&p) })
		case "weights":
			return r.d.array(mostSamples, "weights", func() error {
				var w float64
				err := r.d.from.Decode(&w)
				p.weights = append(p.weights, w)
				return err
			})
		case "events":
			return r.d.array(mostFrames, "events", func() error {
				var e speedscopeEvent
				err := r.d.from.Decode(&e)
				p.events = append(p.events, e)
				return err
			})
		}
		return r.d.skip()
	})
	if err != nil {
		return err
	}
	return r.add(&p)
}

// mostSamples is how many samples a file may list one by one: half an hour at a thousand per
// second.
const mostSamples = 2_000_000

func (r *speedscopeReader) sample(p *speedscopeProfile) error {
	var one []int32
	if err := r.d.from.Decode(&one); err != nil {
		return err
	}
	if p.frames += len(one); p.frames > mostFrames {
		return fmt.Errorf("the samples have more than %d frames", mostFrames)
	}
	p.samples = append(p.samples, one)
	return nil
}

// add adds the content of a profile, now that its unit is known.
func (r *speedscopeReader) add(p *speedscopeProfile) error {
	nanos, ok := map[string]float64{
		"nanoseconds": 1, "microseconds": 1e3, "milliseconds": 1e6, "seconds": 1e9,
		"none": float64(r.o.nanos(usualHertz)), "": float64(r.o.nanos(usualHertz)),
	}[p.unit]
	if !ok {
		return fmt.Errorf("a profile that weighs %.40q is not one of time", p.unit)
	}
	if length := (p.end - p.start) * nanos; length > r.longest && length < 1e15 {
		r.longest = length
	}
	if len(p.weights) != len(p.samples) && len(p.weights) > 0 {
		return fmt.Errorf("a profile has %d samples and %d weights", len(p.samples), len(p.weights))
	}
	var stack []*profile.Location
	for i, s := range p.samples {
		weight := 1.0
		if len(p.weights) > 0 {
			weight = p.weights[i]
		}
		stack = stack[:0]
		for j := len(s) - 1; j >= 0; j-- {
			if s[j] < 0 || int(s[j]) >= len(r.frames) {
				return fmt.Errorf("a sample names the frame %d of %d", s[j], len(r.frames))
			}
			place, err := r.place(s[j])
			if err != nil {
				return err
			}
			stack = append(stack, place)
		}
		if err := r.b.add(stack, 1, bounded(weight*nanos)); err != nil {
			return err
		}
	}
	return r.replay(p.events, nanos)
}

// bounded returns a time in nanoseconds, limited to between 0 and a year.
func bounded(nanos float64) int64 {
	if !(nanos > 0) {
		return 0
	}
	return int64(min(nanos, 365*24*3600e9))
}

// replay makes stacks from calls that were opened and closed: the calls that are open between two
// events were running.
func (r *speedscopeReader) replay(events []speedscopeEvent, nanos float64) error {
	var open, stack []*profile.Location
	last := 0.0
	for _, e := range events {
		if e.Frame < 0 || int(e.Frame) >= len(r.frames) {
			return fmt.Errorf("an event names the frame %d of %d", e.Frame, len(r.frames))
		}
		if len(open) > 0 && e.At > last {
			stack = append(stack[:0], open...)
			slices.Reverse(stack)
			if err := r.b.add(stack, 1, bounded((e.At-last)*nanos)); err != nil {
				return err
			}
		}
		last = e.At
		place, err := r.place(e.Frame)
		switch {
		case err != nil:
			return err
		case e.Type == "O" && len(open) < mostDepth:
			open = append(open, place)
		case e.Type == "O":
			return fmt.Errorf("the events open more than %d frames", mostDepth)
		case e.Type == "C" && len(open) > 0 && open[len(open)-1] == place:
			open = open[:len(open)-1]
		default:
			return fmt.Errorf("an event %.10q of the frame %d fits no open frame", e.Type, e.Frame)
		}
	}
	return nil
}

// place returns the place of a frame. The frame must exist.
func (r *speedscopeReader) place(frame int32) (place *profile.Location, err error) {
	if r.places == nil {
		r.places = make([]*profile.Location, len(r.frames))
	}
	if r.places[frame] == nil {
		r.places[frame], err = r.b.place(r.frames[frame])
	}
	return r.places[frame], err
}
