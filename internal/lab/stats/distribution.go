package stats

import "math"

// NormalQuantile returns the value that a standard normal variable stays below with probability p,
// which must be between 0 and 1.
func NormalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// normalTail returns the probability that a standard normal variable is above z.
func normalTail(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

// StudentQuantile returns the value that Student's t with df degrees of freedom, at least 1, stays
// below with probability p, which must be above a half.
func StudentQuantile(p, df float64) float64 {
	if df > 200 {
		return NormalQuantile(p)
	}
	// t² ÷ (t² + df) is a beta variable.
	x := betaQuantile(2*p-1, .5, df/2)
	return math.Sqrt(df * x / (1 - x))
}

// beta is the regularised incomplete beta function, by Lentz's continued fraction.
func beta(x, a, b float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	ga, _ := math.Lgamma(a)
	gb, _ := math.Lgamma(b)
	gab, _ := math.Lgamma(a + b)
	front := math.Exp(gab - ga - gb + a*math.Log(x) + b*math.Log1p(-x))
	if x < (a+1)/(a+b+2) {
		return front * betaFraction(x, a, b) / a
	}
	return 1 - front*betaFraction(1-x, b, a)/b
}

func betaFraction(x, a, b float64) float64 {
	const tiny, enough, most = 1e-300, 1e-12, 400
	keep := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/keep(1-(a+b)*x/(a+1))
	f := d
	for m := 1.0; m < most; m++ {
		even := m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		d = 1 / keep(1+even*d)
		c = keep(1 + even/c)
		f *= c * d
		odd := -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		d = 1 / keep(1+odd*d)
		c = keep(1 + odd/c)
		f *= c * d
		if math.Abs(c*d-1) < enough {
			break
		}
	}
	return f
}

// betaQuantile returns the inverse of beta in x, by bisection: 60 steps reach the precision of a
// float64.
func betaQuantile(p, a, b float64) float64 {
	low, high := 0.0, 1.0
	for range 60 {
		if middle := (low + high) / 2; beta(middle, a, b) < p {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}
