package route

import (
	"bytes"
	"slices"

	"plimsoll/internal/head"
)

// Result is what became of a search.
type Result uint8

// What a search can end with.
const (
	NotFound         Result = iota // no pattern matches the path under the host: 404
	MethodNotAllowed               // patterns do, but for other methods: 405 with Allowed
	Found
)

// Match is what the names of a pattern stood for. It may be reused; its memory is fixed. It borrows
// the path that was matched, and is valid as long as that.
type Match struct {
	path  []byte
	names []string
	spans [MaxNames + 1]span // one more for the unnamed rest of a pattern that ends in a slash
}

// span is path[from:to].
type span struct{ from, to uint32 }

// Value is what the name stood for: a part of the path as it is, still encoded. It is nil when the
// pattern has no such name, and empty, not nil, for a {rest...} that matched nothing.
func (m *Match) Value(name string) []byte {
	for i, n := range m.names {
		if n == name {
			return m.at(i)
		}
	}
	return nil
}

// Copy makes m what from is, for a copy of the path that was matched.
func (m *Match) Copy(from *Match, path []byte) {
	*m = *from
	m.path = path
}

// at is the value of the i-th name.
func (m *Match) at(i int) []byte {
	s := m.spans[i]
	return m.path[s.from:s.to:s.to]
}

// Match finds the most specific rule for a request: by host, with or without a port; by path, which
// is canonical; and by req's method, query and fields. Where it is Found, index is that of the rule
// and m has the values of its names; otherwise index is -1 and m has none. It does not allocate.
// The path "*" matches no pattern.
func (t *Table) Match(req *head.Request, host, path []byte, m *Match) (index int, result Result) {
	s := search{t: t, req: req, path: path, m: m}
	m.path, m.names = path, nil
	s.run(host)
	switch {
	case s.entry != nil:
		m.names = s.entry.names
		return s.entry.index, Found
	case s.other:
		return -1, MethodNotAllowed
	}
	return -1, NotFound
}

// Allowed are the methods for which Match would find something in the place of req's, sorted and
// ready for the Allow field (RFC 9110, section 10.2.1), when it said MethodNotAllowed. It
// allocates.
func (t *Table) Allowed(req *head.Request, host, path []byte) []string {
	var m Match
	s := search{t: t, req: req, path: path, m: &m, collect: true}
	s.run(host)
	if slices.Contains(s.allowed, "GET") {
		s.allowed = append(s.allowed, "HEAD")
	}
	slices.Sort(s.allowed)
	return slices.Compact(s.allowed)
}

// Any says whether fits holds for a rule whose host and path match, whatever its method and its
// conditions say.
func (t *Table) Any(host, path []byte, fits func(index int) bool) bool {
	var m Match
	s := search{t: t, req: &anyRequest, path: path, m: &m, fits: fits}
	s.run(host)
	return s.entry != nil
}

var anyRequest head.Request // of no method and without fields

// search is one request's way through the trees.
type search struct {
	t       *Table
	req     *head.Request
	path    []byte
	m       *Match
	entry   *entry   // what was found
	allowed []string // the methods of what was passed by, when collect is set
	escaped bool     // the path holds an encoding, so that literals are compared byte by byte
	isHead  bool
	other   bool // something was passed by for its method alone
	collect bool
	fits    func(index int) bool // nil for Match: chooses in the place of methods and conditions
}

// run tries the groups for a host, the most specific first.
func (s *search) run(host []byte) {
	s.escaped = bytes.IndexByte(s.path, '%') >= 0
	s.isHead = string(s.req.Method) == "HEAD"
	for g := s.t.group(host); g != none; {
		at := &s.t.groups[g]
		if s.walk(at.root, 0, 0) {
			return
		}
		g = at.next
	}
}

// group is where the search for a host begins: at its own patterns, or at those of the longest
// wildcard that covers it. It looks at no more labels than the longest wildcard has, however many
// the client sent.
func (t *Table) group(host []byte) int {
	if len(t.exact)+len(t.suffix) == 0 {
		return t.bare
	}
	host = hostname(host)
	if g, ok := t.exact[string(host)]; ok {
		return g
	}
	best, dot := t.bare, len(host)
	for range t.labels {
		if dot = bytes.LastIndexByte(host[:dot], '.'); dot <= 0 {
			break
		}
		if g, ok := t.suffix[string(host[dot:])]; ok {
			best = g
		}
	}
	return best
}

