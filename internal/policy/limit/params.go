package limit

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// Algorithm says how a limit counts.
type Algorithm uint8

// The algorithms. docs/protection-limits.md says what each lets through.
const (
	TokenBucket Algorithm = iota
	GCRA
	LeakyBucket
	FixedWindow
	SlidingWindow
	SlidingLog

	leaseWords // not an algorithm: the words of leases, see lease.go
)

var algorithmNames = [...]string{
	TokenBucket: "token_bucket", GCRA: "gcra", LeakyBucket: "leaky_bucket",
	FixedWindow: "fixed_window", SlidingWindow: "sliding_window", SlidingLog: "sliding_log",
}

func (a Algorithm) String() string { return algorithmNames[a] }

// ParseAlgorithm finds an algorithm by its name.
func ParseAlgorithm(name string) (Algorithm, error) {
	for a, known := range algorithmNames {
		if known == name {
			return Algorithm(a), nil
		}
	}
	return 0, fmt.Errorf("no algorithm is named %q; choose one of %v", name, algorithmNames)
}

func (a Algorithm) bucket() bool { return a == TokenBucket || a == GCRA }

// Rate is a number of requests per time.
type Rate struct {
	Count int64
	Per   time.Duration
}

// Bounds of the options.
const (
	maxCount   = 1_000_000_000
	minPeriod  = time.Millisecond
	maxPeriod  = 366 * 24 * time.Hour
	perSecond  = 10_000_000 // the highest rate
	maxRing    = 10_000     // entries of a value's log
	laps       = 64         // laps of the ring that a log's sequence counts
	sequence   = 24         // its bits
	logTick    = 20         // a log's end is kept to 2^20 ns
	maxLogSize = 1 << 30    // bytes of a limit's logs; the same again for its overrides
)

// params are the numbers of a limit or an override in the form that decisions need. They are
// immutable: a change makes new ones, of the next generation.
type params struct {
	algorithm Algorithm
	rate      Rate
	burst     int64 // requests at once, in tokens
	cost      int64 // tokens of a request
	most      int64 // tokens of the most expensive request
	queue     int64 // requests that may wait
	wait      int64 // the longest wait, nanoseconds

	generation uint64
	since      int64                 // when they became active
	past       [generations - 1]past // earlier generations, latest first

	token, take int64 // units per token and per usual request
	depth       int64 // units in a bucket; for a leaky one, how far ahead its queue may reach
	period      int64 // of a window, nanoseconds
	quota       int64 // requests of a log
	countBits   uint  // of a window's count

	advertised []byte // the part of RateLimit-Policy after the limit's name
}

// past is what is needed to interpret a word of an earlier generation.
type past struct {
	token, take, period, until int64
	countBits                  uint
}

// numbers are the input of params.
type numbers struct {
	algorithm   Algorithm
	rate        Rate
	burst, cost int64
	most        int64 // the largest cost that a request may state; 0 if none may
	queue       int64
	wait        time.Duration
}

// newParams checks numbers and makes the first generation of params.
func newParams(n numbers) (*params, error) {
	p := &params{
		algorithm: n.algorithm, rate: n.rate, burst: n.burst, cost: n.cost, most: max(n.cost, n.most),
		queue: n.queue, wait: int64(n.wait),
	}
	count, period := n.rate.Count, int64(n.rate.Per)
	switch {
	case count < 1 || count > maxCount:
		return nil, fmt.Errorf("a rate of %d; give 1 to %d requests", count, maxCount)
	case n.rate.Per < minPeriod || n.rate.Per > maxPeriod:
		return nil, fmt.Errorf("a rate over %s; give a time from %s to %s", n.rate.Per, minPeriod, maxPeriod)
	case float64(count)/n.rate.Per.Seconds() > perSecond:
		return nil, fmt.Errorf("a rate of %d in %s is over %d a second; ask for less, or for no limit",
			count, n.rate.Per, perSecond)
	case n.cost < 1:
		return nil, fmt.Errorf("a cost of %d; a request costs at least 1", n.cost)
	}
	p.period = period
	p.token = ceil(period*units, count)
	p.countBits = payloadBits - uint(bits.Len64(uint64(maxTime/period)))
	var err error
	switch n.algorithm {
	case TokenBucket, GCRA:
		err = p.makeBucket()
	case LeakyBucket:
		err = p.makeLeaky()
	default:
		err = p.makeWindow()
	}
	if err != nil {
		return nil, err
	}
	quota, seconds := p.advertise()
	p.advertised = appendNumbers(nil, ";q=", quota, ";w=", seconds)
	return p, nil
}

// tooDeep reports whether the tokens take longer to come back than any bucket allows.
func (p *params) tooDeep(tokens int64) bool {
	return tokens > int64(maxPeriod)*units/p.token
}

