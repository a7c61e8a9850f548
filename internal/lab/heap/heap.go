// Package heap is a priority queue: what comes first is on top. It knows nothing of what it holds.
//
// container/heap would do, but it costs too much: it holds values as any, and allocates for each
// value that is pushed. The generator's loops and the simulations push one for every request.
package heap

// Ordered values know which of two comes first.
type Ordered[T any] interface{ Before(T) bool }

// Heap is a binary heap. The zero value is empty and ready. It has one owner, and keeps its memory.
type Heap[T Ordered[T]] struct{ items []T }

// Len is how many values it holds.
func (h *Heap[T]) Len() int { return len(h.items) }

// Top is the value that comes first; there is one.
func (h *Heap[T]) Top() *T { return &h.items[0] }

// Push adds a value.
func (h *Heap[T]) Push(v T) {
	h.items = append(h.items, v)
	i := len(h.items) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !v.Before(h.items[up]) {
			break
		}
		h.items[i] = h.items[up]
		i = up
	}
	h.items[i] = v
}

// Pop takes out the value that comes first; there is one.
func (h *Heap[T]) Pop() T {
	top, last := h.items[0], len(h.items)-1
	v := h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	if last == 0 {
		return top
	}
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && h.items[child+1].Before(h.items[child]) {
			child++
		}
		if !h.items[child].Before(v) {
			break
		}
		h.items[i] = h.items[child]
		i = child
	}
	h.items[i] = v
	return top
}
