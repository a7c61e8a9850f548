package route

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Rule is what Compile makes a table of: a pattern, and conditions that must all hold as well.
type Rule struct {
	Pattern string
	Headers []Condition
	Query   []Condition
}

// CompileError is what is wrong with a rule.
type CompileError struct {
	Index   int    // of the rule
	Other   int    // of the rule that it conflicts with, an earlier one, or -1
	Example string // a path that both match; "" where there is no other rule
	Reason  string // what is wrong and what to do about it
}

func (e *CompileError) Error() string { return e.Reason }

// maxSteps bounds what a hostile path can cost: the nodes of the tree that its search visits.
// Tables of usual patterns need some tens, whatever their size; more than this takes patterns that
// mix names and literals in very many ways.
const maxSteps = 4096

// Table finds the rule of a request. It does not change: any number of goroutines and loops may use
// it at once.
type Table struct {
	forest
	groups  []group
	bare    int              // the group of patterns without host, or none
	exact   map[string]int   // host → group
	suffix  map[string]int   // ".example.com" → group
	labels  int              // the most dots of a suffix
	leaves  []leaf           // leaf 0 is none
	entries []entry          // of all leaves, in the order in which they are tried
	names   map[int][]string // of each rule with names
	steps   int
}

// none is not a group.
const none = -1

// group is the patterns of one host.
type group struct {
	root uint32
	next int // the group to go on with when nothing here matches
}

// leaf is the entries of one path pattern: entries[from:to].
type leaf struct{ from, to uint32 }

// entry is one rule.
type entry struct {
	method  string
	index   int
	names   []string
	headers []condition
	query   []condition
}

// methodRules is the rules of one pattern, method and host included.
type methodRules struct {
	pattern *pattern
	rules   []int // in order; the one without conditions is moved to the end when the table is built
}

// hostRules is the patterns of one host.
type hostRules struct {
	host  string
	paths map[string][]*methodRules // by key
	order []*methodRules
}

// compiler holds what Compile knows on its way.
type compiler struct {
	rules   []Rule
	entries []entry // of each rule
	hosts   map[string]*hostRules
	order   []*hostRules
	errors  []*CompileError
}

// Compile makes a table of rules; the table gives their indexes back. The errors are all that could
// be found, with at most a hundred conflicts for each host, in the order of the rules; with errors
// there is no table. It allocates some 2 KB for each rule, most of it for the check; a hundred
// thousand rules take about half a second.
func Compile(rules []Rule) (*Table, []*CompileError) {
	c := &compiler{rules: rules, entries: make([]entry, len(rules)), hosts: map[string]*hostRules{}}
	for i := range rules {
		if err := c.add(i); err != nil {
			c.fail(i, err)
		}
	}
	for _, h := range c.order {
		c.checkHost(h)
	}
	if len(c.errors) == 0 {
		if t := c.build(); len(c.errors) == 0 {
			return t, nil
		}
	}
	slices.SortStableFunc(c.errors, func(a, b *CompileError) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Other, b.Other))
	})
	return nil, c.errors
}

func (c *compiler) fail(index int, err error) {
	c.errors = append(c.errors, &CompileError{Index: index, Other: -1, Reason: err.Error()})
}

// add reads rule i and puts it to those of the same host, path and method.
func (c *compiler) add(i int) error {
	p, err := parse(c.rules[i].Pattern)
	if err != nil {
		return err
	}
	e := entry{method: p.method, index: i, names: p.names}
	if e.headers, err = compileConditions(c.rules[i].Headers, true); err != nil {
		return err
	}
	if e.query, err = compileConditions(c.rules[i].Query, false); err != nil {
		return err
	}
	c.entries[i] = e
	h := c.hosts[p.host]
	if h == nil {
		h = &hostRules{host: p.host, paths: map[string][]*methodRules{}}
		c.hosts[p.host] = h
		c.order = append(c.order, h)
	}
	key := p.key()
	for _, m := range h.paths[key] {
		if m.pattern.method == p.method {
			m.rules = append(m.rules, i)
			return nil
		}
	}
	m := &methodRules{pattern: p, rules: []int{i}}
	h.paths[key] = append(h.paths[key], m)
	h.order = append(h.order, m)
	return nil
}

// checkHost finds the conflicts among the patterns of one host, and among the rules of each
// pattern.
func (c *compiler) checkHost(h *hostRules) {
	root := &fork{}
	for _, m := range h.order {
		c.checkRules(m)
		root.add(m)
	}
	walk := &checker{}
	walk.within(root)
	c.errors = append(c.errors, walk.found...)
	if walk.visits > maxVisits {
		c.fail(h.order[0].rules[0], fmt.Errorf("the patterns of this host overlap in too many "+
			"ways to be checked for conflicts; use fewer names before literals"))
	}
}