func (p *params) makeBucket() error {
	switch {
	case p.burst < p.most:
		return fmt.Errorf("a burst of %d and a cost of %d: no request would pass; give at least the cost",
			p.burst, p.most)
	case p.tooDeep(p.burst):
		return fmt.Errorf("a burst of %d takes more than %s to come back; give less", p.burst, maxPeriod)
	}
	p.take, p.depth = p.cost*p.token, p.burst*p.token
	return nil
}

func (p *params) makeLeaky() error {
	switch {
	case p.wait <= 0:
		return errors.New("a leaky bucket lets requests wait; say for how long at most")
	case time.Duration(p.wait) > maxPeriod:
		return fmt.Errorf("a wait of %s; %s is the longest", time.Duration(p.wait), maxPeriod)
	case p.queue < 1 || p.queue > maxCount:
		return fmt.Errorf("a queue of %d; give 1 to %d requests", p.queue, maxCount)
	case p.tooDeep(p.most):
		return fmt.Errorf("a cost of %d takes more than %s to come back; give less", p.most, maxPeriod)
	}
	p.take = p.cost * p.token
	p.depth = p.wait * units
	if p.queue <= p.depth/p.take {
		p.depth = p.queue * p.take
	}
	return nil
}

func (p *params) makeWindow() error {
	most := int64(1)<<p.countBits - 1
	if p.algorithm == SlidingWindow {
		p.countBits /= 2
		most = int64(1)<<p.countBits - 1
	}
	p.quota = p.rate.Count / p.cost
	switch {
	case p.rate.Count < p.most:
		return fmt.Errorf("a rate of %d and a cost of %d: no request would pass; give at least the cost",
			p.rate.Count, p.most)
	case p.algorithm == SlidingLog && p.quota > maxRing:
		return fmt.Errorf("a log of %d requests a value; give at most %d, or use sliding_window",
			p.quota, maxRing)
	case p.rate.Count > most:
		return fmt.Errorf("%d in %s is more than %s can count, which is %d; use token_bucket",
			p.rate.Count, p.rate.Per, p.algorithm, most)
	}
	return nil
}

// after makes p the generation after old, active from now on.
func (p *params) after(old *params, now int64) *params {
	next := *p
	next.generation = (old.generation + 1) % generations
	next.since = now
	next.past[0] = past{old.token, old.take, old.period, now, old.countBits}
	copy(next.past[1:], old.past[:])
	return &next
}

// same reports whether the numbers are equal.
func (p *params) same(q *params) bool {
	return p.rate == q.rate && p.burst == q.burst && p.cost == q.cost && p.most == q.most &&
		p.queue == q.queue && p.wait == q.wait
}

// word is a payload of this generation.
func (p *params) word(payload int64) uint64 {
	return live | p.generation<<generationShift | uint64(payload)
}

// current converts a live word to these params. What an earlier generation counted is translated as
// of the moment of the change, so that a bucket keeps its tokens and a window its count.
func (p *params) current(w uint64) uint64 {
	age := (p.generation - generation(w)) % generations
	if age == 0 {
		return w
	}
	state := payload(w)
	for ; age > 0; age-- {
		old := p.past[age-1]
		next := past{p.token, p.take, p.period, 0, p.countBits}
		if age > 1 {
			next = p.past[age-2]
		}
		state = p.translate(state, old, next)
	}
	if p.algorithm.bucket() { // a bucket owes no more than it can hold now
		state = min(state, p.since*units+p.depth)
	}
	return p.word(state)
}

// translate converts a payload from one generation to the next.
func (p *params) translate(state int64, from, to past) int64 {
	at := from.until
	switch p.algorithm {
	case FixedWindow:
		if from.period == to.period { // then the number of bits is the same too
			return state
		}
		index, count := state>>from.countBits, state&(1<<from.countBits-1)
		if index < at/from.period {
			count = 0
		}
		return at/to.period<<to.countBits | min(count, 1<<to.countBits-1)
	case SlidingWindow:
		if from.period == to.period {
			return state
		}
		count := window{from.period, from.countBits}.weight(state, at)
		return window{to.period, to.countBits}.pack(at/to.period, 0, min(count, 1<<to.countBits-1))
	case SlidingLog:
		return state // it holds times
	case LeakyBucket:
		return retime(state, at, from.take, to.take)
	default:
		return retime(state, at, from.token, to.token)
	}
}

// retime converts what a bucket owes to another token size.
func retime(state, at, from, to int64) int64 {
	owed := state - at*units
	if owed <= 0 || from <= 0 {
		return state
	}
	return at*units + min(scale(owed, to, from), int64(maxPeriod)*units)
}
