package exchange

// arena hands out bytes that are all given back at once. It keeps one block of firstBlock bytes
// between lives, so that the usual exchange allocates nothing; what does not fit comes from the
// heap.
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

// open lends what is left of the block, empty, for a text whose length is not known in advance.
// Until keep, nothing else is allocated.
func (a *arena) open() []byte {
	if a.block == nil {
		a.block = make([]byte, firstBlock)
	}
	return a.block[a.used:a.used:len(a.block)]
}

// keep takes back what open lent, after text was appended to it, and keeps the text. Where that
// outgrew the block it lies on the heap already.
func (a *arena) keep(text []byte) []byte {
	if cap(text) != len(a.block)-a.used || len(text) == 0 || &text[0] != &a.block[a.used] {
		return text
	}
	a.used += len(text)
	return text[:len(text):len(text)]
}

func (a *arena) reset() { a.used = 0 }
