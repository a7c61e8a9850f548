package scrape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"plimsoll/internal/lab/measure"
)

// ringSize is how many pauses the runtime keeps.
const ringSize = 256

// memstats is the part of runtime.MemStats that is read.
type memstats struct {
	TotalAlloc, Mallocs, NextGC uint64
	NumGC                       uint32
	PauseNs                     []uint64
}

// expvar reads a page of package expvar: the top-level numbers under their own names, and the
// runtime's values from memstats.
func (s *site) expvar(text []byte) (reading, error) {
	if err := s.tooMany(bytes.Count(text, []byte(":")), maxLabels, "names"); err != nil {
		return nil, err
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(text, &top); err != nil {
		return nil, fmt.Errorf("%s begins like a page of expvar's and is not valid: %.*s",
			s.shown, maxWords, oneLine(err.Error()))
	}
	t := taker{reading: make(reading), left: maxSeries}
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if v, err := strconv.ParseFloat(string(top[name]), 64); err == nil {
			t.take(name, v)
		}
	}
	err := t.error(s.shown)
	if text, ok := top["memstats"]; ok {
		var m memstats
		if json.Unmarshal(text, &m) == nil {
			s.runtime(t.reading, &m)
		} else if err == nil {
			err = fmt.Errorf("%s: its memstats are not those of Go's runtime", s.shown)
		}
	}
	return t.reading, err
}

// runtime adds the values of memstats. What memstats does not contain, such as the goroutines or
// the live heap, is left out.
func (s *site) runtime(into reading, m *memstats) {
	into[measure.GoAllocatedBytes] = float64(m.TotalAlloc)
	into[measure.GoAllocatedObjects] = float64(m.Mallocs)
	if goal := float64(m.NextGC); bounded(goal) {
		into[measure.GoHeapGoal] = goal
	}
	into[measure.GoGCCycles] = float64(m.NumGC)
	if pauses := s.ring.since(m); len(pauses) > 0 {
		into[measure.GoGCPauseP50] = nearest(pauses, .5)
		into[measure.GoGCPauseP95] = nearest(pauses, .95)
	}
}

// pastRing is the runtime's state at the last reading.
type pastRing struct {
	collections uint32
	allocated   uint64
	known       bool
}

// since returns the pauses since the last reading, in seconds and ascending, at most the last 256.
// It returns none if they cannot be determined.
func (p *pastRing) since(m *memstats) []float64 {
	last := *p
	*p = pastRing{m.NumGC, m.TotalAlloc, true}
	if !last.known || m.NumGC < last.collections || m.TotalAlloc < last.allocated ||
		len(m.PauseNs) != ringSize {
		return nil
	}
	n := min(m.NumGC-last.collections, ringSize)
	pauses := make([]float64, n)
	for i := range n {
		// The runtime stores the pause of collection k, counted from 1, at index k-1.
		pauses[i] = float64(m.PauseNs[(m.NumGC-1-i)%ringSize]) / 1e9
	}
	slices.Sort(pauses)
	return pauses
}

// nearest returns the smallest of the ascending values that a share q of them does not exceed.
func nearest(ascending []float64, q float64) float64 {
	rank := int(q*float64(len(ascending)) + .999999)
	return ascending[min(max(rank, 1), len(ascending))-1]
}
