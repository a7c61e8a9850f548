package sim

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// reader parses HTTP/1.1 messages from bytes as they arrive. It belongs to the actors and is small
// on purpose: the gateway's codec must not judge itself.
type reader struct {
	requests bool // it reads requests; otherwise responses
	noBody   func(h *messageHead) bool

	onHead   func(h *messageHead) error
	onBody   func(p []byte) error
	onEnd    func(trailers map[string]string) error
	held     []byte
	state    readState
	left     int // remaining bytes of the body or the chunk
	trailers map[string]string
	untilEnd bool // the body ends with the connection
}

type readState uint8

const (
	atHead readState = iota
	inBody
	atChunk
	afterChunk
	inTrailers
)

// messageHead is a start line and fields.
type messageHead struct {
	first  string // the whole start line
	words  []string
	fields map[string]string // by lower-case name; values of one name joined by ", "
}

func (h *messageHead) value(name string) string { return h.fields[name] }

func (h *messageHead) number(name string) int {
	n, err := strconv.Atoi(h.fields[name])
	if err != nil {
		return -1
	}
	return n
}

func (h *messageHead) status() int {
	n, _ := strconv.Atoi(h.words[1])
	return n
}

// feed parses received bytes and keeps p. An error means that they are not HTTP, or comes from a
// callback.
func (r *reader) feed(p []byte) error {
	if len(r.held) == 0 {
		r.held = p
	} else {
		r.held = append(r.held, p...)
	}
	for {
		more, err := r.step()
		if err != nil || !more {
			return err
		}
	}
}

// ended is called when no more bytes will arrive. That ends a body without another end.
func (r *reader) ended() error {
	if r.untilEnd && r.state == inBody {
		return r.end()
	}
	return nil
}

func (r *reader) step() (more bool, err error) {
	switch r.state {
	case atHead:
		return r.head()
	case inBody:
		return r.body()
	case atChunk, inTrailers:
		line, rest, ok := bytes.Cut(r.held, []byte("\r\n"))
		if !ok {
			return false, nil
		}
		r.held = rest
		if r.state == atChunk {
			return true, r.chunk(string(line))
		}
		return true, r.trailer(string(line))
	case afterChunk:
		if len(r.held) < 2 {
			return false, nil
		}
		if r.held[0] != '\r' || r.held[1] != '\n' {
			return false, fmt.Errorf("a chunk is followed by %q", r.held[:2])
		}
		r.held, r.state = r.held[2:], atChunk
		return true, nil
	}
	panic("no such state")
}

func (r *reader) head() (bool, error) {
	head, rest, ok := bytes.Cut(r.held, []byte("\r\n\r\n"))
	if !ok {
		return false, nil
	}
	lines := strings.Split(string(head), "\r\n")
	h := &messageHead{
		first: lines[0], words: strings.SplitN(lines[0], " ", 3), fields: map[string]string{},
	}
	if len(h.words) < 2 || len(h.words) < 3 && r.requests {
		return false, fmt.Errorf("%q is not a start line", lines[0])
	}
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		bad := strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n\x00")
		if !ok || name == "" || bad {
			return false, fmt.Errorf("%q is not a header field", line)
		}
		name, value = strings.ToLower(name), strings.TrimSpace(value)
		if old, twice := h.fields[name]; twice {
			if name == "content-length" || name == "host" || name == "transfer-encoding" {
				return false, fmt.Errorf("%s is there twice", name)
			}
			value = old + ", " + value
		}
		h.fields[name] = value
	}
	r.held = rest
	if err := r.onHead(h); err != nil {
		return false, err
	}
	return true, r.frame(h)
}

// frame determines where the message ends.
func (r *reader) frame(h *messageHead) error {
	coding, length := h.value("transfer-encoding"), h.value("content-length")
	r.trailers, r.untilEnd = nil, false
	switch {
	case coding != "" && length != "":
		return errors.New("a message has Transfer-Encoding and Content-Length")
	case r.noBody != nil && r.noBody(h):
		return r.end()
	case coding == "chunked":
		r.state = atChunk
	case coding != "":
		return fmt.Errorf("Transfer-Encoding is %q", coding)
	case length != "":
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 {
			return fmt.Errorf("Content-Length is %q", length)
		}
		if r.left = n; n == 0 {
			return r.end()
		}
		r.state = inBody
	case r.requests:
		return r.end()
	default:
		r.state, r.untilEnd = inBody, true
	}
	return nil
}

func (r *reader) body() (bool, error) {
	n := len(r.held)
	if !r.untilEnd || r.left > 0 {
		n = min(n, r.left)
	}
	if n == 0 {
		return false, nil
	}
	p := r.held[:n]
	r.held = r.held[n:]
	if err := r.onBody(p); err != nil {
		return false, err
	}
	if r.untilEnd {
		return true, nil
	}
	if r.left -= n; r.left > 0 {
		return false, nil
	}
	if r.trailers != nil {
		r.state = afterChunk
		return true, nil
	}
	return true, r.end()
}

func (r *reader) chunk(line string) error {
	size, _, _ := strings.Cut(line, ";")
	n, err := strconv.ParseUint(size, 16, 31)
	if err != nil {
		return fmt.Errorf("a chunk's size is %q", line)
	}
	if r.trailers == nil {
		r.trailers = map[string]string{}
	}
	r.left, r.state = int(n), inBody
	if n == 0 {
		r.state = inTrailers
	}
	return nil
}

func (r *reader) trailer(line string) error {
	if line == "" {
		return r.end()
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("%q is not a trailer field", line)
	}
	r.trailers[strings.ToLower(name)] = strings.TrimSpace(value)
	return nil
}

func (r *reader) end() error {
	r.state, r.untilEnd, r.left = atHead, false, 0
	return r.onEnd(r.trailers)
}
