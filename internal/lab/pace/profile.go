package pace

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	// MaxRate is the highest rate a profile may reach, bursts included, in arrivals per second.
	MaxRate = 10_000_000
	// MaxLength is the maximum length of a profile: 366 days in nanoseconds.
	MaxLength = int64(366 * 24 * time.Hour)
	// MaxParts is the maximum number of segments, and of bursts, of a profile.
	MaxParts = 1000
)

// Validate returns what is wrong with a profile, in one line that names the segment or burst,
// counted from 1; nil if Schedule may be called.
func (p Profile) Validate() error {
	if len(p.Segments) == 0 {
		return errors.New("the profile has no segment: give it a rate and a length")
	}
	if len(p.Segments) > MaxParts || len(p.Bursts) > MaxParts {
		return fmt.Errorf("the profile has %d segments and %d bursts: %d of each are the most",
			len(p.Segments), len(p.Bursts), MaxParts)
	}
	total := int64(0)
	for i, s := range p.Segments {
		if err := cmp.Or(checkRate(s.From), checkRate(s.To), checkLength(s.Length)); err != nil {
			return fmt.Errorf("segment %d: %w", i+1, err)
		}
		if total += s.Length; total > MaxLength {
			return fmt.Errorf("segment %d: the profile ends after %v: %v is the most",
				i+1, time.Duration(total), time.Duration(MaxLength))
		}
	}
	for i, b := range p.Bursts {
		if err := cmp.Or(checkRate(b.Rate), checkLength(b.Length)); err != nil {
			return fmt.Errorf("burst %d: %w", i+1, err)
		}
		switch {
		case b.At < 0:
			return fmt.Errorf("burst %d begins at %v: it must begin at 0s or later",
				i+1, time.Duration(b.At))
		case b.At > total-b.Length:
			return fmt.Errorf("burst %d begins at %v and lasts %v, and the profile ends at %v: "+
				"begin it earlier, or make the profile longer",
				i+1, time.Duration(b.At), time.Duration(b.Length), time.Duration(total))
		}
	}
	for _, x := range p.pieces() {
		if peak := max(x.from, x.to); peak > MaxRate {
			return fmt.Errorf("with its bursts the profile reaches %.0f arrivals a second: "+
				"%d are the most", peak, MaxRate)
		}
	}
	return nil
}

func checkRate(rate float64) error {
	switch {
	case math.IsNaN(rate) || math.IsInf(rate, 0):
		return fmt.Errorf("the rate %v is not a number: give arrivals a second", rate)
	case rate < 0:
		return fmt.Errorf("the rate %v is negative: 0 is a pause", rate)
	case rate > MaxRate:
		return fmt.Errorf("the rate %.0f is too high: %d arrivals a second are the most",
			rate, MaxRate)
	}
	return nil
}

func checkLength(ns int64) error {
	if ns <= 0 || ns > MaxLength {
		return fmt.Errorf("the length %v is not above 0s and at most %v",
			time.Duration(ns), time.Duration(MaxLength))
	}
	return nil
}

// Length returns how long the profile lasts, in nanoseconds.
func (p Profile) Length() (ns int64) {
	for _, s := range p.Segments {
		ns += s.Length
	}
	return ns
}

// Arrivals returns the number of arrivals of the profile, the mean if they are random: the integral
// of its rate.
func (p Profile) Arrivals() float64 {
	sum := 0.0
	for _, s := range p.Segments {
		sum += (s.From + s.To) / 2 * float64(s.Length) / 1e9
	}
	for _, b := range p.Bursts {
		sum += b.Rate * float64(b.Length) / 1e9
	}
	return sum
}

// Mean returns the mean rate of the whole profile, bursts included, in arrivals per second; 0 for
// an empty one.
func (p Profile) Mean() float64 {
	if ns := p.Length(); ns > 0 {
		return p.Arrivals() / (float64(ns) / 1e9)
	}
	return 0
}

// Peak returns the highest rate that a valid profile reaches, in arrivals per second.
func (p Profile) Peak() (rate float64) {
	for _, x := range p.pieces() {
		rate = max(rate, x.from, x.to)
	}
	return rate
}

// At returns the rate t nanoseconds after the run's start, in arrivals per second. It is 0 before
// the start and from the end on. Where the rate jumps, it is the rate after the jump.
func (p Profile) At(t int64) (rate float64) {
	if t < 0 || t >= p.Length() {
		return 0
	}
	start := int64(0)
	for _, s := range p.Segments {
		if t < start+s.Length {
			rate = s.at(t - start)
			break
		}
		start += s.Length
	}
	for _, b := range p.Bursts {
		if t >= b.At && t-b.At < b.Length {
			rate += b.Rate
		}
	}
	return rate
}

// at returns the segment's rate t nanoseconds after its start.
func (s Segment) at(t int64) float64 { return s.From + (s.To-s.From)*float64(t)/float64(s.Length) }

// Scale returns the profile with every rate multiplied by a factor and the same times. It shares no
// memory with p.
func (p Profile) Scale(factor float64) Profile {
	var scaled Profile
	for _, s := range p.Segments {
		scaled.Segments = append(scaled.Segments, Segment{s.From * factor, s.To * factor, s.Length})
	}
	for _, b := range p.Bursts {
		scaled.Bursts = append(scaled.Bursts, Burst{b.Rate * factor, b.At, b.Length})
	}
	return scaled
}
