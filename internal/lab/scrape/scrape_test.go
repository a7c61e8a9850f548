package scrape_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	lines "plimsoll/internal/lab/format"
	"plimsoll/internal/lab/scrape"
)

func TestAPagesSeriesAreReadOnceASecond(t *testing.T) {
	content := `# TYPE requests_total counter
requests_total{code="200",path="/a\"b"} 41
# TYPE latency_seconds histogram
latency_seconds_bucket{le="+Inf"} 3
latency_seconds_sum 1.5
latency_seconds_count 3
# TYPE size_bytes summary
size_bytes{quantile="0.5"} 7
size_bytes_sum 21
size_bytes_count 2
temperature 20.5
broken NaN
`
	p, c := source(text(t, &content))
	want := map[string]float64{
		`metrics.requests_total{code="200",path="/a\"b"}`: 41,
		"metrics.latency_seconds_sum":                     1.5,
		"metrics.latency_seconds_count":                   3,
		"metrics.size_bytes_sum":                          21,
		"metrics.size_bytes_count":                        2,
		"metrics.temperature":                             20.5,
	}
	for _, step := range []struct {
		pass time.Duration
		read bool
	}{
		{0, true},
		{800 * time.Millisecond, false},
		{195 * time.Millisecond, true},
		{0, false},
		{time.Second, true},
	} {
		c.pass(step.pass)
		values := map[string]float64{}
		if err := p.Read(values); err != nil {
			t.Fatal(err)
		}
		if step.read {
			wantValues(t, values, want)
		} else if len(values) != 0 {
			t.Errorf("%v after it was read last, it was read again: %v", step.pass, values)
		}
	}
}

func TestNumbersAtTheTopOfExpvarsPageAreSeries(t *testing.T) {
	content := `{"cmdline": ["shop"], "requests": 41, "load": -1.5e-3, "on": true, "by": {"code": 200}, "text": "7", "a b": 1, "nothing": null}`
	wantValues(t, reader(t, text(t, &content))(), map[string]float64{
		"metrics.requests": 41,
		"metrics.load":     -.0015,
		"metrics.a b":      1,
	})
}

// A page in Prometheus's text may begin with a brace, which expvar's always does.
func TestWhatComesBackDecidesHowItIsRead(t *testing.T) {
	url := served(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type",
			"text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8")
		fmt.Fprint(w, `{"my.requests", code="200"} 41`+"\n")
	})
	wantValues(t, reader(t, url)(), map[string]float64{`metrics.my.requests{code="200"}`: 41})
}

func TestOfTwoPagesTheFirstHasTheSay(t *testing.T) {
	service := "go_goroutines 7\nrequests_total 10\ngo_sql_open_connections 3\n"
	database := "go_goroutines 900\ngo_gc_gogc_percent 50\nrequests_total 99\n" +
		"pg_settings_max_connections 100\n"
	read := reader(t, text(t, &service), text(t, &database))
	// The database's exporter is a Go program too, but its garbage collector is not the service's.
	want := map[string]float64{
		"metrics.go_goroutines":               7,
		"metrics.requests_total":              10,
		"metrics.go_sql_open_connections":     3,
		"go.goroutines":                       7,
		"db.open":                             3,
		"metrics.pg_settings_max_connections": 100,
		"metrics.go_gc_gogc_percent":          50,
		"db.server_limit":                     100,
	}
	wantValues(t, read(), want)
	wantValues(t, read(), want)
}

func TestAPageThatFailsOnceDoesNotGiveItsNamesToAnother(t *testing.T) {
	fail := false
	first := served(t, func(w http.ResponseWriter, r *http.Request) {
		if fail {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "go_goroutines 7\nrequests_total 10")
	})
	other := "go_goroutines 900\nrequests_total 99\nqueue 3\n"
	p, c := source(first, text(t, &other))
	for _, fails := range []bool{false, true, false} {
		fail = fails
		c.pass(time.Second)
		values := map[string]float64{}
		err := p.Read(values)
		if (err != nil) != fails {
			t.Errorf("failing %v: %v", fails, err)
		}
		want := map[string]float64{"metrics.queue": 3}
		if !fails {
			want = map[string]float64{
				"metrics.queue":          3,
				"metrics.requests_total": 10,
				"metrics.go_goroutines":  7,
				"go.goroutines":          7,
			}
		}
		wantValues(t, values, want)
	}
}

