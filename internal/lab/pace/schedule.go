package pace

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// piece is a part of a profile in which the total rate, bursts included, moves evenly.
type piece struct {
	start, end int64   // nanoseconds since the run's start
	from, to   float64 // arrivals a second
	before     float64 // the integral of the rate from the run's start until the piece begins
	until      float64 // … until it ends
}

// pieces cuts the profile at the edges of its segments and bursts.
func (p Profile) pieces() []piece {
	edges := make([]int64, 0, 1+len(p.Segments)+2*len(p.Bursts))
	edges = append(edges, 0)
	end := int64(0)
	for _, s := range p.Segments {
		end += s.Length
		edges = append(edges, end)
	}
	for _, b := range p.Bursts {
		edges = append(edges, b.At, b.At+b.Length)
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)

	pieces := make([]piece, 0, len(edges))
	sum, segment, segmentStart := 0.0, 0, int64(0)
	for i, start := range edges[:len(edges)-1] {
		for start >= segmentStart+p.Segments[segment].Length {
			segmentStart += p.Segments[segment].Length
			segment++
		}
		s := p.Segments[segment]
		x := piece{start: start, end: edges[i+1], before: sum}
		x.from, x.to = s.at(start-segmentStart), s.at(x.end-segmentStart)
		for _, b := range p.Bursts {
			if b.At <= start && start-b.At < b.Length {
				x.from += b.Rate
				x.to += b.Rate
			}
		}
		sum += (x.from + x.to) / 2 * float64(x.end-x.start) / 1e9
		x.until = sum
		pieces = append(pieces, x)
	}
	return pieces
}

// reaches is when the integral of the rate reaches sum, which lies within the piece, in nanoseconds
// since the run's start.
//
// Within a piece the integral is from·t + slope·t²/2. This form of the root of a quadratic takes no
// difference of near equal numbers when the rate rises, and has a value when the slope, or the rate
// at the beginning, is 0.
func (x *piece) reaches(sum float64) int64 {
	part := sum - x.before
	if part <= 0 {
		return x.start
	}
	seconds := 0.0
	if x.from == x.to {
		seconds = part / x.from
	} else {
		slope := (x.to - x.from) / (float64(x.end-x.start) / 1e9)
		seconds = 2 * part / (x.from + math.Sqrt(max(x.from*x.from+2*slope*part, 0)))
	}
	return min(x.start+int64(math.Round(seconds*1e9)), x.end)
}

// Schedule is the part of the profile's arrivals that one of several loops sends; loop is from 0 to
// loops-1. All loops' schedules together are the profile. The profile must be valid, see Validate:
// anything else is a mistake in the caller, and panics.
//
// Constant arrivals are numbered over all loops, from 0: arrival n is due where the integral of the
// rate reaches n + ½, and belongs to loop n mod loops. So at any moment the arrivals that were due
// differ from the integral by a half at most, and of a profile with a whole number of arrivals none
// sits on its end. Each due time is computed from the integral and not from the one before it: it
// is exact to a nanosecond after hours too. Seed is not used.
//
// Poisson arrivals of a loop are an independent process of an equal share of the rate: unit
// exponentials added up, taken for values of the integral. The same seed, loop and number of loops
// give the same arrivals.
//
// Next does not allocate.
func (p Profile) Schedule(a Arrivals, loop, loops int, seed uint64) Schedule {
	if err := p.Validate(); err != nil {
		panic("pace: schedule of a profile that is not valid: " + err.Error())
	}
	if loops < 1 || loop < 0 || loop >= loops {
		panic(fmt.Sprintf("pace: schedule of loop %d of %d", loop, loops))
	}
	switch a {
	case Constant:
		return &constant{
			course: course{pieces: p.pieces()},
			next:   float64(loop) + .5,
			step:   float64(loops),
		}
	case Poisson:
		return &poisson{
			course: course{pieces: p.pieces()},
			loops:  float64(loops),
			rng:    random(seed, loop),
		}
	}
	panic(fmt.Sprintf("pace: %q is not a kind of arrivals", a))
}

// Offered is a schedule of several loops as plain data, from which each of them, on whatever machine,
// makes its part.
type Offered struct {
	Profile  Profile
	Arrivals Arrivals
	Seed     uint64
}

// Validate says what is wrong, in one line; nil when Schedule can be asked.
func (o *Offered) Validate() error {
	if o.Arrivals != Poisson && o.Arrivals != Constant {
		return fmt.Errorf("%q is not a kind of arrivals: use %s or %s",
			clip(string(o.Arrivals)), Poisson, Constant)
	}
	return o.Profile.Validate()
}

// Schedule is the part of one of the loops.
func (o *Offered) Schedule(loop, loops int) Schedule {
	return o.Profile.Schedule(o.Arrivals, loop, loops, o.Seed)
}

// random is the loop's own stream of random numbers. ChaCha8 has no streams that are alike, however
// near their keys; the name keeps this one apart from streams that others make of the same seed.
func random(seed uint64, loop int) *rand.Rand {
	key := [32]byte{16: 'p', 'a', 'c', 'e'}
	binary.LittleEndian.PutUint64(key[:], seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(loop))
	return rand.New(rand.NewChaCha8(key))
}

// course inverts the integral of a profile's rate, for sums that never fall.
type course struct {
	pieces []piece // those that are not over
	last   int64
}

// reaches is when the integral reaches sum; ok is false when it never does, and stays so. A sum
// that is reached just where a pause begins counts as reached before it.
func (c *course) reaches(sum float64) (due int64, ok bool) {
	for len(c.pieces) > 0 && sum > c.pieces[0].until {
		c.pieces = c.pieces[1:]
	}
	if len(c.pieces) == 0 {
		return 0, false
	}
	c.last = max(c.last, c.pieces[0].reaches(sum))
	return c.last, true
}

// constant is the schedule of a loop with arrivals at equal distances.
type constant struct {
	course
	next, step float64
}

// Next is as Schedule says.
func (s *constant) Next() (due int64, ok bool) {
	due, ok = s.reaches(s.next)
	s.next += s.step
	return due, ok
}

// poisson is the schedule of a loop with random arrivals.
type poisson struct {
	course
	sum, loops float64
	rng        *rand.Rand
}

// Next is as Schedule says.
func (s *poisson) Next() (due int64, ok bool) {
	s.sum += s.rng.ExpFloat64() * s.loops
	return s.reaches(s.sum)
}
