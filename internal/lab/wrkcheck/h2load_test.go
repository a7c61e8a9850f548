package wrkcheck

import (
	"context"
	"strings"
	"testing"
)

// Recorded from h2load of nghttp2 1.52.0.
const fromH2load = `starting benchmark...
spawning thread #0: 8 total client(s). Timing-based test with 0s of warm-up time and 1s of main duration for measurements.
progress: 100% of clients started
Stopped all clients for thread #0

finished in 1.00s, 12667.00 req/s, 2.39MB/s
requests: 12667 total, 12747 started, 12667 done, 12660 succeeded, 7 failed, 2 errored, 0 timeout
status codes: 12668 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 2.39MB (2508517) total, 618.55KB (633400) headers (space savings 50.00%), 1.57MB (1646710) data
                     min         max         mean         sd        +/- sd
time for request:       78us     80.23ms      5.81ms      9.82ms    93.43%
`

func TestWhatH2loadPrintsAndLogsIsRead(t *testing.T) {
	p, err := parseH2load([]byte(fromH2load))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.readLog(strings.NewReader(strings.Repeat("1795441917865347\t200\t100\n", 98) +
		strings.Repeat("1795441917865348\t200\t2000\n", 2))); err != nil {
		t.Fatal(err)
	}
	near(t, "rate", p.PerSecond, 12667)
	near(t, "mean", p.Mean.Nanoseconds, (98*100e3+2*2000e3)/100+500)
	if p.Requests != 12665 || p.BadStatus != 5 || p.SocketErrors != 2 || p.P99.Nanoseconds < 1.9e6 || p.P99.Nanoseconds > 2.1e6 {
		t.Errorf("%+v", p)
	}
	near(t, "success", p.Success(), 12660./12667)
}

func TestOutputOfH2loadThatLacksAFigureIsRefused(t *testing.T) {
	for what, text := range map[string]string{
		"no answer":      strings.ReplaceAll(fromH2load, "12667 done", "0 done"),
		"got no answer":  "",
		"h2load printed": strings.ReplaceAll(fromH2load, "12660 succeeded", "many succeeded"),
	} {
		if _, err := parseH2load([]byte(text)); err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, log := range []string{"", "1\t200\n", "1\t200\tx\n", "1\t200\t-1\n", "1\t200\t99999999999999999\n"} {
		if (&Printed{}).readLog(strings.NewReader(log)) == nil {
			t.Errorf("the log %q is taken", log)
		}
	}
}

func TestWithoutH2loadThePackageIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := H2load(context.Background(), "http://127.0.0.1:1/")
	if err == nil || !strings.Contains(err.Error(), "nghttp2-client") {
		t.Error(err)
	}
}

func TestH2loadIsComparedWithoutACorrection(t *testing.T) {
	c := newComparison(Options{Connections: 1, Streams: 4, Rounds: 1})
	c.addTheirs(&Printed{Requests: 10000, PerSecond: 4000, Mean: Latency{1.001e6, 500}, P99: Latency{1.001e6, 1000}})
	if err := c.addOwn(steady(1000, 10000), 0); err != nil {
		t.Fatal(err)
	}
	c.conclude()
	r := c.report
	if name, side := r.Theirs(); name != "h2load" || side != r.H2load || r.Wrk != nil || !r.OK() || r.Own.Backfilled != 0 {
		t.Errorf("%s %+v %+v", name, r, r.Lines)
	}
	near(t, "their mean", r.Lines[0].Theirs(), 1.001e6)
	near(t, "their raw mean", r.H2load.RawMean, 1.001e6)
	if own := r.Own; own.Mean != own.RawMean || r.Lines[0].Wrk != 0 {
		t.Errorf("%+v", r)
	}
}
