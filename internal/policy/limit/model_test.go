package limit

import (
	"math/big"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// a limiter of one value, in virtual time.
type subject struct {
	own
	p *params
}

func newSubject(t interface{ Fatal(...any) }, n numbers) *subject {
	p, err := newParams(n)
	if err != nil {
		t.Fatal(err)
	}
	rules := new(atomic.Pointer[params])
	rules.Store(p)
	s := &subject{p: p}
	s.init(rules)
	return s
}

func (s *subject) ask(now int64) outcome {
	var p place
	s.at(&p)
	return p.take(now)
}

// model is a limit that is obviously right: it knows every request that passed.
type model interface {
	// ask counts a request that passes; wait is until it would.
	ask(now int64) (pass bool, wait int64)
}

// bucketModel is a bucket of tokens that drip in, in exact fractions.
type bucketModel struct {
	tokens, burst, each *big.Rat // each: nanoseconds of a token
	cost                *big.Rat
	last                int64
}

func newBucketModel(n numbers, token int64) *bucketModel {
	b := big.NewRat(n.burst, 1)
	return &bucketModel{tokens: new(big.Rat).Set(b), burst: b, each: big.NewRat(token, units), cost: big.NewRat(n.cost, 1)}
}

func (m *bucketModel) ask(now int64) (bool, int64) {
	came := new(big.Rat).Quo(big.NewRat(now-m.last, 1), m.each)
	m.last = now
	if m.tokens.Add(m.tokens, came).Cmp(m.burst) > 0 {
		m.tokens.Set(m.burst)
	}
	if m.tokens.Cmp(m.cost) >= 0 {
		m.tokens.Sub(m.tokens, m.cost)
		return true, 0
	}
	lack := new(big.Rat).Sub(m.cost, m.tokens)
	return false, roundUp(lack.Mul(lack, m.each))
}

func roundUp(r *big.Rat) int64 {
	n := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	return n.Quo(n, r.Denom()).Int64()
}

// queueModel gives each request a turn, a token's time after the one before.
type queueModel struct {
	next, each, longest *big.Rat
}

func (m *queueModel) ask(now int64) (bool, int64) {
	at := big.NewRat(now, 1)
	if m.next.Cmp(at) > 0 {
		at = m.next
	}
	wait := new(big.Rat).Sub(at, big.NewRat(now, 1))
	if wait.Cmp(m.longest) > 0 {
		return false, roundUp(wait.Sub(wait, m.longest))
	}
	m.next = new(big.Rat).Add(at, m.each)
	return true, roundUp(wait)
}

// windowModel counts the requests of the last window, however that is defined.
type windowModel struct {
	n      numbers
	passed []int64
	used   func(passed []int64, now, period int64) *big.Rat
}

func (m *windowModel) ask(now int64) (bool, int64) {
	period := int64(m.n.rate.Per)
	if m.fits(now) {
		m.passed = append(m.passed, now)
		return true, 0
	}
	low, high := int64(0), 2*period // it passes at high, and not at low
	for high-low > 1 {
		if mid := (low + high) / 2; m.fits(now + mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return false, high
}

func (m *windowModel) fits(now int64) bool {
	used := m.used(m.passed, now, int64(m.n.rate.Per))
	used.Mul(used, big.NewRat(m.n.cost, 1))
	used.Add(used, big.NewRat(m.n.cost, 1))
	return used.Cmp(big.NewRat(m.n.rate.Count, 1)) <= 0
}

func inFixed(passed []int64, now, period int64) *big.Rat {
	n := int64(0)
	for _, at := range passed {
		if at/period == now/period {
			n++
		}
	}
	return big.NewRat(n, 1)
}

// inSliding is rounded up to whole requests' costs where it is used, as the limit does.
func inSliding(passed []int64, now, period int64) *big.Rat {
	before, count := int64(0), int64(0)
	for _, at := range passed {
		switch now/period - at/period {
		case 0:
			count++
		case 1:
			before++
		}
	}
	weighed := new(big.Rat).Mul(big.NewRat(before, 1), big.NewRat(period-now%period, period))
	return weighed.Add(weighed, big.NewRat(count, 1))
}

func inLog(passed []int64, now, period int64) *big.Rat {
	n := int64(0)
	for _, at := range passed {
		if now-at < period {
			n++
		}
	}
	return big.NewRat(n, 1)
}

func modelOf(n numbers, p *params) model {
	switch n.algorithm {
	case FixedWindow:
		return &windowModel{n: n, used: inFixed}
	case SlidingWindow:
		return &windowModel{n: n, used: inSliding}
	case SlidingLog:
		return &windowModel{n: n, used: inLog}
	case LeakyBucket:
		longest := big.NewRat(min(int64(n.wait)*units, n.queue*p.take), units)
		return &queueModel{next: new(big.Rat), each: big.NewRat(p.take, units), longest: longest}
	default:
		return newBucketModel(n, p.token)
	}
}

// Every decision, and every wait, is that of a model which knows all requests.
func TestEveryAlgorithmDecidesAsItsModelDoes(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			n := drawNumbers(t, a)
			s := newSubject(t, n)
			m := modelOf(n, s.p)
			now := rapid.Int64Range(0, 1e12).Draw(t, "begin")
			if b, ok := m.(*bucketModel); ok {
				b.last = now
			}
			period := int64(n.rate.Per)
			steps := rapid.SliceOfN(rapid.Int64Range(0, 100), 1, 60).Draw(t, "steps")
			for i, step := range steps {
				switch {
				case step > 97:
					now += 3 * period
				case step > 50:
					now += period / n.rate.Count * (step - 50) / 30
				case step > 40:
					now++
				}
				pass, wait := m.ask(now)
				got := s.ask(now)
				if got.pass != pass || got.wait != wait {
					t.Fatalf("%+v: request %d at %d: passes %v and waits %d, want %v and %d",
						n, i, now, got.pass, got.wait, pass, wait)
				}
				if !pass && rapid.Bool().Draw(t, "waits") {
					now += wait - 1 // one nanosecond too early
					if again := s.ask(now); again.pass {
						t.Fatalf("%+v: request %d passes a nanosecond before its time", n, i)
					}
					m.ask(now)
				}
			}
		}))
	}
}

