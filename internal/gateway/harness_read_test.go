package gateway

import (
	"io"
	"strings"
)

type piece [256 << 10]byte

// spare are pieces that nobody uses. A sync.Pool would lose some: under the race detector it does so
// on purpose.
var spare = make(chan *piece, 64)

func newPiece() *piece {
	select {
	case p := <-spare:
		return p
	default:
		return new(piece)
	}
}

func (p *piece) free() {
	select {
	case spare <- p:
	default:
	}
}

// readString reads to the end, as io.ReadAll does. That copies all that it has, into fresh memory,
// each time that it has grown by a quarter: under the race detector a third of the memory that
// tests with long bodies touch was for that.
func readString(r io.Reader) (string, error) {
	var all []*piece
	for {
		p, n, err := newPiece(), 0, error(nil)
		all = append(all, p)
		for n < len(p) && err == nil {
			var more int
			more, err = r.Read(p[n:])
			n += more
		}
		if err == nil {
			continue
		}
		if err == io.EOF {
			err = nil
		}
		return joined(all, n), err
	}
}

// joined is what pieces hold, of the last one so much, and gives them back.
func joined(all []*piece, last int) string {
	var b strings.Builder
	b.Grow((len(all)-1)*len(piece{}) + last)
	for n, p := range all {
		if n == len(all)-1 {
			b.Write(p[:last])
		} else {
			b.Write(p[:])
		}
		p.free()
	}
	return b.String()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
