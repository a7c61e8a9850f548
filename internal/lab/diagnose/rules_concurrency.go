package diagnose

import (
	"fmt"
	"math"
	"slices"

	"plimsoll/internal/lab/measure"
)

// concurrencyRules are about services that let few requests in at a time. They need nothing from
// the service: what it reports about itself only makes the place more precise.
var concurrencyRules = []Rule{
	{
		Name:  "concurrency-limited",
		Claim: "Few requests are inside at once, and the others wait for their turn",
		Needs: []string{measure.TargetCPU},
		Threshold: "as many inside as there are places, each for as long as a lone request " +
			"takes, while processors are idle; or over 5 % are refused beyond the line, at once, or " +
			"three times as many as the objectives allow while the others are as quick as ever",
		Reason: "by Little's law the rate times the time that each is inside is how many are " +
			"inside: when that stays the same, more requests only make a longer queue",
		Judge: judgeConcurrency,
		Counters: []Counter{
			{
				"the service's own processors were busy",
				func(e *Evidence) (string, bool) {
					return percent(e.busy(targetProcessor)), e.busy(targetProcessor) >= saturated
				},
			},
			{
				"the service keeps the machine busy, so more places bring nothing",
				func(e *Evidence) (string, bool) {
					r, g := e.reserve(targetProcessor), e.gain(cure{})
					if r == nil {
						return "", false
					}
					host := e.busy(hostProcessor)
					return fmt.Sprintf("%s of what it may use, and the machine is %s busy; "+
							"expected gain %s", percent(r.Share()), percent(host), times(g.Factor)),
						r.Share() >= r.waited() && g.Factor < leastGain ||
							r.Share() >= mostlyOwn && host >= saturated && g.Factor < leastBusy
				},
			},
			{
				"the machine was busy, and the places were held longer than by a lone request",
				func(e *Evidence) (string, bool) {
					host, p := e.busy(hostProcessor), e.places()
					return fmt.Sprintf("the machine was %s busy, beyond the line %s, and the places "+
							"were taken %s of the time by what lone requests take", percent(host),
							percent(e.busyBeyond()), percent(p.full)),
						(host >= saturated || e.fullBeyond()) && p.full < mostlyFull && !p.refused
				},
			},
			{
				"the processors were busy enough for requests to wait for them",
				func(e *Evidence) (string, bool) {
					p := e.places()
					if e.busiest() == nil || p.sure() || e.takesTurns(p) {
						return "", false
					}
					return percent(e.busiest().Share()) + " of " + e.busiest().What, e.waitedFor()
				},
			},
		},
		Last: true,
	},
}

// leastGain is the smallest gain for which more places are worth having.
const leastGain = 1.05

// leastBusy is the same if the whole machine is at its limit, and the service uses at least
// mostlyOwn of what it may. What looks like places that are all taken may be connections that carry
// many requests at once, of which two are enough.
const leastBusy, mostlyOwn = 1.2, .7

// mostlyFull is the minimum share of the places that lone requests would take.
const mostlyFull = .6

// places is how many requests can be inside at once, and how that is known. A place is what a
// request occupies meanwhile.
type places struct {
	n       float64 // 0 if it is not known
	alone   float64 // seconds that a request takes if it does not wait for others
	reached float64 // the highest goodput seen, in requests a second
	full    float64 // share of the places that lone requests would take at that goodput
	queue   *queue  // where the others queue, from a goroutine profile
	to      string  // the address, if the places are connections to one
	toThere float64 // how many of them
	// asks says that there are more connections than toThere, and that an answer is awaited on
	// toThere of them at once. crowded says that there are toThere when far more requests are under
	// way, and others at other times. atTimes says that far more requests are under way at times.
	asks, crowded, atTimes bool
	// fitted says that two independent counts agree: the station that was fitted to gentle steps,
	// and the requests inside by Little's law. It also says that these requests mostly do not
	// compute.
	fitted bool
	// refused says that requests are turned away at once.
	refused bool
}

