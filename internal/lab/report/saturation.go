package report

import "plimsoll/internal/lab/measure"

// use computes how busy the processors were in the judged part of a step, as shares of all cores.
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
	if busy, answered, ok := s.Spent(measure.TargetCPU); ok {
		if cores > 0 {
			share := round(busy / cores)
			u.Target = &share
		}
		if answered > 0 {
			per := round(busy / answered)
			u.PerRequest = &per
		}
	}
	if busy, _, ok := s.Spent(measure.HostCPU); ok && cores > 0 {
		share := round(busy / cores)
		u.Host = &share
	}
	return u
}