func TestTwoPagesOfOneAddressSpeakOfOneRuntime(t *testing.T) {
	url := served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprintln(w, "go_goroutines 7\ngo_gc_duration_seconds_count 4")
			return
		}
		fmt.Fprint(w,
			`{"memstats": {"TotalAlloc": 100, "Mallocs": 10, "NextGC": 4000, "NumGC": 5}}`)
	})
	values := understood(reader(t, url+"/metrics", url+"/debug/vars")())
	wantValues(t, values, map[string]float64{
		"go.goroutines":        7,
		"go.gc.cycles":         4,
		"go.allocated_bytes":   100,
		"go.allocated_objects": 10,
		"go.heap.goal_bytes":   4000,
	})
}

// hostile is what a URL may answer with instead of a page.
var hostile = map[string]struct {
	handler http.HandlerFunc
	said    string
	kept    bool // something of it is read all the same
	slow    bool // it would never end
}{
	"a page of HTML":  {words("<!doctype html><p>Sign in please, it is %d o'clock"), "neither a page of Prometheus metrics", false, false},
	"broken UTF-8":    {words("requests{path=\"\xff\xfe\"} %d\n"), "neither a page of Prometheus metrics", false, false},
	"binary":          {words("\x00\x01\x02\x1b[31m\n%d"), "neither a page of Prometheus metrics", false, false},
	"deep JSON":       {words(strings.Repeat(`{"a":`, 20_000) + "%d"), "is not valid: ", false, false},
	"JSON cut short":  {words(`{"requests": %d`), "is not valid: ", false, false},
	"another service": {words(`{"memstats": {"NumGC": "%d"}, "requests": 5}`), "are not those of Go's runtime", true, false},
	"nothing there":   {http.NotFound, "status 404", false, false},
	"a huge page": {func(w http.ResponseWriter, r *http.Request) {
		line := []byte(strings.Repeat("# nothing\n", 1000))
		for range 10_000 {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}, "more than 4 MiB", false, false},
	"a page that drips": {func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "requests_total 1")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, "does not answer in time", false, true},
	"no answer": {func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "does not answer in time", false, true},
	"a connection that ends": {func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprintln(w, "requests_total 1")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, "cut short", false, false},
	"many series": {func(w http.ResponseWriter, r *http.Request) {
		for i := range 2 * scrape.MaxSeries {
			fmt.Fprintf(w, "series_%d 1\n", i)
		}
	}, "more than 1000 series", true, false},
	"many lines": {
		words(strings.Repeat("a 1\n", scrape.MaxLines) + "a %d\n"),
		"more than 20000 lines, and is not read", false, false,
	},
	"many labels": {
		words(strings.Repeat("a{"+strings.Repeat(`b="",`, 20)+"} %[1]d\n", scrape.MaxLabels/20+1)),
		"more than 50000 labels, and is not read", false, false,
	},
	"many labels of one series": {
		words("a{" + strings.Repeat(`b="",`, scrape.MaxOfLine+1) + "} %d\n"),
		"more than 32 labels on a line, and is not read", false, false,
	},
	"many names in JSON": {
		words("{" + strings.Repeat(`"a":1,`, scrape.MaxLabels) + `"a": %d}`),
		"more than 50000 names, and is not read", false, false,
	},
	"an invalid answer": {raw("HTTP/1.1 " + strings.Repeat("\u202e", 1000) + "\r\n\r\n"), "malformed HTTP", false, false},
	"another host, and another": {func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf("http://h%d\u202e.invalid/", elsewhere.Add(1)),
			http.StatusFound)
	}, "leads to another host", false, false},
	"names that turn the line": {words("{\"a\u202eb\": %d, \"queue\": 7}"), "no text", true, false},
	"long names":               {words("requests{path=\"" + strings.Repeat("x", 400) + "\"} %d\nqueue 7\n"), "longer than", true, false},
	"names of bytes":           {words(`{"a\u0000b": %d, "queue": 7}`), "no text", true, false},
	"a long loop": {func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.String()+"x", http.StatusFound)
	}, "10 redirects", false, false},
}

// elsewhere numbers hosts.
var elsewhere atomic.Int64

// raw is an answer of these bytes, and nothing else.
func raw(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		fmt.Fprint(c, answer)
	}
}

// words is a page that changes with each reading.
func words(format string) http.HandlerFunc {
	var n atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, format, n.Add(1)) }
}