// places finds how many requests can be inside at once: from the requests that have passed the
// queue, from the connections to one address, from the station that the survey fitted, or otherwise
// from Little's law alone.
func (e *Evidence) places() *places {
	if e.held != nil {
		return e.held
	}
	p := &places{reached: max(e.AtLine.Goodput(), e.Over.Goodput())}
	e.held = p
	p.alone = e.alone()
	little := p.reached * p.alone
	if p.queue = e.inLine(e.Over); p.queue == nil {
		p.queue = e.inLine(e.AtLine)
	}
	if p.to, p.toThere = e.narrow(p); p.to == "" {
		p.to, p.toThere = e.fewAsked(p)
		p.asks = p.to != ""
	}
	if p.to == "" {
		p.to, p.toThere = e.fewOpen(little)
		p.crowded = p.to != ""
	} else if !p.asks {
		p.atTimes = e.Over.inFlight() < 2*p.toThere
	}
	s, few := e.station(), e.fewAsk()
	p.n = max(math.Round(little), 1)
	switch {
	case p.queue != nil && p.queue.inside >= 1 &&
		(!p.queue.place.vague || near(p.queue.inside, little, 1.6)):
		p.n = p.queue.inside
		// The queue's count includes requests that are just leaving. The station was fitted to many
		// requests.
		if s != nil && near(float64(s.Workers), p.n, 1.6) &&
			math.Abs(float64(s.Workers)-little) < math.Abs(p.n-little) {
			p.n = float64(s.Workers)
		}
	case p.to != "":
		p.n = p.toThere
	case few != nil && near(few.n(), little, 1.6):
		p.n = few.n()
	case s != nil && near(float64(s.Workers), little, 1.6):
		p.n = float64(s.Workers)
		p.fitted = near(p.n, little, 1.25) && e.computing() < mostlyComputing
	}
	p.full = little / p.n
	if p.to != "" && e.takesAll(p.to, p.n, p) {
		p.full = min(p.full, 1) // a request takes a connection for a part of its time
	}
	return p
}

// sure reports whether the places were counted, and not only computed from times, which a busy
// machine may have made longer.
func (p *places) sure() bool {
	return p.fitted || p.refused || p.to != "" || p.queue != nil && !p.queue.place.vague
}

// near reports whether two numbers differ by less than a factor.
func near(a, b, factor float64) bool {
	return a > 0 && b > 0 && a < b*factor && b < a*factor
}

// alone returns how long a request takes if it does not wait for others: the shortest of the mean
// times at a gentle rate, at half of the line and at the line.
func (e *Evidence) alone() float64 {
	least := 0.0
	for _, m := range []*Moment{e.Before, e.Half, e.AtLine} {
		if took := m.Service(); took > 0 && (least == 0 || took < least) {
			least = took
		}
	}
	return least
}

func judgeConcurrency(e *Evidence) *Finding {
	if !e.found() || len(e.Reserves) == 0 || e.Over == nil && e.AtLine == nil {
		return nil
	}
	p := e.places()
	if e.turnsAway() {
		return e.turnedAway()
	}
	if e.databaseLimits() {
		return nil
	}
	if f := e.counted(p); f != nil {
		return f
	}
	if f := e.refuses(p); f != nil {
		return f
	}
	return e.resort(p)
}

// databaseLimits reports whether requests that wait for a place would only wait in a database.
func (e *Evidence) databaseLimits() bool {
	return e.rowsLocked() != nil || e.heldLonger() || e.busyBehind()
}

// fewPlaces reports whether few requests are let in, by a count of the places.
func (e *Evidence) fewPlaces() bool {
	p := e.places()
	return !e.databaseLimits() && p.sure() && e.room() && e.counted(p) != nil
}