// hostname is host without its port and without the dot at the end of a fully qualified name.
func hostname(host []byte) []byte {
	if len(host) > 0 && host[0] == '[' {
		return host[:bytes.IndexByte(host, ']')+1]
	}
	if i := bytes.IndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	return bytes.TrimSuffix(host, []byte("."))
}

// walk searches the tree below node n for the path from pos on, where values of names are known
// already. It goes down in a loop, and calls itself only at a node that has a less specific way to
// come back to. Its depth is bounded by that of the patterns, and its work by forest.grow's count.
func (s *search) walk(n uint32, pos, values int) bool {
	for {
		at := &s.t.nodes[n]
		if pos = s.literal(at, pos); pos < 0 {
			return false
		}
		if pos == len(s.path) {
			if at.leaf != 0 && s.take(at.leaf) {
				return true
			}
			return at.multi != 0 && s.takeRest(at.multi, pos, values)
		}
		if k := s.child(at, pos); k != 0 {
			if at.wild|at.multi == 0 {
				n = k
				continue
			}
			if s.walk(k, pos, values) {
				return true
			}
		}
		if at.wild != 0 {
			end := len(s.path)
			if i := bytes.IndexByte(s.path[pos:], '/'); i >= 0 {
				end = pos + i
			}
			s.m.spans[values] = span{uint32(pos), uint32(end)}
			if at.multi == 0 {
				n, pos, values = at.wild, end, values+1
				continue
			}
			if s.walk(at.wild, end, values+1) {
				return true
			}
		}
		return at.multi != 0 && s.takeRest(at.multi, pos, values)
	}
}

// literal compares a node's text with the path at pos and returns where it ends, or -1.
func (s *search) literal(at *node, pos int) int {
	text := s.t.text[at.text : at.text+uint32(at.size)]
	if !s.escaped {
		if rest := s.path[pos:]; len(rest) >= len(text) && string(rest[:len(text)]) == string(text) {
			return pos + len(text)
		}
		return -1
	}
	for _, want := range text {
		if pos == len(s.path) {
			return -1
		}
		c, n := foldedByte(s.path, pos)
		if c != want {
			return -1
		}
		pos += n
	}
	return pos
}

// child is the child whose text begins with what stands at pos, or 0.
func (s *search) child(at *node, pos int) uint32 {
	c := s.path[pos]
	if s.escaped {
		c, _ = foldedByte(s.path, pos)
	}
	firsts := s.t.firsts[at.first : at.first+uint32(at.kids)]
	if i := bytes.IndexByte(firsts, c); i >= 0 {
		return at.first + uint32(i)
	}
	return 0
}

// takeRest takes a leaf for all of the path from pos on.
func (s *search) takeRest(leaf uint32, pos, values int) bool {
	s.m.spans[values] = span{uint32(pos), uint32(len(s.path))}
	return s.take(leaf)
}

// take looks for the first entry of a leaf whose method and conditions fit the request.
func (s *search) take(leaf uint32) bool {
	l := s.t.leaves[leaf]
	entries := s.t.entries[l.from:l.to]
	for i := range entries {
		e := &entries[i]
		if s.fits != nil {
			if s.fits(e.index) {
				s.entry = e
				return true
			}
			continue
		}
		if e.method == "" || string(s.req.Method) == e.method || s.isHead && e.method == "GET" {
			if e.holds(s.req) {
				s.entry = e
				return true
			}
			continue
		}
		if s.other && !s.collect || !e.holds(s.req) {
			continue
		}
		s.other = true
		if s.collect {
			s.allowed = append(s.allowed, e.method)
		}
	}
	return false
}

// holds says whether all conditions hold.
func (e *entry) holds(req *head.Request) bool {
	for i := range e.headers {
		if !e.headers[i].inHeader(&req.Fields) {
			return false
		}
	}
	for i := range e.query {
		if !e.query[i].inQuery(req.Query) {
			return false
		}
	}
	return true
}
