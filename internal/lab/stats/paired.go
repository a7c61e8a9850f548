package stats

import (
	"cmp"
	"math"
	"slices"
)

// mostExactPairs bounds the pairs whose signed ranks are counted exactly. Above it the normal
// approximation is good to three digits.
const mostExactPairs = 60

// SignedRank is the two-sided probability that differences which are as likely to be above zero as
// below it would lean to one side as clearly as these do (Wilcoxon 1945): the test for pairs that
// were measured under the same conditions. It is exact, ties included, up to 60 differences. Those
// of zero say nothing and are left out; infinite ones count by their sign, and it is 1 when nothing
// is left.
func SignedRank(differences []float64) (p float64) {
	ranks, positive := signedRanks(differences)
	n, all := len(ranks), 0
	for _, r := range ranks {
		all += r
	}
	least := min(positive, all-positive)
	if n == 0 {
		return 1
	}
	if n <= mostExactPairs {
		ways := signedWays(ranks)
		return min(2*sum(ways[:least+1])/math.Exp2(float64(n)), 1)
	}
	variance := 0.0
	for _, r := range ranks {
		variance += float64(r*r) / 4
	}
	return min(2*normalTail((float64(all)/2-float64(least)-1)/math.Sqrt(variance)), 1)
}

// signedRanks are the ranks of the sizes of the differences that are not zero, and the sum of those
// above zero. All are doubled, so that the middle of tied ranks is whole.
func signedRanks(differences []float64) (ranks []int, positive int) {
	d := slices.DeleteFunc(slices.Clone(differences), func(v float64) bool {
		return v == 0 || math.IsNaN(v)
	})
	slices.SortFunc(d, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	for i := 0; i < len(d); {
		j := i
		for j < len(d) && math.Abs(d[j]) == math.Abs(d[i]) {
			j++
		}
		rank := i + 1 + j
		for _, v := range d[i:j] {
			ranks = append(ranks, rank)
			if v > 0 {
				positive += rank
			}
		}
		i = j
	}
	return ranks, positive
}

// signedWays is in how many of the 2^n ways to give the ranks signs the positive ones have each
// sum.
func signedWays(ranks []int) []float64 {
	all := 0
	for _, r := range ranks {
		all += r
	}
	ways := make([]float64, all+1)
	ways[0] = 1
	reached := 0
	for _, r := range ranks {
		reached += r
		for s := reached; s >= r; s-- {
			ways[s] += ways[s-r]
		}
	}
	return ways
}

// Shift is the middle of the differences and its interval, as belong to SignedRank: the median of
// the means of any two of them (Hodges and Lehmann 1963), and those means between which it lies
// with at least that confidence. When there are too few differences for the confidence, the
// interval is from the smallest to the largest of them: LeastPairs says how many it takes.
func Shift(differences []float64, confidence float64) Interval {
	n := len(differences)
	if n == 0 {
		return Interval{}
	}
	means := make([]float64, 0, n*(n+1)/2)
	for i, a := range differences {
		for _, b := range differences[i:] {
			means = append(means, a/2+b/2)
		}
	}
	slices.Sort(means)
	at := max(signedCut(n, (1-confidence)/2)-1, 0)
	return Interval{means[at], Median(means), means[len(means)-1-at]}
}

// signedCut is how many sums of ranks, from 0 on, have at most the probability tail together.
func signedCut(n int, tail float64) int {
	if n > mostExactPairs {
		f := float64(n)
		return max(int(f*(f+1)/4-NormalQuantile(1-tail)*math.Sqrt(f*(f+1)*(2*f+1)/24))+1, 0)
	}
	ranks := make([]int, n)
	for i := range ranks {
		ranks[i] = i + 1
	}
	all, k := 0.0, 0
	for _, ways := range signedWays(ranks) {
		if all += ways / math.Exp2(float64(n)); all > tail {
			break
		}
		k++
	}
	return k
}

// MedianInterval is the median of independent values, and the values between which the true one
// lies with at least that confidence, by counting alone. When there are too few values for it,
// which is fewer than 6 at 95 %, the interval is from the smallest to the largest.
func MedianInterval(values []float64, confidence float64) Interval {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return Interval{}
	}
	ways, all, k := math.Exp2(-float64(n)), 0.0, 0
	for k < n/2 {
		if all += ways; all > (1-confidence)/2 {
			break
		}
		ways *= float64(n-k) / float64(k+1)
		k++
	}
	at := max(k-1, 0)
	return Interval{v[at], Median(v), v[n-1-at]}
}

// Holm is what is left of the probabilities of several tests when all of them are looked at
// together (Holm 1979): the chance that even one of them is called real by accident is at most
// alpha when those below alpha are. level is, for each, the share of alpha that it was compared
// with: 1 ÷ (tests not yet decided). The order is that of p.
func Holm(p []float64, alpha float64) (corrected, level []float64) {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	corrected, level = make([]float64, len(p)), make([]float64, len(p))
	so, undecided, stopped := 0.0, len(p), false
	for nth, i := range order {
		level[i] = 1 / float64(undecided)
		so = max(so, min(p[i]*float64(len(p)-nth), 1))
		corrected[i] = so
		// What comes after the first that is not real is compared with the same share as that one.
		if stopped = stopped || so >= alpha; !stopped {
			undecided--
		}
	}
	return corrected, level
}

// LeastPairs is the fewest pairs with which SignedRank can call a difference real among so many
// tests that are corrected together: with fewer even the clearest one could be chance.
func LeastPairs(alpha float64, tests int) int {
	return max(int(math.Floor(1-math.Log2(alpha/float64(max(tests, 1)))))+1, 1)
}
