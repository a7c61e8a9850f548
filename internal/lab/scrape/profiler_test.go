package scrape_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"runtime"
	rpprof "runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"plimsoll/internal/lab/profile"
	"plimsoll/internal/lab/scrape"
)

// nothingStays checks, after all other cleanups of the test, that it has left no goroutine.
func nothingStays(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// profiled is a real service with net/http/pprof, whose requests are noted.
func profiled(t *testing.T) (url string, seen func() []*http.Request) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	var lock sync.Mutex
	var requests []*http.Request
	url = served(t, func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		requests = append(requests, r)
		lock.Unlock()
		mux.ServeHTTP(w, r)
	})
	return url, func() []*http.Request {
		lock.Lock()
		defer lock.Unlock()
		return slices.Clone(requests)
	}
}

func TestAllKindsOfProfileAreTakenAtTheSameTime(t *testing.T) {
	nothingStays(t)
	runtime.SetMutexProfileFraction(1)
	defer runtime.SetMutexProfileFraction(0)
	url, requests := profiled(t)
	working, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for working.Err() == nil {
			io.Discard.Write(bytes.Repeat([]byte("x"), 1<<16))
			<-tick.C
		}
	})
	p := scrape.NewProfiler(url + "/debug/pprof/")
	p.Making(time.Minute) // a machine may be busy
	taken, errs := p.Take(t.Context(), scrape.Kinds, 1700*time.Millisecond)
	stop()
	work.Wait()
	if len(errs) > 0 {
		t.Error(errs)
	}
	for _, kind := range scrape.Kinds {
		if p, err := profile.Parse(taken[string(kind)]); err != nil || len(p.Kinds()) == 0 {
			t.Errorf("%s: %v", kind, err)
		}
	}
	// The difference over the second, and not all that was allocated since the process began.
	if p, err := profile.Parse(taken["allocs"]); err != nil || p.Seconds() < .9 ||
		p.Seconds() > 30 {
		t.Errorf("the allocations are those of %v seconds: %v", p.Seconds(), err)
	}
	var asked []string
	for _, r := range requests() {
		asked = append(asked, r.URL.RequestURI())
		if !r.Close {
			t.Errorf("the connection of %s is kept", r.URL)
		}
	}
	slices.Sort(asked)
	// Goroutines are looked at several times, where that is quick.
	looks := len(slices.DeleteFunc(slices.Clone(asked), func(uri string) bool {
		return uri != "/debug/pprof/goroutine"
	}))
	if asked = slices.Compact(asked); looks > 5 {
		t.Errorf("goroutines were looked at %d times", looks)
	}
	want := []string{
		"/debug/pprof/allocs?seconds=1", "/debug/pprof/block?seconds=1", "/debug/pprof/goroutine",
		"/debug/pprof/heap",
		"/debug/pprof/mutex?seconds=1", "/debug/pprof/profile?seconds=1",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked for %q", asked)
	}
}

func TestOfSeveralLooksAtGoroutinesTheMiddleOneIsKept(t *testing.T) {
	nothingStays(t)
	var asked int
	url := served(t, func(w http.ResponseWriter, r *http.Request) {
		// Most profiles find about 50 waiting goroutines, one finds none, and one far more.
		n := []int{0, 50, 500, 51, 52}[asked%5]
		asked++
		gate := make(chan struct{})
		var waiting sync.WaitGroup
		var there sync.WaitGroup
		for range n {
			there.Add(1)
			waiting.Go(func() { there.Done(); <-gate })
		}
		there.Wait()
		rpprof.Lookup("goroutine").WriteTo(w, 0)
		close(gate)
		waiting.Wait()
	})
	p := scrape.NewProfiler(url)
	p.Making(time.Minute)
	p.Quick(time.Minute)
	taken, errs := p.Take(t.Context(), []scrape.Kind{scrape.Goroutine}, time.Second)
	of, err := profile.Parse(taken["goroutine"])
	if err != nil || len(errs) > 0 || asked != 5 {
		t.Fatal(err, errs, asked)
	}
	if n := of.Total(profile.Goroutine); n < 51 || n > 150 {
		t.Errorf("%v goroutines in the profile that is kept", n)
	}
}

func TestTheServiceHasOneProcessorProfileAtATime(t *testing.T) {
	url, _ := profiled(t)
	// Somebody else takes one. The service is this process.
	if err := rpprof.StartCPUProfile(io.Discard); err != nil {
		t.Fatal(err)
	}
	defer rpprof.StopCPUProfile()
	taken, errs := scrape.NewProfiler(url).Take(t.Context(), []scrape.Kind{scrape.CPU, scrape.Heap},
		time.Second)
	if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "cpu profile: ") ||
		!strings.Contains(errs[0].Error(), "one at a time: stop that") || len(taken["heap"]) == 0 {
		t.Errorf("%v, and %d profiles", errs, len(taken))
	}
}

