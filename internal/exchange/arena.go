package exchange

// arena hands out bytes that are all freed at once. It keeps one block of firstBlock bytes between
// the lives of an exchange, so that a typical exchange allocates nothing. What does not fit in the
// block comes from the heap.
type arena struct {
	block []byte
	used  int
}

const firstBlock = 1 << 10

func (a *arena) alloc(n int) []byte {
	if a.block == nil {
		a.block = make([]byte, firstBlock)
	}
	if n > len(a.block)-a.used {
		return make([]byte, n)
	}
	b := a.block[a.used : a.used+n : a.used+n]
	a.used += n
	return b
}

// open returns an empty slice over the rest of the block, for a text whose length is not known in
// advance. Nothing else may be allocated until keep.
func (a *arena) open() []byte {
	if a.block == nil {
		a.block = make([]byte, firstBlock)
	}
	return a.block[a.used:a.used:len(a.block)]
}

// keep ends what open began: text was appended to the slice from open, and keep allocates it in
// place. If the text outgrew the block, it is already on the heap.
func (a *arena) keep(text []byte) []byte {
	if cap(text) != len(a.block)-a.used || len(text) == 0 || &text[0] != &a.block[a.used] {
		return text
	}
	a.used += len(text)
	return text[:len(text):len(text)]
}

func (a *arena) reset() { a.used = 0 }
