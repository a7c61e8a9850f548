package heap_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/internal/lab/heap"
)

type number int

func (a number) Before(b number) bool { return a < b }

func TestWhatComesFirstIsOnTopWhateverIsPushedAndPopped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h heap.Heap[number]
		var model []number
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				v := number(rapid.IntRange(0, 20).Draw(t, "v"))
				h.Push(v)
				model = append(model, v)
				slices.Sort(model)
			},
			"pop": func(t *rapid.T) {
				if len(model) == 0 {
					return
				}
				if got := h.Pop(); got != model[0] {
					t.Fatalf("popped %d, want %d", got, model[0])
				}
				model = model[1:]
			},
			"": func(t *rapid.T) {
				if h.Len() != len(model) || len(model) > 0 && *h.Top() != model[0] {
					t.Fatalf("%d on top of %d, want %v", h.Top(), h.Len(), model)
				}
			},
		})
	})
}

func TestPushAndPopDoNotAlloc(t *testing.T) {
	var h heap.Heap[number]
	for i := range number(100) {
		h.Push(i)
	}
	if n := testing.AllocsPerRun(100, func() { h.Push(h.Pop()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
