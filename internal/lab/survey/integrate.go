package survey

import (
	"math"

	"plimsoll/internal/lab/stats"
)

// crossing is the estimate of a line and its uncertainty.
type crossing struct {
	interval stats.Interval
	slope    float64 // of the log-odds over the logarithm of the rate
	spread   float64 // standard deviation of the logarithm of the crossing
}

const coarseGrid, fineGrid = 25, 45

// negligible is how far below the best a log-likelihood no longer matters: added to the sum of all
// probabilities, exp(-45) changes no digit of it.
const negligible = 45

// shapes is the log-likelihood of the logarithm of a rate and one of several shapes. It may be
// minus infinity where it is less than least.
type shapes func(at float64, shape int, least float64) float64

// integrate computes the distribution of the crossing. Shapes are equally probable beforehand, and
// so are rates. slopes are the slopes of the shapes. The first grid covers the whole range, the
// second one the part that matters.
func integrate(low, high float64, slopes []float64, likelihood shapes) crossing {
	rates, mass, _ := marginal(low, high, coarseGrid, slopes, likelihood)
	top := 0.0
	for _, m := range mass {
		top = max(top, m)
	}
	first, last := len(mass), 0
	for i, m := range mass {
		if m > top*1e-4 {
			first, last = min(first, i), i
		}
	}
	low, high = rates[max(first-1, 0)], rates[min(last+1, len(rates)-1)]
	return summarise(marginal(low, high, fineGrid, slopes, likelihood))
}

// marginal returns the relative probability of each crossing over all shapes, and the mean slope.
func marginal(
	low, high float64, n int, slopes []float64, likelihood shapes,
) (rates, mass []float64, slope float64) {
	rates, mass = make([]float64, n), make([]float64, n)
	logs := make([]float64, n*len(slopes))
	best := math.Inf(-1)
	// From the middle on, where the best often is, after which much is negligible.
	for k := range n {
		i := (n/2 + k) % n
		rates[i] = low + (high-low)*float64(i)/float64(n-1)
		for j := range slopes {
			l := likelihood(rates[i], j, best-negligible)
			logs[i*len(slopes)+j] = l
			best = max(best, l)
		}
	}
	total, weighted := 0.0, 0.0
	for i := range n {
		for j := range slopes {
			m := math.Exp(logs[i*len(slopes)+j] - best)
			mass[i] += m
			total += m
			weighted += m * math.Log(slopes[j])
		}
	}
	return rates, mass, math.Exp(weighted / total)
}

// summarise reads the median and the interval from relative probabilities at evenly spaced
// logarithms of rates.
func summarise(rates, mass []float64, slope float64) crossing {
	total, mean, squares := 0.0, 0.0, 0.0
	for i, m := range mass {
		total += m
		mean += m * rates[i]
		squares += m * rates[i] * rates[i]
	}
	mean /= total
	quantile := func(q float64) float64 {
		sum := 0.0
		for i, m := range mass {
			if sum+m >= q*total && m > 0 {
				step := rates[1] - rates[0]
				return math.Exp(rates[i] + step*((q*total-sum)/m-.5))
			}
			sum += m
		}
		return math.Exp(rates[len(rates)-1])
	}
	tail := (1 - confidence) / 2
	return crossing{
		interval: stats.Interval{
			Low:   quantile(tail),
			Point: quantile(.5),
			High:  quantile(1 - tail),
		},
		slope:  slope,
		spread: math.Sqrt(max(squares/total-mean*mean, 0)),
	}
}
