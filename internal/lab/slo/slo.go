// Package slo reads service level objectives such as "p99<50ms,errors<0.1%" and says which requests
// break them. It must know nothing of statistics: other code decides whether a share is
// significantly too large.
package slo

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/lab/measure"
)

// Objective is one bound. Each is a bound on a share of the requests: p99<50ms says that at most 1
// % of them may take longer than 50 ms or fail, and errors<0.1% that at most 0.1 % may fail. So a
// verdict on a percentile is a verdict on a ratio of counts, which add up over windows, as
// percentiles do not.
type Objective struct {
	Text  string  // as it was given, without spaces
	Share float64 // of the requests that may be bad, between 0 and 1
	// Limit is the response time in nanoseconds above which a request is bad; 0 where only failing
	// is.
	Limit int64
}

// SLO is all objectives; a load meets it when it meets each.
type SLO []Objective

// Parse reads objectives that are separated by commas.
func Parse(text string) (SLO, error) {
	var s SLO
	for part := range strings.SplitSeq(text, ",") {
		o, err := parse(strings.ReplaceAll(strings.TrimSpace(part), " ", ""))
		if err != nil {
			return nil, err
		}
		s = append(s, o)
	}
	return s, nil
}

const forms = "an objective is a percentile of the response time, as p99<50ms or p99.9<1s, " +
	"or a share of failures, as errors<0.1%"

func parse(text string) (Objective, error) {
	what, limit, ok := strings.Cut(text, "<")
	limit = strings.TrimPrefix(limit, "=")
	if !ok || limit == "" {
		return Objective{}, fmt.Errorf("objective %q has no limit: %s", text, forms)
	}
	if strings.EqualFold(what, "errors") {
		percent, ok := strings.CutSuffix(limit, "%")
		share, err := strconv.ParseFloat(percent, 64)
		if !ok || err != nil || !(share > 0 && share < 100) {
			return Objective{}, fmt.Errorf("objective %q: "+
				"the limit of errors is a percentage above 0%% and below 100%%, as errors<0.1%%",
				text)
		}
		return Objective{Text: text, Share: share / 100}, nil
	}
	digits, ok := strings.CutPrefix(strings.ToLower(what), "p")
	percentile, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(percentile > 0 && percentile < 100) {
		return Objective{}, fmt.Errorf("objective %q: %s", text, forms)
	}
	d, err := time.ParseDuration(limit)
	if err != nil || d <= 0 {
		return Objective{}, fmt.Errorf("objective %q: the limit of a percentile is a duration, "+
			"as 50ms or 1.5s",
			text)
	}
	if d.Nanoseconds() >= measure.Longest {
		return Objective{}, fmt.Errorf("objective %q: a limit is below %v",
			text, time.Duration(measure.Longest).Truncate(time.Second))
	}
	return Objective{Text: text, Share: (100 - percentile) / 100, Limit: d.Nanoseconds()}, nil
}

// String is the objectives as Parse reads them.
func (s SLO) String() string {
	texts := make([]string, len(s))
	for i, o := range s {
		texts[i] = o.Text
	}
	return strings.Join(texts, ",")
}

// Longest is the longest limit of a response time, in nanoseconds; 0 without any.
func (s SLO) Longest() (ns int64) {
	for _, o := range s {
		ns = max(ns, o.Limit)
	}
	return ns
}

// Bad is how many requests that ended in a window break the objective, and how many ended in it.
// One that failed, a fast 503 too, breaks every objective; one that was slow breaks those that have
// a limit. bad is a fraction where the limit lies within a bucket.
func (o *Objective) Bad(w *measure.Window) (bad, total float64) {
	bad, total = float64(w.Ended.Failed()), float64(w.Ended.Total())
	if o.Limit > 0 {
		bad += w.Response.Over(o.Limit)
	}
	return bad, total
}
