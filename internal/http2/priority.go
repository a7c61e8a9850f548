package http2

// Priority is how to order a response among others (RFC 9218, section 4).
type Priority struct {
	Urgency     uint8 // 0, the most urgent, to 7
	Incremental bool  // the client can use parts of it, so it may share bandwidth with others
}

// DefaultPriority is the priority of a request that does not specify one.
func DefaultPriority() Priority { return Priority{Urgency: 3} }

// ParsePriority reads the value of a request's Priority field or of PRIORITY_UPDATE. Parameters
// that it does not name are as in DefaultPriority.
func ParsePriority(value []byte) Priority { return DefaultPriority().With(value) }

// With returns p with the parameters in value, a dictionary of structured fields (RFC 9651),
// applied. The priority of a response is its request's priority, with the response's own Priority
// field applied (RFC 9218, section 8). With never fails: an invalid member counts as absent, as RFC
// 9218 requires, and so does everything in a value that is not a dictionary.
func (p Priority) With(value []byte) Priority {
	base := p
	for len(value) > 0 {
		var member []byte
		member, value = nextMember(value)
		key, item := splitMember(trim(member))
		switch string(key) {
		case "u":
			p.Urgency = base.Urgency // the last member of a key counts, valid or not
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

// nextMember splits the first member off a dictionary. A comma in a string does not end it.
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

// splitMember returns a member's key and its item without parameters. A key without an item means
// true.
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

// trim removes spaces and tabs from both ends.
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
