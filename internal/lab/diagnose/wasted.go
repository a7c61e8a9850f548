package diagnose

import (
	"path"
	"slices"
	"strings"

	"plimsoll/internal/lab/profile"
)

const (
	// leastWasted is the share of the processor time from which on a kind of waste is a finding,
	// and leastCommon the same for one that honest work has some of too.
	leastWasted, leastCommon = .25, .35
	// mostlyThere is the share of a common waste that has to be in one function.
	mostlyThere = .6
)

// wasted is the kind of waste that most processor time goes to.
type wasted struct {
	*waste
	share float64         // of the processor time at the line
	where []profile.Place // who has it done, those that do the most of it first
	calls string          // what of a library the first of them calls for it; may be empty
}

// wasting finds what of the processor time is waste, whichever functions have it done and however
// many of a library's do it; nil where none is enough for a finding.
func (e *Evidence) wasting() *wasted {
	if e.wastes != nil {
		return e.wastes.found
	}
	e.wastes = &wasteSought{}
	p := e.AtLine.Profile(kindCPU)
	if p == nil || e.Classes == nil {
		return nil
	}
	weights := p.Classify(profile.CPU, func(stack []profile.Frame) string {
		if w := wasteOf(stack); w != nil {
			return w.what
		}
		return ""
	})
	total := max(p.Total(profile.CPU), 1e-12)
	for i := range wastes {
		w := &wastes[i]
		share, least := weights[w.what]/total, leastWasted
		if w.common {
			least = leastCommon
		}
		if best := e.wastes.found; share < least || best != nil && share <= best.share {
			continue
		}
		found := &wasted{waste: w, share: share}
		found.where = p.Top(profile.CPU, func(stack []profile.Frame) (profile.Frame, bool) {
			if wasteOf(stack) != w {
				return profile.Frame{}, false
			}
			at, _ := w.has(stack)
			return at, true
		}, placesTold)
		if w.common && found.where[0].Share < mostlyThere*share {
			continue
		}
		found.calls = found.called(p)
		e.wastes.found = found
	}
	return e.wastes.found
}

// wasteSought is what wasting found, once it has looked.
type wasteSought struct{ found *wasted }

// called is what the first place calls of a library for most of a waste; empty where it is its own
// code, or no one thing.
func (f *wasted) called(p *profile.Profile) string {
	weights := p.Classify(profile.CPU, func(stack []profile.Frame) string {
		if wasteOf(stack) != f.waste {
			return ""
		}
		at, i := f.has(stack)
		if at.Function != f.where[0].Function || i <= 0 {
			return ""
		}
		return stack[i-1].Function
	})
	delete(weights, "")
	all := 0.0
	for _, weight := range weights {
		all += weight
	}
	for name, weight := range weights {
		if weight > all/2 {
			return name
		}
	}
	return ""
}

// wasteIndex knows frames by the wastes.
var wasteIndex = func() (x index) {
	for i, w := range wastes {
		x.add(i, w.functions, w.begins, w.files)
	}
	return x
}()

// wasteOf is the waste that is under way in a stack; nil for none. Of a program of Go only the
// stacks are looked at in which the service's code is; an interpreter's have none where only its
// own functions were seen.
func wasteOf(stack []profile.Frame) *waste {
	class := classOf(stack)
	if class != classOwn && (class != classRuntime || inGo(stack)) {
		return nil
	}
	seen := wasteIndex.among(stack)
	for i := range wastes {
		w := &wastes[i]
		if w.asked && class != classOwn {
			continue
		}
		if seen&(1<<i) != 0 || len(stack) > 0 && slices.Contains(w.searches,
			plainName(stack[0].Function)) || w.is != nil && w.is(stack) {
			return w
		}
	}
	return nil
}

// has finds who has a waste done that is in a stack, and where in the stack that is: the first of
// the service's functions that is not of the library which does it, or that library's own function.
func (w *waste) has(stack []profile.Frame) (at profile.Frame, i int) {
	does, bit := 0, w.bit()
	for j, f := range slices.Backward(stack) {
		if wasteIndex.of(f)&bit != 0 {
			does = j
			break
		}
	}
	for j := does; j < len(stack); j++ {
		f := stack[j]
		if profile.User(f) && (w.is != nil || !sameLibrary(f, stack[does])) {
			at, _ = profile.FirstUser([]profile.Frame{f})
			return at, j
		}
	}
	return stack[does], does
}

// bit is the waste's in the index.
func (w *waste) bit() uint64 {
	return 1 << slices.IndexFunc(wastes, func(o waste) bool { return o.what == w.what })
}

// sameLibrary says that two functions are likely to be of one library: of one module in Go, of one
// group of packages in Java, and of one folder elsewhere.
func sameLibrary(a, b profile.Frame) bool {
	if a == b {
		return true
	}
	if !profile.User(b) {
		return false
	}
	of := func(f profile.Frame) string {
		switch path.Ext(f.File) {
		case ".java":
			parts := strings.SplitN(packageIn(f), ".", 4)
			return strings.Join(parts[:min(len(parts), 3)], ".")
		case ".go", "":
			return moduleOf(f.Function)
		}
		return path.Dir(f.File)
	}
	return of(a) == of(b)
}

// inGo says that a stack is of a program of Go.
func inGo(stack []profile.Frame) bool {
	return slices.ContainsFunc(stack, func(f profile.Frame) bool {
		return strings.HasPrefix(f.Function, "runtime.")
	})
}

// sorters are functions of libraries that ask again and again which of two things comes first, and
// comparers are what somebody calls to answer that.
var (
	sorters = []string{
		"sort.Slice", "sort.SliceStable", "sort.Sort", "sort.Stable", "slices.SortFunc",
		"slices.SortStableFunc", "slices.SortedFunc", "slices.SortedStableFunc",
		"java.util.TimSort.", "java.util.ComparableTimSort.", "java.util.Arrays.sort",
		"Builtins_ArrayTimSort", "Builtins_ArrayPrototypeSort", "qsort", "qsort_r",
		"msort_with_tmp",
	}
	comparers = []string{
		"cmp.", "strings.Compare", "strings.EqualFold", "bytes.Compare", "bytes.Equal",
		"bytes.EqualFold", "runtime.memequal", "runtime.cmpstring", "internal/bytealg.",
		"runtime.mapaccess1", "runtime.mapaccess1_faststr", "runtime.mapaccess1_fast64",
		"internal/runtime/maps.", "time.Time.", "math.", "math/big.",
		"java.lang.String.", "java.lang.Integer.", "java.lang.Long.", "java.lang.Double.",
		"java.util.Comparator.", "java.util.Objects.", "memcmp", "strcmp", "strncmp", "strcoll",
	}
)

// makesSortKeys says that a comparison for a sort calls a library to do more than compare: what
// that finds is of one of the two things, and the same in each of their comparisons.
func makesSortKeys(stack []profile.Frame) bool {
	is := func(f profile.Frame, names []string) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			return fits(f.Function, n) || plainName(f.Function) == n
		})
	}
	sort := slices.IndexFunc(stack, func(f profile.Frame) bool { return is(f, sorters) })
	if sort < 0 {
		return false
	}
	own := slices.IndexFunc(stack[:sort], profile.User)
	return own > 0 && !is(stack[own-1], comparers)
}

// plainName is a C function's name without the underscores before it and the kind of processor
// behind.
func plainName(function string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(function, "_"), "_")
	return name
}
