package scrape_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/internal/lab/scrape"
)

// decades are the bounds of the histograms that Go's collector gives.
var decades = []float64{
	6.399999999999999e-08, 6.399999999999999e-07, 7.167999999999999e-06, 8.191999999999999e-05,
	.0009175039999999999, .010485759999999998,
	.11744051199999998,
}

// histogram is the text of a histogram of these values.
func histogram(name string, values []float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# TYPE %s histogram\n", name)
	for _, upTo := range append(slices.Clone(decades), math.Inf(1)) {
		n := 0
		for _, v := range values {
			if v <= upTo {
				n++
			}
		}
		fmt.Fprintf(&b, "%s_bucket{le=\"%v\"} %d\n", name, upTo, n)
	}
	fmt.Fprintf(&b, "%s_sum 0\n%s_count %d\n", name, name, len(values))
	return b.String()
}

// summary is the text of Go's summary of garbage collection's pauses.
func summary(pauses []float64) string {
	recent := slices.Clone(pauses[max(len(pauses)-256, 0):])
	slices.Sort(recent)
	sum := 0.
	for _, v := range pauses {
		sum += v
	}
	text := "# TYPE go_gc_duration_seconds summary\n"
	for i := range 5 {
		v := 0.
		if len(recent) > 0 {
			v = recent[(len(recent)-1)*i/4]
		}
		text += fmt.Sprintf("go_gc_duration_seconds{quantile=\"%v\"} %v\n", float64(i)/4, v)
	}
	return text +
		fmt.Sprintf("go_gc_duration_seconds_sum %v\ngo_gc_duration_seconds_count %d\n",
			sum, len(pauses))
}

func times(n int, v float64) []float64 { return slices.Repeat([]float64{v}, n) }

func TestALatencysQuantilesAreThoseSinceTheLastReading(t *testing.T) {
	const name = "go_sched_latencies_seconds"
	all := times(1000, .05)
	content := histogram(name, all)
	read := reader(t, text(t, &content))
	absent := func(when string) {
		t.Helper()
		if values := understood(read()); len(values) > 0 {
			t.Errorf("%s: %v", when, values)
		}
	}
	absent("the first reading, of the time since the service's start")
	absent("nothing has happened since")
	all = append(all, append(times(80, 5e-6), times(20, .005)...)...)
	content = histogram(name, all)
	// 62.5 % into the bucket of 80 that ends at 7.168 µs, and 95 % into that of 20 that ends at
	// 10.486 ms.
	wantValues(t, understood(read()), map[string]float64{
		"go.sched.latency.p50_seconds": decades[1] + .625*(decades[2]-decades[1]),
		"go.sched.latency.p99_seconds": decades[4] + .95*(decades[5]-decades[4]),
	})
	content = histogram(name, times(10, .05))
	absent("the service has started again")
	content = histogram(name, append(times(10, .05), times(20, 3)...))
	// Above the last bound only the bound is known.
	wantValues(t, understood(read()), map[string]float64{
		"go.sched.latency.p50_seconds": decades[6],
		"go.sched.latency.p99_seconds": decades[6],
	})
}

func TestAHistogramThatMakesNoSenseIsNone(t *testing.T) {
	for name, lines := range map[string]string{
		"falling counts": `_bucket{le="0.1"} %d5
_bucket{le="1"} %d3
`, "no bounds": "", "a bound twice": `_bucket{le="0.1"} %d1
_bucket{le="0.1"} %d3
`} {
		content := ""
		read := reader(t, text(t, &content))
		for i := range 3 {
			content = "# TYPE go_sched_latencies_seconds histogram\n"
			for line := range strings.Lines(strings.ReplaceAll(lines, "%d", fmt.Sprint(i))) {
				content += "go_sched_latencies_seconds" + line
			}
			content += fmt.Sprintf("go_sched_latencies_seconds_sum 1\n"+
				"go_sched_latencies_seconds_count %d9\n", i)
			if values := understood(read()); len(values) > 0 {
				t.Errorf("%s: %v", name, values)
			}
		}
	}
}

