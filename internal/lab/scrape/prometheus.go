package scrape

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"plimsoll/internal/lab/measure"
)

// families are a page's series by name without labels.
type families map[string]*dto.MetricFamily

// prometheus reads a page in Prometheus's text format.
func (s *site) prometheus(text string) (reading, error) {
	if err := s.costly(text); err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	parsed, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s is neither a page of Prometheus metrics nor one of expvar's: "+
			"%.*s", s.shown, maxWords, oneLine(err.Error()))
	}
	all := families(parsed)
	t := taker{reading: make(reading), left: maxSeries}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, m := range all[name].Metric {
			series(&t, all[name], m)
		}
	}
	// These do not depend on the room for series.
	all.normalise(t.reading)
	s.quantiles(t.reading, all)
	return t.reading, t.error(s.shown)
}

// costly rejects a page that would take too much time or memory to parse: the parser makes two
// hundred bytes of a line of four.
func (s *site) costly(text string) error {
	if err := s.tooMany(strings.Count(text, "\n"), maxLines, "lines"); err != nil {
		return err
	}
	total, most := 0, 0
	for line := range strings.SplitSeq(text, "\n") {
		labels := strings.Count(line, "=")
		total, most = total+labels, max(most, labels)
	}
	return cmp.Or(s.tooMany(total, maxLabels, "labels"),
		s.tooMany(most, maxOfLine, "labels on a line"))
}

// series takes the values of one series.
func series(t *taker, family *dto.MetricFamily, m *dto.Metric) {
	if t.full {
		return // making its name costs as much as reading it
	}
	labels := ""
	if len(m.Label) > 0 {
		pairs := make([]string, len(m.Label))
		for i, l := range m.Label {
			pairs[i] = fmt.Sprintf("%s=%q", l.GetName(), l.GetValue())
		}
		labels = "{" + strings.Join(pairs, ",") + "}"
	}
	for _, suffix := range suffixes(m) {
		t.take(family.GetName()+suffix+labels, valueOf(m, suffix))
	}
}

// suffixes returns the suffixes of the names of a series' values.
func suffixes(m *dto.Metric) []string {
	if m.Histogram != nil || m.Summary != nil {
		return []string{"_sum", "_count"}
	}
	return []string{""}
}

// valueOf returns one of the values of a series.
func valueOf(m *dto.Metric, suffix string) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Histogram != nil && suffix == "_sum":
		return m.Histogram.GetSampleSum()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	case m.Summary != nil && suffix == "_sum":
		return m.Summary.GetSampleSum()
	case m.Summary != nil:
		return float64(m.Summary.GetSampleCount())
	}
	return m.Untyped.GetValue()
}

// normalise adds the values whose meaning is known.
func (all families) normalise(into reading) {
	for _, u := range understood {
		for _, name := range u.from {
			values := all.values(name)
			if len(values) == 0 {
				continue
			}
			if v, ok := u.join(values); ok && v-v == 0 {
				into[u.value] = v
			}
			break
		}
	}
}

// values returns the values of all series of a name.
func (all families) values(name string) (values []float64) {
	family, suffix := all[name], ""
	if base, ok := strings.CutSuffix(name, "_count"); ok && family == nil {
		family, suffix = all[base], "_count"
	}
	for _, m := range family.GetMetric() {
		// A histogram has no value under its own name.
		if slices.Contains(suffixes(m), suffix) {
			values = append(values, valueOf(m, suffix))
		}
	}
	return values
}

// one returns the only series of the first of these names that the page has; nil if there are
// several.
func (all families) one(names ...string) *dto.Metric {
	for _, name := range names {
		if family := all[name]; len(family.GetMetric()) > 0 {
			if len(family.Metric) > 1 {
				return nil
			}
			return family.Metric[0]
		}
	}
	return nil
}

// quantiles adds the quantiles over the time since the last reading.
func (s *site) quantiles(into reading, all families) {
	put := func(name string, v float64) {
		if v-v == 0 {
			into[name] = v
		}
	}
	latencies := s.latencies.since(histogramOf(all.one(latencyHistograms...)))
	if latencies.total() > 0 {
		put(measure.GoSchedLatencyP50, latencies.quantile(.5))
		put(measure.GoSchedLatencyP99, latencies.quantile(.99))
	}
	pauses := s.pauses.since(histogramOf(all.one(pauseHistograms...)))
	cycles, said := s.cycles.since(cyclesOf(all.one(pauseSummary)))
	switch {
	case said && cycles.count > 0:
		put(measure.GoGCPauseP50, cycles.quantile(.5, pauses))
		put(measure.GoGCPauseP95, cycles.quantile(.95, pauses))
	case !said && pauses.total() > 0:
		put(measure.GoGCPauseP50, pauses.quantile(.5))
		put(measure.GoGCPauseP95, pauses.quantile(.95))
	}
}
