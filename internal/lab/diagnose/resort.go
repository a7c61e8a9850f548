package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

const (
	// takesLonger is how many times as long a request takes when requests queue somewhere.
	takesLonger = 1.5
	// stillGrows is the largest ratio of the goodput beyond the line to that at the line. A service
	// with a higher ratio is far from its limit, and only slower than the objectives.
	stillGrows = 1.6
)

// queues reports whether requests queue somewhere: they take longer with more of them inside, while
// hardly more of them end.
func (e *Evidence) queues() bool {
	half := e.Half.Service()
	return half > 0 && max(e.AtLine.Service(), e.Over.Service()) >= takesLonger*half &&
		e.Over.Goodput() <= stillGrows*e.AtLine.Goodput()
}

// leastFull is the minimum share of one place that lone requests take at the highest goodput if
// requests queue for it. With less, only a tail of the requests waits, and for something else.
const leastFull = .3

// mostWait reports whether most requests wait, and not only a tail of them: beyond the line they take
// far longer, and no more of them end than at the line. A limit on the rate has hardly any inside. It
// may space requests evenly: then its queue is too long well before it is reached, as that of a
// processor is, so the service must be far from using one.
func (e *Evidence) mostWait(p *places) bool {
	const farLonger, idle = 4, .6
	noMore := 1.15
	if e.AtLine.Has(measure.TargetCPU) &&
		max(e.AtLine.PerSecond(measure.TargetCPU), e.Over.PerSecond(measure.TargetCPU)) <= idle {
		noMore = stillGrows
	}
	return e.Over.Service() >= farLonger*p.alone &&
		e.Over.Goodput() <= noMore*e.AtLine.Goodput()
}

// keptFor is the finding that threads are held by clients which send nothing. Requests on other
// connections then wait for a thread, however little there is to do.
func (e *Evidence) keptFor(p *places) *Finding {
	s := e.keepers()
	if s == nil {
		return nil
	}
	threads := max(s.atLine, s.over)
	f := &Finding{
		Claim: fmt.Sprintf("Requests wait for a thread though the processors have room: %s threads "+
			"%q wait for their clients, for the next request on a connection that is kept",
			number(threads), s.thread),
		Rank:       Binding,
		Confidence: .6,
		Evidence:   e.concurrencyFacts(p),
		Gain:       e.gain(cure{}),
		Advice: []Action{{
			Text: "let connections that wait for a request hold no thread: close them after each " +
				"response, or put a proxy in front that keeps them and has few of its own to the " +
				"service; or have as many threads as clients keep connections",
		}},
	}
	if e.Run.Manifest.Machine.TargetRuntime == measure.RuntimeRuby {
		f.Advice = append(f.Advice, Action{
			Text: "Puma up to version 6 keeps a thread on a connection for 0.2 s after each " +
				"response: have it close them, or a later version",
			Command: "enable_keep_alives false   # in puma.rb, since 6.5; before: " +
				"queue_requests false",
		})
	}
	return f
}

// mostlyKept reports whether far more threads wait for their clients than requests are inside, and
// no threads queue elsewhere.
func (e *Evidence) mostlyKept() bool {
	s := e.keepers()
	return s != nil && e.Over != nil && e.crowd() == nil &&
		max(s.atLine, s.over)-s.half >= moreInside*max(e.Over.inFlight(), e.Over.Inside())
}

// room reports whether requests do not wait for processors.
func (e *Evidence) room() bool { return len(e.Reserves) > 0 && !e.waitedFor() }

