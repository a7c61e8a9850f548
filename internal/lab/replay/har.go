package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// har reads the entries of a HAR document one by one. An entry may contain a whole answer, so the
// bytes read for it are bounded.
type har struct {
	budget  *budget
	decoder *json.Decoder
	inside  bool // log.entries
	entry   harEntry
}

// harEntry has the fields of an entry that a replay uses.
type harEntry struct {
	Started string `json:"startedDateTime"`
	Request struct {
		Method, URL string
		Headers     harAgent
		PostData    struct {
			MimeType, Text string
		}
	}
	Response struct{ Status int }
}

// harAgent is the User-Agent in a list of headers. Nothing else of the list is kept: the three
// bytes "{}," would become a header of thirty.
type harAgent string

// UnmarshalJSON implements json.Unmarshaler.
func (a *harAgent) UnmarshalJSON(list []byte) error {
	d := json.NewDecoder(bytes.NewReader(list))
	open, err := d.Token()
	if err != nil || open == nil {
		return err
	}
	if open != json.Delim('[') {
		return &json.UnmarshalTypeError{Value: "value that is not a list", Field: "headers",
			Type: reflect.TypeFor[[]string]()}
	}
	var field, none struct{ Name, Value string }
	for d.More() {
		field = none
		if err := d.Decode(&field); err != nil {
			return err
		}
		if strings.EqualFold(field.Name, "User-Agent") {
			*a = harAgent(field.Value)
		}
	}
	return nil
}

// maxEntry is the largest entry, in bytes.
const maxEntry = 64 << 20

// budget is a reader that returns an error after left bytes.
type budget struct {
	in   io.Reader
	left int
}

// errEntry ends a HAR in which something is larger than may be held in memory.
var errEntry = errors.New("an entry is larger than 64 MiB, or the document is not a HAR")

// Read implements io.Reader.
func (b *budget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errEntry
	}
	n, err := b.in.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func newHAR(in *bufio.Reader) *har {
	b := &budget{in: in, left: maxEntry}
	return &har{budget: b, decoder: json.NewDecoder(b)}
}

// next reads an entry. An error in the document ends it; an error in an entry's values only
// concerns that entry.
func (h *har) next(r *record) error {
	r.reset()
	h.budget.left = maxEntry
	if !h.inside {
		if err := h.enter(); err != nil {
			return err
		}
		h.inside = true
	}
	if !h.decoder.More() {
		if _, err := h.decoder.Token(); err != nil {
			return h.damaged(err)
		}
		return io.EOF
	}
	h.entry = harEntry{}
	err := h.decoder.Decode(&h.entry)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		r.line = fmt.Appendf(nil, "the entry before byte %d: %s is a %s",
			h.decoder.InputOffset(), wrong.Field, wrong.Value)
		r.bad = errJSON
		return nil
	}
	if err != nil {
		return h.damaged(err)
	}
	h.fill(r)
	return nil
}

// enter goes to the first entry of log.entries.
func (h *har) enter() error {
	if err := h.open('{'); err != nil {
		return err
	}
	if err := h.find("log"); err != nil {
		return err
	}
	if err := h.open('{'); err != nil {
		return err
	}
	if err := h.find("entries"); err != nil {
		return err
	}
	return h.open('[')
}

func (h *har) open(bracket json.Delim) error {
	t, err := h.decoder.Token()
	if err != nil {
		return h.damaged(err)
	}
	if t != bracket {
		return fmt.Errorf("the document is not a HAR: there is %v where %v should be", t, bracket)
	}
	return nil
}

// find skips an object's fields up to the one with the given name.
func (h *har) find(name string) error {
	for h.decoder.More() {
		key, err := h.decoder.Token()
		if err != nil {
			return h.damaged(err)
		}
		if key == name {
			return nil
		}
		var passed json.RawMessage
		if err := h.decoder.Decode(&passed); err != nil {
			return h.damaged(err)
		}
		h.budget.left = maxEntry
	}
	return fmt.Errorf("the document is not a HAR: it has no %q", name)
}

func (h *har) damaged(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("the HAR is damaged at byte %d: %w", h.decoder.InputOffset(), err)
}

// fill fills a record from the entry.
func (h *har) fill(r *record) {
	e := &h.entry
	r.line = fmt.Appendf(nil, "%s %s %s", e.Started, e.Request.Method, e.Request.URL)
	r.values[vTime], r.values[vMethod] = []byte(e.Started), []byte(e.Request.Method)
	target, _, _ := strings.Cut(e.Request.URL, "#")
	r.values[vTarget] = []byte(target)
	if e.Request.Headers != "" {
		r.values[vAgent] = []byte(e.Request.Headers)
	}
	if e.Response.Status > 0 {
		r.values[vStatus] = fmt.Append(nil, e.Response.Status)
	}
	r.body, r.kind = []byte(e.Request.PostData.Text), []byte(e.Request.PostData.MimeType)
}