// checkRules finds the rules of one pattern that could never be reached.
func (c *compiler) checkRules(m *methodRules) {
	if len(m.rules) == 1 {
		return
	}
	seen := map[string]int{}
	for _, i := range m.rules {
		set := c.conditionSet(i)
		other, twice := seen[set]
		if !twice {
			seen[set] = i
			continue
		}
		e := &CompileError{Index: i, Other: other, Example: pathOf(m.pattern, m.pattern)}
		mine, first := c.rules[i].Pattern, c.rules[other].Pattern
		if set == "" {
			e.Reason = fmt.Sprintf("%q matches the same requests as %q, such as %s; all but one "+
				"of them need conditions", mine, first, e.Example)
		} else {
			e.Reason = fmt.Sprintf("%q has the same pattern and conditions as %q and could never "+
				"be reached", mine, first)
		}
		c.errors = append(c.errors, e)
	}
}

// conditionSet is a text that is equal for rules with the same conditions, and empty for those
// without.
func (c *compiler) conditionSet(i int) string {
	var all []string
	for _, h := range c.entries[i].headers {
		all = append(all, fmt.Sprintf("h%q=%q", h.name, h.value))
	}
	for _, q := range c.entries[i].query {
		all = append(all, fmt.Sprintf("q%q=%q", q.name, q.value))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "&")
}

// build makes the table of rules without conflicts.
func (c *compiler) build() *Table {
	t := &Table{
		forest: *newForest(), bare: none, exact: map[string]int{}, suffix: map[string]int{},
		leaves: make([]leaf, 1), names: map[int][]string{},
	}
	for _, h := range c.order {
		keys := make([]string, 0, len(h.paths))
		for key := range h.paths {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		root, steps := t.plant(keys, uint32(len(t.leaves)))
		if steps > maxSteps {
			c.fail(h.order[0].rules[0], fmt.Errorf("a request for this host could take %d steps "+
				"to look up, %d is the most: use fewer names before literals", steps, maxSteps))
		}
		t.steps = max(t.steps, steps)
		for _, key := range keys {
			c.addLeaf(t, h.paths[key])
		}
		at := len(t.groups)
		t.groups = append(t.groups, group{root: root, next: none})
		switch {
		case h.host == "":
			t.bare = at
		case h.host[0] == '.':
			t.suffix[h.host] = at
			t.labels = max(t.labels, strings.Count(h.host, "."))
		default:
			t.exact[h.host] = at
		}
	}
	for _, h := range c.order {
		t.chain(h.host)
	}
	return t
}

// addLeaf adds the entries of one path in the order in which they are tried: the more specific
// method first, which is HEAD before GET and both before any; and in each the rules in order, the
// one without conditions last.
func (c *compiler) addLeaf(t *Table, methods []*methodRules) {
	rank := func(m *methodRules) int { return slices.Index([]string{"HEAD", "GET", ""}, m.pattern.method) }
	slices.SortStableFunc(methods, func(a, b *methodRules) int { return cmp.Compare(rank(a), rank(b)) })
	from := len(t.entries)
	for _, m := range methods {
		free := none
		for _, i := range m.rules {
			e := c.entries[i]
			if len(e.names) > 0 {
				t.names[i] = e.names
			}
			if len(e.headers)+len(e.query) == 0 {
				free = i
				continue
			}
			t.entries = append(t.entries, e)
		}
		if free != none {
			t.entries = append(t.entries, c.entries[free])
		}
	}
	t.leaves = append(t.leaves, leaf{uint32(from), uint32(len(t.entries))})
}

// chain sets which group follows that of host: the longest wildcard that is shorter, or the group
// without host.
func (t *Table) chain(host string) {
	if host == "" {
		return
	}
	at, exact := t.exact[host]
	if !exact {
		at = t.suffix[host]
	}
	t.groups[at].next = t.bare
	for rest := host[1:]; ; rest = rest[1:] {
		dot := strings.IndexByte(rest, '.')
		if dot < 0 {
			return
		}
		rest = rest[dot:]
		if g, ok := t.suffix[rest]; ok {
			t.groups[at].next = g
			return
		}
	}
}

// Names are the names in the pattern of rule index, in order. The caller must not change them.
func (t *Table) Names(index int) []string { return t.names[index] }

// Steps is the most nodes of the tree of one host that a search for a path can visit, whatever the
// path.
func (t *Table) Steps() int { return t.steps }