func TestWhatIsNotAPageIsSaidOnce(t *testing.T) {
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := served(t, c.handler)
			p, clock := source(url)
			if c.slow {
				p = scrape.New(url)
				p.At(func() time.Time { return clock.now }, 50*time.Millisecond)
			}
			for i := range 3 {
				clock.pass(time.Minute)
				values := map[string]float64{}
				err := p.Read(values)
				if (len(values) > 0) != c.kept || len(values) > scrape.MaxSeries {
					t.Errorf("%d values", len(values))
				}
				switch {
				case i > 0 && err != nil:
					t.Errorf("said again: %v", err)
				case i > 0:
				case err == nil:
					t.Error("nothing is said")
				case !strings.Contains(err.Error(), c.said) ||
					lines.Clean(err.Error()) != err.Error() || len(err.Error()) > 600:
					t.Errorf("%q, want %q", err, c.said)
				}
			}
		})
	}
}

func TestOfSeveralPagesEachCauseIsSaidOnce(t *testing.T) {
	busy := [2]bool{}
	urls := make([]string, 2)
	for i := range urls {
		urls[i] = served(t, func(w http.ResponseWriter, r *http.Request) {
			if busy[i] {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
	}
	p, clock := source(urls...)
	for _, step := range []struct {
		busy [2]bool
		want string
	}{
		{[2]bool{false, true}, urls[1] + " answers with status 503"},
		{[2]bool{true, true}, urls[0] + " answers with status 503"},
		{[2]bool{true, false}, ""},
		{[2]bool{}, ""},
		{[2]bool{true, true}, ""},
	} {
		busy = step.busy
		clock.pass(time.Second)
		got := ""
		if err := p.Read(map[string]float64{}); err != nil {
			got = err.Error()
		}
		if got != step.want {
			t.Errorf("%v: %q, want %q", step.busy, got, step.want)
		}
	}
}

// The list of what was not measured is limited, and other pages need room in it.
func TestAPageCannotSayMoreThanAFewThings(t *testing.T) {
	n := 0
	statuses := served(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Go-Pprof", "1")
		w.WriteHeader(400 + n%200)
		fmt.Fprintln(w, "it is", n, "\u202e\u009b")
	})
	answers := served(t, func(w http.ResponseWriter, r *http.Request) {
		raw(fmt.Sprintf("HTTP/1.1 x%d\r\n\r\n", n))(w, r)
	})
	third := ""
	last := served(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, third) })
	p, clock := source(statuses, answers, last)
	said := map[string]int{}
	for n = range 200 {
		clock.pass(time.Minute)
		if n == 199 {
			third = "<html>"
		}
		err := p.Read(map[string]float64{})
		if err == nil {
			continue
		}
		for one := range strings.SplitSeq(err.Error(), "; ") {
			for _, url := range []string{statuses, answers, last} {
				if strings.HasPrefix(one, url) {
					said[url]++
				}
			}
			if lines.Clean(one) != one {
				t.Errorf("%q", one)
			}
		}
	}
	if said[statuses] != 2 || said[answers] != scrape.MaxSaid || said[last] != 1 {
		t.Errorf("of two classes of statuses %d things are said, of changing answers %d, "+
			"and of a third page %d", said[statuses], said[answers], said[last])
	}
}

