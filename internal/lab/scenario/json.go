package scenario

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the deepest nesting of objects and arrays in an answer.
const maxDepth = 512

// jsonKind is the kind of a JSON value.
type jsonKind uint8

const (
	jsonAbsent jsonKind = iota
	jsonNull
	jsonBool
	jsonNumber
	jsonText
	jsonObject
	jsonArray
)

// jsonPath is the path to a value in a JSON document.
type jsonPath []jsonKey

// jsonKey is the key of an object. If it consists of digits, it is also the index of an array.
type jsonKey struct {
	name  []byte
	index int // -1 if it is not an index
}

// parseJSONPath parses "data.items.0.id". A backslash escapes a dot or another backslash.
func parseJSONPath(path string) (jsonPath, error) {
	var p jsonPath
	var name []byte
	for i := 0; i <= len(path); i++ {
		if i < len(path) && path[i] != '.' {
			if path[i] == '\\' && i+1 < len(path) {
				i++
			}
			name = append(name, path[i])
			continue
		}
		if len(name) == 0 {
			return nil, errors.New("a JSON path is keys and indexes with dots between, " +
				"as data.items.0.id")
		}
		k := jsonKey{name, -1}
		if n, err := strconv.Atoi(string(name)); err == nil && n >= 0 &&
			strconv.Itoa(n) == string(name) {
			k.index = n
		}
		p = append(p, k)
		name = nil
	}
	return p, nil
}

// scan finds values in JSON without building anything. It reads the whole document, so it
// recognises one that breaks off or is not JSON. Of equal keys it takes the last, as encoding/json
// does. It allocates nothing once scratch has grown. It has one owner.
type scan struct {
	data    []byte
	at      int
	kind    jsonKind
	raw     []byte // the value found, as in data; a text is without its quotes
	scratch []byte
}

// find returns the value at a path; jsonAbsent if there is none. valid is false if data is not JSON
// or is nested too deeply. raw is a part of data.
func (s *scan) find(data []byte, path jsonPath) (k jsonKind, raw []byte, valid bool) {
	s.data, s.at, s.kind, s.raw = data, 0, jsonAbsent, nil
	valid = s.value(path, true, 0)
	s.space()
	if !valid || s.at != len(data) {
		return jsonAbsent, nil, false
	}
	return s.kind, s.raw, true
}

// value reads a value. path is the rest of the path to the wanted value. If sought is false, the
// wanted value is not inside this one, and value only skips it.
func (s *scan) value(path jsonPath, sought bool, depth int) (valid bool) {
	s.space()
	if s.at == len(s.data) || depth > maxDepth {
		return false
	}
	start, k, here := s.at, jsonAbsent, sought && len(path) == 0
	switch c := s.data[s.at]; {
	case c == '{':
		k, valid = jsonObject, s.object(path, sought && !here, depth)
	case c == '[':
		k, valid = jsonArray, s.array(path, sought && !here, depth)
	case c == '"':
		k, valid = jsonText, s.text()
	case c == '-' || '0' <= c && c <= '9':
		k, valid = jsonNumber, s.number()
	case c == 'n':
		k, valid = jsonNull, s.word("null")
	case c == 't':
		k, valid = jsonBool, s.word("true")
	case c == 'f':
		k, valid = jsonBool, s.word("false")
	}
	if valid && here {
		s.kind, s.raw = k, s.data[start:s.at]
		if k == jsonText {
			s.raw = s.data[start+1 : s.at-1]
		}
	}
	return valid
}

func (s *scan) object(path jsonPath, sought bool, depth int) bool {
	s.at++
	if s.skip('}') {
		return true
	}
	for {
		s.space()
		start := s.at
		if s.at == len(s.data) || s.data[s.at] != '"' || !s.text() {
			return false
		}
		match := sought && s.same(s.data[start+1:s.at-1], path[0].name)
		if !s.skip(':') {
			return false
		}
		rest := path
		if match {
			// This replaces a value found under an earlier, equal key.
			s.kind, s.raw = jsonAbsent, nil
			rest = path[1:]
		}
		if !s.value(rest, match, depth+1) {
			return false
		}
		if s.skip('}') {
			return true
		}
		if !s.skip(',') {
			return false
		}
	}
}

func (s *scan) array(path jsonPath, sought bool, depth int) bool {
	s.at++
	if s.skip(']') {
		return true
	}
	for i := 0; ; i++ {
		match, rest := sought && path[0].index == i, path
		if match {
			rest = path[1:]
		}
		if !s.value(rest, match, depth+1) {
			return false
		}
		if s.skip(']') {
			return true
		}
		if !s.skip(',') {
			return false
		}
	}
}

// same reports whether the inside of a JSON string equals name after unescaping.
func (s *scan) same(raw, name []byte) bool {
	if bytes.IndexByte(raw, '\\') < 0 {
		return bytes.Equal(raw, name)
	}
	s.scratch = unescape(s.scratch[:0], raw)
	return bytes.Equal(s.scratch, name)
}

func (s *scan) space() {
	for s.at < len(s.data) {
		if c := s.data[s.at]; c > ' ' || c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return
		}
		s.at++
	}
}

// skip skips c, and white space before it, if c comes next.
func (s *scan) skip(c byte) bool {
	s.space()
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *scan) word(w string) bool {
	if !bytes.HasPrefix(s.data[s.at:], []byte(w)) {
		return false
	}
	s.at += len(w)
	return true
}

// text skips a string and checks its escapes.
func (s *scan) text() bool {
	data := s.data
	for i := s.at + 1; i < len(data); i++ {
		switch c := data[i]; {
		case c >= ' ' && c != '"' && c != '\\':
		case c == '"':
			s.at = i + 1
			return true
		case c < ' ':
			return false
		default:
			i++
			if i == len(data) {
				return false
			}
			if data[i] == 'u' {
				if _, ok := hex4(data[i+1:]); !ok {
					return false
				}
				i += 4
			} else if strings.IndexByte(`"\/bfnrt`, data[i]) < 0 {
				return false
			}
		}
	}
	return false
}

func (s *scan) number() bool {
	if s.data[s.at] == '-' {
		s.at++
	}
	if s.at < len(s.data) && s.data[s.at] == '0' {
		s.at++
	} else if !s.digits() {
		return false
	}
	if s.at < len(s.data) && s.data[s.at] == '.' {
		s.at++
		if !s.digits() {
			return false
		}
	}
	if s.at < len(s.data) && s.data[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.data) && (s.data[s.at] == '+' || s.data[s.at] == '-') {
			s.at++
		}
		return s.digits()
	}
	return true
}

// digits skips at least one digit.
func (s *scan) digits() bool {
	start := s.at
	for s.at < len(s.data) && '0' <= s.data[s.at] && s.data[s.at] <= '9' {
		s.at++
	}
	return s.at > start
}

// hex4 reads four hexadecimal digits.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch letter := c | 0x20; {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= letter && letter <= 'f':
			r = r<<4 | rune(letter-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// unescape appends the unescaped inside of a valid JSON string. A lone half of a surrogate pair
// becomes U+FFFD; bytes that are not UTF-8 are kept.
func unescape(dst, raw []byte) []byte {
	for {
		at := bytes.IndexByte(raw, '\\')
		if at < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:at]...)
		c := raw[at+1]
		raw = raw[at+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, _ := hex4(raw)
			raw = raw[4:]
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
					low, _ := hex4(raw[2:])
					pair = utf16.DecodeRune(r, low)
				}
				if pair != utf8.RuneError {
					raw = raw[6:]
				}
				r = pair
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
}