// crowdsWithin reports whether requests queue in the service, and not at what it asks. A dependency
// that is asked by few requests at a time looks as if it served few at a time. What counts is where
// the crowd grows.
func (e *Evidence) crowdsWithin() bool {
	if p := cmp.Or(e.Over.Profile(kindGoroutine), e.AtLine.Profile(kindGoroutine)); p != nil {
		// A queue in a well-known place has been looked for before.
		doing := p.Classify(profile.Goroutine, handlerState)
		return doing[stateElse] > doing[stateOutside] && !e.helped()
	}
	if e.mostlyKept() || e.triesAgain() != nil {
		return true
	}
	if c := e.crowd(); c != nil {
		return !c.means().waitsThere() && !e.askedSlows() && !e.awaitedByOthers(c) || e.fewAsk() != nil
	}
	n := e.places().n
	return !e.goesOut(n) || e.asksLittle(n) || e.waitsWithin(n)
}

// helped reports whether as many goroutines wait for an answer from outside as half of those that
// serve requests. They then wait on behalf of the requests.
func (e *Evidence) helped() bool {
	p := cmp.Or(e.Over.Profile(kindGoroutine), e.AtLine.Profile(kindGoroutine))
	states := map[string]float64{}
	for key, n := range p.Classify(profile.Goroutine, standing) {
		state, _, _ := strings.Cut(key, " ")
		states[state] += n
	}
	return states[stateHelper] >= max((states[stateWaits]+states[stateServes])/2, 1)
}

// resort is the finding of last resort: requests queue somewhere, the processors have room, and
// nothing more precise was seen. It reports how many requests are inside at a time, how long each
// takes, and where the threads are. If requests queue at what the service asks, another rule
// reports it.
func (e *Evidence) resort(p *places) *Finding {
	turns := e.takesTurns(p)
	if !e.queues() || !e.room() && !turns || !e.crowdsWithin() {
		return nil
	}
	if _, behind := e.saturatedBehind(); behind {
		return nil
	}
	if p.reached*p.alone < leastFull && !e.mostWait(p) || e.mostlyKept() {
		return e.keptFor(p)
	}
	c, few := e.crowd(), (*asking)(nil)
	if c != nil && c.means().waitsThere() {
		few = e.fewAsk()
	}
	f := &Finding{
		Claim: fmt.Sprintf("About %s at once, each for %s, and the others stand in line though the "+
			"processors have room", inside(p.n), span(p.n/p.reached)),
		Rank:       Binding,
		Confidence: .5,
		Evidence:   e.concurrencyFacts(p),
		Gain:       e.gain(cure{}),
		turns:      turns,
	}
	switch {
	case p.queue != nil && len(p.queue.where) > 0 && p.queue.waiting >= 2*p.queue.atHalf:
		f.Claim += e.waitFor(p)
		f.Where, f.Confidence = p.queue.where, .7
	case few != nil:
		f.Claim += e.askWords(few)
		f.Confidence = .7
		f.Evidence = append(f.Evidence, few.facts()...)
	case c != nil:
		f.Claim += ": " + c.words()
		f.Confidence = .6
		f.Evidence = append(f.Evidence, c.facts()...)
		if l := e.waitedLock(c); l != nil {
			f.Claim += l.words()
			f.Evidence = append(f.Evidence, l.facts()...)
			f.Advice = append(f.Advice, l.advice()...)
		}
		for _, m := range []*meaning{c.holds, c.means()} {
			if m != nil && m.look.Text != "" {
				look := m.look
				look.Command = e.filled(look.Command)
				f.Advice = append(f.Advice, look)
			}
		}
	case e.waitsToCompute() && !turns && !e.hardlyComputes(p):
		return nil
	default:
		f.Claim += "; where they stand cannot be seen from outside" + e.suspects()
	}
	f.Evidence = append(f.Evidence, e.askedFacts()...)
	f.Evidence = append(f.Evidence, e.diskFacts()...)
	for _, a := range e.wider(p) {
		if !slices.Contains(f.Advice, a) {
			f.Advice = append(f.Advice, a)
		}
	}
	e.heldOpen(f)
	return f
}