// busyBehind reports whether the processors are busy with a dependency, and less to do for it brings
// far more than more places do, which would only wait there.
func (e *Evidence) busyBehind() bool {
	const farMore = 1.5
	d, is := e.saturatedBehind()
	return is && e.gain(e.spares(d)).Factor >= farMore*e.gain(cure{}).Factor
}

// counted is the finding in which the requests inside were counted: by those that have passed the
// queue, or by connections of which each request needs one.
func (e *Evidence) counted(p *places) *Finding {
	// Workers that each have a queue of their own miss the objectives before all of them are busy,
	// and so do few workers. So the goodput may rise further beyond the line if the places are
	// known from connections, from how requests delay each other, or from most goroutines waiting
	// in one place.
	beyond := 1.25
	if p.to != "" || p.fitted || p.queue != nil && e.queues() {
		beyond = 1.6
	}
	if e.Over.Goodput() > beyond*e.AtLine.Goodput() {
		return nil
	}
	half := e.Half.Service()
	grows := half > 0 && max(e.AtLine.Service(), e.Over.Service()) >= 1.5*half
	switch {
	case p.queue != nil && p.queue.waiting < 2*p.queue.atHalf:
		return nil // they are there whatever the load is
	case p.queue == nil && !grows:
		return nil
	case p.queue == nil && p.to == "" && !e.fittedThoughBusy(p):
		return nil
	}
	f := &Finding{
		Claim: fmt.Sprintf("At most %s at once, each for %s%s",
			inside(p.n), span(p.n/p.reached), e.waitFor(p)),
		Rank:       Binding,
		Confidence: .7,
		Evidence:   e.concurrencyFacts(p),
		Gain:       e.gain(cure{}),
	}
	// What holds the places may be a lock, or another of those that are asked.
	f.Evidence = append(f.Evidence, e.askedFacts()...)
	f.whatever = p.sure() && p.full >= mostlyFull
	switch {
	case p.queue != nil && f.whatever:
		f.Confidence = .95
	case p.queue != nil || p.to != "":
		f.Confidence = .85
	}
	if p.queue != nil {
		f.Where = p.queue.where
	}
	f.Advice = e.wider(p)
	e.heldOpen(f)
	return f
}

// fittedThoughBusy reports whether a busy machine does not explain how requests delay each other:
// during an overload about as many requests are inside as the fitted station serves, and they do
// not wait for what the service asks. If processors have room, resort says more.
func (e *Evidence) fittedThoughBusy(p *places) bool {
	return !e.room() && p.fitted && p.sure() && p.full >= mostlyFull &&
		e.AtLine.Profile(kindGoroutine) == nil && !e.goesOut(p.n)
}

// turnsAway reports whether the service closes connections before they have carried a request,
// while processors are idle: it has no room for further connections. Its clients connect again and
// again.
func (e *Evidence) turnsAway() bool {
	made := e.AtLine.connections()
	here, there, _ := e.closers()
	return made > 0 && e.AtLine.Goodput() < made/2 && here > 2*there && here >= 10 &&
		e.idleProcessors() >= leastIdle
}

// turnedAway is the finding that the service has no room for further connections.
func (e *Evidence) turnedAway() *Finding {
	open := e.AtLine.Mean(measure.ListenerEstablished) - e.AtLine.Mean(measure.ListenerQueue)
	made := e.AtLine.connections()
	f := &Finding{
		Claim: fmt.Sprintf("The service turns clients away: it has %s connections to clients, and "+
			"closes most of the others before they have carried a request", number(open)),
		Rank:       Binding,
		Confidence: .8,
		Evidence: []Fact{
			{What: "connections made, at the line", Value: perSecond(made)},
			{What: "requests that were answered", Value: perSecond(e.AtLine.Goodput())},
			{What: "connections to clients, accepted and open", Value: number(open)},
		},
		Gain:     e.gain(cure{}),
		whatever: true,
	}
	f.Advice = append(f.Advice, e.runtime().widens...)
	f.Advice = append(f.Advice, Action{
		Text: "let it have more connections: look for its bound on them, or on the descriptors of its " +
			"process (RLIMIT_NOFILE; worker_rlimit_nofile for nginx)",
	})
	return f
}

