package concurrency

// level is the sum of windows that were seen at about one number of requests inside.
type level struct {
	time     float64 // seconds
	inflight float64 // integral over time
	done     float64
}

func (a *level) add(b level) {
	a.time += b.time
	a.inflight += b.inflight
	a.done += b.done
}

// forget scales the level down to at most the given number of completions, so that it follows slow
// changes.
func (a *level) forget(most float64) {
	if a.done > most {
		a.scale(most / a.done)
	}
}

func (a *level) scale(f float64) {
	a.time, a.inflight, a.done = a.time*f, a.inflight*f, a.done*f
}

func (a *level) throughput() float64 { return a.done / a.time }
func (a *level) mean() float64       { return a.inflight / a.time }

// response is the mean latency in seconds, by Little's law. The mean of recorded latencies would be
// too low whenever the number inside has just grown, because short requests finish first. It would
// also miss requests that the client abandons before the answer.
func (a *level) response() float64 { return a.inflight / a.done }

// noise estimates the variance of the logarithm of throughput, times the number of completions it
// was measured over. For independent service times, that is their squared coefficient of variation.
// If a few requests take very long, the throughput wanders for as long as they take. So noise looks
// at blocks of several lengths, and the noisiest counts.
type noise struct {
	spread float64
	blocks [3]block
}

// block is a run of consecutive levels. Each of the blocks is four times as long as the one before.
type block struct {
	levels    int
	done      float64
	deviation float64 // the mean, weighted by completions
	spread    float64
	samples   float64
}

const (
	leastSpread = 0.02
	mostSpread  = 12
)

func newNoise() noise {
	n := noise{spread: 1}
	for i := range n.blocks {
		n.blocks[i].spread = 0.5
	}
	return n
}

// learn takes the deviation of the logarithm of throughput from its prediction, over done
// completions.
func (s *noise) learn(deviation, done float64) {
	s.spread = leastSpread
	length := 1
	for i := range s.blocks {
		b := &s.blocks[i]
		b.levels++
		b.deviation += (deviation - b.deviation) * done / (b.done + done)
		b.done += done
		if b.levels == length {
			sample := min(b.deviation*b.deviation*b.done, 6*b.spread+0.1)
			b.samples = min(b.samples+1, 30)
			b.spread += (sample - b.spread) / (b.samples + 3)
			b.levels, b.deviation, b.done = 0, 0, 0
		}
		s.spread = min(max(s.spread, b.spread*min(1, (b.samples+1)/4)), mostSpread)
		length *= 4
	}
}

// variance is the variance of the logarithm of the ratio of two levels' throughputs.
func (s *noise) variance(a, b level) float64 {
	return s.spread * (1/a.done + 1/b.done)
}
