package stats

import "math"

// autocovariance returns the autocovariance of a series at a lag. As is usual it is divided by the
// length, so that all lags together give a valid spectrum.
func autocovariance(series []float64, mean float64, lag int) (c float64) {
	for i := range len(series) - lag {
		c += (series[i] - mean) * (series[i+lag] - mean)
	}
	return c / float64(len(series))
}

// BlockLength returns how many values of a series to put into one block of a circular block
// bootstrap, from the series' own autocorrelation: the rule of Politis and White (2004) with the
// correction of Patton, Politis and White (2009), times 1.5. Their length has the best variance on
// average, so it is too short half of the time, and intervals from it cover less than they claim.
// The result is at least 1 and at most a third of the series.
func BlockLength(series []float64) int {
	n := len(series)
	if n < 9 {
		return 1
	}
	mean := sum(series) / float64(n)
	zero := autocovariance(series, mean, 0)
	if zero <= 0 {
		return 1
	}
	most := int(math.Ceil(min(3*math.Sqrt(float64(n)), float64(n)/3)))
	m := min(2*insignificantFrom(series, mean, zero), n-1)
	spectrum, slope := zero, 0.0
	for k := 1; k <= m; k++ {
		taper := min(2*(1-float64(k)/float64(m+1)), 1)
		c := taper * autocovariance(series, mean, k)
		spectrum += 2 * c
		slope += 2 * float64(k) * c
	}
	if spectrum <= 0 {
		return 1
	}
	length := 1.5 * math.Cbrt(2*slope*slope/(4./3*spectrum*spectrum)*float64(n))
	return min(max(int(math.Ceil(length)), 1), most)
}

// insignificantFrom returns the lag after which several consecutive correlations are within the
// noise.
func insignificantFrom(series []float64, mean, zero float64) int {
	n := float64(len(series))
	digits := math.Log10(n)
	noise := 2 * math.Sqrt(digits/n)
	inRow := max(5, int(math.Ceil(math.Sqrt(digits))))
	last := min(len(series)-1, int(math.Ceil(math.Sqrt(n)))+inRow)
	for m := 1; m+inRow <= last; m++ {
		quiet := true
		for k := m + 1; k <= m+inRow && quiet; k++ {
			quiet = math.Abs(autocovariance(series, mean, k)/zero) < noise
		}
		if quiet {
			return m
		}
	}
	return max(last-inRow, 1)
}

// CorrelationTime returns how many values of a series carry as much information as one independent
// value: 1 + 2Σρ, summed up to a lag of five times the sum (Sokal's window), at least 1. It cannot
// exceed what a series of that length can show.
func CorrelationTime(series []float64) float64 {
	n := len(series)
	if n < 4 {
		return 1
	}
	mean := sum(series) / float64(n)
	zero := autocovariance(series, mean, 0)
	if zero <= 0 {
		return 1
	}
	time := 1.0
	for k := 1; k < n/2; k++ {
		time += 2 * autocovariance(series, mean, k) / zero
		if float64(k) >= 5*time {
			break
		}
	}
	return max(time, 1)
}

// Trend returns the two-sided probability that a series without any trend would rise or fall as
// clearly as this one does, for independent values (Mann 1945, Kendall). It is 1 for fewer than 4
// values.
func Trend(series []float64) (p float64) {
	n := len(series)
	if n < 4 {
		return 1
	}
	s := 0.0
	for i, x := range series {
		for _, later := range series[i+1:] {
			switch {
			case later > x:
				s++
			case later < x:
				s--
			}
		}
	}
	f := float64(n)
	variance := f * (f - 1) * (2*f + 5) / 18
	for _, t := range ties(series) {
		variance -= t * (t - 1) * (2*t + 5) / 18
	}
	if variance <= 0 {
		return 1
	}
	return min(2*normalTail((math.Abs(s)-1)/math.Sqrt(variance)), 1)
}

// ShareTrend returns how clearly the share bad ÷ total of the events in a series of windows rises
// with the number of events before, in standard deviations; it is negative if the share falls
// (Cochran 1954, Armitage 1955). designEffect is how many events are bad together. It is 0 if there
// is no information.
func ShareTrend(bad, total []float64, designEffect float64) float64 {
	n := sum(total)
	share := quotient(sum(bad), n)
	rises, squares, before := 0.0, 0.0, 0.0
	for i := range bad {
		x := before + total[i]/2 - n/2 // the weighted mean of these is 0
		rises += (bad[i] - share*total[i]) * x
		squares += total[i] * x * x
		before += total[i]
	}
	return quotient(rises, math.Sqrt(share*(1-share)*squares*designEffect))
}
