package report

import "plimsoll/internal/lab/measure"

// use works out how busy processors were in the judged part of a step, as shares of all cores.
func use(s *measure.Step, machineCores int) Use {
	var u Use
	cores := float64(machineCores)
	if len(s.Samples) > 0 && s.Samples[0].Values[measure.HostCores] > 0 {
		cores = s.Samples[0].Values[measure.HostCores]
	}
	if cores > 0 && s.Totals.Length > 0 && s.Totals.Generator.CPU > 0 {
		share := round(float64(s.Totals.Generator.CPU) / float64(s.Totals.Length+s.Totals.Drain) / cores)
		u.Generator = &share
	}
	first, last := ends(s)
	if first == nil {
		return u
	}
	length := seconds(last.At - first.At)
	if spent, ok := grown(first, last, measure.TargetCPU); ok {
		if cores > 0 {
			share := round(spent / length / cores)
			u.Target = &share
		}
		if n := endedBetween(s, first.At, last.At); n > 0 {
			per := round(spent / n)
			u.PerRequest = &per
		}
	}
	if spent, ok := grown(first, last, measure.HostCPU); ok && cores > 0 {
		share := round(spent / length / cores)
		u.Host = &share
	}
	return u
}

// ends are the first and last sample of the judged part; nil when there are not two moments.
func ends(s *measure.Step) (first, last *measure.Sample) {
	for i := range s.Samples {
		sample := &s.Samples[i]
		if !s.Judged(sample.At) {
			continue
		}
		if first == nil {
			first = sample
		}
		last = sample
	}
	if first == nil || last.At <= first.At {
		return nil, nil
	}
	return first, last
}

// grown is by how much a counter grew; ok is false when it is missing, or fell, as when the target
// was restarted.
func grown(first, last *measure.Sample, name string) (by float64, ok bool) {
	a, hadA := first.Values[name]
	b, hadB := last.Values[name]
	return b - a, hadA && hadB && b >= a
}

// endedBetween is how many requests ended between two moments of a step; a window that lies across
// one counts by its share.
func endedBetween(s *measure.Step, from, to int64) (n float64) {
	for i := range s.Windows {
		w := &s.Windows[i]
		inside := min(w.End(), to) - max(w.Start, from)
		if inside > 0 && w.Length > 0 {
			n += float64(w.Ended.Total()) * float64(inside) / float64(w.Length)
		}
	}
	return n
}
