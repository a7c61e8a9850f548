package survey

import "math"

const second = int64(1e9)

// settings are all numbers that shape a survey. Lengths are nanoseconds of offered load.
type settings struct {
	// Warm-up: a closed loop with one connection, in chunks, until one has no trend and resembles
	// the one before. warmMost bounds the chunks for a service that never settles. A chunk has six
	// windows, the minimum for determining a trend.
	warmChunk int64
	warmMost  int
	// Bracketing: steps are short, because they only have to distinguish twice the line from half
	// of it. growth is the factor while no limit shows; careful is the factor once the response
	// time has grown by the factor strained. downs bounds the way down if the first rate fails. If
	// the ends of a bracket are further from each other than the factor apart, one more step is run
	// in the middle.
	bracketLength, bracketSettle int64
	growth, careful, strained    float64
	apart                        float64
	downs                        int
	// The A/A pair and the gentle steps run at these shares of the highest good rate in bracketing.
	// The line is above that rate, so they are under half of the line, as a prediction requires.
	// One of them is close enough to half of the line to serve as the reference for recovery. They
	// are long because the prediction rests on requests that meet as many others as the service has
	// workers, and such requests are few.
	noiseLength           int64
	gentleHigh, gentleLow float64
	// Refinement: coarse steps until the line is known to coarseWidth, then fine ones. The judged
	// part of a fine step is at least correlations times as long as the service's memory, and the
	// step is between fineLength and fineMost. Refinement lasts until the line is known to width,
	// or for the time of two coarse steps and Options.Runs fine ones. Beyond that it continues only
	// while the line is wider than tooWide, for at most hardBudget times that time.
	coarseLength, coarseSettle       int64
	fineLength, fineSettle, fineMost int64
	coarseWidth, width, tooWide      float64
	correlations                     float64
	hardBudget                       float64
	// Each of the two steps for profiles. A processor profile has a hundred samples per second of a
	// core.
	profiledLength int64
	// Overload: multiples of the line; the last one only if the service keeps up with the one before.
	overload       []float64
	overloadLength int64
	recoveryLength int64
}

// Constants for judging steps.
const (
	confidence = 0.95
	// growthTail is the probability of calling a queue at rest a growing one. It is small because
	// many steps are judged. growthLeast is the smallest growth that matters, as a share of the
	// offered rate.
	growthTail  = 0.005
	growthLeast = 0.005
	// resolution widens a line on both sides, as a share: service times of real machines drift by
	// that much from one minute to the next.
	resolution = 0.005
	// lateShare is the share of the SLO's limit by which the generator may be late without having
	// caused a FAIL itself. lateWithout is the limit for an SLO without one, in nanoseconds.
	lateShare   = 0.1
	lateWithout = int64(10e6)
	// A step in which the generator was late is repeated if a hypervisor gave at least muchStolen
	// of the processors' time to other machines during it, at most mostDisturbed times in a survey.
	// Neighbours are often busy for some seconds. 1 % of two processors in a step of two seconds is
	// 40 ms; in one piece, that makes more requests late than a step may have.
	muchStolen    = 0.01
	mostDisturbed = 12
	// A target is broken if more than half of at least brokenLeast requests failed for brokenFor,
	// or for half of that if most could not connect. It is also broken if nothing was answered for
	// silentFor, or for twice the SLO's longest limit if that is longer.
	brokenLeast = 20
	brokenFor   = 2 * second
	silentFor   = 3 * second
	// Connections: twice what the rate needs if requests take as long as the SLO allows, or four
	// times as long as single ones do, whichever is longer. These bounds keep a wrong guess
	// harmless.
	fewestConnections, MostConnections = 32, 2048
	// A collapse is a fall of the goodput by more than this share, and by more than its interval.
	collapseFall = 0.10
	// noisyAbove is the noise floor above which a run is marked: a line is made of differences of
	// that size.
	noisyAbove = 0.05
)

func settingsFor(o *Options) settings {
	s := settings{
		warmChunk:      3 * second / 2,
		warmMost:       6,
		bracketLength:  5 * second / 2,
		bracketSettle:  second / 2,
		growth:         2,
		careful:        math.Sqrt2,
		strained:       1.5,
		downs:          5,
		apart:          1.6,
		noiseLength:    5 * second,
		gentleHigh:     .48,
		gentleLow:      .25,
		coarseLength:   3 * second,
		coarseSettle:   second / 2,
		fineLength:     6 * second,
		fineSettle:     second,
		fineMost:       12 * second,
		coarseWidth:    .12,
		width:          .05,
		tooWide:        .07,
		correlations:   16,
		hardBudget:     4,
		profiledLength: 10 * second,
		overload:       []float64{1.1, 1.25, 1.5, 2},
		overloadLength: 3 * second,
		recoveryLength: 4 * second,
	}
	if o.Quick {
		s.warmChunk = 5 * second / 4
		s.bracketLength = 2 * second
		s.noiseLength, s.coarseLength = 4*second, 2*second
		s.fineLength, s.fineMost, s.profiledLength = 7*second/2, 7*second, 6*second
		s.coarseWidth, s.width, s.tooWide, s.hardBudget = .15, .07, .09, 3
		s.overload, s.overloadLength, s.recoveryLength = []float64{1.1, 1.4, 2}, 5*second/2, 3*second
	}
	s.growth = min(s.growth, o.Overshoot)
	s.careful = min(s.careful, o.Overshoot)
	return s
}
