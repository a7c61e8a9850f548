package wrkcheck

import (
	"context"
	"math"
	"strings"
	"testing"
)

// Recorded from wrk 4.1.0.
const recorded = `Running 3s test @ http://127.0.0.1:45839/bad
  1 threads and 4 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    86.30us  297.55us   4.93ms   99.12%
    Req/Sec    84.61k     6.09k   98.09k    70.97%
  Latency Distribution
     50%   38.00us
     75%   55.00us
     90%   79.00us
     99%    1.73ms
  260589 requests in 3.10s, 29.93MB read
  Socket errors: connect 1, read 2, write 3, timeout 5
  Non-2xx or 3xx responses: 37228
Requests/sec:  84066.61
Transfer/sec:      9.66MB
`

const slow = `Running 3s test @ http://127.0.0.1:45839/slow
  1 threads and 4 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.20s    96.14us   1.20s    87.50%
    Req/Sec     3.00      0.00     3.00    100.00%
  Latency Distribution
     50%    1.20s 
     75%    1.20s 
     90%    1.20s 
     99%    1.02m 
  8 requests in 3.01s, 0.92KB read
Requests/sec:      2.66
Transfer/sec:     314.09B
`

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestWhatWrkPrintsIsRead(t *testing.T) {
	p, err := Parse([]byte(recorded))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mean", p.Mean.Nanoseconds, 86300)
	near(t, "mean's rounding", p.Mean.Rounding, 5)
	near(t, "p99", p.P99.Nanoseconds, 1.73e6)
	near(t, "p99's rounding", p.P99.Rounding, 5000)
	near(t, "rate", p.PerSecond, 84066.61)
	if p.Requests != 260589 || p.BadStatus != 37228 || p.Timeouts != 5 || p.SocketErrors != 6 {
		t.Errorf("%+v", p)
	}
	near(t, "success", p.Success(), (260589.-37228-5)/(260589+6))
}

func TestWrkChangesItsUnits(t *testing.T) {
	p, err := Parse([]byte(slow))
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mean", p.Mean.Nanoseconds, 1.2e9)
	near(t, "mean's rounding", p.Mean.Rounding, 5e6)
	near(t, "p99", p.P99.Nanoseconds, 1.02*60e9)
	near(t, "success", p.Success(), 1)
}

func TestOutputThatLacksAFigureIsRefused(t *testing.T) {
	for what, text := range map[string]string{
		"no answer":      strings.ReplaceAll(recorded, "260589 requests", "0 requests"),
		"lacks":          strings.ReplaceAll(recorded, "     99%    1.73ms\n", ""),
		"not a duration": strings.ReplaceAll(recorded, "86.30us", "86.30parsecs"),
		"-5":             strings.ReplaceAll(recorded, "responses: 37228", "responses: -5"),
		"cannot be rea":  strings.Repeat("x", 100_000),
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWithoutWrkThePackageIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Wrk(context.Background(), "http://127.0.0.1:1/")
	if err == nil || !strings.Contains(err.Error(), "install it (the package's name is wrk") {
		t.Error(err)
	}
}

func TestWhatWrkComplainsOfIsPassedOnInOneLine(t *testing.T) {
	_, err := Wrk(context.Background(), "-t1", "-c1", "-d1s", "http://127.0.0.1:1/")
	if err == nil || !strings.Contains(err.Error(), "Connection refused") || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(recorded))
	f.Add([]byte(slow))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(text)
		if err == nil && (p.Requests == 0 || p.Success() < 0 || p.Success() > 1) {
			t.Errorf("%+v", p)
		}
	})
}