// inside returns text such as "4 requests are inside".
func inside(n float64) string {
	if n == 1 {
		return "1 request is inside"
	}
	return fmt.Sprintf("%.0f requests are inside", n)
}

// waitFor says where the other requests are.
func (e *Evidence) waitFor(p *places) string {
	switch {
	case p.queue != nil && len(p.queue.where) > 0:
		return fmt.Sprintf(": the others wait in %s for %s", p.queue.where[0].Function,
			p.queue.place.what)
	case p.asks:
		return fmt.Sprintf(": %s is asked for %.0f at a time, however many wait",
			e.named(p.to), p.toThere)
	case p.crowded:
		return fmt.Sprintf(": there are %.0f connections to %s, however many wait",
			p.toThere, e.named(p.to))
	case p.atTimes:
		return fmt.Sprintf(": there are never more than %.0f connections to %s, and at times far "+
			"more requests", p.toThere, e.named(p.to))
	case p.to != "" && p.toThere == 1:
		return fmt.Sprintf(": there is one connection to %s, and it is taken all the time",
			e.named(p.to))
	case p.to != "":
		return fmt.Sprintf(": there are %.0f connections to %s, and they are taken all the time",
			p.toThere, e.named(p.to))
	}
	return "; where the others wait cannot be seen from outside"
}

// concurrencyFacts returns the evidence for a limit.
func (e *Evidence) concurrencyFacts(p *places) []Fact {
	facts := []Fact{
		{
			What: "requests inside by Little's law: the highest goodput, times what a lone " +
				"request takes",
			Value: fmt.Sprintf("%s × %s = %s", rate(p.reached), span(p.alone),
				number(p.reached*p.alone)),
		},
		{
			What: "time of a request, at half of the line, at it and beyond",
			Value: span(e.Half.Service()) + ", " + span(e.AtLine.Service()) + ", " +
				span(e.Over.Service()),
		},
		{
			What: "use of the processors that it may use, and of the machine",
			Value: percent(e.busy(targetProcessor)) + ", " +
				percent(e.busy(hostProcessor)),
		},
	}
	if q := p.queue; q != nil {
		facts = append(facts, Fact{
			What: "goroutines that wait there, at half of the line and at the most; " +
				"and that serve a request elsewhere",
			Value: fmt.Sprintf("%s and %s; %s", number(q.atHalf), number(q.waiting),
				number(q.inside)),
		})
	}
	if p.asks {
		asked := e.whileCrowded(measure.OutgoingWaiting+p.to, farMoreInside*p.toThere)
		facts = append(facts, Fact{
			What: "connections to " + e.named(p.to) + " on which an answer is waited for while four " +
				"times as many requests are under way, or more: on average and at most; connections there",
			Value: fmt.Sprintf("%s, %s; %s", number(asked.mean()), number(asked.most),
				number(e.fromTheLineOn(measure.OutgoingTo+p.to).most)),
		})
	} else if p.crowded {
		facts = append(facts, Fact{
			What: "connections to " + e.named(p.to) + " while over four times as many requests are " +
				"under way; at most from the line on",
			Value: fmt.Sprintf("%s; %s", number(p.toThere),
				number(e.fromTheLineOn(measure.OutgoingTo+p.to).most)),
		})
	} else if p.atTimes {
		facts = append(facts, Fact{
			What: "connections to " + e.named(p.to) + " in all steps from the line on; " +
				"most requests under way at once",
			Value: fmt.Sprintf("%s; %s", number(p.toThere), number(e.mostInFlight())),
		})
	} else if p.to != "" {
		facts = append(facts, Fact{
			What: "connections to " + e.named(p.to) + " in all steps from the line on; " +
				"requests under way beyond it",
			Value: fmt.Sprintf("%s; %s", number(p.toThere), number(e.Over.inFlight())),
		})
	}
	if s := e.station(); s != nil {
		facts = append(facts, Fact{
			What: "requests that it serves at a time, from how they delay each other",
			Value: fmt.Sprintf("%d (%d to %d), for %s each: %s at most", s.Workers, s.WorkersLow,
				s.WorkersHigh, span(s.Service), rate(float64(s.Workers)/s.Service)),
		})
	}
	return append(facts, e.standFacts()...)
}

