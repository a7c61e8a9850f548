// Package scrape reads what a service exports: pages of Prometheus metrics, the expvar page, and
// the profiles of net/http/pprof. It returns series under the names of the page, and under names of
// its own what the diagnosis can read: Go's runtime and the pools of database/sql. It must know
// nothing of loads, of /proc, or of what the figures are used for.
//
// Whatever answers at a URL is treated as hostile: it may be endless, slow, or something else.
// Everything is bounded, and what cannot be read is reported once, in words that do not change from
// one reading to the next.
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

// The bounds of pages. One is read at most once in every, as a service has to make it: once a
// second, when samples are taken four times a second and never quite on time.
const (
	every    = 900 * time.Millisecond
	patience = 500 * time.Millisecond
	maxPage  = 4 << 20
	// maxLines and maxLabels bound what reading a page costs; beyond them nothing of it is read.
	maxLines  = 20_000
	maxLabels = 50_000 // of all series together; names in JSON
	maxOfLine = 32     // labels of a series: the parser compares each with all before it
	maxSeries = 1000
	maxName   = 300
	// maxNames bounds what all names of one sample take in a run directory, where a line has a
	// limit.
	maxNames = 512 << 10
	// maxSaid bounds the causes that are listed for one page: what it answers must not drown
	// what is said of others.
	maxSaid = 8
	// refusedFor is for how long what is not a page is left alone: it does not become one within a
	// second, and reading it costs.
	refusedFor = 10 * time.Second
	// maxFailed is how often in a row a page may fail to answer before it is left alone as long:
	// samples wait for it.
	maxFailed = 2
)

// Page is the source of what a service exports, made of one page or more. It satisfies
// probe.Source. Its methods are called by one goroutine at a time.
type Page struct {
	sites []*site
	now   func() time.Time
	last  time.Time
}

// New makes the source of pages: of Prometheus metrics in text, or of expvar's JSON; what comes
// back decides. Nothing is read before the first sample, and redirects are followed on the same
// host only. Where two pages have the same name, the value of the one that is named first is kept;
// Go's runtime is that of the first page that speaks of one, and of other pages at the same
// address: a database's exporter is a Go program too, and not the service.
func New(urls ...string) *Page {
	p := &Page{now: time.Now}
	for _, u := range urls {
		p.sites = append(p.sites, newSite(u))
	}
	return p
}

// Name is as probe.Source says.
func (p *Page) Name() string { return "the metrics page" }

// Read reads the pages if a second or so has passed since they were read last; the samples in
// between do not have their values. It waits for answers for half a second at most, and then reads
// them: a page of the largest that services have takes some hundredths of one, and one that was
// made to take long two tenths. A page that twice in a row did not answer is left alone for ten
// seconds. An error says what could not be read, on one line, and each cause is said once: with
// several pages the same ones would come back in ever new combinations.
//
// It costs a service what making its page does, and the reader about a millisecond of a processor
// for all that Go's runtime can tell (BenchmarkRead: 50 KB).
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

// unsaid is what was not said before; nil when that is nothing.
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

// merge puts what the i-th page gave in, but for what an earlier one gives; left says that there
// was no room for some of it.
func (p *Page) merge(into map[string]float64, i int, r reading, room *int) (left bool) {
	earlier := p.sites[:i]
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if slices.ContainsFunc(earlier, func(s *site) bool { return s.before(p.sites[i], name) }) {
			continue
		}
		// Besides there are quotes, the value and what parts them.
		if *room -= inJSON(name) + 30; *room < 0 {
			left = true
			continue
		}
		into[name] = r[name]
	}
	return left
}

// inJSON is how many bytes a name takes, without its quotes: the characters that are written
// otherwise in HTML take six where JSON is made for that too.
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

// reading is what a page said at one moment: values by name.
type reading map[string]float64

// site is one page.
type site struct {
	url, host string
	shown     string // the URL as it may be shown: without a password
	client    http.Client
	until     time.Time // the page is not read again before
	refused   error     // why it was not a page, the first time: words that stay the same
	gave      reading   // when it was read last
	failed    int       // how often in a row it did not answer
	said      []string  // the causes of errors
	history
}

func newSite(text string) *site {
	s := &site{
		url:   text,
		shown: shown(text),
		client: http.Client{
			Timeout:       patience,
			CheckRedirect: stay,
			// A connection that is kept costs the service less than a new one a second, and leaves
			// none behind that has to wait for stray packets.
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

// before says whether a page that was named earlier has the say over a name that a later one gives.
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

// read reads the page. Both results are there when a part could be read.
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

// rest leaves a page alone for a while when it has failed too often. What answers, if only that it
// is busy, is asked again.
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

// news says whether an error's cause was not said before. Statuses of one class are one cause, as a
// page might go through all of them.
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

// tooMany refuses a page that has more of something than one that is meant to be read each second.
func (s *site) tooMany(n, most int, of string) error {
	if n <= most {
		return nil
	}
	return fmt.Errorf("%s has more than %d %s, and is not read, as that would take the processor "+
		"from what is measured: name a page with fewer", s.shown, most, of)
}

// parse tells the two kinds of pages apart. A page in Prometheus's text may begin with a brace too,
// as names of any characters do; it then says by its type what it is.
func (s *site) parse(body []byte, head http.Header) (reading, error) {
	trimmed := strings.TrimLeftFunc(string(body), unicode.IsSpace)
	if strings.HasPrefix(trimmed, "{") && !strings.Contains(head.Get("Content-Type"), "version=") {
		return s.expvar(body)
	}
	return s.prometheus(string(body))
}

// taker takes series under the page's own names, within bounds.
type taker struct {
	reading
	left int  // how many more are taken
	full bool // there were more
	odd  bool // some had no name that can be kept
}

func (t *taker) take(name string, v float64) {
	switch name = measure.Metrics + name; {
	// JSON has no word for what is not a number.
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

// error says what was not taken.
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
