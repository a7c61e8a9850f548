// Package scrape reads what a service exports: pages of Prometheus metrics, the expvar page, and
// the profiles of net/http/pprof. It returns series under the page's own names. What the diagnosis
// can use, Go's runtime and the pools of database/sql, also gets names of its own. The package must
// not know loads, /proc, or what the values are used for.
//
// Whatever answers at a URL is treated as hostile: it may be endless, slow, or something else.
// Everything is bounded, and what cannot be read is reported once, in words that stay the same from
// reading to reading.
package scrape

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"plimsoll/internal/lab/format"
	"plimsoll/internal/lab/measure"
)

// Limits for pages. A page is read at most once per every, because it costs the service. That is
// once a second if samples are taken four times a second and are slightly irregular.
const (
	every    = 900 * time.Millisecond
	patience = 500 * time.Millisecond
	maxPage  = 4 << 20
	// maxLines and maxLabels limit the cost of reading a page; a larger page is not read at all.
	maxLines  = 20_000
	maxLabels = 50_000 // of all series together; names in JSON
	maxOfLine = 32     // labels of a series: the parser compares each with all before it
	maxSeries = 1000
	maxName   = 300
	// maxNames limits the total length of all names of a sample in a run directory, where lines are
	// limited.
	maxNames = 512 << 10
	// maxSaid limits the errors reported per page, so that one page cannot drown out the others.
	maxSaid = 8
	// refusedFor is how long something that is not a page is left alone: it will not become one
	// within a second, and reading it costs.
	refusedFor = 10 * time.Second
	// maxFailed is how many times in a row a page may fail to answer before it is left alone for
	// refusedFor: samples wait for it.
	maxFailed = 2
)

// Page is the source of a service's exported values, from one or more pages. It implements
// probe.Source. Its methods must be called by one goroutine at a time.
type Page struct {
	sites []*site
	now   func() time.Time
	last  time.Time
}

// New makes a source from pages, either Prometheus metrics in text form or expvar's JSON; the
// answer decides. Nothing is read before the first sample, and redirects are followed only on the
// same host. If two pages have the same name, the value of the first page is kept. Go's runtime is
// that of the first page with one, and of other pages at the same address: a database's exporter is
// a Go program too, but not the service.
func New(urls ...string) *Page {
	p := &Page{now: time.Now}
	for _, u := range urls {
		p.sites = append(p.sites, newSite(u))
	}
	return p
}

// Name implements probe.Source.
func (p *Page) Name() string { return "the metrics page" }

// Read reads the pages if about a second has passed since the last time; samples in between do not
// have their values. It waits for answers for at most half a second, and then parses them: the
// largest pages of real services take some hundredths of a second, and one made to be slow takes
// two tenths. A page that did not answer twice in a row is left alone for ten seconds. An error
// says what could not be read, on one line. Each cause is reported only once, because with several
// pages the same causes would come back in new combinations.
//
// The cost to a service is that of making its page. The reader needs about a millisecond of a
// processor for all values of Go's runtime (BenchmarkRead: 50 KB).
func (p *Page) Read(into map[string]float64) error {
	now := p.now()
	if now.Sub(p.last) < every {
		return nil
	}
	p.last = now
	readings := make([]reading, len(p.sites))
	errs := make([]error, len(p.sites))
	var running sync.WaitGroup
	for i, s := range p.sites {
		running.Go(func() { readings[i], errs[i] = s.read(now) })
	}
	running.Wait()
	room := maxNames
	for i, s := range p.sites {
		if readings[i] != nil {
			s.gave = readings[i]
		}
		if left := p.merge(into, i, readings[i], &room); left && errs[i] == nil {
			errs[i] = fmt.Errorf("%s: the names of its series are longer than %d KB together: "+
				"some are left out", s.shown, maxNames>>10)
		}
	}
	return p.unsaid(errs)
}

// unsaid returns the errors that were not reported before; nil if there are none.
func (p *Page) unsaid(errs []error) error {
	var news []string
	for i, err := range errs {
		if err != nil && p.sites[i].news(err) {
			news = append(news, err.Error())
		}
	}
	if len(news) == 0 {
		return nil
	}
	return errors.New(strings.Join(news, "; "))
}

// merge adds the values of page i that no earlier page has; left reports that some did not fit.
func (p *Page) merge(into map[string]float64, i int, r reading, room *int) (left bool) {
	earlier := p.sites[:i]
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if slices.ContainsFunc(earlier, func(s *site) bool { return s.before(p.sites[i], name) }) {
			continue
		}
		// The quotes, the value and the separators come on top.
		if *room -= inJSON(name) + 30; *room < 0 {
			left = true
			continue
		}
		into[name] = r[name]
	}
	return left
}

// inJSON returns how many bytes a name takes, without quotes. The characters that are special in
// HTML count six, for JSON that escapes them too.
func inJSON(name string) int {
	n := len(name)
	for _, c := range []byte(name) {
		switch c {
		case '"', '\\':
			n++
		case '<', '>', '&':
			n += 5
		}
	}
	return n
}