func TestNoMorePassInAnyTimeThanTheBound(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			n := drawNumbers(t, a)
			s := newSubject(t, n)
			now := rapid.Int64Range(0, 1e12).Draw(t, "begin")
			var passed []int64
			for range 200 {
				now += rapid.Int64Range(0, int64(n.rate.Per)/n.rate.Count).Draw(t, "step")
				if o := s.ask(now); o.pass {
					passed = append(passed, now+o.wait)
				}
			}
			for i := range passed {
				for j := i; j < len(passed); j++ {
					if most := bound(n, s.p, passed[j]-passed[i]); int64(j-i+1) > most {
						t.Fatalf("%+v: %d pass in %d ns, want at most %d", n, j-i+1, passed[j]-passed[i], most)
					}
				}
			}
		}))
	}
}

// What is given back leaves no trace.
func TestGivingBackMakesAndLosesNothing(t *testing.T) {
	for _, a := range allAlgorithms {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			n := drawNumbers(t, a)
			with, without := newSubject(t, n), newSubject(t, n)
			now := rapid.Int64Range(0, 1e12).Draw(t, "begin")
			for i := range 60 {
				now += rapid.Int64Range(0, int64(n.rate.Per)/n.rate.Count).Draw(t, "step")
				if rapid.Bool().Draw(t, "given back") {
					var p place
					with.at(&p)
					if o := p.take(now); o.pass {
						p.giveBack(&o, now)
					}
					continue
				}
				if got, want := with.ask(now), without.ask(now); got.pass != want.pass || got.wait != want.wait {
					t.Fatalf("%+v: request %d: passes %v and waits %d, want %v and %d", n, i, got.pass, got.wait, want.pass, want.wait)
				}
			}
		}))
	}
}

// Of two requests at once, the first is given back after the second was counted.
func TestGivingBackAfterOthersHavePassedMakesNothing(t *testing.T) {
	for _, a := range []Algorithm{TokenBucket, GCRA, FixedWindow, SlidingWindow} {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			n := drawNumbers(t, a)
			with, without := newSubject(t, n), newSubject(t, n)
			now := rapid.Int64Range(0, 1e12).Draw(t, "begin")
			for range rapid.IntRange(0, 5).Draw(t, "earlier") {
				with.ask(now)
				without.ask(now)
				now += rapid.Int64Range(0, int64(n.rate.Per)).Draw(t, "step")
			}
			var p place
			with.at(&p)
			back := p.take(now)
			for range rapid.IntRange(1, 3).Draw(t, "others") {
				now += rapid.Int64Range(0, int64(n.rate.Per)/n.rate.Count*2).Draw(t, "later")
				if with.ask(now).pass && !without.ask(now).pass {
					t.Fatal("a request that is counted besides makes another pass")
				}
			}
			if back.pass {
				p.giveBack(&back, now)
			}
			passes := func(s *subject) (k int) {
				for s.ask(now).pass {
					k++
				}
				return k
			}
			if got, want := passes(with), passes(without); got > want {
				t.Fatalf("%+v: %d pass after one was given back, want at most %d", n, got, want)
			}
		}))
	}
}
