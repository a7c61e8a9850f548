package load

import (
	"fmt"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/reactor"
)

// part is what one loop counted in one window, or in several that it could not pass on in time. It
// belongs to the loop while it is filled and to the collector from then on, until that gives it
// back. A loop has a few of them, used in turn, so that recording allocates nothing and never
// waits.
type part struct {
	loop              int
	from, to          int64 // numbers of the windows, to not included; endOfRun in the last one
	due, sent         uint64
	tally             measure.Tally
	waiting, inFlight int
	in, out           uint64
	response, service measure.Histogram
	lag               measure.Histogram
}

// partsPerLoop is how many parts a loop has: one that it fills, one on its way, and one for when
// the collector is late.
const partsPerLoop = 3

// endOfRun is the end of a loop's last part.
const endOfRun = never

// reset makes a part ready to be filled.
func (p *part) reset() {
	p.response.Reset()
	p.service.Reset()
	p.lag.Reset()
	p.due, p.sent, p.in, p.out, p.waiting, p.inFlight = 0, 0, 0, 0, 0, 0
	p.tally = measure.Tally{}
}

// turnPage begins another window if its time has come, before anything is counted that belongs to
// it.
func (w *worker) turnPage() {
	if at := min(w.now, w.next); at >= w.flipAt {
		w.flip(at)
	}
}

// flip passes the window on that is over and begins the one that at lies in; no arrival from before
// at may come any more. The windows end with the load: what is in flight when the last request has
// begun counts in the last of them.
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
		// The collector is behind. The window goes on, and its length will tell.
	}
}

// passLast hands in the last part.
func (w *worker) passLast() {
	w.part.to = endOfRun
	w.run.full <- w.part
	w.part = nil
}

// tally is what a worker counts over the whole run.
type tally struct {
	made, reused, resumed uint64
	closing               uint64 // answers that end their connection
	drained               uint64 // requests that ended OK when load was not offered any more
	arrivals, late        uint64
	peak                  int
	allowed               int    // streams of HTTP/2 that a connection may carry at once, at least
	kinds                 []kind // of the script's names; nil when there is only one
	atSend                [measure.MostFound + 1]concurrencyAtSend
	examples              [measure.Kinds]string
	openError             error // the first attempt that failed
	ownLimit              error // an attempt that failed because this machine lacked resources
	failedOpening         int   // attempts that failed before the run
	finished              int64 // Clock when the last request had ended
	cpu, wall, waited     int64 // while the run went on, in nanoseconds
}

// kind is the counts of one kind of request.
type kind struct {
	tally    measure.Tally
	response *measure.Histogram // nil until the first one
}

// concurrencyAtSend is the service times, in nanoseconds, of requests that found equally many
// others in flight.
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

// ended counts a request that ended, with its response and service time in nanoseconds.
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

// exampleBytes is the longest text of an example.
const exampleBytes = 200

// example keeps what the first failure of a kind looked like.
func (w *worker) example(k measure.Kind, text string, err error) {
	if w.examples[k] != "" {
		return
	}
	if err != nil {
		text = fmt.Sprintf("%s: %v", text, err)
	}
	w.examples[k] = printable(text)
}

// printable is a text's first bytes, with what a terminal could take for a command left out.
func printable(text string) string {
	b := []byte(text[:min(len(text), exampleBytes)])
	for i, c := range b {
		if c < ' ' || c > '~' {
			b[i] = '?'
		}
	}
	return string(b)
}

// startCost and endCost bracket what the run costs the loop.
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
