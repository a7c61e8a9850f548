package stats

import (
	"math"
	"slices"
)

// exactProduct limits the work for the exact distribution of ranks. Above it, the normal
// approximation is good to three digits.
const exactProduct = 900

// MannWhitney returns the two-sided probability that two sets of independent values from the same
// distribution would differ in rank as clearly as these do (Mann and Whitney 1947). It is exact for
// small sets without ties. Otherwise it uses the normal approximation, with corrections for ties
// and continuity. It is 1 if a set is empty.
func MannWhitney(a, b []float64) (p float64) {
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return 1
	}
	u := 0.0
	for _, x := range a {
		for _, y := range b {
			switch {
			case x > y:
				u++
			case x == y:
				u += .5
			}
		}
	}
	tied := ties(append(slices.Clone(a), b...))
	if len(tied) == 0 && n*m <= exactProduct {
		return exactRank(n, m, int(min(u, float64(n*m)-u)))
	}
	all := float64(n + m)
	variance := all + 1
	for _, t := range tied {
		variance -= t * (t*t - 1) / (all * (all - 1))
	}
	variance *= float64(n*m) / 12
	if variance <= 0 {
		return 1
	}
	return min(2*normalTail((math.Abs(u-float64(n*m)/2)-.5)/math.Sqrt(variance)), 1)
}

// exactRank returns twice the probability of u or fewer. The number of ways to place n values among
// m with a given number of inversions is a coefficient of the Gaussian binomial, built up one value
// at a time.
func exactRank(n, m, u int) float64 {
	ways := make([]float64, n*m+1)
	ways[0] = 1
	for i := 1; i <= n; i++ {
		// Multiply with (1 − q^(m+i)), then divide by (1 − q^i).
		for k := n * m; k >= m+i; k-- {
			ways[k] -= ways[k-m-i]
		}
		for k := i; k <= n*m; k++ {
			ways[k] += ways[k-i]
		}
	}
	return min(2*sum(ways[:u+1])/sum(ways), 1)
}

// ties returns the sizes of the groups of equal values, leaving out groups of one.
func ties(values []float64) (sizes []float64) {
	v := slices.Sorted(slices.Values(values))
	for i := 0; i < len(v); {
		j := i
		for j < len(v) && v[j] == v[i] {
			j++
		}
		if j-i > 1 {
			sizes = append(sizes, float64(j-i))
		}
		i = j
	}
	return sizes
}
