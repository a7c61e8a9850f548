package route

import (
	"fmt"
	"strings"
)

// Two patterns of one host conflict when some request matches both and neither is more specific. To
// find all such pairs without comparing every pattern with every other, the patterns are put into a
// trie by segment, and the trie is walked against itself: a pair of its nodes is visited only when
// one path can lead to both. For the usual table, where hardly any two patterns can match the same
// path, that is little more than one visit for each node. net/http's index compares each pattern
// with every one that ends in a slash, which is quadratic for a table of prefixes.

// relation says how a pattern a and a pattern b, or prefixes of them, relate that have a path or a
// method in common. The relation of a whole is the union of those of its parts.
type relation uint8

const (
	wider    relation = 1 << iota // a matches something that b does not
	narrower                      // b matches something that a does not
	equal    relation = 0
	overlaps          = wider | narrower
)

// Bounds of the check. A table that needs more visits than this is one where very many patterns
// overlap.
const (
	maxConflicts = 100
	maxVisits    = 20_000_000
)

// fork is a node of the trie: a segment, and what can follow it.
type fork struct {
	text    string
	byText  map[string]*fork
	kids    []*fork // the same, in the order they came, so that errors do not change from run to run
	wild    *fork
	here    []*methodRules // patterns that end here
	closed  []*methodRules // patterns that end here in {$}
	open    []*methodRules // patterns that end here in a slash or {rest...}
	methods uint64         // the methodMask of every pattern at and below it
}

// add puts a pattern into the trie.
func (f *fork) add(m *methodRules) {
	mask := methodMask(m.pattern.method)
	f.methods |= mask
	for _, s := range m.pattern.segments {
		switch s.kind {
		case end:
			f.closed = append(f.closed, m)
			return
		case multi:
			f.open = append(f.open, m)
			return
		case wild:
			if f.wild == nil {
				f.wild = &fork{}
			}
			f = f.wild
		case literal:
			f = f.child(s.text)
		}
		f.methods |= mask
	}
	f.here = append(f.here, m)
}

func (f *fork) child(text string) *fork {
	if k := f.byText[text]; k != nil {
		return k
	}
	if f.byText == nil {
		f.byText = map[string]*fork{}
	}
	k := &fork{text: text}
	f.byText[text] = k
	f.kids = append(f.kids, k)
	return k
}

// checker walks a trie against itself.
type checker struct {
	visits int
	found  []*CompileError
}

// done says whether enough was seen.
func (c *checker) done() bool { return len(c.found) >= maxConflicts || c.visits > maxVisits }

// within compares the patterns below f with each other. Patterns that end at the same place differ
// in method only, so they never conflict; the rules of one pattern are compared elsewhere.
func (c *checker) within(f *fork) {
	c.below(f, f, wider)
	for _, k := range f.kids {
		c.within(k)
		if f.wild != nil {
			c.across(f.wild, k, wider)
		}
	}
	if f.wild != nil {
		c.within(f.wild)
	}
}

// across compares the patterns at and below a with those at and below b, a different fork that the
// same paths lead to. rel is the relation of a to b so far.
func (c *checker) across(a, b *fork, rel relation) {
	c.visits++
	if c.done() || a.methods&meeting(b.methods) == 0 {
		return
	}
	c.clash(a.here, b.here, rel)
	c.clash(a.closed, b.closed, rel)
	c.clash(a.open, b.open, rel)
	c.below(a, b, rel|wider)
	c.below(b, a, rel.inverse()|wider)
	less, more, order := a, b, rel
	if len(a.kids) > len(b.kids) {
		less, more, order = b, a, rel.inverse()
	}
	for _, k := range less.kids {
		if other := more.byText[k.text]; other != nil {
			c.across(k, other, order)
		}
	}
	if a.wild != nil {
		for _, k := range b.kids {
			c.across(a.wild, k, rel|wider)
		}
	}
	if b.wild != nil {
		for _, k := range a.kids {
			c.across(k, b.wild, rel|narrower)
		}
	}
	if a.wild != nil && b.wild != nil {
		c.across(a.wild, b.wild, rel)
	}
}

// below compares the open patterns of a with what matches the same paths below b, but for b's own
// open patterns.
func (c *checker) below(a, b *fork, rel relation) {
	for _, m := range a.open {
		one := []*methodRules{m}
		c.clash(one, b.closed, rel)
		methods := harmful(m.pattern.method, rel)
		for _, k := range b.kids {
			c.under(one, k, rel, methods)
		}
		if b.wild != nil {
			c.under(one, b.wild, rel, methods)
		}
	}
}