// reading is the values of a page at one moment, by name.
type reading map[string]float64

// site is one page.
type site struct {
	url, host string
	shown     string // the URL without its password, for output
	client    http.Client
	until     time.Time // the page is not read before then
	refused   error     // why it was not a page, the first time, so that the text stays the same
	gave      reading   // the values at the last reading
	failed    int       // consecutive failures to answer
	said      []string  // the errors reported
	history
}

func newSite(text string) *site {
	s := &site{
		url:   text,
		shown: shown(text),
		client: http.Client{
			Timeout:       patience,
			CheckRedirect: stay,
			// A persistent connection costs the service less than a new one every second, and
			// leaves none behind in TIME-WAIT.
			Transport: &http.Transport{
				Proxy:                  http.ProxyFromEnvironment,
				DisableCompression:     true,
				MaxIdleConnsPerHost:    1,
				IdleConnTimeout:        time.Minute,
				MaxResponseHeaderBytes: maxHeader,
			},
		},
	}
	if u, err := url.Parse(text); err == nil {
		s.host = u.Host
	}
	return s
}

// before reports whether the earlier page s takes precedence for a name of a later page.
func (s *site) before(later *site, name string) bool {
	if _, ok := s.gave[name]; ok {
		return true
	}
	return s.host != later.host && strings.HasPrefix(name, measure.GoNames) && s.speaksOfGo()
}

func (s *site) speaksOfGo() bool {
	for name := range s.gave {
		if strings.HasPrefix(name, measure.GoNames) {
			return true
		}
	}
	return false
}

// read reads the page. It returns both results if a part could be read.
func (s *site) read(now time.Time) (reading, error) {
	if now.Before(s.until) {
		return nil, s.refused
	}
	body, head, err := fetch(context.Background(), &s.client, s.url, s.shown, maxPage)
	if err != nil && !errors.Is(err, errTooLarge) {
		s.rest(now, err)
		return nil, err
	}
	s.failed = 0
	var r reading
	if err == nil {
		r, err = s.parse(body, head)
	}
	if err != nil && r == nil {
		s.until = now.Add(refusedFor)
		if s.refused == nil {
			s.refused = err
		}
		return nil, s.refused
	}
	return r, err
}

// rest leaves a page alone for a while if it has failed too often. A page that answers, even with
// an error status, is read again.
func (s *site) rest(now time.Time, err error) {
	var answer *refusal
	if errors.As(err, &answer) {
		s.failed = 0
		return
	}
	if s.failed++; s.failed >= maxFailed {
		s.until = now.Add(refusedFor)
	}
}

// news reports whether an error's cause was not reported before. All statuses of a class are one
// cause, as a page might go through all of them.
func (s *site) news(err error) bool {
	what := err.Error()
	var answer *refusal
	if errors.As(err, &answer) {
		what = fmt.Sprintf("status %dxx", answer.status/100)
	}
	if len(s.said) >= maxSaid || slices.Contains(s.said, what) {
		return false
	}
	s.said = append(s.said, what)
	return true
}

// tooMany rejects a page that has more of something than a page to read every second may have.
func (s *site) tooMany(n, most int, of string) error {
	if n <= most {
		return nil
	}
	return fmt.Errorf("%s has more than %d %s, and is not read, as that would take the processor "+
		"from what is measured: name a page with fewer", s.shown, most, of)
}

// parse distinguishes the two kinds of pages. A page in Prometheus's text format may start with a
// brace too, because names may contain any characters; then its content type identifies it.
func (s *site) parse(body []byte, head http.Header) (reading, error) {
	trimmed := strings.TrimLeftFunc(string(body), unicode.IsSpace)
	if strings.HasPrefix(trimmed, "{") && !strings.Contains(head.Get("Content-Type"), "version=") {
		return s.expvar(body)
	}
	return s.prometheus(string(body))
}

// taker takes series under the page's own names, within limits.
type taker struct {
	reading
	left int  // how many more it takes
	full bool // there were more series
	odd  bool // some names could not be kept
}

func (t *taker) take(name string, v float64) {
	switch name = measure.Metrics + name; {
	// JSON cannot represent NaN and infinities.
	case v-v != 0:
	case len(name) > maxName || format.Clean(name) != name:
		t.odd = true
	case t.left == 0:
		t.full = true
	default:
		t.left--
		t.reading[name] = v
	}
}

// error reports what was not taken.
func (t *taker) error(shown string) error {
	switch {
	case t.full:
		return fmt.Errorf("%s has more than %d series: the others are not kept", shown, maxSeries)
	case t.odd:
		return fmt.Errorf("%s has series whose names are longer than %d bytes, or no text: "+
			"they are not kept", shown, maxName-len(measure.Metrics))
	}
	return nil
}
