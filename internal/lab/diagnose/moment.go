package diagnose

import (
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// Moment is one step of a run: what was offered, what came of it, and what the probes saw
// meanwhile. Its methods look at the part that is judged, after the settling. They may be called on
// nil, which has seen nothing.
type Moment struct {
	Step *measure.Step
	// near says that the generator's machine, which the probes of HostNames read, is the target's
	// too. Of another machine they say nothing about it.
	near bool
	// profiles by kind, as far as there were any that could be read.
	profiles map[string]*profile.Profile
}

// Profile is nil where none was taken.
func (m *Moment) Profile(kind string) *profile.Profile {
	if m == nil {
		return nil
	}
	return m.profiles[kind]
}

// values are a name's samples after the settling, with the moments of the first and the last.
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

// last are the step's last samples; nil without any.
func (m *Moment) last() map[string]float64 {
	if m == nil || len(m.Step.Samples) == 0 {
		return nil
	}
	return m.Step.Samples[len(m.Step.Samples)-1].Values
}

// Has says whether something was sampled under a name.
func (m *Moment) Has(name string) bool {
	all, _, _ := m.values(name)
	return len(all) > 0
}

// Mean is a gauge's mean; 0 where it was not sampled.
func (m *Moment) Mean(name string) float64 {
	all, _, _ := m.values(name)
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	return sum / max(float64(len(all)), 1)
}

// Median is a gauge's median; 0 where it was not sampled. It is for what a page tells of the time
// since it was last read: the first of a step's values is of what was before it.
func (m *Moment) Median(name string) float64 {
	all, _, _ := m.values(name)
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// Max is a gauge's highest value; 0 where it was not sampled.
func (m *Moment) Max(name string) float64 {
	all, _, _ := m.values(name)
	most := 0.0
	for _, v := range all {
		most = max(most, v)
	}
	return most
}

// Last is a gauge's last value; 0 where it was not sampled.
func (m *Moment) Last(name string) float64 {
	all, _, _ := m.values(name)
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1]
}

// Grown is by how much a counter grew; 0 where it was not sampled twice, and where it fell, as that
// of a process that was started again does.
func (m *Moment) Grown(name string) float64 {
	all, _, _ := m.values(name)
	if len(all) < 2 {
		return 0
	}
	return max(all[len(all)-1]-all[0], 0)
}

// PerSecond is a counter's growth in a second.
func (m *Moment) PerSecond(name string) float64 {
	_, from, to := m.values(name)
	if to <= from {
		return 0
	}
	return m.Grown(name) / (float64(to-from) / 1e9)
}

// Rate is the requests that were due in a second; Goodput those that ended well.
func (m *Moment) Rate() float64 {
	if m == nil {
		return 0
	}
	return m.Step.Totals.Rate()
}

// Goodput is the requests that ended well in a second.
func (m *Moment) Goodput() float64 {
	if m == nil {
		return 0
	}
	return m.Step.Totals.Goodput()
}

// PerRequest is a counter's growth for each request that ended well.
func (m *Moment) PerRequest(name string) float64 {
	if m.Goodput() == 0 {
		return 0
	}
	return m.PerSecond(name) / m.Goodput()
}

// PerRequestNow is for how many seconds a request has one of what a gauge counts, by Little's law.
func (m *Moment) PerRequestNow(name string) float64 {
	return m.Mean(name) / max(m.Goodput(), 1e-9)
}

// Response is the mean response time in seconds of the requests that ended well.
func (m *Moment) Response() float64 {
	if m == nil {
		return 0
	}
	return m.Step.Totals.Response.Mean() / 1e9
}

// Service is the same from the sending on: without the time for which requests waited for a
// connection of the generator.
func (m *Moment) Service() float64 {
	if m == nil {
		return 0
	}
	return m.Step.Totals.Service.Mean() / 1e9
}

// Inside is how many requests were in the service on average: by Little's law what ended well in a
// second times what each took.
func (m *Moment) Inside() float64 { return m.Goodput() * m.Service() }

// Failed is the share of requests that did not end well, and of one kind.
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
