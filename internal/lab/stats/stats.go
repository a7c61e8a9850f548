// Package stats computes the uncertainty of measurements that were made one after the other and are
// therefore correlated: intervals by block bootstrap, shares of rare events, a rank test, trends; and
// what a queue would show. It is arithmetic on numbers. It must not know requests, steps, or where the
// numbers come from.
package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Interval is an estimate and the range that contains the true value, with the requested
// confidence.
type Interval struct{ Low, Point, High float64 }

// Ratio returns the interval of Σbad ÷ Σtotal over consecutive windows, by a circular block
// bootstrap: it draws whole blocks of block windows, to keep correlated windows together. The two
// series must have the same length. block is clamped to between 1 and that length. confidence is
// between 0 and 1. The percentiles are widened, for the number of blocks, by as much as Student's t
// is wider than the normal distribution, because with few blocks the bootstrap alone covers too
// little. All is 0 if total is.
func Ratio(
	bad, total []float64, block, replicates int, confidence float64, rng *rand.Rand,
) Interval {
	point := quotient(sum(bad), sum(total))
	if len(bad) == 0 || replicates < 2 {
		return Interval{point, point, point}
	}
	block = min(max(block, 1), len(bad))
	drawn := make([]float64, replicates)
	for i := range drawn {
		b, t := 0.0, 0.0
		for left := len(bad); left > 0; left -= block {
			at := rng.IntN(len(bad))
			for range min(block, left) {
				b += bad[at]
				t += total[at]
				if at++; at == len(bad) {
					at = 0
				}
			}
		}
		drawn[i] = quotient(b, t)
	}
	slices.Sort(drawn)
	tail := (1 - confidence) / 2
	wider := few(float64(len(bad))/float64(block), confidence)
	return Interval{
		Low:   point - wider*max(point-sorted(drawn, tail), 0),
		Point: point,
		High:  point + wider*max(sorted(drawn, 1-tail)-point, 0),
	}
}

// Mean returns the interval of the mean of a series of consecutive values, computed as in Ratio.
func Mean(series []float64, block, replicates int, confidence float64, rng *rand.Rand) Interval {
	ones := make([]float64, len(series))
	for i := range ones {
		ones[i] = 1
	}
	return Ratio(series, ones, block, replicates, confidence, rng)
}

// few returns how much wider an interval from that many blocks must be than one from very many. Two
// blocks count as one, because neighbours are still slightly correlated and the block length was
// estimated from the same data. With a full count, intervals of 95 % covered 88 % of the time.
func few(blocks, confidence float64) float64 {
	df := max(blocks/2, 1)
	p := 1 - (1-confidence)/2
	return StudentQuantile(p, df) / NormalQuantile(p) * math.Sqrt((df+1)/df)
}

// Share returns the interval of the share of rare bad events among all, over consecutive windows.
// On each side it is the wider of two: that of the bootstrap, and the exact binomial one (Clopper
// and Pearson, 1934) with the counts divided by designEffect. designEffect is how many events come
// together, at least 1, as returned by DesignEffect. The bootstrap cannot know what it has not
// seen: from 0 bad events of 500 it would conclude that there are none.
func Share(
	bad, total []float64, designEffect float64, block int, confidence float64, rng *rand.Rand,
) Interval {
	const replicates = 400
	in := Ratio(bad, total, block, replicates, confidence, rng)
	designEffect = max(designEffect, 1)
	exact := Binomial(sum(bad)/designEffect, sum(total)/designEffect, confidence)
	in.Low, in.High = max(min(in.Low, exact.Low), 0), min(max(in.High, exact.High), 1)
	return in
}

// Binomial returns the interval of Clopper and Pearson for bad of total. The counts may be
// fractions, as effective counts of events that come together are. It is 0 to 1 if total is 0.
func Binomial(bad, total, confidence float64) Interval {
	if total <= 0 {
		return Interval{0, 0, 1}
	}
	bad = min(max(bad, 0), total)
	tail := (1 - confidence) / 2
	in := Interval{0, bad / total, 1}
	if bad > 0 {
		in.Low = betaQuantile(tail, bad, total-bad+1)
	}
	if bad < total {
		in.High = betaQuantile(1-tail, bad+1, total-bad)
	}
	return in
}

// Above reports whether bad of total prove, at 95 %, that the share of bad events is above share: 2
// of 120 do not prove more than 1 %.
func Above(bad, total, share float64) bool { return Binomial(bad, total, .9).Low > share }

// Needed returns roughly how many events must be seen until the interval in, as returned by Share,
// is below allowed, if the share of bad events stays the same and they still come designEffect at a
// time. The number has two significant digits. ok is false if no number is enough, because the
// share is not below allowed, or if the number is impossibly large.
func Needed(
	in Interval, bad, total, designEffect, allowed, confidence float64,
) (n float64, ok bool) {
	const most = 1e15
	designEffect = max(designEffect, 1)
	if total <= 0 {
		in, bad, total = Interval{}, 0, 1
	}
	if bad/total >= allowed {
		return 0, false
	}
	exact := func(times float64) float64 {
		return Binomial(times*bad/designEffect, times*total/designEffect, confidence).High
	}
	high := 1.0
	for exact(high) > allowed {
		if high *= 2; high*total > most {
			return 0, false
		}
	}
	for low := high / 2; high > 1.005*low; {
		if middle := math.Sqrt(low * high); exact(middle) <= allowed {
			high = middle
		} else {
			low = middle
		}
	}
	// If the bootstrap's interval is the wider one, it decides. Its width falls with the root of
	// the number.
	if in.High > exact(1) {
		spread := (in.High - in.Point) / (allowed - in.Point)
		high = max(high, spread*spread)
	}
	if n = high * total; n > most {
		return 0, false
	}
	digit := math.Pow(10, math.Floor(math.Log10(n))-1)
	return math.Ceil(n/digit) * digit, true
}

// DesignEffect returns how much larger the variance of Σbad ÷ Σtotal is than for independent
// events: the variance over circular blocks of block windows, divided by the binomial one. It is at
// least 1, and 1 if there is no information.
func DesignEffect(bad, total []float64, block int) float64 {
	n := len(bad)
	p := quotient(sum(bad), sum(total))
	if n < 2 || p <= 0 || p >= 1 {
		return 1
	}
	block = min(max(block, 1), n)
	run, squares := 0.0, 0.0
	for i := range block - 1 {
		run += bad[i] - p*total[i]
	}
	for i := range n {
		in := (i + block - 1) % n
		run += bad[in] - p*total[in]
		squares += run * run
		run -= bad[i] - p*total[i]
	}
	// The mean over n blocks is the variance of one block. Blocks of n windows have few degrees of
	// freedom; the last factor corrects for that.
	blocks := float64(n) / float64(block)
	variance := squares / float64(n) * blocks * blocks / max(blocks-1, .5)
	return max(variance/(sum(total)*p*(1-p)), 1)
}

// Median returns the median of the values, 0 without any. It does not change them.
func Median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	switch n := len(v); {
	case n == 0:
		return 0
	case n%2 == 1:
		return v[n/2]
	default:
		return (v[n/2-1] + v[n/2]) / 2
	}
}

// sorted returns the quantile of sorted values, interpolating between two of them.
func sorted(v []float64, q float64) float64 {
	at := q * float64(len(v)-1)
	i := min(int(at), len(v)-1)
	if i == len(v)-1 {
		return v[i]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

func quotient(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
