package replay

import (
	"bytes"
	"errors"
	"fmt"
)

// logFormat is a parsed nginx log_format: the text before the first variable, then each variable
// and the text after it. A variable ends where the text after it begins.
type logFormat struct {
	before []byte
	parts  []part
	// extra allows more text after the end of a line, behind a space: people add fields to the
	// well-known formats.
	extra bool
}

type part struct {
	is    variable
	after []byte
	// quoted says that the variable is in quotes, so a quote in its value has a backslash before
	// it.
	quoted bool
}

// The well-known formats. Apache's have the client's identity where nginx has a dash; it is almost
// always a dash too.
const (
	commonFormat   = `$remote_addr $ident $remote_user [$time_local] "$request" $status $body_bytes_sent`
	combinedFormat = commonFormat + ` "$http_referer" "$http_user_agent"`
)

// nginxNames are the variables that a replay uses. Of several variables with the same meaning, the
// one with the lowest rank counts.
var nginxNames = map[string]struct {
	is   variable
	rank int
}{
	"msec":            {vTime, 0},
	"time_iso8601":    {vTime, 1},
	"time_local":      {vTime, 2},
	"request":         {vRequest, 0},
	"request_method":  {vMethod, 0},
	"request_uri":     {vTarget, 0},
	"http_host":       {vHost, 0},
	"host":            {vHost, 1},
	"status":          {vStatus, 0},
	"http_user_agent": {vAgent, 0},
	"request_time":    {vTook, 0},
}

// newLogFormat parses a log_format. It refuses one that lacks what a replay needs, or is ambiguous.
func newLogFormat(text string) (*logFormat, error) {
	f := &logFormat{}
	names := []string{}
	literal, rest := cutVariable(text)
	f.before = []byte(literal)
	for rest != "" {
		var name string
		if name, rest = variableName(rest); name == "" {
			return nil, errors.New(`the log_format has a "$" without a name after it`)
		}
		literal, rest = cutVariable(rest)
		if literal == "" && rest != "" {
			return nil, fmt.Errorf("the log_format has nothing between $%s and the variable "+
				"after it, so that they cannot be separated", name)
		}
		quoted := len(literal) > 0 && literal[0] == '"'
		f.parts = append(f.parts, part{after: []byte(literal), quoted: quoted})
		names = append(names, name)
	}
	return f, f.assign(names)
}

// cutVariable splits text before the next "$".
func cutVariable(text string) (literal, rest string) {
	for i := range len(text) {
		if text[i] == '$' {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// variableName reads $name or ${name} at the beginning of text.
func variableName(text string) (name, rest string) {
	text = text[1:]
	braces := len(text) > 0 && text[0] == '{'
	if braces {
		text = text[1:]
	}
	n := 0
	for n < len(text) &&
		(isDigit(text[n]) || text[n] == '_' || 'a' <= text[n]|0x20 && text[n]|0x20 <= 'z') {
		n++
	}
	name, rest = text[:n], text[n:]
	if braces {
		if len(rest) == 0 || rest[0] != '}' {
			return "", ""
		}
		rest = rest[1:]
	}
	return name, rest
}

// assign determines what each part is, and checks that the format has everything needed.
func (f *logFormat) assign(names []string) error {
	best := [variables]int{}
	at := [variables]int{}
	uri := false
	for i, name := range names {
		uri = uri || name == "uri" || name == "document_uri"
		known, ok := nginxNames[name]
		if !ok || at[known.is] > 0 && best[known.is] <= known.rank {
			continue
		}
		best[known.is], at[known.is] = known.rank, i+1
	}
	has := func(v variable) bool { return at[v] > 0 }
	if has(vRequest) {
		at[vMethod], at[vTarget] = 0, 0
	}
	switch {
	case !has(vTime):
		return errors.New("the log_format has no time: it needs $time_local, $time_iso8601 or, " +
			"best, $msec")
	case has(vRequest):
	case has(vTarget) && has(vMethod):
	case uri && !has(vTarget):
		return errors.New("the log_format has $uri, which nginx has decoded and may " +
			"have rewritten, so what was asked for is not known: it needs $request, " +
			"or $request_method and $request_uri")
	default:
		return errors.New("the log_format does not tell the request: it needs $request, " +
			"or $request_method and $request_uri")
	}
	for v := vNone + 1; v < variables; v++ {
		if at[v] > 0 {
			f.parts[at[v]-1].is = v
		}
	}
	return nil
}

// parse reads a line.
func (f *logFormat) parse(line []byte, r *record) error {
	rest, ok := bytes.CutPrefix(line, f.before)
	if !ok {
		return errShape
	}
	for i := range f.parts {
		p := &f.parts[i]
		last := i == len(f.parts)-1
		n, next := p.end(rest, last, f.extra)
		if n < 0 {
			return errShape
		}
		if p.is != vNone {
			value := rest[:n]
			if err := r.take(p.is, value, bytes.IndexByte(value, '\\') >= 0); err != nil {
				return err
			}
		}
		rest = rest[next:]
	}
	if len(rest) > 0 && !(f.extra && rest[0] == ' ') {
		return errShape
	}
	return nil
}

// end finds the end of the variable and the beginning of the next one; -1 if the variable does not
// end.
func (p *part) end(rest []byte, last, extra bool) (n, next int) {
	switch {
	case len(p.after) == 0:
		if i := bytes.IndexByte(rest, ' '); last && extra && i >= 0 {
			return i, i
		}
		return len(rest), len(rest)
	case p.quoted:
		n = endOfQuoted(rest, p.after)
	case len(p.after) == 1:
		n = bytes.IndexByte(rest, p.after[0])
	default:
		n = bytes.Index(rest, p.after)
	}
	return n, n + len(p.after)
}

// endOfQuoted finds the first quote without a backslash before it that begins the text after the
// variable; -1 if there is none.
func endOfQuoted(rest, after []byte) int {
	for from := 0; ; {
		i := bytes.IndexByte(rest[from:], '"')
		if i < 0 {
			return -1
		}
		i += from
		slashes := 0
		for slashes < i && rest[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 && bytes.HasPrefix(rest[i:], after) {
			return i
		}
		from = i + 1
	}
}
