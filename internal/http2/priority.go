package http2

// Priority is how a response is to be ordered among others (RFC 9218, section 4).
type Priority struct {
	Urgency     uint8 // 0, the most urgent, to 7
	Incremental bool  // parts of it are of use: it may share with others
}

// DefaultPriority is that of a request that says nothing.
func DefaultPriority() Priority { return Priority{Urgency: 3} }

// ParsePriority reads the value of a request's Priority field or of PRIORITY_UPDATE: what it does not
// name is as in DefaultPriority.
func ParsePriority(value []byte) Priority { return DefaultPriority().With(value) }

// With is p with what value names, a dictionary of structured fields (RFC 9651): the priority of a
// response is its request's with the response's own Priority field (RFC 9218, section 8). It never
// fails: a member that is not what it should be counts as absent, as RFC 9218 asks for, and so does
// everything in a value that is not a dictionary.
func (p Priority) With(value []byte) Priority {
	base := p
	for len(value) > 0 {
		var member []byte
		member, value = nextMember(value)
		key, item := splitMember(trim(member))
		switch string(key) {
		case "u":
			p.Urgency = base.Urgency // the last of one key counts, whatever it is
			if len(item) == 1 && '0' <= item[0] && item[0] <= '7' {
				p.Urgency = item[0] - '0'
			}
		case "i":
			p.Incremental = base.Incremental
			if string(item) == "?1" || string(item) == "?0" {
				p.Incremental = item[1] == '1'
			}
		}
	}
	return p
}

// nextMember splits a member off a dictionary. A comma in a string is none.
func nextMember(b []byte) (member, rest []byte) {
	quoted := false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && c == ',':
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

// splitMember is a member's key and item, without parameters. A key alone is a true boolean.
func splitMember(b []byte) (key, item []byte) {
	for i, c := range b {
		switch c {
		case '=':
			item = b[i+1:]
			for j, c := range item {
				if c == ';' {
					return b[:i], item[:j]
				}
			}
			return b[:i], item
		case ';':
			return b[:i], yes
		}
	}
	return b, yes
}

var yes = []byte("?1")

// trim takes white space off both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }
