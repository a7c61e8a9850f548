package load

import (
	"cmp"
	"slices"
	"time"

	"plimsoll/internal/lab/measure"
)

// Outcome is the counts of the loops of a run, or of a part of one. Outcomes of parts add up
// exactly, and the results of the whole run are computed from their sum. Times are nanoseconds
// since the run's start.
type Outcome struct {
	Due      uint64         `json:"due"`
	Sent     uint64         `json:"sent"`
	Ended    measure.Tally  `json:"ended"`
	BytesIn  uint64         `json:"bytes_received"`
	BytesOut uint64         `json:"bytes_sent"`
	Response measure.Sparse `json:"response"`
	Service  measure.Sparse `json:"service"`
	Lag      measure.Sparse `json:"lag"`
	Made     uint64         `json:"connections_made"`
	Reused   uint64         `json:"connections_reused"`
	Resumed  uint64         `json:"sessions_resumed"`
	Closing  uint64         `json:"responses_that_close"`
	Drained  uint64         `json:"drained"`
	// Arrivals is how many arrivals were begun, Late how many of them the loops took too late.
	Arrivals uint64 `json:"arrivals"`
	Late     uint64 `json:"late"`
	Peak     int    `json:"peak_in_flight"`
	Streams  int    `json:"streams_per_connection"`
	// Requests are the totals by kind of request if the script has several kinds; otherwise nil.
	Requests          []measure.RequestTotals     `json:"requests"`
	ConcurrencyAtSend []measure.ConcurrencyAtSend `json:"concurrency_at_send"`
	Examples          map[string]string           `json:"examples"`
	// Server is the Server field of one of the first answers; empty if they had none.
	Server string `json:"server,omitempty"`
	// LastDue is when the last arrival was due, Finished when the last request had ended.
	LastDue  int64 `json:"last_due_ns"`
	Finished int64 `json:"finished_ns"`
	// Exhausted reports that the schedules had no more arrivals. Cut is when the run was ended
	// early; 0 if it was not.
	Exhausted bool  `json:"exhausted"`
	Cut       int64 `json:"cut_ns"`
	// OwnLimit is what the generator's machine ran out of; empty if nothing.
	OwnLimit string  `json:"own_limit"`
	Loops    int     `json:"loops"`
	CPU      int64   `json:"cpu_ns"`
	Busy     float64 `json:"busy_share"`
}

// outcome adds up the run. The loops and the collector must have ended.
func (r *run) outcome(c *collector, start int64) *Outcome {
	o := &Outcome{
		Due:       c.due,
		Sent:      c.sent,
		Ended:     c.ended,
		BytesIn:   c.in,
		BytesOut:  c.out,
		Response:  c.response.Sparse(),
		Service:   c.service.Sparse(),
		Lag:       c.lag.Sparse(),
		Examples:  map[string]string{},
		Exhausted: true,
		Loops:     len(r.workers),
	}
	for _, w := range r.workers {
		w.addTo(o, start)
	}
	o.Requests, o.ConcurrencyAtSend = r.requests(), r.atSend()
	return o
}

// addTo adds what only the worker has counted.
func (w *worker) addTo(o *Outcome, start int64) {
	o.Made += w.made
	o.Reused += w.reused
	o.Resumed += w.resumed
	o.Closing += w.closing
	o.Drained += w.drained
	o.Arrivals += w.arrivals
	o.Late += w.late
	o.Peak += w.peak
	o.Streams = fewer(o.Streams, w.allowed)
	o.LastDue = max(o.LastDue, w.lastDue-start)
	o.Finished = max(o.Finished, w.finished-start)
	o.Exhausted = o.Exhausted && w.exhausted
	if w.cut {
		o.Cut = sooner(o.Cut, max(w.end-start, 1))
	}
	if w.ownLimit != nil && o.OwnLimit == "" {
		o.OwnLimit = w.ownLimit.Error()
	}
	o.Server = cmp.Or(o.Server, w.server)
	o.CPU += w.cpu
	if w.wall > 0 {
		o.Busy = max(o.Busy, 1-float64(w.waited)/float64(w.wall))
	}
	for k, text := range w.examples {
		if name := measure.Kind(k).String(); text != "" && o.Examples[name] == "" {
			o.Examples[name] = text
		}
	}
}

