package probe

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// site answers each path with a text.
func site(t *testing.T, pages map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, page)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestAMetricsPagesSeriesAreSampledOnceASecond(t *testing.T) {
	page := NewPage(site(t, map[string]string{"/metrics": `# TYPE requests_total counter
requests_total{code="200",path="/a\"b"} 41
# TYPE latency_seconds histogram
latency_seconds_bucket{le="+Inf"} 3
latency_seconds_sum 1.5
latency_seconds_count 3
temperature 20.5
broken NaN
`}) + "/metrics")
	now := time.Unix(1000, 0)
	page.now = func() time.Time { return now }
	values := map[string]float64{}
	if err := page.Read(values); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{`metrics.requests_total{code="200",path="/a\"b"}`: 41, "metrics.latency_seconds_sum": 1.5,
		"metrics.latency_seconds_count": 3, "metrics.temperature": 20.5}
	if len(values) != len(want) {
		t.Errorf("%v", values)
	}
	for name, v := range want {
		if values[name] != v {
			t.Errorf("%s is %v, want %v", name, values[name], v)
		}
	}
	clear(values)
	now = now.Add(999 * time.Millisecond)
	if err := page.Read(values); err != nil || len(values) != 0 {
		t.Errorf("read again within a second: %v %v", values, err)
	}
	now = now.Add(time.Millisecond)
	if err := page.Read(values); err != nil || len(values) != len(want) {
		t.Errorf("not read again after a second: %v %v", values, err)
	}
}

func TestAPageThatIsNoneIsSaidOnceAndTheRestIsSampled(t *testing.T) {
	many := strings.Builder{}
	for i := range 2 * pageSeries {
		fmt.Fprintf(&many, "series_%d 1\n", i)
	}
	base := site(t, map[string]string{"/text": "<html>no", "/many": many.String(), "/huge": strings.Repeat("# nothing\n", pageBytes/10+1)})
	for path, part := range map[string]string{"/text": "no page of Prometheus metrics", "/many": "more than 1000 series", "/huge": "more than 4 MB", "/none": "status 404"} {
		page := NewPage(base + path)
		now := time.Unix(0, 0)
		page.now = func() time.Time { now = now.Add(time.Hour); return now }
		s := New(Options{More: []Source{page}})
		before := len(s.NotMeasured())
		s.Sample(0)
		sample := s.Sample(1)
		said := s.NotMeasured()[before:]
		if len(said) != 1 || !strings.Contains(said[0], part) || strings.Contains(said[0], "\n") {
			t.Errorf("%s: %q", path, said)
		}
		if path != "/many" && len(sample.Values) > len(Values) {
			t.Errorf("%s: %d values", path, len(sample.Values))
		}
	}
}

func TestAProfileIsFetchedForAsLongAsWasAsked(t *testing.T) {
	asked := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		z := gzip.NewWriter(w)
		fmt.Fprint(z, "profile")
		z.Close()
	}))
	defer s.Close()
	for _, url := range []string{s.URL, s.URL + "/", s.URL + "/debug/pprof", s.URL + "/debug/pprof/"} {
		profile, err := NewProfiler(url).CPU(t.Context(), 2500*time.Millisecond)
		if err != nil || len(profile) == 0 || asked != "/debug/pprof/profile?seconds=2" {
			t.Errorf("%s: %d bytes, %v, asked for %s", url, len(profile), err, asked)
		}
	}
	for url, part := range map[string]string{site(t, map[string]string{"/debug/pprof/profile": "hello"}): "no profile", site(t, nil): "status 404"} {
		if _, err := NewProfiler(url).CPU(t.Context(), time.Second); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, want %q", err, part)
		}
	}
}
