package load

import (
	"fmt"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

// part is one loop's counts for one window, or for several if it could not pass them on in time.
// The loop owns it while filling it, then the collector, until the collector returns it. A loop
// uses a few parts in turn, so that recording never allocates and never waits.
type part struct {
	loop              int
	from, to          int64 // window numbers, to is exclusive; endOfRun in the last part
	due, sent         uint64
	tally             measure.Tally
	waiting, inFlight int
	in, out           uint64
	response, service measure.Histogram
	lag               measure.Histogram
}

// partsPerLoop is the number of parts of a loop: one being filled, one on its way, and one in
// reserve for when the collector is late.
const partsPerLoop = 3

// endOfRun is the to of a loop's last part.
const endOfRun = never

// reset makes a part ready for use.
func (p *part) reset() {
	p.response.Reset()
	p.service.Reset()
	p.lag.Reset()
	p.due, p.sent, p.in, p.out, p.waiting, p.inFlight = 0, 0, 0, 0, 0, 0
	p.tally = measure.Tally{}
}

// turnPage begins another window if its time has come, before anything that belongs to it is
// counted.
func (w *worker) turnPage() {
	if at := min(w.now, w.next); at >= w.flipAt {
		w.flip(at)
	}
}

// flip passes on the window that is over and begins the one that contains at. No arrival from
// before at may follow. Windows end with the load: requests still in flight after the last request
// has begun count in the last window.
func (w *worker) flip(at int64) {
	length := int64(w.run.Window)
	number := (at - w.start) / length
	if w.end < never {
		number = min(number, (w.end-w.start-1)/length)
	}
	w.flipAt = w.start + (number+1)*length
	if number == w.part.from || w.run.exhausted() {
		w.flipAt = never
		return
	}
	select {
	case next := <-w.spare:
		p := w.part
		p.to, p.waiting, p.inFlight = number, w.waiting.count, w.inFlight
		w.part = next
		next.from = number
		w.run.full <- p
	default:
		// The collector is behind. The window goes on; its length shows it.
	}
}

// passLast passes on the last part.
func (w *worker) passLast() {
	w.part.to = endOfRun
	w.run.full <- w.part
	w.part = nil
}

// tally is what a worker counts over the whole run.
type tally struct {
	made, reused, resumed uint64
	closing               uint64 // answers that close their connection
	drained               uint64 // requests that ended OK after the load was over
	arrivals, late        uint64
	peak                  int
	allowed               int    // HTTP/2 streams allowed per connection, the minimum seen
	kinds                 []kind // by the script's names; nil if there is only one
	atSend                [measure.MostFound + 1]concurrencyAtSend
	examples              [measure.Kinds]string
	server                string // the Server field of the first answer
	named                 bool   // there was a first answer
	openError             error  // the first attempt that failed
	ownLimit              error  // an attempt that failed because this machine lacked resources
	failedOpening         int    // failed attempts before the run
	finished              int64  // Clock when the last request had ended
	cpu, wall, waited     int64  // during the run, in nanoseconds
}

// kind holds the counts of one kind of request.
type kind struct {
	tally    measure.Tally
	response *measure.Histogram // nil until the first one
}

// concurrencyAtSend sums up the service times, in nanoseconds, of requests that found the same
// number of other requests in flight.
type concurrencyAtSend struct {
	count        uint64
	sum, squares float64
}

func (c *concurrencyAtSend) add(service int64) {
	s := float64(service)
	c.count++
	c.sum += s
	c.squares += s * s
}

// ended counts a request that ended, with its response and service times in nanoseconds.
func (w *worker) ended(k measure.Kind, name int, response, service int64) {
	w.part.tally[k]++
	if k == measure.OK {
		w.part.response.Record(response)
		w.part.service.Record(service)
		if w.now > w.offeredUntil() {
			w.drained++
		}
	}
	if w.kinds == nil {
		return
	}
	of := &w.kinds[name]
	of.tally[k]++
	if k == measure.OK {
		if of.response == nil {
			of.response = new(measure.Histogram)
		}
		of.response.Record(response)
	}
}

// exampleBytes is the maximum length of an example.
const exampleBytes = 200

// example keeps the first failure of a kind, as text.
func (w *worker) example(k measure.Kind, text string, err error) {
	if w.examples[k] != "" {
		return
	}
	if err != nil {
		text = fmt.Sprintf("%s: %v", text, err)
	}
	w.examples[k] = printable(text)
}

// printable returns the first bytes of a text, with a "?" for each byte that is not printable
// ASCII.
func printable(text string) string {
	b := []byte(text[:min(len(text), exampleBytes)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}

// startCost and endCost measure what the run costs the loop.
func (w *worker) startCost() {
	s := w.loop.Stats()
	w.cpu, w.wall, w.waited = reactor.ThreadCPU(), s.Wall, s.Waited
}

func (w *worker) endCost() {
	w.finished = reactor.Clock()
	for {
		end := w.run.end.Load()
		if w.finished-w.start <= end || w.run.end.CompareAndSwap(end, w.finished-w.start) {
			break
		}
	}
	s := w.loop.Stats()
	w.cpu, w.wall, w.waited = reactor.ThreadCPU()-w.cpu, s.Wall-w.wall, s.Waited-w.waited
}
