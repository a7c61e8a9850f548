package diagnose

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"plimsoll/internal/lab/profile"
)

const (
	// leastWasted is the share of the processor time from which on a kind of waste is a finding.
	// leastCommon is the same for a kind that honest work has some of too.
	leastWasted, leastCommon = .25, .35
	// mostHonest is the same for a kind that is most of the work of some honest services.
	mostHonest = .6
	// mostlyThere is the minimum share of a common waste that must be in one function.
	mostlyThere = .6
)

// wasted is the kind of waste that most processor time goes to.
type wasted struct {
	*waste
	share float64         // of the processor time at the line
	where []profile.Place // functions that cause it, those that cause the most first
	calls string          // library function that the first of them calls for it; may be empty
}

// wasting finds the waste in the processor time, whichever functions cause it, and however many
// library functions do it. It returns nil if no kind of waste is large enough for a finding.
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
		least = cmp.Or(w.least, least)
		if best := e.wastes.found; share < least || best != nil && share <= best.share ||
			w.sorts && e.comparesLong() {
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

// wasteSought is the result of wasting, once it has looked.
type wasteSought struct{ found *wasted }

// called returns the library function that the first place calls for most of a waste. It is empty
// if that is its own code, or several functions.
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

// wasteIndex finds the wastes of a frame.
var wasteIndex = func() (x index) {
	for i, w := range wastes {
		x.add(i, w.functions, slices.Concat(w.begins, w.byBinaries()), w.files)
		x.addParts(i, w.parts)
	}
	return x
}()

// wasteOf returns the waste that a stack is doing; nil if there is none. In Go programs only stacks
// with code of the service are considered. Stacks of an interpreter lack such code if only the
// interpreter's own functions were seen.
func wasteOf(stack []profile.Frame) *waste {
	class := classOf(stack)
	if class != classOwn && class != classJSON && (class != classRuntime || inGo(stack)) {
		return nil
	}
	seen := wasteIndex.among(stack)
	for i := range wastes {
		w := &wastes[i]
		if w.asked && class != classOwn || class == classJSON && !w.encodes ||
			w.searchesLists && asksBack(stack) {
			continue
		}
		if seen&(1<<i) != 0 || len(stack) > 0 && slices.Contains(w.searches,
			plainName(stack[0].Function)) || w.is != nil && w.is(stack) {
			return w
		}
	}
	return nil
}

// encodesWaste reports whether an encoder or a decoder of JSON has called what is a waste of its own: a
// writer that compresses, or code of the service that makes for each value what could be made once.
func encodesWaste(stack []profile.Frame) bool {
	inner := slices.IndexFunc(stack, func(f profile.Frame) bool {
		return classIndex.of(f)&classBit(classJSON) != 0
	})
	if inner <= 0 {
		return false
	}
	seen := wasteIndex.among(stack[:inner])
	if seen&compressionBit != 0 {
		return true
	}
	own := slices.ContainsFunc(stack[:inner], profile.User)
	for i := range wholeWastes {
		if own && seen&(1<<i) != 0 && !wholeWastes[i].encodes {
			return true
		}
	}
	return false
}

// compressionBit is the bit of the waste of answers that are compressed.
var compressionBit = func() uint64 {
	i := slices.IndexFunc(wastes, func(w waste) bool { return w.compresses })
	return 1 << i
}()

// asksBack reports whether a search in a list has the service's own code do more, for each element, than
// look whether it is the one: several calls, or work of a library. Then the search is not what costs.
func asksBack(stack []profile.Frame) bool {
	const asked = 2 // a closure, and a method that it calls
	search := slices.IndexFunc(stack, func(f profile.Frame) bool {
		return slices.ContainsFunc(searchers, func(n string) bool { return fits(f.Function, n) })
	})
	own, first := 0, -1
	for i := range max(search, 0) {
		if profile.User(stack[i]) {
			if own++; first < 0 {
				first = i
			}
		}
	}
	return own > asked || first > 0 && !slices.ContainsFunc(comparers, func(n string) bool {
		return fits(stack[first-1].Function, n) || plainName(stack[first-1].Function) == n
	})
}

// searchers are functions of lists that call a closure for each element.
var searchers = []string{
	"slices.IndexFunc", "slices.ContainsFunc", "java.util.stream.FindOps$FindOp.evaluateSequential",
	"java.util.stream.MatchOps$MatchOp.evaluateSequential",
	"java.util.concurrent.CopyOnWriteArrayList.forEach",
	"Builtins_ArrayFind", "Builtins_ArrayPrototypeFind", "Builtins_ArrayPrototypeFindIndex",
}

// has returns who causes a waste in a stack, and the index of that frame: the nearest caller of the
// library that is the service's own code, or otherwise the library's own function.
func (w *waste) has(stack []profile.Frame) (at profile.Frame, i int) {
	does, named, bit := 0, false, w.bit()
	for j, f := range slices.Backward(stack) {
		if wasteIndex.of(f)&bit != 0 {
			does, named = j, true
			break
		}
	}
	found := -1
	for j := does; j < len(stack); j++ {
		f := stack[j]
		if !profile.User(f) || named && sameLibrary(f, stack[does]) {
			continue
		}
		if f.Package == "" { // the service's own, and not another library's
			found = j
			break
		}
		if found < 0 {
			found = j
		}
	}
	if found < 0 {
		return stack[does], does
	}
	at, _ = profile.FirstUser([]profile.Frame{stack[found]})
	return at, found
}

// bit returns the waste's bit in the index.
func (w *waste) bit() uint64 {
	return 1 << slices.IndexFunc(wastes, func(o waste) bool { return o.what == w.what })
}

// hosts are groups of packages in Java that have many projects, whose names have three parts.
var hosts = []string{
	"org.apache", "org.springframework", "org.eclipse", "org.codehaus", "org.jboss", "com.google",
	"com.github", "com.fasterxml", "com.sun", "io.github", "org.glassfish",
}

// sameLibrary reports whether two functions probably belong to one library: to one module in Go,
// one group of packages in Java, and one folder elsewhere.
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
			n := 2
			if slices.Contains(hosts, strings.Join(parts[:min(len(parts), 2)], ".")) {
				n = 3
			}
			return strings.Join(parts[:min(len(parts), n)], ".")
		case ".go", "":
			return moduleOf(f.Function)
		}
		return cmp.Or(f.Package, path.Dir(f.File))
	}
	return of(a) == of(b)
}

// inGo reports whether a stack is from a Go program.
func inGo(stack []profile.Frame) bool {
	return slices.ContainsFunc(stack, func(f profile.Frame) bool {
		return strings.HasPrefix(f.Function, "runtime.")
	})
}

// sorters are library functions that ask again and again which of two things comes first. comparers
// are what is called to answer that.
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
		"java.util.Comparator.", "java.util.Objects.", "java.math.", "java.time.", "java.util.Date.",
		"memcmp", "strcmp", "strncmp", "strcoll",
	}
)

// compilesStatements reports whether SQLAlchemy turns a statement into SQL. Django's compiler, whose
// file has the same name, runs the statement too.
func compilesStatements(stack []profile.Frame) bool {
	return slices.ContainsFunc(stack, func(f profile.Frame) bool {
		switch f.File {
		case "sql/compiler.py", "sql/visitors.py", "sql/coercions.py":
			return f.Package == "site-packages/sqlalchemy"
		}
		return false
	})
}

// makesSortKeys reports whether a comparison for a sort calls a library to do more than compare.
// The result depends on one of the two things, and is the same in each of its comparisons.
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

// plainName returns a C function's name without leading underscores and without the suffix for the
// kind of processor.
func plainName(function string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(function, "_"), "_")
	return name
}
