package load

import "plimsoll/internal/lab/measure"

// collector joins the loops' parts of each window, passes the windows to Observe in order, and adds
// everything up. It is one goroutine. Parts go back to their loops before Observe is called, so
// that a slow Observe delays windows but not the load.
type collector struct {
	full   <-chan *part
	spare  []chan *part
	queue  [][]*part // parts of each loop that wait for those of other loops
	window int64
	// observe is called with each window; it may be nil. end returns when the run ended. It is
	// called only for the last window.
	observe func(*measure.Window)
	end     func() int64

	due, sent, in, out     uint64
	ended                  measure.Tally
	response, service, lag measure.Histogram
	// The window being joined.
	windowResponse, windowService, windowLag measure.Histogram
}

// run returns when full is closed and everything has been added up.
func (c *collector) run() {
	for p := range c.full {
		c.queue[p.loop] = append(c.queue[p.loop], p)
		for c.next() {
		}
	}
}

// next joins parts that cover the same time on all loops into a window, and reports whether it
// could. A loop that could not pass on its windows in time has a longer part; the other loops'
// parts are added up to the same length.
func (c *collector) next() bool {
	count := make([]int, len(c.queue))
	until := int64(0)
	for changed := true; changed; {
		changed = false
		for i, parts := range c.queue {
			for count[i] == 0 || parts[count[i]-1].to < until {
				if count[i] == len(parts) {
					return false
				}
				until = max(until, parts[count[i]].to)
				count[i]++
				changed = true
			}
		}
	}
	c.merge(count, until)
	return true
}

// merge adds up the first count[i] parts of each loop i.
func (c *collector) merge(count []int, until int64) {
	w := &measure.Window{Start: c.queue[0][0].from * c.window}
	for i, n := range count {
		last := c.queue[i][n-1]
		w.Waiting += last.waiting
		w.InFlight += last.inFlight
		for _, p := range c.queue[i][:n] {
			c.add(w, p)
			p.reset()
			c.spare[i] <- p
		}
		c.queue[i] = append(c.queue[i][:0], c.queue[i][n:]...)
	}
	c.due += w.Due
	c.sent += w.Sent
	c.in += w.BytesIn
	c.out += w.BytesOut
	c.ended.Add(&w.Ended)
	c.response.Merge(&c.windowResponse)
	c.service.Merge(&c.windowService)
	c.lag.Merge(&c.windowLag)
	if c.observe != nil {
		w.Response = c.windowResponse.Sparse()
		w.Service = c.windowService.Sparse()
		w.Lag = c.windowLag.Sparse()
		if until == endOfRun {
			until = c.end()
		} else {
			until *= c.window
		}
		// A run that is stopped as it starts ends in its first instant. An empty window without
		// length is dropped, and every other window has a length.
		w.Length = until - w.Start
		if w.Length > 0 || w.Due > 0 || w.Sent > 0 || w.Ended != (measure.Tally{}) {
			w.Length = max(w.Length, 1)
			c.observe(w)
		}
	}
	c.windowResponse.Reset()
	c.windowService.Reset()
	c.windowLag.Reset()
}

func (c *collector) add(w *measure.Window, p *part) {
	w.Due += p.due
	w.Sent += p.sent
	w.BytesIn += p.in
	w.BytesOut += p.out
	w.Ended.Add(&p.tally)
	c.windowResponse.Merge(&p.response)
	c.windowService.Merge(&p.service)
	c.windowLag.Merge(&p.lag)
}
