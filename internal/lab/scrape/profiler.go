package scrape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"plimsoll/internal/lab/profile"
)

// Kind is a kind of profile, as used in file names.
type Kind string

// The kinds. CPU, Allocs, Mutex and Block cover the requested time. Heap is from one moment, after
// three quarters of it. Goroutine is from one of several moments, the one with the median number of
// goroutines, because a queue comes and goes.
const (
	CPU       Kind = "cpu"
	Allocs    Kind = "allocs"
	Heap      Kind = "heap"
	Goroutine Kind = "goroutine"
	Mutex     Kind = "mutex"
	Block     Kind = "block"
)

// Kinds are all kinds of profile.
var Kinds = []Kind{CPU, Allocs, Heap, Goroutine, Mutex, Block}

// lasting are the kinds that cover a period. The service itself computes the difference between the
// end and the start of the period.
var lasting = []Kind{CPU, Allocs, Mutex, Block}

// path returns a kind's path under /debug/pprof.
func (k Kind) path() string {
	if k == CPU {
		return "profile"
	}
	return string(k)
}

const (
	maxProfile = 32 << 20
	// making is how much longer than the profile's own time it may take.
	making = 5 * time.Second
	// quick is the maximum duration of a goroutine profile for taking more than one: the service is
	// stopped for a part of it.
	quick = 50 * time.Millisecond
)

// moments are when goroutine profiles are taken, in percent of the time. moment is the same for
// other profiles without a duration.
var moments = []time.Duration{25, 40, 55, 70, 85}

const moment = 75 // percent, like moments

// Profiler takes profiles of a Go service through its net/http/pprof. It may be used by any
// goroutine, but not concurrently.
type Profiler struct {
	url, shown string
	client     http.Client
	making     time.Duration
	quick      time.Duration
}

// NewProfiler makes a profiler for a service's base URL, such as http://127.0.0.1:6060, or for its
// /debug/pprof. It keeps no connection open after a profile, because it would count as one of the
// service's. It follows redirects only on the same host.
func NewProfiler(url string) *Profiler {
	base := strings.TrimSuffix(strings.TrimRight(url, "/"), "/debug/pprof") + "/debug/pprof"
	return &Profiler{
		url:    base,
		shown:  shown(base),
		making: making,
		quick:  quick,
		client: http.Client{
			CheckRedirect: stay,
			Transport: &http.Transport{
				Proxy:                  http.ProxyFromEnvironment,
				DisableKeepAlives:      true,
				DisableCompression:     true,
				MaxResponseHeaderBytes: maxHeader,
			},
		},
	}
}

// Take takes profiles of these kinds at the same time, over length, in whole seconds and at least
// one. It returns the complete ones by kind, in pprof's format and of at most 32 MB each, and the
// reasons for the others, each once. An empty mutex or block profile is complete: a service must
// turn them on. Take returns when all profiles have arrived, or soon after ctx has ended, and
// leaves nothing running. Profiles that have not been checked when ctx ends are not returned. The
// one being checked takes some milliseconds, or a second or two if it was made to be slow.
//
// The cost to the service is that of profiling: some percent of a processor for the CPU profile,
// and for the others the work of writing them, twice for those that are differences. A goroutine
// profile stops the service while it counts its goroutines, up to five times.
func (p *Profiler) Take(
	ctx context.Context, kinds []Kind, length time.Duration,
) (map[string][]byte, []error) {
	soon, cancel := context.WithTimeout(ctx, length+p.making)
	defer cancel()
	taken := make([][]byte, len(kinds))
	errs := make([]error, len(kinds))
	var running sync.WaitGroup
	for i, kind := range kinds {
		running.Go(func() { taken[i], errs[i] = p.take(soon, kind, length) })
	}
	running.Wait()
	whole := make(map[string][]byte)
	why := make(map[string][]string)
	for i, kind := range kinds {
		// They are checked once all have arrived: checking uses the processor, which the service
		// may need.
		if errs[i] == nil {
			errs[i] = p.check(ctx, taken[i])
		}
		if errs[i] == nil {
			whole[string(kind)] = taken[i]
		} else {
			why[errs[i].Error()] = append(why[errs[i].Error()], string(kind))
		}
	}
	var said []error
	for i := range kinds {
		if errs[i] == nil || why[errs[i].Error()] == nil {
			continue
		}
		said = append(said, fmt.Errorf("%s profile: %w",
			strings.Join(why[errs[i].Error()], ", "), errs[i]))
		delete(why, errs[i].Error())
	}
	return whole, said
}

// take fetches one profile.
func (p *Profiler) take(ctx context.Context, kind Kind, length time.Duration) ([]byte, error) {
	switch {
	case slices.Contains(lasting, kind):
		return p.fetch(ctx, fmt.Sprintf("%s?seconds=%d", kind.path(),
			max(int(length/time.Second), 1)))
	case kind == Goroutine:
		return p.middle(ctx, kind, length)
	}
	if err := p.wait(ctx, time.Now(), length*moment/100); err != nil {
		return nil, err
	}
	return p.fetch(ctx, kind.path())
}

// middle fetches a profile at several moments, and returns the one with the median number of
// goroutines.
func (p *Profiler) middle(ctx context.Context, kind Kind, length time.Duration) ([]byte, error) {
	type look struct {
		content []byte
		n       float64
	}
	var looks []look
	began := time.Now()
	for _, at := range moments {
		if err := p.wait(ctx, began, length*at/100); err != nil {
			return nil, err
		}
		asked := time.Now()
		content, err := p.fetch(ctx, kind.path())
		if err != nil {
			return nil, err
		}
		slow := time.Since(asked) > p.quick
		l := look{content: content}
		if of, err := profile.Parse(content); err == nil {
			l.n = of.Total(profile.Goroutine)
		}
		if looks = append(looks, l); slow {
			break
		}
	}
	slices.SortStableFunc(looks, func(a, b look) int { return cmp.Compare(a.n, b.n) })
	return looks[len(looks)/2].content, nil
}

// wait waits until length after since.
func (p *Profiler) wait(ctx context.Context, since time.Time, length time.Duration) error {
	timer := time.NewTimer(time.Until(since.Add(length)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return cause(ctx, p.shown, ctx.Err())
	}
}

// fetch fetches a path under /debug/pprof.
func (p *Profiler) fetch(ctx context.Context, path string) ([]byte, error) {
	content, _, err := fetch(ctx, &p.client, p.url+"/"+path, p.shown, maxProfile)
	var refused *refusal
	if errors.As(err, &refused) && refused.status == http.StatusInternalServerError &&
		strings.Contains(refused.words, "already in use") {
		return nil, fmt.Errorf("%s is taking one already, for somebody else, and takes one at a "+
			"time: stop that, and measure again", p.shown)
	}
	return content, err
}

// check rejects anything that is not a complete profile.
func (p *Profiler) check(ctx context.Context, content []byte) error {
	if ctx.Err() != nil {
		return cause(ctx, p.shown, ctx.Err())
	}
	if _, err := profile.Parse(content); err != nil {
		return fmt.Errorf("%s answers with something else than a profile (%w): "+
			"is net/http/pprof there?", p.shown, err)
	}
	return nil
}
