package stacks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/pprof/profile"
)

// document reads a JSON text piece by piece. A value with many parts is never decoded at once: the
// three bytes of each "[]," become a slice of 24, so parts are counted first.
type document struct {
	data []byte
	from *json.Decoder
}

func newDocument(data []byte) *document {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	return &document{data, json.NewDecoder(bytes.NewReader(data))}
}

// object calls member for each member. member must read the whole value. A null object has no
// members.
func (d *document) object(member func(key string) error) error {
	open, err := d.open('{')
	if err != nil || !open {
		return err
	}
	for d.from.More() {
		key, err := d.from.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if err := member(name); err != nil {
			return err
		}
	}
	_, err = d.from.Token()
	return err
}

// array calls element for each element, of which there may be at most most. A null array has no
// elements.
func (d *document) array(most int, what string, element func() error) error {
	open, err := d.open('[')
	if err != nil || !open {
		return err
	}
	for n := 0; d.from.More(); n++ {
		if n == most {
			return fmt.Errorf("there are more than %d %s", most, what)
		}
		if err := element(); err != nil {
			return err
		}
	}
	_, err = d.from.Token()
	return err
}

func (d *document) open(with json.Delim) (bool, error) {
	first, err := d.from.Token()
	switch {
	case err != nil:
		return false, err
	case first == nil:
		return false, nil
	case first != with:
		return false, fmt.Errorf("there is %.40q where %v was expected", fmt.Sprint(first), with)
	}
	return true, nil
}

// skip skips a value.
func (d *document) skip() error {
	var raw json.RawMessage
	return d.from.Decode(&raw)
}

// at adds to an error the line at which it occurred. An error of the decoder has its own offset.
func (d *document) at(err error) error {
	offset := d.from.InputOffset()
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = max(offset, syntax.Offset)
	case errors.As(err, &kind):
		err = fmt.Errorf("%.60q is %s, and %s was expected", kind.Field, kind.Value, kind.Type)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err, offset = errors.New("the file ends in the middle"), int64(len(d.data))
	}
	line := 1 + bytes.Count(d.data[:min(offset, int64(len(d.data)))], []byte("\n"))
	return fmt.Errorf("line %d: %w", line, err)
}

// readJSON determines the format of a JSON text from its members, and reads it.
func readJSON(data []byte, o Options) (*profile.Profile, Format, error) {
	format, err := formatOf(data)
	if err != nil {
		return nil, "", err
	}
	d := newDocument(data)
	var p *profile.Profile
	switch format {
	case Speedscope:
		p, err = readSpeedscope(d, o)
	case CPUProfile:
		p, err = readCPUProfile(d, o)
	default:
		p, err = readJFR(d, o)
	}
	return p, format, err
}

// formatOf stops at the first member that only one format has.
func formatOf(data []byte) (format Format, err error) {
	d := newDocument(data)
	found := errors.New("found")
	err = d.object(func(key string) error {
		switch key {
		case "shared", "profiles":
			format = Speedscope
		case "nodes", "timeDeltas":
			format = CPUProfile
		case "recording":
			format = JFRPrint
		default:
			return d.skip()
		}
		return found
	})
	switch {
	case errors.Is(err, found):
		return format, nil
	case err != nil:
		return "", d.at(err)
	}
	return "", errors.New("this JSON is not a profile: it has neither speedscope's members " +
		"shared and profiles, nor V8's nodes, nor jfr's recording")
}
