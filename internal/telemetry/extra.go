package telemetry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Series is one that is read elsewhere than in the loops at each scrape, such as the state of the
// targets.
type Series struct {
	// without "plimsoll_"; one that ends in "_total" is a counter, any other a gauge
	Name   string
	Help   string   // one sentence
	Labels []string // names of its labels
	// Bounds are the upper bounds of a histogram's buckets, ascending; nil for every other series
	Bounds []float64
}

// Emit takes the index of a series in its group, one value, and its labels' values. No two values
// of a series may have the same labels.
type Emit func(series int, value float64, labels ...string)

// EmitHistogram is Emit for a series that has bounds: it takes how many values each bucket has,
// those above the last bound at the end, and what all of them add up to.
type EmitHistogram func(series int, counts []uint64, sum float64, labels ...string)

// Group is several series whose values come from one look at the same thing.
type Group struct {
	Series []Series
	// runs on the scrape's goroutine, once for each scrape, and may run on several at once
	Read func(emit Emit)
	// ReadHistograms does the same for those of the series that are histograms; nil for none
	ReadHistograms func(emit EmitHistogram)
}

// extraGroup is what was added at once.
type extraGroup struct {
	series         []extraSeries
	read           func(emit Emit)
	readHistograms func(emit EmitHistogram)
}

type extraSeries struct {
	name   string
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	bounds []float64
}

// AddGroup adds several series that are read together, all of them or none. The error says which
// name is taken or what is missing.
func (r *Registry) AddGroup(g Group) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	made := extraGroup{read: g.Read, readHistograms: g.ReadHistograms}
	for _, s := range g.Series {
		x, err := r.check(s)
		if err != nil {
			for _, x := range made.series {
				delete(r.added, x.name)
			}
			return err
		}
		made.series = append(made.series, x)
		r.added[x.name] = true
	}
	r.extra = append(r.extra, made)
	return nil
}

// check makes a series of its description. r.mu is held.
func (r *Registry) check(s Series) (extraSeries, error) {
	desc := prometheus.NewDesc(prefix+s.Name, s.Help, s.Labels, nil)
	if ours[s.Name] || r.added[s.Name] {
		return extraSeries{}, fmt.Errorf("telemetry: there is a series %s%s already: "+
			"choose another name",
			prefix, s.Name)
	}
	kind := prometheus.GaugeValue
	if strings.HasSuffix(s.Name, "_total") {
		kind = prometheus.CounterValue
	}
	if s.Help == "" {
		return extraSeries{}, fmt.Errorf("telemetry: the series %s%s needs a help text",
			prefix, s.Name)
	}
	if _, err := prometheus.NewConstMetric(desc, kind, 0, s.Labels...); err != nil {
		return extraSeries{}, fmt.Errorf("telemetry: the series %s%s: "+
			"correct its name or labels: %w",
			prefix, s.Name, err)
	}
	return extraSeries{s.Name, desc, kind, s.Bounds}, nil
}

// emitExtra emits the series that were added. They run without the lock, so that they may use the
// registry.
func (r *Registry) emitExtra(ch chan<- prometheus.Metric) {
	r.mu.Lock()
	all := r.extra[:len(r.extra):len(r.extra)]
	r.mu.Unlock()
	for _, group := range all {
		group.read(func(i int, v float64, labels ...string) {
			x := group.series[i]
			ch <- metric(x.desc, x.kind, v, validLabels(labels)...)
		})
		if group.readHistograms == nil {
			continue
		}
		group.readHistograms(func(i int, counts []uint64, sum float64, labels ...string) {
			x := group.series[i]
			ch <- bucketsMetric{x.desc, x.bounds, slices.Clone(counts), sum, validLabels(labels)}
		})
	}
}

func validLabels(labels []string) []string {
	valid := make([]string, len(labels))
	for i := range labels {
		valid[i] = strings.ToValidUTF8(labels[i], "\ufffd")
	}
	return valid
}

// bucketsMetric gives a histogram that was counted elsewhere to the prometheus package.
type bucketsMetric struct {
	desc   *prometheus.Desc
	bounds []float64
	counts []uint64 // one more than bounds
	sum    float64
	labels []string
}

// Desc is for the prometheus package.
func (m bucketsMetric) Desc() *prometheus.Desc { return m.desc }

// Write is for the prometheus package.
func (m bucketsMetric) Write(out *dto.Metric) error {
	if len(m.counts) != len(m.bounds)+1 {
		return fmt.Errorf("telemetry: a histogram with %d bounds has %d counts", len(m.bounds),
			len(m.counts))
	}
	var total uint64
	buckets := make([]*dto.Bucket, len(m.bounds))
	for i, n := range m.counts {
		if total += n; i < len(buckets) {
			most := total
			buckets[i] = &dto.Bucket{UpperBound: &m.bounds[i], CumulativeCount: &most}
		}
	}
	out.Label = prometheus.MakeLabelPairs(m.desc, m.labels)
	out.Histogram = &dto.Histogram{SampleCount: &total, SampleSum: &m.sum, Bucket: buckets}
	return nil
}
