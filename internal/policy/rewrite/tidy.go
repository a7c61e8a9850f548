package rewrite

// tidy merges repeated slashes in place, and reports whether the result is a canonical path. Only a
// canonical path cannot be read as a different path by an upstream.
func tidy(p []byte) ([]byte, bool) {
	if len(p) == 0 || p[0] != '/' {
		return nil, false
	}
	write, segment := 0, 0 // segment is where the present segment begins in the output
	for read := 0; read < len(p); read++ {
		c := p[read]
		switch {
		case c == '/':
			if write > 0 && p[write-1] == '/' {
				continue
			}
			if isDots(p[segment:write]) {
				return nil, false
			}
			segment = write + 1
		case c <= ' ' || c >= 0x7f || c == '?' || c == '#' || c == '\\':
			return nil, false
		case c == '%':
			if !isNeeded(p[read+1:]) {
				return nil, false
			}
		}
		p[write] = c
		write++
	}
	return p[:write], !isDots(p[segment:write])
}

func isDots(segment []byte) bool { return string(segment) == "." || string(segment) == ".." }

// isNeeded reports whether the two digits after a "%" are upper-case and encode a byte that must be
// encoded and may occur in a path: not an unreserved character, which would hide a "..", nor a
// control character or a backslash.
func isNeeded(digits []byte) bool {
	if len(digits) < 2 {
		return false
	}
	high, low := hex(digits[0]), hex(digits[1])
	if high < 0 || low < 0 {
		return false
	}
	c := byte(high<<4 | low)
	unreserved := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' ||
		c == '-' || c == '.' || c == '_' || c == '~'
	return !unreserved && c >= ' ' && c != 0x7f && c != '\\'
}

func hex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
