package survey

import "math"

const second = int64(1e9)

// settings are all numbers that shape a survey. Lengths are nanoseconds of offered load.
type settings struct {
	// Warm-up: a closed loop with one connection, in chunks, until one has no trend and is like the
	// one before. The most bounds a service that never settles; a chunk holds six windows, the
	// fewest from which a trend can be determined.
	warmChunk int64
	warmMost  int
	// Bracketing: steps are short, since they only have to tell twice the line from half of it.
	// growth is the factor while nothing is seen of a limit, careful the one when the response time
	// has begun to grow by the factor strained; downs bounds the way down when the first rate
	// fails. A bracket whose ends are further from each other than the factor apart is tried once
	// more in the middle.
	bracketLength, bracketSettle int64
	growth, careful, strained    float64
	apart                        float64
	downs                        int
	// The A/A pair and the gentle steps lie at these shares of the highest rate that was good in
	// bracketing, which the line is above; so they are under half of the line, as a prediction's
	// have to be, and one is near enough to half of it to be what recovery is compared with. They
	// are long because few requests meet as many others as a service has workers there, and the
	// prediction rests on those.
	noiseLength           int64
	gentleHigh, gentleLow float64
	// Refinement: coarse steps until the line is known to coarseWidth, then fine ones, each at
	// least correlations times as long as the service remembers, within fineLength and fineMost.
	// The line is looked for until it is known to width, for at most softBudget for each of
	// Options.Runs; beyond that only while it is wider than tooWide, and for at most hardBudget
	// times as long.
	coarseLength, coarseSettle       int64
	fineLength, fineSettle, fineMost int64
	coarseWidth, width, tooWide      float64
	correlations                     float64
	hardBudget                       float64
	// Each of the two steps for profiles: a processor profile has a hundred samples for each second
	// of a core.
	profiledLength int64
	// Overload: these multiples of the line, as far as Options.Overshoot lets them.
	overload       []float64
	overloadLength int64
	recoveryLength int64
}

// Constants of judgement.
const (
	confidence = 0.95
	// growthTail is the probability of calling a queue that is at rest a growing one. It is small
	// because many steps are judged; growthLeast is the least growth, as a share of the offered
	// rate, that matters.
	growthTail  = 0.005
	growthLeast = 0.005
	// resolution is added to a line on both sides, as a share: service times of real machines drift
	// by that much from one minute to the next.
	resolution = 0.005
	// lateShare is the share of the SLO's limit by which the generator may be late without a FAIL
	// being its own doing; lateWithout is the limit for an SLO that has none, in nanoseconds.
	lateShare   = 0.1
	lateWithout = int64(10e6)
	// A step in which the generator was late is repeated if a hypervisor gave at least muchStolen of
	// the processors' time to other machines during it, at most mostDisturbed times in a survey.
	// Neighbours are often busy for some seconds. 1 % of two processors in a step of two seconds is
	// 40 ms, and if that is one piece, it makes more requests late than a step may have.
	muchStolen    = 0.01
	mostDisturbed = 12
	// A target is broken when more than half of at least brokenLeast requests failed for brokenFor,
	// or nothing was answered for silentFor.
	brokenLeast = 20
	brokenFor   = 2 * second
	silentFor   = 3 * second
	// Connections: those that the rate needs while requests take as long as the SLO allows, or four
	// times as long as they do, with as many again to spare; between these bounds, which keep a
	// wrong guess harmless.
	fewestConnections, MostConnections = 32, 2048
	// A collapse is a fall of the goodput by more than this share, and by more than its interval.
	collapseFall = 0.10
	// noisyAbove is the noise floor above which a run is marked: differences of that size are what
	// a line is made of.
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
		overload:       []float64{1.1, 1.25, 1.5},
		overloadLength: 3 * second,
		recoveryLength: 4 * second,
	}
	if o.Quick {
		s.warmChunk = 5 * second / 4
		s.bracketLength = 2 * second
		s.noiseLength, s.coarseLength = 4*second, 2*second
		s.fineLength, s.fineMost, s.profiledLength = 7*second/2, 7*second, 6*second
		s.coarseWidth, s.width, s.tooWide, s.hardBudget = .15, .07, .09, 3
		s.overload, s.overloadLength, s.recoveryLength = []float64{1.1, 1.4}, 5*second/2, 3*second
	}
	s.growth = min(s.growth, o.Overshoot)
	s.careful = min(s.careful, o.Overshoot)
	return s
}
