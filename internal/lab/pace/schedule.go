package pace

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// piece is a part of a profile in which the total rate, bursts included, is linear.
type piece struct {
	start, end int64   // nanoseconds since the run's start
	from, to   float64 // arrivals per second
	before     float64 // integral of the rate from the run's start to the start of the piece
	until      float64 // integral to the end of the piece
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

// reaches returns when the integral of the rate reaches sum, which must lie within the piece, in
// nanoseconds since the run's start.
//
// Within a piece the integral is from·t + slope·t²/2. This form of the root of a quadratic
// subtracts no nearly equal numbers when the rate rises, and is defined when the slope, or the rate
// at the start, is 0.
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

// Schedule returns one loop's part of the profile's arrivals; loop is from 0 to loops-1. The
// schedules of all loops together make up the profile. Schedule panics if the profile or another
// argument is not valid; see Validate.
//
// Constant arrivals are numbered over all loops, from 0: arrival n is due when the integral of the
// rate reaches n + ½, and belongs to loop n mod loops. So the number of arrivals due never differs
// from the integral by more than a half, and no arrival lies on the end of a profile with a whole
// number of them. Each due time is computed from the integral and not from the previous one, so it
// is exact to a nanosecond even after hours. seed is not used.
//
// Poisson arrivals of a loop are an independent process with an equal share of the rate: sums of
// unit exponentials are taken as values of the integral. The same seed, loop and number of loops
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

// Offered is a schedule of several loops as plain data. Each loop, on any machine, computes its
// part from it.
type Offered struct {
	Profile  Profile
	Arrivals Arrivals
	Seed     uint64
}

// Validate returns what is wrong, in one line; nil if Schedule may be called.
func (o *Offered) Validate() error {
	if o.Arrivals != Poisson && o.Arrivals != Constant {
		return fmt.Errorf("%q is not a kind of arrivals: use %s or %s",
			clip(string(o.Arrivals)), Poisson, Constant)
	}
	return o.Profile.Validate()
}

// Schedule returns the part of one loop.
func (o *Offered) Schedule(loop, loops int) Schedule {
	return o.Profile.Schedule(o.Arrivals, loop, loops, o.Seed)
}

// random returns the loop's own stream of random numbers. ChaCha8 streams are unrelated even if
// their keys are similar. The name in the key separates this stream from others with the same seed.
func random(seed uint64, loop int) *rand.Rand {
	key := [32]byte{16: 'p', 'a', 'c', 'e'}
	binary.LittleEndian.PutUint64(key[:], seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(loop))
	return rand.New(rand.NewChaCha8(key))
}

// course inverts the integral of a profile's rate, for sums that never decrease.
type course struct {
	pieces []piece // those not yet over
	last   int64
}

// reaches returns when the integral reaches sum; ok is false if it never does, and then stays
// false. A sum that is reached exactly where a pause starts counts as reached before it.
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

// constant is the schedule of a loop with evenly spaced arrivals.
type constant struct {
	course
	next, step float64
}

// Next implements Schedule.
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

// Next implements Schedule.
func (s *poisson) Next() (due int64, ok bool) {
	s.sum += s.rng.ExpFloat64() * s.loops
	return s.reaches(s.sum)
}