// Add adds the outcome of another part of the same run.
func (o *Outcome) Add(p *Outcome) {
	o.Due += p.Due
	o.Sent += p.Sent
	o.Ended.Add(&p.Ended)
	o.BytesIn += p.BytesIn
	o.BytesOut += p.BytesOut
	o.Response = measure.Merged(&o.Response, &p.Response)
	o.Service = measure.Merged(&o.Service, &p.Service)
	o.Lag = measure.Merged(&o.Lag, &p.Lag)
	o.Made += p.Made
	o.Reused += p.Reused
	o.Resumed += p.Resumed
	o.Closing += p.Closing
	o.Drained += p.Drained
	o.Arrivals += p.Arrivals
	o.Late += p.Late
	o.Peak += p.Peak
	o.Streams = fewer(o.Streams, p.Streams)
	o.LastDue, o.Finished = max(o.LastDue, p.LastDue), max(o.Finished, p.Finished)
	o.Exhausted, o.Cut = o.Exhausted && p.Exhausted, sooner(o.Cut, p.Cut)
	o.OwnLimit = cmp.Or(o.OwnLimit, p.OwnLimit)
	o.Server = cmp.Or(o.Server, p.Server)
	o.Loops += p.Loops
	o.CPU += p.CPU
	o.Busy = max(o.Busy, p.Busy)
	for i := range min(len(o.Requests), len(p.Requests)) {
		o.Requests[i].Ended.Add(&p.Requests[i].Ended)
		o.Requests[i].Response = measure.Merged(&o.Requests[i].Response, &p.Requests[i].Response)
	}
	o.addAtSend(p.ConcurrencyAtSend)
	for kind, text := range p.Examples {
		if o.Examples[kind] == "" {
			o.Examples[kind] = text
		}
	}
}

// addAtSend keeps the ascending order.
func (o *Outcome) addAtSend(more []measure.ConcurrencyAtSend) {
	for _, c := range more {
		at, found := slices.BinarySearchFunc(o.ConcurrencyAtSend, c.Found,
			func(x measure.ConcurrencyAtSend, n int) int { return cmp.Compare(x.Found, n) })
		if !found {
			o.ConcurrencyAtSend = slices.Insert(o.ConcurrencyAtSend, at, c)
			continue
		}
		x := &o.ConcurrencyAtSend[at]
		x.Count, x.Sum, x.Squares = x.Count+c.Count, x.Sum+c.Sum, x.Squares+c.Squares
	}
}

// fewer returns the smaller of two numbers of streams. 0 means HTTP/1.1, or that nothing was
// opened.
func fewer(a, b int) int {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// sooner returns the earlier of two times; 0 means never.
func sooner(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Totals returns the results of a whole run with the options of.
func (o *Outcome) Totals(of *Options) *measure.Totals {
	t := &measure.Totals{
		Length:            o.length(of.Duration),
		Due:               o.Due,
		Sent:              o.Sent,
		Ended:             o.Ended,
		Drained:           o.Drained,
		BytesIn:           o.BytesIn,
		BytesOut:          o.BytesOut,
		Response:          o.Response,
		Service:           o.Service,
		Lag:               o.Lag,
		ConnectionsMade:   o.Made,
		Reused:            o.Reused,
		Resumed:           o.Resumed,
		Closing:           o.Closing,
		Streams:           o.Streams,
		Peak:              o.Peak,
		Requests:          o.Requests,
		ConcurrencyAtSend: o.ConcurrencyAtSend,
		Examples:          o.Examples,
		Server:            o.Server,
	}
	if names := of.Script.Names(); len(names) == 1 {
		t.Requests = []measure.RequestTotals{{Name: names[0], Ended: o.Ended, Response: o.Response}}
	}
	t.Drain = max(0, o.Finished-t.Length)
	open := of.Arrivals != nil || of.Offered != nil
	t.Generator = measure.Generator{
		Loops:   o.Loops,
		CPU:     o.CPU,
		Busy:    o.Busy,
		Invalid: o.invalid(open, of.Lateness),
	}
	if !open {
		t.Generator.Full = wholeCore(o.Busy)
	}
	return t
}

// length returns how long load was offered, in nanoseconds. A schedule that has no more arrivals
// before the run's duration is over was not necessarily shorter: a gap of a few mean distances at
// its end is chance.
func (o *Outcome) length(duration time.Duration) int64 {
	const gaps = 10
	length, full := o.LastDue, int64(duration)
	if full > 0 &&
		(!o.Exhausted || o.Arrivals > 0 && full-length <= gaps*length/int64(o.Arrivals)) {
		length = full
	}
	if o.Cut > 0 && (!o.Exhausted || o.Cut < length) {
		length = o.Cut
	}
	return length
}