// goesOut reports whether at least half of the requests inside may wait for others over
// connections, or whether that is not known. With many requests inside, a connection or two that
// the service keeps, for its logs for example, are not enough.
func (e *Evidence) goesOut(n float64) bool {
	open := e.fromTheLineOn(measure.TargetOutgoingEstablished)
	return open.count == 0 || open.most >= max(n/2, 1) || e.asksOnOne()
}

// asksOnOne reports whether each request asks a service, and not a store, on a connection that carries
// many requests at once, as those of HTTP/2 and gRPC do.
func (e *Evidence) asksOnOne() bool {
	const mostly = .7
	return slices.ContainsFunc(e.dependencies(), func(d dependency) bool {
		open := e.fromTheLineOn(measure.OutgoingTo + d.address).most
		return d.store() == nil && open > 0 && e.carriesMany(d.address, open) &&
			e.exchanged(d.address, nearLine).each() >= mostly
	})
}

// wider returns what to do about a limit: at its place, if that is known, and by the runtime's own
// settings.
func (e *Evidence) wider(p *places) (all []Action) {
	switch {
	case p.queue != nil:
		all = append(all, p.queue.place.widens)
	case p.asks:
		all = append(all, Action{
			Text: fmt.Sprintf("let more requests ask %s at once: look for a lock that is held while "+
				"it is asked (a mutex, synchronized, a middleware that lets one in), a semaphore, "+
				"or few threads or workers; its connections wait for work meanwhile", e.named(p.to)),
		})
	case p.to != "" && p.n == 1:
		all = append(all, Action{
			Text: fmt.Sprintf("one request at a time asks %s: look for a lock that is held while "+
				"it is asked (synchronized, a mutex, a queue with one worker), and hold it only "+
				"around what has to be alone; or for a pool of one connection", e.named(p.to)),
		})
	case p.to != "":
		all = append(all, Action{
			Text: fmt.Sprintf("let the pool of connections to %s be larger, as far as what "+
				"answers there can serve them: look for its size (maximum, pool size, "+
				"connections per host); or for what bounds the calls at once, such as a "+
				"semaphore, a bounded executor or workers", e.named(p.to)),
		})
	}
	if p.queue == nil {
		all = append(all, e.runtime().widens...)
		all = append(all, e.standAdvice()...)
	}
	if p.queue != nil && onlyHolds(p) || p.queue == nil && p.to == "" {
		all = append(all, Action{
			Text: "or have each hold its place for less: only while it uses what the place " +
				"stands for",
		})
	}
	return append(all, Action{
		Text: fmt.Sprintf("by Little's law %s at most: for twice "+
			"the rate there have to be twice as many, or each has to be held half as long",
			p.carry()),
	})
}

// carry returns text such as "4 places of 2 ms each carry 2,000 requests a second".
func (p *places) carry() string {
	each, all := span(p.n/p.reached), rate(p.reached)
	if p.n == 1 {
		return fmt.Sprintf("1 place of %s carries %s", each, all)
	}
	return fmt.Sprintf("%.0f places of %s each carry %s", p.n, each, all)
}

// onlyHolds reports whether the service's own code holds the place, so that it may hold it for less
// time.
func onlyHolds(p *places) bool {
	return slices.Contains([]string{"a place in a channel", "a semaphore", aLock},
		p.queue.place.what)
}

// kindGoroutine is the name of the goroutine profiles' files.
const kindGoroutine = "goroutine"
