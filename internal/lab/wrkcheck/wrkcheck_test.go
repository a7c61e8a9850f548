package wrkcheck

import (
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

// compared is a comparison of one round in which wrk printed this and the generator measured that.
func compared(t *testing.T, wrk string, own *measure.Totals, badStatus uint64) *Report {
	t.Helper()
	p, err := Parse([]byte(wrk))
	if err != nil {
		t.Fatal(err)
	}
	c := newComparison(Options{Connections: 4, Rounds: 1})
	c.addTheirs(p)
	if err := c.addOwn(own, badStatus); err != nil {
		t.Fatal(err)
	}
	c.conclude()
	return c.report
}

func steady(us int64, n uint64) *measure.Totals {
	var h measure.Histogram
	for range n {
		h.Record(us * 1000)
	}
	t := &measure.Totals{Length: int64(n) * us * 1000 / 4, Service: h.Sparse()}
	t.Ended[measure.OK] = n
	return t
}

const printed = `    Latency     1.00ms   10.00us   1.20ms   99.12%
     99%    1.10ms
  10000 requests in 2.50s, 0.92KB read
Requests/sec:   4000.00
`

func TestEqualFiguresAgree(t *testing.T) {
	r := compared(t, printed, steady(1004, 10000), 0)
	if !r.OK() {
		t.Errorf("%+v", r.Lines)
	}
	near(t, "wrk's raw mean", r.Wrk.RawMean, 1e6)
	near(t, "what rounding may explain of the mean", r.Lines[0].RoundingIncluded, .005)
}

func TestEachFigureMayDisagree(t *testing.T) {
	slowMean := compared(t, printed, steady(1040, 10000), 0)
	if slowMean.Lines[0].OK || !slowMean.Lines[1].OK || !slowMean.Lines[2].OK || slowMean.OK() {
		t.Errorf("a mean 4 %% above wrk's: %+v", slowMean.Lines)
	}
	failing := compared(t, printed, steady(1000, 10000), 3)
	if !failing.Lines[0].OK || failing.Lines[1].OK {
		t.Errorf("0.03 points of failures that wrk did not see: %+v", failing.Lines)
	}
	tail := compared(t, strings.ReplaceAll(printed, "99%    1.10ms", "99%    4.20ms"), steady(1000, 10000), 0)
	if tail.Lines[2].OK || !tail.Lines[0].OK {
		t.Errorf("a p99 3.2 ms from wrk's: %+v", tail.Lines)
	}
}

func TestAGeneratorThatWasTheLimitAgreesWithNothing(t *testing.T) {
	own := steady(1000, 10000)
	own.Generator.Invalid = "the loop was busy"
	if r := compared(t, printed, own, 0); r.OK() {
		t.Error("it is said to agree")
	}
}

func TestRequestsThatTheEndCutOffAreNotFailures(t *testing.T) {
	own := steady(1000, 10000)
	own.Ended[measure.Unfinished] = 4
	if r := compared(t, printed, own, 0); r.Own.Success != 1 {
		t.Errorf("success is %v", r.Own.Success)
	}
}

func TestAPercentileIsTheMedianOfTheRounds(t *testing.T) {
	s := Side{rounds: []round{{p99: 5}, {p99: 100}, {p99: 7}}}
	s.summarise(3, 4)
	near(t, "p99", s.P99, 7)
	near(t, "success", s.Success, .75)
}