func TestWhatCannotBeReachedIsSaidWithoutItsPassword(t *testing.T) {
	refusing := served(t, http.NotFound)
	for _, url := range []string{
		strings.Replace(refusing, "http://", "http://me:hunter2@", 1) + "/metrics?token=hunter2",
		"http://[hunter2",
		"http://127.0.0.1:1/",
	} {
		p, _ := source(url)
		err := p.Read(map[string]float64{})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A page of a hundred megabytes must not be fetched every second: it would cost the service more
// than the load.
func TestWhatIsNotAPageIsLeftAloneForAWhile(t *testing.T) {
	asked := 0
	p, c := source(served(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		fmt.Fprint(w, "<html>")
	}))
	for range 10 {
		p.Read(map[string]float64{})
		c.pass(time.Second)
	}
	if asked != 1 {
		t.Errorf("asked %d times in ten seconds", asked)
	}
	c.pass(scrape.RefusedFor)
	p.Read(map[string]float64{})
	if asked != 2 {
		t.Errorf("asked %d times in all", asked)
	}
}

// Samples wait for a page, and a page that hangs would take half of every second. This test's page
// fails sooner.
func TestAPageThatDoesNotAnswerIsLeftAloneForAWhile(t *testing.T) {
	var asked atomic.Int64
	var does atomic.Value
	fail := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	busy := func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }
	well := func(w http.ResponseWriter) { fmt.Fprintln(w, "queue 7") }
	p, c := source(served(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		// Otherwise a failure would be retried, like that of a connection that had ended.
		w.Header().Set("Connection", "close")
		does.Load().(func(http.ResponseWriter))(w)
	}))
	for i, step := range []struct {
		does   func(http.ResponseWriter)
		length time.Duration
		asked  int64
		said   string
		values int
	}{
		{fail, 10 * time.Second, 2, "cut short", 0},
		{fail, 10 * time.Second, 1, "", 0}, // and left alone again at once
		{busy, 10 * time.Second, 9, "status 503", 0},
		{fail, time.Second, 1, "", 0},
		{well, 10 * time.Second, 10, "", 10}, // one failure is not enough
		{fail, 2 * time.Second, 2, "", 0},
		{well, 9 * time.Second, 0, "", 0},
		{well, 10 * time.Second, 10, "", 10},
	} {
		does.Store(step.does)
		asked.Store(0)
		said, values := "", 0
		for end := c.now.Add(step.length); c.now.Before(end); {
			c.pass(time.Second)
			into := map[string]float64{}
			if err := p.Read(into); err != nil {
				said += err.Error()
			}
			values += len(into)
		}
		if asked.Load() != step.asked || values != step.values ||
			(said == "") != (step.said == "") || !strings.Contains(said, step.said) {
			t.Errorf("step %d: asked %d times for %d values, and said: %q",
				i, asked.Load(), values, said)
		}
	}
}

func TestARedirectIsFollowedOnTheSameHostOnly(t *testing.T) {
	var asked atomic.Int64
	other := served(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		fmt.Fprintln(w, "queue 7")
	})
	url := served(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/there":
			fmt.Fprintln(w, "queue 5")
		case "/here":
			http.Redirect(w, r, "/there", http.StatusMovedPermanently)
		default:
			http.Redirect(w, r, other+"/metrics", http.StatusTemporaryRedirect)
		}
	})
	wantValues(t, reader(t, url+"/here")(), map[string]float64{"metrics.queue": 5})
	p, _ := source(url + "/away")
	err := p.Read(map[string]float64{})
	if err == nil ||
		!strings.Contains(err.Error(),
			"leads to another host, "+strings.TrimPrefix(other, "http://")+",") ||
		asked.Load() != 0 {
		t.Errorf("%v; the other host was asked %d times", err, asked.Load())
	}
	taken, errs := scrape.NewProfiler(url).Take(t.Context(), []scrape.Kind{scrape.CPU},
		time.Millisecond)
	if len(taken) > 0 || len(errs) != 1 ||
		!strings.Contains(errs[0].Error(), "leads to another host") || asked.Load() != 0 {
		t.Errorf("profiles: %v; the other host was asked %d times", errs, asked.Load())
	}
}

// A line of samples.jsonl has a limit, and a run must not fail because of a page.
func TestTheNamesOfASampleAreBoundedTogether(t *testing.T) {
	for _, c := range []string{`\"`, "<", "x", "\u00e9"} {
		url := served(t, func(w http.ResponseWriter, r *http.Request) {
			for i := range scrape.MaxSeries {
				fmt.Fprintf(w, "%s{a=\"%d%s\"} 1\n",
					r.URL.Path[1:], i, strings.Repeat(c, 240/len(c)))
			}
		})
		p, _ := source(url+"/a", url+"/b", url+"/c")
		values := map[string]float64{}
		err := p.Read(values)
		if err == nil || !strings.Contains(err.Error(), "some are left out") {
			t.Errorf("%q: %v", c, err)
		}
		text, err := json.Marshal(values)
		if err != nil || len(text) > scrape.MaxNames || len(text) < scrape.MaxNames/2 {
			t.Errorf("%q: %d bytes of names, %v", c, len(text), err)
		}
	}
}

func TestAConnectionIsUsedAgain(t *testing.T) {
	remotes := map[string]bool{}
	read := reader(t, served(t, func(w http.ResponseWriter, r *http.Request) {
		remotes[r.RemoteAddr] = true
		fmt.Fprintln(w, "requests_total 1")
	}))
	for range 5 {
		read()
	}
	if len(remotes) != 1 {
		t.Errorf("%d connections for five readings", len(remotes))
	}
}

// The contract with the sampler, which this room may not import.
var _ interface {
	Name() string
	Read(into map[string]float64) error
} = scrape.New()
