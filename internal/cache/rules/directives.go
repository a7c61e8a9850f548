package rules

import "plimsoll/internal/head"

// Directive is a set of directives of Cache-Control that have no value, or one that is not a time.
type Directive uint32

// The directives (RFC 9111, section 5.2; RFC 8246).
const (
	NoStore Directive = 1 << iota
	NoCache           // without field names
	Private           // without field names
	Public
	MustRevalidate
	ProxyRevalidate
	MustUnderstand
	NoTransform
	Immutable
	OnlyIfCached
	AnyStale  // max-stale without a value
	Malformed // a line is invalid, so it is not known what it forbids
)

// Directives is what the lines of one field say. Times are in seconds; none if absent, 0 if
// invalid.
type Directives struct {
	Set                                Directive
	MaxAge, SMaxAge                    int64
	StaleWhileRevalidate, StaleIfError int64
	MaxStale, MinFresh                 int64 // of requests
	// withheld are the field names that no-cache and private list. They alias the field.
	withheld [][]byte
}

// reset sets d to the directives of an absent field.
func (d *Directives) reset() {
	*d = Directives{MaxAge: none, SMaxAge: none, StaleWhileRevalidate: none, StaleIfError: none,
		MaxStale: none, MinFresh: none}
}

// Has reports whether all of the directives are set.
func (d *Directives) Has(of Directive) bool { return d.Set&of == of }

// directive is one member of the list: name, then '=' and an argument or nothing.
type directive struct {
	name     []byte
	argument []byte // without its quotes
	valued   bool   // there is an '='
	spaced   bool   // there is white space around it, which makes the argument's meaning doubtful
	quoted   bool
}

// nextDirective cuts the first member off a line. more is false if there are no more members. ok is
// false if the rest is invalid because a quoted string does not end.
func nextDirective(line []byte) (d directive, rest []byte, more, ok bool) {
	for len(line) > 0 && (isSpace(line[0]) || line[0] == ',') {
		line = line[1:]
	}
	if len(line) == 0 {
		return d, nil, false, true
	}
	end, equals, quotes := 0, -1, false
	for ; end < len(line); end++ {
		c := line[end]
		switch {
		case quotes && c == '\\':
			end++
		case c == '"':
			quotes = !quotes
		case quotes:
		case c == ',':
			d.cut(line[:end], equals)
			return d, line[end+1:], true, true
		case c == '=' && equals < 0:
			equals = end
		}
	}
	d.cut(line, equals)
	return d, nil, true, !quotes && end == len(line)
}

func (d *directive) cut(member []byte, equals int) {
	if equals < 0 {
		d.name = trim(member)
		return
	}
	name, argument := member[:equals], member[equals+1:]
	d.valued = true
	d.name, d.argument = trim(name), trim(argument)
	d.spaced = len(d.name) != len(name) || len(argument) > 0 && isSpace(argument[0])
	if n := len(d.argument); n >= 2 && d.argument[0] == '"' && d.argument[n-1] == '"' {
		d.argument, d.quoted = d.argument[1:n-1], true
	}
}

// add adds one line of a field. It ignores unknown directives.
func (d *Directives) add(line []byte) {
	for {
		m, rest, more, ok := nextDirective(line)
		if !more {
			return
		}
		if !ok || !head.IsToken(m.name) {
			d.Set |= Malformed
		}
		d.take(&m)
		line = rest
	}
}

func (d *Directives) take(m *directive) {
	// Restrictive directives count regardless of their arguments.
	switch n := m.name; {
	case is(n, "max-age"):
		d.MaxAge = shorter(d.MaxAge, m.seconds())
	case is(n, "s-maxage"):
		d.SMaxAge = shorter(d.SMaxAge, m.seconds())
	case is(n, "no-store"):
		d.Set |= NoStore
	case is(n, "no-cache"):
		d.withhold(m, NoCache)
	case is(n, "private"):
		d.withhold(m, Private)
	case is(n, "public"):
		d.Set |= Public
	case is(n, "must-revalidate"):
		d.Set |= MustRevalidate
	case is(n, "proxy-revalidate"):
		d.Set |= ProxyRevalidate
	case is(n, "must-understand"):
		d.Set |= MustUnderstand
	case is(n, "no-transform"):
		d.Set |= NoTransform
	case is(n, "immutable"):
		d.Set |= Immutable
	case is(n, "only-if-cached"):
		d.Set |= OnlyIfCached
	case is(n, "stale-while-revalidate"):
		d.StaleWhileRevalidate = shorter(d.StaleWhileRevalidate, m.seconds())
	case is(n, "stale-if-error"):
		d.StaleIfError = shorter(d.StaleIfError, m.seconds())
	case is(n, "min-fresh"):
		d.MinFresh = max(d.MinFresh, m.seconds())
	case is(n, "max-stale") && !m.valued:
		d.Set |= AnyStale
	case is(n, "max-stale"):
		d.MaxStale = shorter(d.MaxStale, m.seconds())
	}
}

// withhold adds the field names of a directive, or sets whole if there are none or they are
// invalid.
func (d *Directives) withhold(m *directive, whole Directive) {
	before := len(d.withheld)
	for list := m.argument; len(list) > 0; {
		var name []byte
		if name, list = nextMember(list); len(name) == 0 {
			continue
		}
		if !head.IsToken(name) {
			d.Set |= whole
			return
		}
		d.withheld = append(d.withheld, name)
	}
	if len(d.withheld) == before {
		d.Set |= whole
	}
}

// seconds reads a delta-seconds (RFC 9111, section 1.2.2), quoted or not; 0 if it is invalid.
func (m *directive) seconds() int64 {
	if !m.valued || m.spaced {
		return 0
	}
	n, ok := parseSeconds(m.argument)
	if !ok {
		return 0
	}
	return n
}

// parseSeconds reads digits, at most maxDelta.
func parseSeconds(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	n := int64(0)
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int64(c-'0'), maxDelta)
	}
	return n, true
}

// shorter is the smaller of two times, of which a may be none.
func shorter(a, b int64) int64 {
	if a == none {
		return b
	}
	return min(a, b)
}

// isSpace reports whether c is OWS (RFC 9110, section 5.6.3).
func isSpace(c byte) bool { return c == ' ' || c == '\t' }

func trim(b []byte) []byte { return head.Trim(b) }

// nextMember cuts the first member off a list whose members contain no commas.
func nextMember(list []byte) (member, rest []byte) {
	for i, c := range list {
		if c == ',' {
			return trim(list[:i]), list[i+1:]
		}
	}
	return trim(list), nil
}

// is reports whether name, ignoring case, equals lower.
func is(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
