package kernel

import (
	"cmp"
	"container/heap"
)

// agenda is what will happen, by time. What is due at the same time happens endpoint by endpoint,
// and for each in the order in which it was entered, so that goroutines which use different
// endpoints at once enter the same history in whatever order they run.
type agenda struct {
	entries []entry
	entered uint64
}

type entry struct {
	at    int64
	by    int // the endpoint's number; 0 for none
	order uint64
	do    func()
}

func (a *agenda) Len() int { return len(a.entries) }
func (a *agenda) Less(i, j int) bool {
	x, y := &a.entries[i], &a.entries[j]
	return cmp.Or(
		cmp.Compare(x.at, y.at), cmp.Compare(x.by, y.by), cmp.Compare(x.order, y.order),
	) < 0
}
func (a *agenda) Swap(i, j int) { a.entries[i], a.entries[j] = a.entries[j], a.entries[i] }
func (a *agenda) Push(x any)    { a.entries = append(a.entries, x.(entry)) }
func (a *agenda) Pop() any {
	last := len(a.entries) - 1
	e := a.entries[last]
	a.entries[last] = entry{}
	a.entries = a.entries[:last]
	return e
}

func (a *agenda) enter(at int64, by int, do func()) {
	a.entered++
	heap.Push(a, entry{at, by, a.entered, do})
}

// peek is when the first entry is due; ok is false when nothing will ever happen.
func (a *agenda) peek() (at int64, ok bool) {
	if len(a.entries) == 0 {
		return 0, false
	}
	return a.entries[0].at, true
}

// take removes the first entry.
func (a *agenda) take() func() { return heap.Pop(a).(entry).do }
