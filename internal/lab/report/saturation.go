package report

import "plimsoll/internal/lab/measure"

// use works out how busy processors were in the judged part of a step, as shares of all cores.
func use(s *measure.Step, machineCores int) Use {
	var u Use
	cores := float64(machineCores)
	if len(s.Samples) > 0 && s.Samples[0].Values[measure.HostCores] > 0 {
		cores = s.Samples[0].Values[measure.HostCores]
	}
	if cores > 0 && s.Totals.Length > 0 && s.Totals.Generator.CPU > 0 &&
		len(s.Totals.Generator.Remote) == 0 {
		share := round(float64(s.Totals.Generator.CPU) /
			float64(s.Totals.Length+s.Totals.Drain) / cores)
		u.Generator = &share
	}
	if spent, from, to, ok := grown(s, measure.TargetCPU); ok {
		if cores > 0 {
			share := round(spent / seconds(to-from) / cores)
			u.Target = &share
		}
		if n := s.Between(from, to, (*measure.Tally).Total); n > 0 {
			per := round(spent / n)
			u.PerRequest = &per
		}
	}
	if spent, from, to, ok := grown(s, measure.HostCPU); ok && cores > 0 {
		share := round(spent / seconds(to-from) / cores)
		u.Host = &share
	}
	return u
}

// grown is by how much a counter grew between the ends of a step's judged part, and between when.
// ok is false when it was not sampled twice, or fell, as when the target was restarted.
func grown(s *measure.Step, name string) (by float64, from, to int64, ok bool) {
	first, last := s.Ends(name)
	if first == nil {
		return 0, 0, 0, false
	}
	by = last.Values[name] - first.Values[name]
	return by, first.At, last.At, by >= 0
}
