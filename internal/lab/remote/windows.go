package remote

import (
	"errors"

	"plimsoll/internal/lab/measure"
)

// windows puts the generators' windows together, in order. A window of the whole is made once all who
// go on have told theirs of that time; where one of them is longer, as the last one is, the others'
// are added up to its length.
type windows struct {
	length  int64 // of a usual window, in nanoseconds
	of      []part
	observe func(*measure.Window) // nil when nobody needs them
}

// part is one generator's windows.
type part struct {
	waiting []*measure.Window
	next    int64 // when the next one starts
	over    bool  // no more come
}

// mostBehind is by how many windows one generator may be behind another: 15 s of the usual ones.
const mostBehind = 60

// add takes a window of one of the generators. Its error says that the window makes no sense, or that
// others are too far behind.
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
	// Only the last one ends between two edges.
	p.over = p.next%w.length != 0
	w.merge()
	return nil
}

// behind is the generator that others are waiting for for too long; ok is false when there is none.
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

// end says that one of the generators has no more.
func (w *windows) end(from int) {
	w.of[from].over = true
	w.merge()
}

// merge makes the windows that can be made.
func (w *windows) merge() {
	for {
		count, until := w.ready()
		if until == 0 {
			return
		}
		w.make(count, until)
	}
}

// ready is how many windows of each generator make the next one, and when that ends; 0 is never.
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

// edge is the end of a window on the grid of all: a last window ends where its last request did, and
// the others' go on until the next edge.
func (w *windows) edge(win *measure.Window) int64 {
	return (win.End() + w.length - 1) / w.length * w.length
}

// make adds up the first windows of each generator, as many as count says.
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
		end = until // the next one begins there
	}
	sum.Length = end - sum.Start
	sum.Response, sum.Service, sum.Lag = response.Sparse(), service.Sparse(), lag.Sparse()
	if w.observe != nil {
		w.observe(&sum)
	}
}
