package scrape_test

import (
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/lab/scrape"
)

// served is a server whose page the test may change between readings.
func served(t *testing.T, handler http.HandlerFunc) (url string) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

// text is a server of a page of text.
func text(t *testing.T, content *string) (url string) {
	return served(t, func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(*content)) })
}

// clock is a time that tests move.
type clock struct{ now time.Time }

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

// source makes a source of pages, and a clock for it. It waits for pages as long as a busy machine
// may take.
func source(urls ...string) (*scrape.Page, *clock) {
	c := &clock{time.Unix(1000, 0)}
	p := scrape.New(urls...)
	p.At(func() time.Time { return c.now }, time.Minute)
	return p, c
}

// reader makes a function that reads pages again, a second later each time.
func reader(t *testing.T, urls ...string) func() map[string]float64 {
	t.Helper()
	p, c := source(urls...)
	return func() map[string]float64 {
		t.Helper()
		c.pass(time.Second)
		values := map[string]float64{}
		if err := p.Read(values); err != nil {
			t.Error(err)
		}
		return values
	}
}

// understood are the values without the series' own names.
func understood(values map[string]float64) map[string]float64 {
	rest := maps.Clone(values)
	maps.DeleteFunc(rest, func(name string, _ float64) bool {
		return strings.HasPrefix(name, "metrics.")
	})
	return rest
}

// wantValues compares values, but for what rounding does.
func wantValues(t *testing.T, got, want map[string]float64) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		v, ok := got[name]
		if !ok || math.Abs(v-want[name]) > 1e-9*math.Abs(want[name]) {
			t.Errorf("%s is %v (%v), want %v", name, v, ok, want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is %v, and should not be there", name, got[name])
		}
	}
}