// pausesOf returns the quantiles of the later pauses, after a reading of the earlier ones.
func pausesOf(
	t *testing.T, earlier, later []float64, pageOf func(all []float64) string,
) (p50, p95 float64, ok bool) {
	t.Helper()
	content := pageOf(earlier)
	read := reader(t, text(t, &content))
	read()
	content = pageOf(append(slices.Clone(earlier), later...))
	values := read()
	p50, ok = values["go.gc.pause.p50_seconds"]
	return p50, values["go.gc.pause.p95_seconds"], ok
}

func both(all []float64) string {
	return summary(all) + histogram("go_sched_pauses_total_gc_seconds", all)
}

func TestPausesAreThoseSinceTheLastReading(t *testing.T) {
	for name, c := range map[string]struct {
		earlier, later           []float64
		low50, high50, low, high float64
	}{
		"one":                      {times(100, .050), times(1, .003), .003, .003, .003, .003},
		"all the same":             {times(100, .002), times(100, .002), .002, .002, .002, .002},
		"bad before, good since":   {times(256, .050), times(40, .0002), .0001, .0004, .0002, .0041},
		"good before, bad since":   {times(256, .0002), times(40, .030), .0299, .0301, .0299, .0301},
		"many":                     {times(10, .050), times(1000, .007), .007, .007, .007, .007},
		"a long one in a thousand": {nil, append(times(255, .001), .100), .001, .0011, .001, .0105},
		"one in ten is long":       {nil, slices.Concat(times(90, .001), times(10, .030)), .001, .0012, .020, .031},
	} {
		for kind, pageOf := range map[string]func([]float64) string{
			"summary":               summary,
			"summary and histogram": both,
		} {
			p50, p95, ok := pausesOf(t, c.earlier, c.later, pageOf)
			if !ok || p50 < c.low50-1e-9 || p50 > c.high50+1e-9 || p95 < c.low-1e-9 ||
				p95 > c.high+1e-9 {
				t.Errorf("%s, by the %s: %v and %v (%v)", name, kind, p50, p95, ok)
			}
		}
	}
	if p50, _, ok := pausesOf(t, times(9, .01), nil, both); ok {
		t.Errorf("there were no pauses, and their median is %v", p50)
	}
}

// A finding reports pauses longer than 5 ms or 20 ms. Whatever their distribution, much shorter
// pauses must not cause one, and much longer ones must not be missed.
func TestPausesAreNeverFarOff(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		pause := rapid.Float64Range(1e-5, .2)
		earlier := rapid.SliceOfN(pause, 0, 300).Draw(r, "earlier")
		later := rapid.SliceOfN(pause, 2, 300).Draw(r, "later")
		p50, p95, ok := pausesOf(t, earlier, later, both)
		slices.Sort(later)
		sum := 0.
		for _, v := range later {
			sum += v
		}
		mean := sum / float64(len(later))
		if !ok || p50 > 2*mean+1e-12 || p95 > 20*mean+1e-12 || p50 > p95+1e-12 ||
			p95 > max(later[len(later)-1], .2)+1e-12 {
			r.Fatalf("%v and %v of pauses of %v on average", p50, p95, mean)
		}
	})
}

func FuzzPage(f *testing.F) {
	f.Add([]byte(both(times(3, .01))), []byte(both(times(5, .02))))
	f.Add([]byte(`{"memstats": {"NumGC": 3, "PauseNs": [1]}, "a": 1}`),
		[]byte(`{"memstats": {"NumGC": 4294967295, "PauseNs": [1]}, "a": 1e999}`))
	f.Add([]byte("go_sql_max_open_connections 1e308\n"),
		[]byte("go_sql_max_open_connections{a=\"b\"} 1e308\ngo_sql_max_open_connections 1e308\n"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		values, err := scrape.Texts(first, second)
		if err != nil && strings.ContainsAny(err.Error(), "\n\r\x00\x1b") {
			t.Errorf("%q", err)
		}
		if values == nil && err == nil {
			t.Error("nothing is read, and nothing is said")
		}
		for name, v := range values {
			if v-v != 0 || len(name) > 310 {
				t.Errorf("%q is %v", name, v)
			}
		}
	})
}
