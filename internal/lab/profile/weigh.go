package profile

import (
	"cmp"
	"slices"
)

// least is the share of the whole below which a function or a node is not listed.
const least = .001

// Classify divides a kind's weight among classes. class returns the class of a stack, which it gets
// with the leaf first and must not keep. Every stack is in exactly one class. The weights are those
// of Total.
func (p *Profile) Classify(kind string, class func(stack []Frame) string) map[string]float64 {
	sums := map[string]float64{}
	var frames []Frame
	for _, s := range p.weighed(kind) {
		frames = p.stack(s.frames, frames)
		sums[class(frames)] += s.weight
	}
	return sums
}

// Top returns the n heaviest places, the heaviest first. choose returns the frame of a stack that
// its weight counts for, as FirstUser and Started do. If it returns false, the stack counts for no
// frame. choose gets the stack with the leaf first and must not keep it. Shares are of the whole
// kind.
func (p *Profile) Top(kind string, choose func(stack []Frame) (Frame, bool), n int) []Place {
	var frames []Frame
	var of tally
	for _, s := range p.weighed(kind) {
		frames = p.stack(s.frames, frames)
		of.total += s.weight
		if f, ok := choose(frames); ok {
			of.add(f, s.weight)
		}
	}
	all := of.places(kind)
	return all[:min(max(n, 0), len(all))]
}

// Leaf chooses the function that was itself running, or waiting.
func Leaf(stack []Frame) (Frame, bool) {
	if len(stack) == 0 {
		return Frame{}, false
	}
	return stack[0], true
}

// FirstUser chooses the frame nearest to the leaf that is in the service's code: the caller of what
// Go's library then did. If the compiler wrapped a deferred call in a function, it chooses the
// function with the defer statement.
func FirstUser(stack []Frame) (Frame, bool) {
	for _, f := range stack {
		if User(f) {
			f.Function = unwrapped(f.Function)
			return f, true
		}
	}
	return Frame{}, false
}

// Started chooses the function at the root, which a go statement started. If the compiler wrapped
// the call in a function, it chooses the function with the go statement.
func Started(stack []Frame) (Frame, bool) {
	for _, f := range slices.Backward(stack) {
		if f.Function != "runtime.goexit" && f.Function != "runtime.main" {
			f.Function = unwrapped(f.Function)
			return f, true
		}
	}
	return Frame{}, false
}

// Cumulative returns each function's share of a kind, including everything that it calls, the
// largest first. A function counts once per stack, even if it is in the stack several times.
// Functions with less than a thousandth are left out.
func (p *Profile) Cumulative(kind string) []Place {
	// Frames are looked up once and not per stack: some ten thousand stacks have some hundred
	// frames each.
	ids, functions := make([]int, len(p.frames)), map[function]int{}
	for i, f := range p.frames {
		key := keyOf(f)
		if _, ok := functions[key]; !ok {
			functions[key] = len(functions)
		}
		ids[i] = functions[key]
	}
	seenIn, weights := make([]int, len(functions)), make([]float64, len(p.frames))
	var of tally
	for i, s := range p.weighed(kind) {
		of.total += s.weight
		for _, id := range s.frames {
			if at := &seenIn[ids[id]]; *at != i+1 {
				*at = i + 1
				weights[id] += s.weight
			}
		}
	}
	for i, weight := range weights {
		if weight > 0 {
			of.add(p.frames[i], weight)
		}
	}
	all := of.places(kind)
	return slices.DeleteFunc(all, func(at Place) bool { return at.Share < least })
}

// function identifies the function that lines belong to.
type function struct{ name, file string }

func keyOf(f Frame) function { return function{f.Function, f.File} }

// tally adds up weight by function and by line.
type tally struct {
	total     float64
	functions map[function]float64
	lines     map[Frame]float64
}

func (t *tally) add(f Frame, weight float64) {
	if t.functions == nil {
		t.functions, t.lines = map[function]float64{}, map[Frame]float64{}
	}
	t.functions[keyOf(f)] += weight
	t.lines[f] += weight
}

// places returns the functions, the heaviest first, each at its heaviest line.
func (t *tally) places(kind string) []Place {
	at := map[function]Frame{}
	for f, weight := range t.lines {
		best, ok := at[keyOf(f)]
		if heaviest := t.lines[best]; !ok || weight > heaviest ||
			weight == heaviest && f.Line < best.Line {
			at[keyOf(f)] = f
		}
	}
	of := inWords[kind].of
	if of == "" {
		of = "of " + kind
	}
	var all []Place
	for key, weight := range t.functions {
		all = append(all, Place{
			Function: key.name,
			File:     key.file,
			Line:     at[key].Line,
			Share:    min(1, weight/t.total),
			Of:       of,
		})
	}
	slices.SortFunc(all, func(a, b Place) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Function, b.Function),
			cmp.Compare(a.File, b.File))
	})
	return all
}
