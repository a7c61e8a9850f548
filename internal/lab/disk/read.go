package disk

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// LineError is an error in a line.
type LineError struct {
	Number int
	Err    error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Number, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// Lines calls take with each line of at most longest bytes and its number, counted from 1. The line
// is valid only during the call. cut is the number of a truncated last line, one without a newline,
// which is not passed to take; otherwise 0. Errors of take, and of a line that is too long, are
// LineErrors.
func Lines(
	from io.Reader, longest int, take func(number int, line []byte) error,
) (cut int, err error) {
	in := bufio.NewScanner(from)
	in.Buffer(nil, longest+1)
	in.Split(withNewline)
	number := 1
	for ; in.Scan(); number++ {
		line, whole := bytes.CutSuffix(in.Bytes(), []byte("\n"))
		if !whole {
			return number, nil
		}
		if err := take(number, line); err != nil {
			return 0, &LineError{number, err}
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return 0, &LineError{number, fmt.Errorf("it is longer than %d bytes", longest)}
	}
	return 0, in.Err()
}

// withNewline splits into lines and keeps their newlines, which distinguish a complete line from a
// truncated one.
func withNewline(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}
