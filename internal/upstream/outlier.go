package upstream

import (
	"fmt"
	"math"
	"time"

	"plimsoll/internal/crash"
)

const (
	judgeEvery  = time.Second
	judgeSpread = 10 * time.Millisecond
	// ratesEvery is the interval over which success rates are compared.
	ratesEvery = 10 * time.Second
	// ratesRequests is how many requests a target needs in the interval for its rate to be
	// compared.
	ratesRequests = 100
	// ratesTargets is how many such targets there must be.
	ratesTargets = 3
	// ratesSpread is the least standard deviation that peers are taken to have. Otherwise a target
	// with a single failure would be ejected if its peers had none.
	ratesSpread = 0.05
	// longestRow bounds the factor by which ejections in a row become longer.
	longestRow = 10
)

// failed counts a failure of real traffic. It runs on loops, so it only counts, and wakes the judge
// if the target has failed often enough in a row.
func (u *Upstream) failed(t *Target) {
	n := t.fails.Add(1)
	if n == math.MaxInt32 {
		t.fails.Store(math.MaxInt32 / 2)
	}
	limit := int32(min(u.options.Passive.ConsecutiveFailures, math.MaxInt32))
	if u.options.Passive.Disabled || limit == 0 || n%limit != 0 {
		return
	}
	select {
	case u.kick <- struct{}{}:
	default:
	}
}

// judge runs step once a second, and whenever a target has failed often enough in a row, and logs
// the transitions of breakers. It returns when the upstream is closed.
func (u *Upstream) judge() {
	defer crash.Guard("in the passive health checks")
	u.mu.Lock()
	every := judgeEvery + u.draw(judgeSpread) // so that not all upstreams' judges wake at once
	u.mu.Unlock()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-u.kick:
		case t := <-u.moved:
			u.logTransition(t)
			continue
		case <-u.ctx.Done():
			return
		}
		u.step(u.env.Now())
	}
}

// step ends the ejections that are over, and ejects targets that have failed too often. now is in
// nanoseconds.
func (u *Upstream) step(now int64) {
	if u.options.Passive.Disabled {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	targets := u.set.Load().targets
	limit := u.options.Passive.ConsecutiveFailures
	for _, t := range targets {
		if t.state.Load()&stateEjected != 0 && now >= t.ejectedTill {
			t.fails.Store(0)
			u.change(t, now, 0, stateEjected, "its ejection is over")
		}
	}
	for _, t := range targets {
		if n := int(t.fails.Load()); limit > 0 && n >= limit {
			u.eject(t, now, fmt.Sprintf("%d failures in a row", n))
		}
	}
	if now >= u.nextRates {
		u.nextRates = now + int64(ratesEvery)
		u.compare(targets, now)
	}
}

// eject ejects a target, unless too many are ejected already or it is the only one that could be
// used. The caller holds mu.
func (u *Upstream) eject(t *Target, now int64, why string) {
	if state := t.state.Load(); state&stateEjected != 0 || !t.eligible(state) {
		return
	}
	eligible, out := 0, 0
	for _, other := range u.set.Load().targets {
		if state := other.state.Load(); other.eligible(state) {
			eligible++
			if state&stateEjected != 0 {
				out++
			}
		}
	}
	if eligible < 2 || out+1 > max(1, int(u.options.Passive.MaxEjected*float64(eligible))) {
		return
	}
	// The target has stayed in use for longer than it was ejected, so the row has ended.
	if now-t.ejectedTill > t.ejectedTill-t.ejectedAt {
		t.ejectRow = 0
	}
	t.ejectRow = min(t.ejectRow+1, longestRow)
	t.ejections++
	u.ejections++
	length := u.options.Passive.EjectFor * time.Duration(t.ejectRow)
	t.ejectedAt, t.ejectedTill = now, now+int64(length)
	u.change(t, now, stateEjected, 0, fmt.Sprintf("%s: ejected for %v", why, length))
}

// rate is a target's share of successes over the last interval.
type rate struct {
	t       *Target
	success float64
}

// compare ejects targets whose success rate is far below that of their peers. Each is compared with
// the others only: among three, no target can be more than 1.4 standard deviations from a mean that
// includes it. The caller holds mu.
func (u *Upstream) compare(targets []*Target, now int64) {
	var rates []rate
	for _, t := range targets {
		failures, requests := t.failures.Swap(0), t.requests.Swap(0)
		if requests >= ratesRequests && t.eligible(t.state.Load()) {
			rates = append(rates, rate{t, 1 - float64(min(failures, requests))/float64(requests)})
		}
	}
	deviations := u.options.Passive.SuccessRateDeviations
	if deviations == 0 || len(rates) < ratesTargets {
		return
	}
	sum, squares := 0.0, 0.0
	for _, r := range rates {
		sum += r.success
		squares += r.success * r.success
	}
	peers := float64(len(rates) - 1)
	for _, r := range rates {
		mean := (sum - r.success) / peers
		spread := math.Sqrt(max((squares-r.success*r.success)/peers-mean*mean, 0))
		if floor := mean - deviations*max(spread, ratesSpread); r.success < floor {
			u.eject(r.t, now, fmt.Sprintf("success rate %.1f%% is under the %.1f%% that its "+
				"peers' %.1f%% allow",
				100*r.success, 100*floor, 100*mean))
		}
	}
}
