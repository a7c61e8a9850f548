package stacks

import (
	"errors"
	"slices"

	"github.com/google/pprof/profile"

	lab "plimsoll/internal/lab/profile"
)

// times are the names that profilers of other languages use for measured time, in order of
// preference: pprof's own name, then those of pprof-nodejs, stackprof and others.
var times = []string{"cpu", "cputime", "cpu-time", "wall", "walltime"}

// counts are the names that they use for the number of samples.
var counts = []string{"samples", "sample", "count", "events"}

// nanosOf is the number of nanoseconds in a unit of time.
var nanosOf = map[string]int64{
	"nanoseconds": 1, "microseconds": 1e3, "milliseconds": 1e6, "seconds": 1e9,
	"nanosecond": 1, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9,
}

// readPprof reads a profile in pprof's format, of any language. Its time becomes "cpu" and its
// number of samples "samples". If the time is missing, it is computed from the number of samples;
// if that number is missing, each stack counts as one. Other weights, and stacks that were idle,
// are left out.
func readPprof(data []byte, o Options) (*profile.Profile, error) {
	p, err := lab.Read(data)
	if err != nil {
		return nil, err
	}
	if o.Seconds > 0 {
		p.DurationNanos = int64(o.Seconds * 1e9)
	}
	time, count := -1, -1
	for i, t := range p.SampleType {
		if nanosOf[t.Unit] != 0 && slices.Contains(times, t.Type) &&
			(time < 0 || rank(t.Type) < rank(p.SampleType[time].Type)) {
			time = i
		}
		if count < 0 && slices.Contains(counts, t.Type) {
			count = i
		}
	}
	if time < 0 && count < 0 {
		return nil, errors.New("it has no weight of processor time: neither cpu nor samples nor wall")
	}
	each := o.nanos(usualHertz)
	if p.PeriodType != nil && p.Period > 0 && o.Hertz == 0 {
		if unit := nanosOf[p.PeriodType.Unit]; unit > 0 && p.Period < 100e9/unit {
			each = p.Period * unit
		}
	}
	var ran []*profile.Sample
	for _, s := range p.Sample {
		value := []int64{1, 0}
		if count >= 0 {
			value[0] = s.Value[count]
		}
		if time >= 0 {
			value[1] = scaled(s.Value[time], nanosOf[p.SampleType[time].Unit])
		} else {
			value[1] = scaled(value[0], each)
		}
		if s.Value = value; !idle(s) {
			ran = append(ran, s)
		}
	}
	p.Sample = ran
	p.SampleType = []*profile.ValueType{
		{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"},
	}
	if len(ran) == 0 {
		return nil, errors.New("it has no stack in which anything ran")
	}
	return p, nil
}

func rank(kind string) int { return slices.Index(times, kind) }

// scaled multiplies, and returns 0 if the product would overflow.
func scaled(v, by int64) int64 {
	if by > 1 && (v > (1<<62)/by || v < -(1<<62)/by) {
		return 0
	}
	return v * by
}

// idle reports whether a stack's leaf is what Node's profilers call a thread that has nothing to
// do.
func idle(s *profile.Sample) bool {
	if len(s.Location) == 0 || len(s.Location[0].Line) == 0 {
		return false
	}
	f := s.Location[0].Line[0].Function
	return f != nil && (f.Name == "(idle)" || f.Name == "idle")
}