// waitsToCompute reports whether requests queue for a thread's processor time: requests delay each
// other by the time that each computes, or a lone request does little else. An event loop, or a
// worker that computes, has a queue long before all processors are busy. What it computes is then
// the cost of a request, and not a limit on places.
func (e *Evidence) waitsToCompute() bool {
	s := e.station()
	return s != nil && near(s.Service, e.AtLine.PerRequest(measure.TargetCPU), 1.3) ||
		e.computing() >= onlyComputing
}

// takesTurns reports whether requests that compute get one processor together, in many threads, while
// others are idle: most of them wait, and a lock lets one of them in. What they do outside of the lock,
// and trying for it, comes on top. As requests of different sizes wait for it, the line is well before
// it is always taken.
func (e *Evidence) takesTurns(p *places) bool {
	const besides, farLonger = .25, 4
	line, over := e.AtLine.PerSecond(measure.TargetCPU), e.Over.PerSecond(measure.TargetCPU)
	used := max(line, over)
	pool := p.to != "" && p.full >= alwaysTaken
	return e.spread() && !pool && used >= fullCore && used <= 1+besides && over <= stillGrows*line &&
		e.idleProcessors() >= .5 && e.Over.inFlight() >= 8 &&
		e.Over.Service() >= farLonger*p.alone && e.Over.Goodput() <= stillGrows*e.AtLine.Goodput() &&
		(e.computing() >= mostlyTurns || e.waitsWithin(p.n))
}

// mostlyTurns is the minimum share of processor time in a lone request's time if what it holds a lock
// for is to compute, and nothing tells that it waits within. With less, a few workers may use one
// processor by chance.
const mostlyTurns = .8

// hardlyComputes reports whether requests wait although the service has much of even one processor
// left, whatever is asked of it: what a lone request computes is then not what they wait for, but a
// limit on the rate.
func (e *Evidence) hardlyComputes(p *places) bool {
	const left = .6
	used := max(e.AtLine.PerSecond(measure.TargetCPU), e.Over.PerSecond(measure.TargetCPU))
	return e.mostWait(p) && used > 0 && used <= left
}

const (
	// hardlyBusy is the most that a quick store computes, in processors, if requests do not wait for
	// what it computes. moreTries is how many times as often a request then asks beyond the line as at a
	// gentle load, and fewestTries the minimum, if it tries for its turn again and again.
	hardlyBusy, moreTries, fewestTries = .3, 2, 6
)

// triesAgain returns the quick store, with little to do, that each request asks far more often when many
// are under way: for a lock that others hold. It returns nil if there is none.
func (e *Evidence) triesAgain() *repeated {
	for _, d := range e.dependencies() {
		s, to := d.store(), d.address
		gently, beyond := e.exchanged(to, gentle).each(), e.exchanged(to, beyondLine).each()
		if s != nil && s.quick && !d.hop && max(d.used, d.over) <= hardlyBusy && gently > 0 &&
			beyond >= max(moreTries*gently, fewestTries) {
			return &repeated{to, beyond}
		}
	}
	return nil
}

// suspects says what else is known if no thread shows where requests queue.
func (e *Evidence) suspects() string {
	if r := e.triesAgain(); r != nil {
		return fmt.Sprintf(": they try again and again for a lock or a place in %s, %s times for each "+
			"request beyond the line", e.named(r.to), number(r.calls))
	}
	if names := e.asked(); len(names) > 0 {
		return ": a lock, a pool, a semaphore or a sleep around what it asks of " +
			strings.Join(names, ", ")
	}
	return ": a lock, a semaphore, workers or a sleep of its own, as it asks nobody"
}

// asked returns the addresses that the service has connections to, each with the program that
// listens there. It returns at most askedTold of them.
func (e *Evidence) asked() (all []string) {
	seen := map[string]bool{}
	for i := range e.Run.Steps {
		for _, sample := range e.Run.Steps[i].Samples {
			for name, n := range sample.Values {
				if to, is := strings.CutPrefix(name, measure.OutgoingTo); is && n > 0 {
					seen[to] = true
				}
				if to, _, is := behind(name); is {
					seen[to] = true
				}
			}
		}
	}
	for to := range seen {
		all = append(all, e.named(to))
	}
	slices.Sort(all)
	return all[:min(len(all), askedTold)]
}