// under compares one open pattern with everything at and below f. It leaves out the parts of the
// trie without methods with which there could be a conflict: a catch-all pattern need not be
// compared with every other.
func (c *checker) under(one []*methodRules, f *fork, rel relation, methods uint64) {
	c.visits++
	if c.done() || f.methods&methods == 0 {
		return
	}
	c.clash(one, f.here, rel)
	c.clash(one, f.closed, rel)
	c.clash(one, f.open, rel)
	for _, k := range f.kids {
		c.under(one, k, rel, methods)
	}
	if f.wild != nil {
		c.under(one, f.wild, rel, methods)
	}
}

// clash reports the conflicts between patterns whose paths relate as rel. That is never equal:
// patterns with the same path are in the same fork and differ in method.
func (c *checker) clash(as, bs []*methodRules, rel relation) {
	for _, a := range as {
		for _, b := range bs {
			methods, ok := compareMethods(a.pattern.method, b.pattern.method)
			if ok && rel|methods == overlaps && !c.done() {
				c.found = append(c.found, conflict(a, b, rel, methods))
			}
		}
	}
}

func (r relation) inverse() relation { return r>>1 | r<<1&narrower }

// compareMethods is the relation of two patterns' methods; ok is false when no request has both.
func compareMethods(a, b string) (rel relation, ok bool) {
	switch {
	case a == b:
		return equal, true
	case a == "", a == "GET" && b == "HEAD":
		return wider, true
	case b == "", b == "GET" && a == "HEAD":
		return narrower, true
	}
	return equal, false
}

// methodMask is a set of methods with one bit each for any, GET and HEAD; others share the rest of
// the bits, so that sets may seem to meet that do not.
func methodMask(method string) uint64 {
	switch method {
	case "":
		return 1
	case "GET":
		return 2
	case "HEAD":
		return 4
	}
	h := uint32(2166136261)
	for i := range len(method) {
		h = (h ^ uint32(method[i])) * 16777619
	}
	return 8 << (h % 61)
}

// harmful is the set of methods with which a pattern of a method conflicts when their paths relate
// as rel, wider or overlaps.
func harmful(method string, rel relation) uint64 {
	if rel == overlaps {
		return meeting(methodMask(method))
	}
	switch method {
	case "":
		return 0
	case "HEAD":
		return methodMask("") | methodMask("GET")
	}
	return methodMask("")
}

// meeting is the set of pattern methods that have a request in common with one of methods.
func meeting(methods uint64) uint64 {
	if methods&methodMask("") != 0 {
		return ^uint64(0)
	}
	if both := methodMask("GET") | methodMask("HEAD"); methods&both != 0 {
		methods |= both
	}
	return methods | methodMask("")
}

// conflict describes one.
func conflict(a, b *methodRules, paths, methods relation) *CompileError {
	if a.rules[0] < b.rules[0] {
		a, b, methods = b, a, methods.inverse()
	}
	e := &CompileError{Index: a.rules[0], Other: b.rules[0], Example: pathOf(a.pattern, b.pattern)}
	p, q := a.pattern.source, b.pattern.source
	switch {
	case paths == overlaps:
		e.Reason = fmt.Sprintf("%q and %q both match paths like %s, and neither is more "+
			"specific; put a literal in the place of a name in one of them", p, q, e.Example)
	case methods == wider:
		e.Reason = fmt.Sprintf("%q matches more methods than %q but fewer paths, so that neither "+
			"is more specific for %s; give both the same method, or none", p, q, e.Example)
	default:
		e.Reason = fmt.Sprintf("%q matches fewer methods than %q but more paths, so that neither "+
			"is more specific for %s; give both the same method, or none", p, q, e.Example)
	}
	return e
}

// pathOf is a path that both patterns match, given that there is one.
func pathOf(a, b *pattern) string {
	var out strings.Builder
	for i := range max(len(a.segments), len(b.segments)) {
		s := segment{kind: multi}
		if i < len(a.segments) {
			s = a.segments[i]
		}
		if i < len(b.segments) && s.kind != literal && s.kind != end && b.segments[i].kind != multi {
			s = b.segments[i]
		}
		out.WriteByte('/')
		switch s.kind {
		case literal:
			out.WriteString(s.show)
		case wild:
			out.WriteByte('x')
		case multi, end:
		}
	}
	return out.String()
}
