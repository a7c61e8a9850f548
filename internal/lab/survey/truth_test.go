package survey

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"plimsoll/internal/lab/queue"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/slo"
)

// kind is a queue whose true line a long simulation tells.
type kind struct {
	name     string
	station  queue.Station
	arrivals string
	slo      string
}

func kinds() []kind {
	exp, con := queue.Exponential, queue.Constant
	return []kind{
		{"M/M/1 2ms", queue.Station{Workers: 1, Service: exp(2 * ms), Room: -1}, "poisson", "p99<50ms"},
		{"M/M/4 5ms", queue.Station{Workers: 4, Service: exp(5 * ms), Room: -1}, "poisson", "p99<50ms"},
		{"M/M/16 10ms", queue.Station{Workers: 16, Service: exp(10 * ms), Room: -1}, "poisson", "p99<100ms"},
		{"M/D/1 1ms", queue.Station{Workers: 1, Service: con(1 * ms), Room: -1}, "poisson", "p99<10ms"},
		{"M/D/4 5ms", queue.Station{Workers: 4, Service: con(5 * ms), Room: -1}, "poisson", "p99<50ms"},
		{"M/D/16 20ms", queue.Station{Workers: 16, Service: con(20 * ms), Room: -1}, "poisson", "p99<100ms"},
		{"D/D/4 5ms", queue.Station{Workers: 4, Service: con(5 * ms), Room: -1}, "constant", "p99<50ms"},
		{"D/M/4 5ms", queue.Station{Workers: 4, Service: exp(5 * ms), Room: -1}, "constant", "p99<50ms"},
		{"M/M/4/16 5ms", queue.Station{Workers: 4, Service: exp(5 * ms), Room: 16}, "poisson", "p99<50ms,errors<0.1%"},
		{"M/D/8/32 4ms", queue.Station{Workers: 8, Service: con(4 * ms), Room: 32}, "poisson", "p95<30ms,errors<1%"},
		{"M/M/16 1ms", queue.Station{Workers: 16, Service: exp(1 * ms), Room: -1}, "poisson", "p99<50ms"},
		{"M/M/4 5ms p90", queue.Station{Workers: 4, Service: exp(5 * ms), Room: -1}, "poisson", "p90<20ms"},
		{"M/M/4 5ms 1s", queue.Station{Workers: 4, Service: exp(5 * ms), Room: -1}, "poisson", "p99<1s"},
		{"M/M/1 5ms", queue.Station{Workers: 1, Service: exp(5 * ms), Room: -1}, "poisson", "p99<50ms"},
	}
}

func (k *kind) truth(t *testing.T) float64 {
	s, err := slo.Parse(k.slo)
	if err != nil {
		t.Fatal(err)
	}
	line := math.Inf(1)
	for _, o := range s {
		line = min(line, queue.Line(k.station, k.arrivals == "poisson", o.Limit, o.Share, 4_000_000, 7))
	}
	return line
}

func (k *kind) survey(t *testing.T, seed uint64, change func(o *Options)) (*record.Result, *simBench) {
	t.Helper()
	s, err := slo.Parse(k.slo)
	if err != nil {
		t.Fatal(err)
	}
	b := &simBench{station: k.station, seed: seed * 1_000_003}
	o := Options{SLO: s, Arrivals: k.arrivals, Seed: seed}
	if change != nil {
		change(&o)
	}
	r, err := Run(context.Background(), b, o)
	if err != nil {
		t.Fatal(err)
	}
	return r, b
}

func TestTable(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("N"))
	if n == 0 {
		n = 20
	}
	for i, k := range kinds() {
		if only := os.Getenv("ONLY"); only != "" && only != strconv.Itoa(i) {
			continue
		}
		truth := k.truth(t)
		covered, under, over, sumW, maxW, wide := 0, 0, 0, 0.0, 0.0, 0
		var bias, sq, sec, secmax float64
		for seed := range n {
			r, b := k.survey(t, uint64(seed)+1, func(o *Options) { o.Quick = os.Getenv("QUICK") != "" })
			l := r.Line.Interval
			if !r.Line.Found {
				fmt.Println("not found", k.name, seed, r.Line.Why, r.Early)
				continue
			}
			if l.Low <= truth && truth <= l.High {
				covered++
			} else if l.High < truth {
				under++
			} else {
				over++
			}
			w := (l.High - l.Low) / l.Estimate
			sumW += w
			maxW = max(maxW, w)
			if w > .1 {
				wide++
			}
			d := math.Log(l.Estimate / truth)
			bias += d
			sq += d * d
			sec += float64(b.offered) / 1e9
			secmax = max(secmax, float64(b.offered)/1e9)
		}
		f := float64(n)
		fmt.Printf("%-14s truth %8.1f covered %3d/%d (low %d high %d) width mean %.3f max %.3f wide %d bias %+.4f sd %.4f time %.0f s max %.0f\n", k.name, truth, covered, n, under, over, sumW/f, maxW, wide,
			bias/f, math.Sqrt(sq/f-bias*bias/f/f), sec/f, secmax)
	}
}

func TestDebug(t *testing.T) {
	i, _ := strconv.Atoi(os.Getenv("ONLY"))
	k := kinds()[i]
	seed, _ := strconv.Atoi(os.Getenv("SEED"))
	r, b := k.survey(t, uint64(seed), func(o *Options) {
		o.Quick = os.Getenv("QUICK") != ""
		o.Tell = func(e Event) {
			if e.Judgement != nil {
				j := e.Judgement
				fmt.Printf("%3d %-9s %7.1f len %.1f %-9s", j.Step, e.Plan.Phase, j.Rate, float64(e.Plan.Length)/1e9, j.Verdict)
				for _, s := range j.Objectives {
					fmt.Printf(" %.4f..%.4f..%.4f", s.Share.Low, s.Share.Estimate, s.Share.High)
				}
				fmt.Printf(" good %.0f | %s | line %.1f %.1f left %.0f| %s\n", j.Goodput.Estimate, j.Why, e.Low, e.High, float64(e.Left)/1e9, e.Plan.Why)
			} else if e.Text != "" {
				fmt.Println("   ", e.Text)
			}
		}
	})
	fmt.Printf("truth %.1f line %+v\n early %q offered %.0f s\n", k.truth(t), r.Line, r.Early, float64(b.offered)/1e9)
	fmt.Printf("peak %+v\nfalls %+v\nrecovery %+v\nnoise %+v\n", r.Peak, r.Falls, r.Recovery, r.Noise)
	for _, v := range r.Validity {
		fmt.Println(v)
	}
}
