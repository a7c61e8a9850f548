package sim

import (
	"bytes"
	"hash/fnv"
	"math/rand/v2"
)

// Bodies are noise that starts at a position derived from the request's token. So a missing,
// repeated or foreign byte shows where it is.
var noiseText = func() []byte {
	const printable = "abcdefghijklmnopqrstuvwxyz0123456789"
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<16)
	for i := range b {
		b[i] = printable[r.IntN(len(printable))]
	}
	return b
}()

// noise is one body's text.
type noise struct{ start int }

func noiseOf(token string) noise { return noise{int(hashOf(token))} }

// hashOf is a 16-bit number derived from a text.
func hashOf(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64() % uint64(len(noiseText))
}

// bytes returns length bytes of the body, from an offset on.
func (n noise) bytes(offset, length int) []byte {
	return n.append(make([]byte, 0, length), offset, length)
}

// append appends length bytes of the body, from an offset on.
func (n noise) append(to []byte, offset, length int) []byte {
	for length > 0 {
		at := (n.start + offset) % len(noiseText)
		piece := noiseText[at:min(len(noiseText), at+length)]
		to = append(to, piece...)
		offset, length = offset+len(piece), length-len(piece)
	}
	return to
}

// is reports whether p is the text at an offset.
func (n noise) is(offset int, p []byte) bool {
	for len(p) > 0 {
		at := (n.start + offset) % len(noiseText)
		k := min(len(p), len(noiseText)-at)
		if !bytes.Equal(p[:k], noiseText[at:at+k]) {
			return false
		}
		p, offset = p[k:], offset+k
	}
	return true
}
