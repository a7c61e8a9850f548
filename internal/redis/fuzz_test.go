package redis

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"
	"testing"
)

var (
	errEnds  = errors.New("the bytes end")
	errStops = errors.New("rueidis gives the connection up")
)

// reader reads RESP as rueidis does, without keeping anything, and panics where that would panic,
// recurse too deeply or make room for too much.
type reader struct {
	data  []byte
	at    int
	depth int
	count int64
}

func (r *reader) line() ([]byte, error) {
	n := bytes.IndexByte(r.data[r.at:], '\n')
	if n < 0 {
		return nil, errEnds
	}
	line := r.data[r.at : r.at+n+1]
	r.at += n + 1
	return line, nil
}

func (r *reader) discard(n int64) error {
	if n > int64(len(r.data)-r.at) {
		r.at = len(r.data)
		return errEnds
	}
	r.at += int(n)
	return nil
}

func (r *reader) number() (int64, error) {
	line, err := r.line()
	if err != nil {
		return 0, err
	}
	if len(line) < 3 {
		return 0, errStops
	}
	if line[0] == '?' {
		panic("a message of no length: " + string(line))
	}
	sign, v := int64(1), int64(0)
	if line[0] == '-' {
		sign, line = -1, line[1:]
	}
	for _, c := range line[:len(line)-2] {
		if c < '0' || c > '9' {
			return 0, errStops
		}
		v = v*10 + int64(c-'0')
	}
	return v * sign, nil
}

// next reads a message.
func (r *reader) next() error {
	if r.at == len(r.data) {
		return errEnds
	}
	kind := r.data[r.at]
	r.at++
	switch kind {
	case '+', '-', ',', '(':
		line, err := r.line()
		if err == nil && len(line) < 2 {
			return errStops
		}
		return err
	case ':':
		if r.at < len(r.data) && r.data[r.at] == '?' {
			return errStops
		}
		_, err := r.number()
		return err
	case '_':
		return r.discard(2)
	case '#':
		return r.discard(3)
	case '$', '!', '=', '*', '~', '>', '%':
	default:
		return errStops
	}
	n, err := r.number()
	if err != nil || n == -1 && (kind == '$' || kind == '*') {
		return err
	}
	if kind == '%' {
		n *= 2
	}
	if n < 0 || n > math.MaxInt32 {
		panic("a length of " + strconv.FormatInt(n, 10))
	}
	if kind == '$' || kind == '!' || kind == '=' {
		return r.discard(n + 2)
	}
	if r.count += n; r.count > maxElements {
		panic("room for too many elements")
	}
	if r.depth++; r.depth > maxDepth+1 {
		panic("too deep")
	}
	defer func() { r.depth-- }()
	for range n {
		if err := r.next(); err != nil {
			return err
		}
	}
	return nil
}

// followed is where messages end that a wire sees in bytes that come in pieces, how many bytes it lets
// through, and why no more.
func followed(data []byte, piece int) (ends []int, passed int, err error) {
	w := wire{longest: 1 << 20}
	at := 0
	w.message = func(*message) error {
		ends = append(ends, at)
		return nil
	}
	for at = 1; at <= len(data) && err == nil; at += piece {
		// The last byte goes alone, so that where the message ends is known.
		for _, part := range [][]byte{data[at-1 : at], data[at:min(at+piece-1, len(data))]} {
			var n int
			if n, err = w.pass(part); err != nil {
				return ends, passed + n, err
			}
			passed += n
		}
	}
	return ends, passed, nil
}

// FuzzWireReadsAsRueidisDoes: what is let through is read by rueidis without harm, and message by
// message as the wire has seen it.
func FuzzWireReadsAsRueidisDoes(f *testing.F) {
	for _, s := range []string{
		"+OK\r\n", "$2\r\nab\r\n*2\r\n:1\r\n$-1\r\n", "*-1\r\n_\r\n#t\r\n#f\r\n", "%1\r\n+a\r\n~2\r\n,1.5\r\n(9\r\n",
		">3\r\n+message\r\n$1\r\nc\r\n$0\r\n\r\n", "=7\r\ntxt:abc\r\n!3\r\nERR\r\n-MOVED 1 a:1\r\n", "$?\r\n;2\r\nab\r\n",
		"*1\r\n*1\r\n*1\r\n*0\r\n", "*1\r\n>1\r\n", "$-2\r\n", "%-1\r\n", "_a\r\n", "#\r\n", ":\r\n", ":-\r\n", ":?\r\n", "+a\n",
	} {
		f.Add([]byte(s), byte(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, piece byte) {
		ends, passed, bad := followed(data, 1)
		_, other, alike := followed(data, 1+int(piece))
		if passed != other || (bad == nil) != (alike == nil) {
			t.Fatalf("byte by byte %d pass, %v; in pieces of %d %d pass, %v", passed, bad, 1+piece, other, alike)
		}
		r := reader{data: data[:passed]}
		var read []int
		var err error
		for {
			r.count = 0
			if err = r.next(); err != nil {
				break
			}
			read = append(read, r.at)
		}
		// The last byte of a message that is refused is held back, so that it does not end.
		if len(read) > len(ends) || !slices.Equal(read, ends[:len(read)]) || err == errEnds && len(read) != len(ends) {
			t.Fatalf("messages end at %v, and rueidis reads them to %v and then %v; the wire %v", ends, read, err, bad)
		}
	})
}
