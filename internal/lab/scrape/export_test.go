package scrape

import (
	"context"
	"net/http"
	"time"
)

// Texts reads texts one after the other, as answers of one URL, and gives what the last one says.
func Texts(all ...[]byte) (values map[string]float64, err error) {
	s := newSite("http://127.0.0.1/metrics")
	for _, text := range all {
		values, err = s.parse(text, http.Header{})
	}
	return values, err
}

// At has a source take its time from a function, and wait for pages as long as is said.
func (p *Page) At(now func() time.Time, patience time.Duration) {
	p.now = now
	for _, s := range p.sites {
		s.client.Timeout = patience
	}
}

// Making has a profiler wait so much longer than profiles take.
func (p *Profiler) Making(patience time.Duration) { p.making = patience }

// Check looks at a profile that was taken.
func (p *Profiler) Check(ctx context.Context, content []byte) error { return p.check(ctx, content) }

// The bounds, for tests of what is beyond them.
const (
	MaxPage    = maxPage
	MaxLines   = maxLines
	MaxLabels  = maxLabels
	MaxOfLine  = maxOfLine
	MaxSaid    = maxSaid
	MaxSeries  = maxSeries
	MaxNames   = maxNames
	MaxProfile = maxProfile
	RefusedFor = refusedFor
)

// Quick sets how long a profile of goroutines may take for it to be taken again.
func (p *Profiler) Quick(most time.Duration) { p.quick = most }
