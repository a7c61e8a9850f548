package stats

import (
	"cmp"
	"math"
	"slices"
)

// mostExactPairs is the maximum number of pairs whose signed ranks are counted exactly. Above it,
// the normal approximation is good to three digits.
const mostExactPairs = 60

// SignedRank is the test for pairs measured under the same conditions (Wilcoxon 1945). It returns
// the two-sided probability that differences equally likely to be above and below zero would lean
// to one side as clearly as these do. It is exact, ties included, up to 60 differences. Differences
// of zero carry no information and are left out, as are NaNs. Infinite ones count by their sign. It
// is 1 if no difference is left.
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

// signedRanks returns the ranks of the absolute differences that are not zero, and the sum of the
// ranks of the positive ones. All are doubled, so that the mean rank of ties is a whole number.
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

// signedWays returns, for each sum, in how many of the 2^n sign assignments the positive ranks add
// up to it.
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

// Shift returns the center of the differences and its interval, consistent with SignedRank: the
// median of the means of all pairs of differences (Hodges and Lehmann 1963), and the pair means
// between which it lies with at least the given confidence. With too few differences for the
// confidence, the interval is from the smallest to the largest; LeastPairs says how many are
// needed.
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

// signedCut returns how many sums of ranks, counted from 0, have a total probability of at most
// tail.
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

// MedianInterval returns the median of independent values, and the values between which the true
// median lies with at least the given confidence, by counting alone. With too few values for the
// confidence, which is fewer than 6 at 95 %, the interval is from the smallest to the largest.
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

// Holm corrects the probabilities of several tests that are judged together (Holm 1979): if those
// below alpha are called real, the probability that even one of them is so by chance is at most
// alpha. level is, for each test, the share of alpha that it was compared with: 1 ÷ (tests not yet
// decided). Both are in the order of p.
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
		// Tests after the first one that is not real are compared with the same share as that one.
		if stopped = stopped || so >= alpha; !stopped {
			undecided--
		}
	}
	return corrected, level
}

// LeastPairs returns the minimum number of pairs with which SignedRank can call a difference real,
// if that many tests are corrected together. With fewer pairs, even the clearest difference could
// be chance.
func LeastPairs(alpha float64, tests int) int {
	return max(int(math.Floor(1-math.Log2(alpha/float64(max(tests, 1)))))+1, 1)
}