// askedTold is how many addresses are reported.
const askedTold = 4

// askedFacts returns which addresses are asked.
func (e *Evidence) askedFacts() []Fact {
	names := e.asked()
	if len(names) == 0 {
		return nil
	}
	return []Fact{{What: "what the service has connections to", Value: strings.Join(names, ", ")}}
}

// diskFacts returns what is written for a request, if the disk is busy.
func (e *Evidence) diskFacts() []Fact {
	busy := max(e.AtLine.PerSecond(measure.HostDiskBusy), e.Over.PerSecond(measure.HostDiskBusy))
	if busy < .2 {
		return nil
	}
	return []Fact{{
		What: "share of the time that the machine's disk was busy, and bytes written for a request",
		Value: percent(min(busy, 1)) + ", " +
			size(max(e.AtLine.PerRequest(measure.HostDiskWritten), 0)),
	}}
}

// named returns an address with the program that listens there, as seen on this machine. If it was
// not seen, it names the program that usually has that port.
func (e *Evidence) named(address string) string {
	for i := range e.Run.Steps {
		for _, sample := range e.Run.Steps[i].Samples {
			for name := range sample.Values {
				if at, process, is := behind(name); is && at == address {
					return process + " at " + address
				}
			}
		}
	}
	if usual := usually(address); usual != "" {
		return address + " (usually " + usual + ")"
	}
	return address
}

// usually returns what usually listens on an address; empty if that is not known.
func usually(address string) string {
	if path, is := strings.CutPrefix(address, measure.UnixAddress); is {
		for _, u := range usualPaths {
			if strings.Contains(strings.ToLower(path), u.part) {
				return u.what
			}
		}
		return ""
	}
	return usualPorts[address[strings.LastIndexByte(address, ':')+1:]]
}

// usualPaths are what usually listens on a Unix socket with a word in its path.
var usualPaths = []struct{ part, what string }{
	{".s.pgsql.", "PostgreSQL"}, {"mysql", "MySQL"}, {"mariadb", "MariaDB"}, {"redis", "Redis"},
	{"valkey", "Valkey"}, {"php", "PHP-FPM"}, {"memcached", "memcached"}, {"mongo", "MongoDB"},
}

// usualPorts are what usually listens on a port.
var usualPorts = map[string]string{
	"25":    "a mail server",
	"53":    "a name server",
	"80":    "a web server",
	"443":   "a web server",
	"587":   "a mail server",
	"1433":  "SQL Server",
	"1521":  "Oracle",
	"1883":  "an MQTT broker",
	"2181":  "ZooKeeper",
	"2379":  "etcd",
	"3128":  "a proxy",
	"3306":  "MySQL",
	"389":   "LDAP",
	"4222":  "NATS",
	"4317":  "OpenTelemetry",
	"4318":  "OpenTelemetry",
	"50051": "gRPC",
	"5432":  "PostgreSQL",
	"5672":  "RabbitMQ",
	"5984":  "CouchDB",
	"61616": "ActiveMQ",
	"6379":  "Redis",
	"6432":  "PgBouncer",
	"6650":  "Pulsar",
	"7687":  "Neo4j",
	"8086":  "InfluxDB",
	"8123":  "ClickHouse",
	"8125":  "StatsD",
	"8200":  "Vault",
	"8529":  "ArangoDB",
	"8500":  "Consul",
	"8983":  "Solr",
	"9000":  "PHP-FPM or ClickHouse",
	"9042":  "Cassandra",
	"9092":  "Kafka",
	"9200":  "Elasticsearch",
	"9411":  "Zipkin",
	"11211": "memcached",
	"26257": "CockroachDB",
	"26379": "Redis Sentinel",
	"27017": "MongoDB",
}
