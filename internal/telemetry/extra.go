package telemetry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Series is one that is read elsewhere than in the loops at each scrape, such as the state of the targets.
type Series struct {
	Name    string   // without "plimsoll_"; one that ends in "_total" is a counter, any other a gauge
	Help    string   // one sentence
	Labels  []string // names of its labels
	Samples func(emit Emit)
}

// Emit takes one value and its labels' values. No two values of a series may have the same labels.
type Emit func(value float64, labels ...string)

type extraSeries struct {
	name    string
	desc    *prometheus.Desc
	kind    prometheus.ValueType
	samples func(Emit)
}

// Add adds a series. Its Samples run on the scrape's goroutine, and may run on several at once. The error says which
// name is taken or what is missing.
func (r *Registry) Add(s Series) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	desc := prometheus.NewDesc(prefix+s.Name, s.Help, s.Labels, nil)
	taken := slices.ContainsFunc(r.extra, func(x extraSeries) bool { return x.name == s.Name })
	if ours[s.Name] || taken {
		return fmt.Errorf("telemetry: there is a series %s%s already: choose another name", prefix, s.Name)
	}
	kind := prometheus.GaugeValue
	if strings.HasSuffix(s.Name, "_total") {
		kind = prometheus.CounterValue
	}
	if s.Help == "" || s.Samples == nil {
		return fmt.Errorf("telemetry: the series %s%s needs a help text and samples", prefix, s.Name)
	}
	if _, err := prometheus.NewConstMetric(desc, kind, 0, s.Labels...); err != nil {
		return fmt.Errorf("telemetry: the series %s%s: correct its name or labels: %w", prefix, s.Name, err)
	}
	r.extra = append(r.extra, extraSeries{s.Name, desc, kind, s.Samples})
	return nil
}

// emitExtra emits the series that were added. They run without the lock, so that they may use the registry.
func (r *Registry) emitExtra(ch chan<- prometheus.Metric) {
	r.mu.Lock()
	all := r.extra[:len(r.extra):len(r.extra)]
	r.mu.Unlock()
	for _, x := range all {
		x.samples(func(v float64, labels ...string) {
			labels = slices.Clone(labels)
			for i := range labels {
				labels[i] = strings.ToValidUTF8(labels[i], "\ufffd")
			}
			ch <- metric(x.desc, x.kind, v, labels...)
		})
	}
}
