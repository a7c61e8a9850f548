package load

import "plimsoll/internal/lab/measure"

// collector puts the loops' parts of each window together, gives the windows to Observe in order,
// and adds everything up. It is one goroutine. Parts go back to their loops before Observe is
// called, so that a slow one delays windows and no load.
type collector struct {
	full   <-chan *part
	spare  []chan *part
	queue  [][]*part // parts of each loop that wait for the other loops'
	window int64
	// observe is given each window, nil when nobody needs them; end is when the run ended, for the
	// last window, and is called then only.
	observe func(*measure.Window)
	end     func() int64

	due, sent, in, out     uint64
	ended                  measure.Tally
	response, service, lag measure.Histogram
	// of the window that is being put together
	windowResponse, windowService, windowLag measure.Histogram
}

// run ends when full is closed and everything has been added up.
func (c *collector) run() {
	for p := range c.full {
		c.queue[p.loop] = append(c.queue[p.loop], p)
		for c.next() {
		}
	}
}

// next makes a window of parts that cover the same time on all loops, and says whether there were
// such. A loop that could not pass its windows on in time has a longer part, and the others' parts
// are added up to the same length.
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

// merge adds up the first parts of each loop, as many as count says.
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
		// A run that is stopped as it starts ends in its first instant: a window in which nothing
		// happened is none, and no window is without length.
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
