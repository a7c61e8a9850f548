package remote

import (
	"errors"

	"plimsoll/internal/lab/measure"
)

// windows joins the generators' windows in order. A window of the whole load is made once all
// generators still running have sent theirs for that time. If one of them is longer, as a last
// window is, those of the others are added up to its length.
type windows struct {
	length  int64 // of a regular window, in nanoseconds
	of      []part
	observe func(*measure.Window) // nil if nobody needs them
}

// part is one generator's windows.
type part struct {
	waiting []*measure.Window
	next    int64 // when the next one starts
	over    bool  // no more will come
}

// mostBehind is how many windows one generator may be behind another: 15 s of regular windows.
const mostBehind = 60

// add takes a window of one of the generators. It returns an error if the window makes no sense.
func (w *windows) add(from int, win *measure.Window) error {
	p := &w.of[from]
	if p.over {
		return errors.New("a window comes after the last one")
	}
	if err := checkWindow(win, p.next); err != nil {
		return err
	}
	p.next = win.End()
	p.waiting = append(p.waiting, win)
	// Only the last window ends between two edges.
	p.over = p.next%w.length != 0
	w.merge()
	return nil
}

// behind returns the generator that the others have waited for too long; ok is false if there is
// none.
func (w *windows) behind() (slowest int, ok bool) {
	longest := 0
	for i := range w.of {
		longest = max(longest, len(w.of[i].waiting))
		if p := &w.of[i]; !p.over && p.next < w.of[slowest].next || w.of[slowest].over {
			slowest = i
		}
	}
	return slowest, longest > mostBehind && !w.of[slowest].over
}

// end is called when a generator has no more windows.
func (w *windows) end(from int) {
	w.of[from].over = true
	w.merge()
}

// merge makes all windows that are complete.
func (w *windows) merge() {
	for {
		count, until := w.ready()
		if until == 0 {
			return
		}
		w.make(count, until)
	}
}

// ready returns how many windows of each generator make up the next one, and its end; 0 if it is
// not complete.
func (w *windows) ready() (count []int, until int64) {
	count = make([]int, len(w.of))
	for changed := true; changed; {
		changed = false
		for i := range w.of {
			p := &w.of[i]
			for count[i] == 0 || w.edge(p.waiting[count[i]-1]) < until {
				if count[i] == len(p.waiting) {
					if !p.over {
						return nil, 0
					}
					break
				}
				until = max(until, w.edge(p.waiting[count[i]]))
				count[i]++
				changed = true
			}
		}
	}
	return count, until
}

// edge is the end of a window on the common grid: a last window ends with its last request, and
// those of the others continue to the next edge.
func (w *windows) edge(win *measure.Window) int64 {
	return (win.End() + w.length - 1) / w.length * w.length
}

// make adds up the first count windows of each generator.
func (w *windows) make(count []int, until int64) {
	var sum measure.Window
	var response, service, lag measure.Histogram
	first, end, open := true, int64(0), false
	for i, n := range count {
		p := &w.of[i]
		for j, win := range p.waiting[:n] {
			if first || win.Start < sum.Start {
				sum.Start = win.Start
			}
			first, end = false, max(end, win.End())
			sum.Due += win.Due
			sum.Sent += win.Sent
			sum.Ended.Add(&win.Ended)
			sum.BytesIn += win.BytesIn
			sum.BytesOut += win.BytesOut
			response.MergeSparse(&win.Response)
			service.MergeSparse(&win.Service)
			lag.MergeSparse(&win.Lag)
			if j == n-1 {
				sum.Waiting += win.Waiting
				sum.InFlight += win.InFlight
			}
		}
		p.waiting = p.waiting[n:]
		open = open || !p.over || len(p.waiting) > 0
	}
	if open {
		end = until // the next window starts there
	}
	sum.Length = end - sum.Start
	sum.Response, sum.Service, sum.Lag = response.Sparse(), service.Sparse(), lag.Sparse()
	if w.observe != nil {
		w.observe(&sum)
	}
}
