package queue

import "slices"

// Times are times in ascending order. The zero value is empty and ready. It must not be used
// concurrently, and keeps its memory.
//
// Requests are served in order of arrival, so what is added mostly belongs near the end. With a heap in
// its place, the fits of internal/loadline take a tenth longer; with slices.Insert alone, a third.
type Times struct {
	at    []int64
	first int
}

// near is how far from its end a list is moved one by one. Further from it, a binary search is quicker.
const near = 16

// Len is how many times there are.
func (t *Times) Len() int { return len(t.at) - t.first }

// First is the earliest time; there is one.
func (t *Times) First() int64 { return t.at[t.first] }

// Drop removes the earliest time; there is one.
func (t *Times) Drop() { t.first++ }

// DropUntil removes the times that are not after now.
func (t *Times) DropUntil(now int64) {
	for t.first < len(t.at) && t.at[t.first] <= now {
		t.first++
	}
}

// Put adds a time. It moves all that are later, of which there may be as many as there are workers.
func (t *Times) Put(at int64) {
	if t.first > 1024 && t.first > len(t.at)/2 {
		t.at = t.at[:copy(t.at, t.at[t.first:])]
		t.first = 0
	}
	t.at = append(t.at, at)
	i := len(t.at) - 1
	for least := max(t.first, i-near); i > least && t.at[i-1] > at; i-- {
		t.at[i] = t.at[i-1]
	}
	if i > t.first && t.at[i-1] > at {
		to, _ := slices.BinarySearch(t.at[t.first:i], at)
		to += t.first
		copy(t.at[to+1:i+1], t.at[to:i])
		i = to
	}
	t.at[i] = at
}
