package plan

import (
	"math"

	"plimsoll/internal/lab/stats"
)

// confidence is that of all intervals computed here.
const confidence = .95

// line is y = Σ coefficient·x by ordinary least squares.
type line struct {
	coefficients []float64
	inverse      [][]float64 // of XᵀX
	sigma        float64     // standard deviation of the residuals
	free         int         // degrees of freedom: points minus coefficients
}

// leastSquares fits rows of x, all of the same length, to y. ok is false unless there are more
// points than coefficients, and if the rows do not determine them.
func leastSquares(rows [][]float64, y []float64) (l line, ok bool) {
	if len(rows) == 0 || len(rows) <= len(rows[0]) {
		return line{}, false
	}
	k := len(rows[0])
	scale := make([]float64, k) // columns of very different size would lose digits
	for _, row := range rows {
		for i, v := range row {
			scale[i] = max(scale[i], math.Abs(v))
		}
	}
	square, right := make([][]float64, k), make([]float64, k)
	for i := range square {
		square[i] = make([]float64, k)
		if scale[i] == 0 {
			return line{}, false
		}
	}
	for n, row := range rows {
		for i := range k {
			right[i] += row[i] / scale[i] * y[n]
			for j := range k {
				square[i][j] += row[i] / scale[i] * row[j] / scale[j]
			}
		}
	}
	inverse, ok := invert(square)
	if !ok {
		return line{}, false
	}
	l = line{coefficients: make([]float64, k), inverse: inverse, free: len(rows) - k}
	for i := range k {
		for j := range k {
			l.coefficients[i] += inverse[i][j] * right[j] / scale[i]
		}
	}
	for i := range k {
		for j := range k {
			inverse[i][j] /= scale[i] * scale[j]
		}
	}
	squares := 0.0
	for n, row := range rows {
		d := y[n] - l.value(row)
		squares += d * d
	}
	l.sigma = math.Sqrt(squares / float64(l.free))
	return l, true
}

// invert inverts a small symmetric matrix by Gauss-Jordan elimination with pivoting; ok is false if
// it is nearly singular.
func invert(square [][]float64) (inverse [][]float64, ok bool) {
	k := len(square)
	work := make([][]float64, k)
	for i := range work {
		work[i] = make([]float64, 2*k)
		copy(work[i], square[i])
		work[i][k+i] = 1
	}
	for c := range k {
		pivot := c
		for r := c + 1; r < k; r++ {
			if math.Abs(work[r][c]) > math.Abs(work[pivot][c]) {
				pivot = r
			}
		}
		work[c], work[pivot] = work[pivot], work[c]
		if math.Abs(work[c][c]) < 1e-9 {
			return nil, false
		}
		for i, by := 0, work[c][c]; i < 2*k; i++ {
			work[c][i] /= by
		}
		for r := range k {
			if by := work[r][c]; r != c && by != 0 {
				for i := range 2 * k {
					work[r][i] -= by * work[c][i]
				}
			}
		}
	}
	for i := range work {
		work[i] = work[i][k:]
	}
	return work, true
}

func (l *line) value(x []float64) (y float64) {
	for i, c := range l.coefficients {
		y += c * x[i]
	}
	return y
}

// doubt returns how far a further point at x may lie from the line, at the package's confidence. It
// grows with the distance from the measured points.
func (l *line) doubt(x []float64) float64 {
	spread := 1.0
	for i := range x {
		for j := range x {
			spread += x[i] * l.inverse[i][j] * x[j]
		}
	}
	return l.student() * l.sigma * math.Sqrt(spread)
}

// error returns the half width of a coefficient's interval.
func (l *line) error(i int) float64 {
	return l.student() * l.sigma * math.Sqrt(l.inverse[i][i])
}

func (l *line) student() float64 {
	return stats.StudentQuantile(1-(1-confidence)/2, float64(l.free))
}
