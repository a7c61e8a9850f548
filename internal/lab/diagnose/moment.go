package diagnose

import (
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// Moment is one step of a run: what was offered, how it ended, and what the probes saw meanwhile.
// Its methods use the judged part of the step, after the settling. They may be called on nil, which
// has seen nothing.
type Moment struct {
	Step *measure.Step
	// near says that the target runs on the generator's machine, which is the one that the probes
	// of HostNames read. Otherwise their samples say nothing about the target's machine.
	near bool
	// profiles by kind, without those that could not be read.
	profiles map[string]*profile.Profile
}

// Profile returns the profile of a kind, or nil if none was taken.
func (m *Moment) Profile(kind string) *profile.Profile {
	if m == nil {
		return nil
	}
	return m.profiles[kind]
}

// values returns a name's samples after the settling, and the times of the first and the last one.
func (m *Moment) values(name string) (all []float64, from, to int64) {
	if m == nil || !m.near && strings.HasPrefix(name, measure.HostNames) {
		return nil, 0, 0
	}
	for i := range m.Step.Samples {
		s := &m.Step.Samples[i]
		v, ok := s.Values[name]
		if !ok || !m.Step.Judged(s.At) {
			continue
		}
		if len(all) == 0 {
			from = s.At
		}
		all, to = append(all, v), s.At
	}
	return all, from, to
}

// last returns the values of the step's last sample; nil if there are no samples.
func (m *Moment) last() map[string]float64 {
	if m == nil || len(m.Step.Samples) == 0 {
		return nil
	}
	return m.Step.Samples[len(m.Step.Samples)-1].Values
}

// Has reports whether something was sampled under a name.
func (m *Moment) Has(name string) bool {
	all, _, _ := m.values(name)
	return len(all) > 0
}

// Mean returns a gauge's mean; 0 if it was not sampled.
func (m *Moment) Mean(name string) float64 {
	all, _, _ := m.values(name)
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	return sum / max(float64(len(all)), 1)
}

// Median returns a gauge's median; 0 if it was not sampled. It is for values that a metrics page
// reports for the time since it was last read: the first value of a step covers the time before the
// step.
func (m *Moment) Median(name string) float64 {
	all, _, _ := m.values(name)
	return median(all)
}

// laterMedian is like Median for a gauge of what happened since the look before: the first look of a step
// is also about the time before it. Short steps have two of them, of which half says nothing.
func (m *Moment) laterMedian(name string) float64 {
	all, _, _ := m.values(name)
	if len(all) > 1 {
		all = all[1:]
	}
	return median(all)
}

// median returns the median of values, which it sorts; 0 if there are none.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// Max returns a gauge's highest value; 0 if it was not sampled.
func (m *Moment) Max(name string) float64 {
	all, _, _ := m.values(name)
	most := 0.0
	for _, v := range all {
		most = max(most, v)
	}
	return most
}

// Last returns a gauge's last value; 0 if it was not sampled.
func (m *Moment) Last(name string) float64 {
	all, _, _ := m.values(name)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1]
}

// Grown returns how much a counter grew. It is 0 if the counter was not sampled twice, or if it
// fell because the process was restarted.
func (m *Moment) Grown(name string) float64 {
	all, _, _ := m.values(name)
	if len(all) < 2 {
		return 0
	}
	return max(all[len(all)-1]-all[0], 0)
}

// PerSecond returns a counter's growth per second.
func (m *Moment) PerSecond(name string) float64 {
	_, from, to := m.values(name)
	if to <= from {
		return 0
	}
	return m.Grown(name) / (float64(to-from) / 1e9)
}

// Rate returns the requests that were due per second.
func (m *Moment) Rate() float64 {
	if m == nil {
		return 0
	}
	return m.Step.Totals.Rate()
}

// Goodput returns the requests that ended well per second.
func (m *Moment) Goodput() float64 {
	if m == nil {
		return 0
	}
	return m.Step.Totals.Goodput()
}

// PerRequest returns a counter's growth per request that ended well.
func (m *Moment) PerRequest(name string) float64 {
	if m.Goodput() == 0 {
		return 0
	}
	return m.PerSecond(name) / m.Goodput()
}

// PerRequestNow returns for how many seconds a request occupies one of what a gauge counts, by
// Little's law.
func (m *Moment) PerRequestNow(name string) float64 {
	return m.Mean(name) / max(m.Goodput(), 1e-9)
}

// Response returns the mean response time in seconds of the requests that ended well.
func (m *Moment) Response() float64 {
	if m == nil {
		return 0
	}
	return m.Step.Totals.Response.Mean() / 1e9
}

// Service is like Response, but counts from the sending of the request: without the wait for a
// connection of the generator.
func (m *Moment) Service() float64 {
	if m == nil {
		return 0
	}
	return m.Step.Totals.Service.Mean() / 1e9
}

// Inside returns how many requests were in the service on average. By Little's law this is the
// goodput times the time that each request took.
func (m *Moment) Inside() float64 { return m.Goodput() * m.Service() }

// Failed returns the share of requests that did not end well, or, if kinds are given, the share
// that ended in one of them.
func (m *Moment) Failed(kinds ...measure.Kind) float64 {
	if m == nil || m.Step.Totals.Ended.Total() == 0 {
		return 0
	}
	all := float64(m.Step.Totals.Ended.Total())
	if len(kinds) == 0 {
		return float64(m.Step.Totals.Ended.Failed()) / all
	}
	n := uint64(0)
	for _, k := range kinds {
		n += m.Step.Totals.Ended[k]
	}
	return float64(n) / all
}

// inFlight returns how many requests the generator had under way on average.
func (m *Moment) inFlight() float64 {
	if m == nil {
		return 0
	}
	sum, n := 0.0, 0.0
	for i := range m.Step.Windows {
		if w := &m.Step.Windows[i]; m.Step.Judged(w.End()) {
			sum, n = sum+float64(w.InFlight), n+1
		}
	}
	if n == 0 {
		return m.Inside()
	}
	return sum / n
}
