package replay

import (
	"bytes"
	"strconv"

	"plimsoll/internal/http1"
)

// item is a request on its way from the log to a loop.
type item struct {
	at     int64  // time of arrival according to the log, in Unix nanoseconds
	bytes  []byte // head and body
	name   uint8  // index into methods
	status uint16 // the logged status; 0 if unknown
}

// methods are the names of the requests in the results, the safe ones first.
var methods = []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "other"}

const (
	safeMethods = 3
	headMethod  = 1
	maxHead     = 16 << 10
	maxBody     = 64 << 10
	maxAgent    = 2 << 10
)

// renderer makes requests from records. The project's own parser is the referee: a request is sent
// only if the parser reads it as exactly one request with the intended fields, whatever the log's
// bytes are.
type renderer struct {
	authority []byte
	keepHost  bool
	buffer    []byte
	referee   http1.Request
	// withoutAgent says that the last record's User-Agent was left out because it was not a valid
	// one.
	withoutAgent bool
	host         []byte // of the last record; nil if it has none
}

var limits = http1.Limits{Line: maxHead, Head: maxHead, Fields: 8}

// render makes the request of a record. it.bytes is valid until the next call.
func (q *renderer) render(r *record, it *item) error {
	method, target, err := r.asked()
	if err != nil {
		return err
	}
	q.host, q.withoutAgent = r.values[vHost], false
	if target, err = q.origin(target); err != nil {
		return err
	}
	if it.status, err = status(r.values[vStatus]); err != nil {
		return err
	}
	if len(r.body) > maxBody || len(target) > maxHead {
		return errTooLarge
	}
	if !clean(method, ' ') || !clean(target, ' ') || !clean(r.kind, ' '-1) {
		return errCharacter
	}
	it.name = methodName(method)
	it.bytes, err = q.compose(method, target, r)
	return err
}

// asked returns the method and the target of a record.
func (r *record) asked() (method, target []byte, err error) {
	method, target = r.values[vMethod], r.values[vTarget]
	if line := r.values[vRequest]; line != nil && (method == nil || target == nil) {
		m, rest, ok := bytes.Cut(line, []byte(" "))
		end := bytes.LastIndexByte(rest, ' ')
		if !ok || end <= 0 || !bytes.HasPrefix(rest[end+1:], []byte("HTTP/")) {
			return nil, nil, errRequest
		}
		return m, rest[:end], nil
	}
	switch {
	case len(method) == 0:
		return nil, nil, errNoMethod
	case len(target) == 0:
		return nil, nil, errNoTarget
	}
	if query := r.values[vQuery]; len(query) > 0 && string(query) != "-" &&
		bytes.IndexByte(target, '?') < 0 {
		from := len(r.scratch)
		r.scratch = append(append(append(r.scratch, target...), '?'),
			bytes.TrimPrefix(query, []byte("?"))...)
		target = r.scratch[from:]
	}
	return method, target, nil
}

// origin converts a target to origin-form. A URL's path and query become the target, and its host
// becomes the record's.
func (q *renderer) origin(target []byte) ([]byte, error) {
	if target[0] == '/' || string(target) == "*" {
		return target, nil
	}
	rest, ok := bytes.CutPrefix(target, []byte("http://"))
	if !ok {
		rest, ok = bytes.CutPrefix(target, []byte("https://"))
	}
	if !ok {
		return nil, errTarget
	}
	end := bytes.IndexAny(rest, "/?")
	if end < 0 {
		q.host = rest
		return []byte("/"), nil
	}
	q.host = rest[:end]
	if rest[end] == '?' {
		return append([]byte("/"), rest[end:]...), nil
	}
	return rest[end:], nil
}

// status reads three digits. A dash, or 000, means that there was no answer.
func status(b []byte) (uint16, error) {
	if len(b) == 0 || string(b) == "-" {
		return 0, nil
	}
	n, ok := digits(b)
	if !ok || len(b) > 3 {
		return 0, errStatus
	}
	return uint16(n), nil
}

// clean reports whether b has no DEL and no bytes up to and including bar.
func clean(b []byte, bar byte) bool {
	for _, c := range b {
		if c <= bar || c == 0x7f {
			return false
		}
	}
	return true
}

func methodName(method []byte) uint8 {
	for i, m := range methods[:len(methods)-1] {
		if string(method) == m {
			return uint8(i)
		}
	}
	return uint8(len(methods) - 1)
}

// compose writes the request and has the referee read it.
func (q *renderer) compose(method, target []byte, r *record) ([]byte, error) {
	host := q.authority
	if q.keepHost && len(q.host) > 0 && string(q.host) != "-" {
		if host = q.host; !clean(host, ' ') {
			return nil, errHost
		}
	}
	b := append(append(q.buffer[:0], method...), ' ')
	b = append(append(b, target...), " HTTP/1.1\r\nHost: "...)
	b = append(append(b, host...), "\r\n"...)
	fields := 1
	if agent := r.values[vAgent]; len(agent) > 0 && string(agent) != "-" {
		if len(agent) <= maxAgent && clean(agent, ' '-1) {
			b = append(append(append(b, "User-Agent: "...), agent...), "\r\n"...)
			fields++
		} else {
			q.withoutAgent = true
		}
	}
	if len(r.body) > 0 && len(r.kind) > 0 {
		b = append(append(append(b, "Content-Type: "...), r.kind...), "\r\n"...)
		fields++
	}
	if len(r.body) > 0 || string(method) == "POST" || string(method) == "PUT" ||
		string(method) == "PATCH" {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(r.body)), 10),
			"\r\n"...)
		fields++
	}
	b = append(b, "\r\n"...)
	q.buffer = b
	q.referee.Reset()
	n, wrong := q.referee.Parse(b, &limits)
	switch {
	case wrong == http1.LineTooLong || wrong == http1.HeadTooLarge:
		return nil, errTooLarge
	case wrong == http1.BadHost:
		return nil, errHost
	case wrong != http1.OK || n != len(b) || q.referee.Fields.Len() != fields:
		return nil, errCharacter
	}
	q.buffer = append(b, r.body...)
	return q.buffer, nil
}