func TestInvalidProfilesAreErrorsSaidOnce(t *testing.T) {
	var whole bytes.Buffer
	z := gzip.NewWriter(&whole)
	z.Write(bytes.Repeat([]byte("profile"), 1000))
	z.Close()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		said    string
	}{
		"something else": {words("<html>%d"), "is net/http/pprof there?"},
		"nothing there":  {http.NotFound, "status 404"},
		"not pprof's": {func(w http.ResponseWriter, r *http.Request) {
			w.Write(whole.Bytes())
		}, "is net/http/pprof there?"},
		"cut short, and the length says so": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(whole.Len()))
			w.Write(whole.Bytes()[:whole.Len()/2])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "cut short"},
		"cut short, and nothing says so": {func(w http.ResponseWriter, r *http.Request) {
			w.Write(whole.Bytes()[:whole.Len()/2])
		}, "cut short"},
		"nothing": {func(w http.ResponseWriter, r *http.Request) {}, "the profile is empty"},
		"pprof's own words": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Go-Pprof", "1")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintln(w, "profile duration exceeds server's WriteTimeout")
		}, "exceeds server's WriteTimeout"},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for part := bytes.Repeat([]byte("x"), 1<<20); ; {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		}, "more than 32 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			nothingStays(t)
			url := served(t, c.handler)
			p := scrape.NewProfiler(url)
			p.Making(time.Minute) // a machine may be busy
			taken, errs := p.Take(t.Context(), []scrape.Kind{scrape.CPU, scrape.Mutex}, time.Millisecond)
			if len(taken) > 0 || len(errs) == 0 || len(errs) > 2 ||
				!strings.Contains(errs[0].Error(), c.said) ||
				strings.Contains(errs[0].Error(), "\n") {
				t.Errorf("%v, %q, want %q", slices.Collect(maps.Keys(taken)), errs, c.said)
			}
		})
	}
	_, errs := scrape.NewProfiler("http://127.0.0.1:1").Take(t.Context(), scrape.Kinds,
		time.Millisecond)
	if len(errs) != 1 ||
		!strings.HasPrefix(errs[0].Error(),
			"cpu, allocs, heap, goroutine, mutex, block profile: http://127.0.0.1:1/debug/pprof: ") {
		t.Errorf("one cause for all of them: %q", errs)
	}
}

// heap is a profile of this process.
func heap(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := rpprof.WriteHeapProfile(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAProfileThatDoesNotComeDoesNotKeepTheOthers(t *testing.T) {
	content := heap(t)
	p := scrape.NewProfiler(served(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/heap") {
			w.Write(content)
			return
		}
		<-r.Context().Done()
	}))
	p.Making(2 * time.Second)
	taken, errs := p.Take(t.Context(), []scrape.Kind{scrape.CPU, scrape.Heap}, time.Millisecond)
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "cpu profile: ") ||
		!strings.Contains(errs[0].Error(), "does not answer in time") ||
		!bytes.Equal(taken["heap"], content) {
		t.Errorf("%v, and %d profiles", errs, len(taken))
	}
}

// Checking a profile that was made to be slow may take a second or two.
func TestAfterTheEndNoProfileIsLookedAt(t *testing.T) {
	p := scrape.NewProfiler("http://127.0.0.1:1")
	ctx, cancel := context.WithCancel(t.Context())
	if err := p.Check(ctx, heap(t)); err != nil {
		t.Error(err)
	}
	cancel()
	if err := p.Check(ctx, heap(t)); err == nil ||
		!strings.Contains(err.Error(), "was not waited for") {
		t.Error(err)
	}
}

func TestAProfilerDoesNotOutliveItsContext(t *testing.T) {
	nothingStays(t)
	arrived := make(chan string, 10)
	left := make(chan string, 10)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The beginning of an answer, and nothing more.
		w.Write([]byte{0x1f, 0x8b})
		w.(http.Flusher).Flush()
		arrived <- r.URL.Path
		<-r.Context().Done()
		left <- r.URL.Path
	}))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan []error)
	go func() {
		_, errs := scrape.NewProfiler(s.URL).Take(ctx, scrape.Kinds, time.Hour)
		over <- errs
	}()
	for range 4 {
		<-arrived
	}
	cancel()
	errs := <-over
	for range 4 {
		<-left
	}
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "was not waited for") {
		t.Errorf("%v", errs)
	}
}
