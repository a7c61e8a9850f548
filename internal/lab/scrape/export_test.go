package scrape

import (
	"context"
	"net/http"
	"time"
)

// Texts parses texts one after the other, as answers of one URL, and returns the values of the last
// one.
func Texts(all ...[]byte) (values map[string]float64, err error) {
	s := newSite("http://127.0.0.1/metrics")
	for _, text := range all {
		values, err = s.parse(text, http.Header{})
	}
	return values, err
}

// At sets a source's clock, and how long it waits for pages.
func (p *Page) At(now func() time.Time, patience time.Duration) {
	p.now = now
	for _, s := range p.sites {
		s.client.Timeout = patience
	}
}

// Making sets how much longer than the profiles' own time a profiler waits.
func (p *Profiler) Making(patience time.Duration) { p.making = patience }

// Check calls check.
func (p *Profiler) Check(ctx context.Context, content []byte) error { return p.check(ctx, content) }

// The limits, for tests beyond them.
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

// Quick sets the maximum duration of a goroutine profile for taking another one.
func (p *Profiler) Quick(most time.Duration) { p.quick = most }
