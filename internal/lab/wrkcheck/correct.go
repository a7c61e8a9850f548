package wrkcheck

import (
	"fmt"
	"math"

	"plimsoll/internal/lab/measure"
)

// MostCorrected is the longest duration that Correct handles, in microseconds. wrk has a counter
// for each microsecond up to its timeout; Correct has them up to this duration.
const MostCorrected = 10_000_000

// Corrected has the values of a histogram as wrk would print them, in nanoseconds.
type Corrected struct {
	Mean, P99  float64
	Backfilled uint64 // answers that were added
	// wrk's time between two requests of a connection, in nanoseconds
	Interval float64
}

// Correct does to a histogram of service times what wrk does to its own before printing. It takes
// the mean time between two requests of a connection as the interval at which requests should have
// been sent. For every answer that took at least twice as long, it adds the answers that it assumes
// were missed (an answer of 10 intervals also counts as answers of 9, 8, … down to 2). It exists
// for the comparison with wrk. A closed loop has no intended times, so the added answers say
// nothing about the target.
//
// complete is the number of answers on all connections in length nanoseconds. wrk divides whole
// numbers of microseconds, and so does this.
func Correct(
	service *measure.Sparse, length int64, complete uint64, connections int,
) (Corrected, error) {
	longest := service.Max / 1000
	if longest > MostCorrected {
		return Corrected{}, fmt.Errorf("an answer took %d ms: a comparison with wrk takes up to %d",
			longest/1000, MostCorrected/1000)
	}
	counts := make([]uint64, longest+2)
	total, sum := service.Count(), float64(service.Sum)
	for _, c := range service.Cells {
		counts[microseconds(c.Bucket, longest)] += c.Count
	}
	out := Corrected{}
	if each := complete / uint64(max(connections, 1)); each > 0 {
		interval := max(length/1000/int64(each), 1)
		out.Interval = float64(interval * 1000)
		for n := 2 * interval; n < int64(len(counts)); n++ {
			for m := n - interval; counts[n] > 0 && m > interval; m -= interval {
				counts[m] += counts[n]
				out.Backfilled += counts[n]
				sum += float64(m*1000) * float64(counts[n])
			}
		}
	}
	total += out.Backfilled
	if total == 0 {
		return out, nil
	}
	out.Mean = sum / float64(total)
	out.P99 = percentile(counts, total, .99)
	return out, nil
}

// microseconds is the middle of a bucket, rounded like the average difference of two truncated
// clocks.
func microseconds(bucket uint16, longest int64) int64 {
	lowest, highest := measure.Bounds(int(bucket))
	return min(int64(math.Round(float64(lowest+highest)/2000)), longest+1)
}

// percentile is the duration in nanoseconds that wrk would print: the one of the rank, rounded as
// wrk rounds it.
func percentile(counts []uint64, total uint64, q float64) float64 {
	rank := uint64(math.Round(q*float64(total) + .5))
	seen := uint64(0)
	for us, c := range counts {
		if seen += c; seen >= rank {
			return float64(us) * 1000
		}
	}
	return float64(len(counts)-1) * 1000
}
