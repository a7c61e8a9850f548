package replay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// jsonLines reads one JSON object per line. It looks only for the wanted fields and skips the rest
// without copying: encoding/json takes several microseconds for a line, and a log has millions.
type jsonLines struct {
	wants []want
	into  []string // objects with wanted fields, such as "request."
	path  []byte   // the path of the key being read
}

// want is a field to look for.
type want struct {
	path string // "status", or "request.uri"
	is   variable
	rank uint8
}

// usual are the names that common servers and libraries use, the most informative first.
var usual = map[variable][]string{
	vTime: {
		"msec", "time", "timestamp", "@timestamp", "ts", "time_iso8601", "time_local", "date",
	},
	vRequest: {"request", "request_line"},
	vMethod:  {"method", "request_method", "request.method", "http_method", "verb"},
	vTarget:  {"request_uri", "uri", "request.uri", "path", "url", "request.url"},
	vQuery:   {"query", "args", "query_string"},
	vHost:    {"http_host", "host", "request.host"},
	vStatus:  {"status", "status_code", "response_code"},
	vAgent:   {"http_user_agent", "user_agent", "useragent", "request.headers.User-Agent", "agent"},
	vTook:    {"request_time"},
}

// newJSONLines looks for the named fields, and for the usual names of all other fields. first is
// the beginning of the log: plimsoll's own lines have their duration in another field.
func newJSONLines(fields map[string]string, first []byte) (*jsonLines, error) {
	j := &jsonLines{}
	for key, path := range fields {
		is, known := fieldNames[key]
		if !known {
			return nil, fmt.Errorf("unknown field %q: the fields are %s",
				key, strings.Join(sortedFieldNames(), ", "))
		}
		if path == "" || strings.Count(path, ".") > 8 {
			return nil, fmt.Errorf("field %s: %q is not a name of a JSON field; "+
				"a dot leads into an object, at most 8 deep", key, path)
		}
		j.wants = append(j.wants, want{path: path, is: is})
	}
	for is, names := range usual {
		if slices.ContainsFunc(j.wants, func(w want) bool { return w.is == is }) {
			continue
		}
		if is == vTook && bytes.Contains(first, []byte(`"gateway_duration":`)) {
			names = []string{"duration"}
		}
		for i, name := range names {
			j.wants = append(j.wants, want{path: name, is: is, rank: uint8(i + 1)})
		}
	}
	for _, w := range j.wants {
		for i := range len(w.path) {
			if w.path[i] == '.' && !slices.Contains(j.into, w.path[:i+1]) {
				j.into = append(j.into, w.path[:i+1])
			}
		}
	}
	return j, nil
}

func sortedFieldNames() []string {
	names := make([]string, 0, len(fieldNames))
	for name := range fieldNames {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// parse reads a line.
func (j *jsonLines) parse(line []byte, r *record) error {
	j.path = j.path[:0]
	rest, err := j.object(skipSpace(line), r)
	if err != nil {
		return err
	}
	if len(skipSpace(rest)) > 0 {
		return errJSON
	}
	return nil
}

// object reads an object that may have wanted fields, and returns what follows it. It recurses as
// deep as wanted names have dots.
func (j *jsonLines) object(b []byte, r *record) (rest []byte, err error) {
	if len(b) == 0 || b[0] != '{' {
		return nil, errJSON
	}
	b = skipSpace(b[1:])
	if len(b) > 0 && b[0] == '}' {
		return b[1:], nil
	}
	depth := len(j.path)
	for {
		n := endOfString(b)
		if n < 0 {
			return nil, errJSON
		}
		j.path = append(j.path[:depth], b[1:n-1]...)
		b = skipSpace(b[n:])
		if len(b) == 0 || b[0] != ':' {
			return nil, errJSON
		}
		if b, err = j.value(skipSpace(b[1:]), r); err != nil {
			return nil, err
		}
		b = skipSpace(b)
		if len(b) == 0 || b[0] != ',' && b[0] != '}' {
			return nil, errJSON
		}
		if b[0] == '}' {
			return b[1:], nil
		}
		b = skipSpace(b[1:])
	}
}

// value reads or skips the value of the field at j.path.
func (j *jsonLines) value(b []byte, r *record) (rest []byte, err error) {
	if len(b) > 0 && b[0] == '{' && j.leads() {
		j.path = append(j.path, '.')
		return j.object(b, r)
	}
	n := endOfValue(b)
	if n <= 0 {
		return nil, errJSON
	}
	for i := range j.wants {
		w := &j.wants[i]
		if w.path == string(j.path) {
			return b[n:], r.takeJSON(w, b[:n])
		}
	}
	return b[n:], nil
}

// leads reports whether the object at j.path has wanted fields.
func (j *jsonLines) leads() bool {
	for _, p := range j.into {
		if len(p) == len(j.path)+1 && p[:len(j.path)] == string(j.path) {
			return true
		}
	}
	return false
}

// takeJSON keeps a string, a number, or the first string of an array. null and other values count
// as missing.
func (r *record) takeJSON(w *want, b []byte) error {
	if b[0] == '[' {
		b = skipSpace(b[1:])
		n := endOfString(b)
		if n < 0 {
			return nil
		}
		b = b[:n]
	}
	if b[0] != '"' && b[0] != '-' && !isDigit(b[0]) {
		return nil
	}
	if r.values[w.is] != nil && r.rank[w.is] < w.rank {
		return nil
	}
	r.rank[w.is] = w.rank
	if b[0] != '"' {
		return r.take(w.is, b, false)
	}
	b = b[1 : len(b)-1]
	return r.take(w.is, b, bytes.IndexByte(b, '\\') >= 0)
}

// endOfString is the length of the string at the beginning of b, including its quotes; -1 if there
// is none.
func endOfString(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return -1
	}
	for i := 1; ; {
		q := bytes.IndexByte(b[i:], '"')
		if q < 0 {
			return -1
		}
		i += q
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		i++
		if slashes%2 == 0 {
			return i
		}
	}
}

// endOfValue is the length of the value at the beginning of b; -1 if it does not end. In what it
// skips, it only looks at strings and brackets.
func endOfValue(b []byte) int {
	depth := 0
	for i := 0; i < len(b); {
		switch c := b[i]; c {
		case '"':
			n := endOfString(b[i:])
			if n < 0 {
				return -1
			}
			i += n
		case '{', '[':
			depth++
			i++
		case '}', ']', ',':
			if depth == 0 {
				return i
			}
			if c != ',' {
				depth--
			}
			i++
		default:
			i++
			if depth == 0 {
				for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
					i++
				}
			}
		}
		if depth == 0 {
			return i
		}
	}
	return -1
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}
