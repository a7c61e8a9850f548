package replay

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// lines is a source with one record per line.
type lines struct {
	in     *bufio.Reader
	parser parser
}

// next reads a line. A line that does not fit into the reader's buffer is skipped as a whole. For
// an empty line, both r.line and r.bad are empty.
func (l *lines) next(r *record) error {
	r.reset()
	line, err := l.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		r.line = bytes.Clone(line[:exampleLength])
		r.bad = errTooLong
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = l.in.ReadSlice('\n')
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return err
	}
	line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	if r.line = line; len(line) > 0 {
		r.bad = l.parser.parse(line, r)
	}
	return nil
}

func hasLine(b []byte) bool { return bytes.IndexByte(b, '\n') >= 0 }
