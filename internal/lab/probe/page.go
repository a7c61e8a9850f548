package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Page is the source that a service offers of itself: a metrics page as Prometheus reads it. Its values are named "metrics." and the series as the page
// has it, "metrics.http_requests_total{code=\"200\"}"; of histograms and summaries there are _sum and _count.
type Page struct {
	url    string
	client http.Client
	now    func() time.Time
	last   time.Time
}

// The bounds of a page. It is read at most once in pageEvery, as a service has to make it.
const (
	pageEvery   = time.Second
	pagePatient = 500 * time.Millisecond
	pageBytes   = 4 << 20
	pageSeries  = 1000
	seriesBytes = 300
)

// NewPage makes the source of a page. Nothing is read before the first sample.
func NewPage(url string) *Page {
	return &Page{url: url, client: http.Client{Timeout: pagePatient}, now: time.Now}
}

// Name is as Source says.
func (p *Page) Name() string { return "the metrics page" }

// Read reads the page if a second has passed since it was read last; the samples in between do not have its values.
func (p *Page) Read(into map[string]float64) error {
	if now := p.now(); now.Sub(p.last) >= pageEvery {
		p.last = now
		return p.read(into)
	}
	return nil
}

func (p *Page) read(into map[string]float64) error {
	text, err := fetch(context.Background(), &p.client, p.url, pageBytes)
	if err != nil {
		return err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		return fmt.Errorf("%s is no page of Prometheus metrics: %w", p.url, err)
	}
	left := pageSeries
	for _, name := range slices.Sorted(maps.Keys(families)) {
		for _, m := range families[name].Metric {
			left -= series(into, families[name], m)
			if left < 0 {
				return fmt.Errorf("%s has more than %d series: the others are not read", p.url, pageSeries)
			}
		}
	}
	return nil
}

// series puts the values of one series in, and says how many that were.
func series(into map[string]float64, family *dto.MetricFamily, m *dto.Metric) int {
	labels := ""
	if len(m.Label) > 0 {
		pairs := make([]string, len(m.Label))
		for i, l := range m.Label {
			pairs[i] = fmt.Sprintf("%s=%q", l.GetName(), l.GetValue())
		}
		labels = "{" + strings.Join(pairs, ",") + "}"
	}
	n := 0
	put := func(suffix string, v float64) {
		name := "metrics." + family.GetName() + suffix + labels
		// JSON has no word for what is no number.
		if len(name) <= seriesBytes && v-v == 0 {
			into[name] = v
			n++
		}
	}
	switch {
	case m.Counter != nil:
		put("", m.Counter.GetValue())
	case m.Gauge != nil:
		put("", m.Gauge.GetValue())
	case m.Untyped != nil:
		put("", m.Untyped.GetValue())
	case m.Histogram != nil:
		put("_sum", m.Histogram.GetSampleSum())
		put("_count", float64(m.Histogram.GetSampleCount()))
	case m.Summary != nil:
		put("_sum", m.Summary.GetSampleSum())
		put("_count", float64(m.Summary.GetSampleCount()))
	}
	return n
}

// Profiler fetches processor profiles from a Go service's net/http/pprof.
type Profiler struct {
	url    string
	client http.Client
}

const (
	profileBytes = 32 << 20
	// profileSlack is how much longer than the profile itself its making may take.
	profileSlack = 5 * time.Second
)

// NewProfiler makes one for a service's base URL, such as http://127.0.0.1:6060, or that of its /debug/pprof.
func NewProfiler(url string) *Profiler {
	url = strings.TrimRight(url, "/")
	return &Profiler{url: strings.TrimSuffix(url, "/debug/pprof") + "/debug/pprof/profile"}
}

// CPU takes a profile of the service's processor time for so long, in whole seconds and at least one, and returns it as pprof reads it. The
// service has one profile at a time: it fails while somebody else takes one.
func (p *Profiler) CPU(ctx context.Context, length time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, length+profileSlack)
	defer cancel()
	seconds := max(int(length/time.Second), 1)
	profile, err := fetch(ctx, &p.client, fmt.Sprintf("%s?seconds=%d", p.url, seconds), profileBytes)
	if err == nil && (len(profile) < 2 || profile[0] != 0x1f || profile[1] != 0x8b) {
		err = fmt.Errorf("%s answers with something that is no profile: is net/http/pprof there?", p.url)
	}
	if err != nil {
		return nil, err
	}
	return profile, nil
}

// fetch reads an answer of at most limit bytes.
func fetch(ctx context.Context, client *http.Client, url string, limit int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, cmp.Or(errors.Unwrap(err), err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with status %d", url, response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("%s answers with more than %d MB", url, limit>>20)
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}
