package hpack

// Indexing says what the receiving end, and each that passes a field on, is to do with it.
type Indexing uint8

const (
	// Once is for a value that is not expected again soon: the field is written out and leaves no
	// trace (RFC 7541, section 6.2.2). It is the cheapest.
	Once Indexing = iota
	// Repeat is for a value that is: the field enters the dynamic table, unless it would take more
	// than half of it, and is one or two bytes while it is there (sections 6.1 and 6.2.1).
	Repeat
	// Never is for a secret: the field is written out, and so it is by everybody who passes it on
	// (sections 6.2.3 and 7.1).
	Never
)

// Encoder is the sending end of one connection's header compression. One loop owns it. Init comes
// first.
//
// A header block is Begin and then the fields. It must be sent, and blocks in the order in which
// they were made, because each may change the table that the next refers to.
//
// A field is found in the dynamic table only as a whole, and of those that share a hash only the
// two newest. A name alone is looked for in the static table.
type Encoder struct {
	table   table
	slots   [][2]uint16 // by hash: the last bits of the numbers of the two newest entries
	told    int         // the size that the peer's table has
	lowest  int         // the lowest that it had to have since then
	huffman bool
}

// Init readies a new or a used Encoder for a new connection. most is how many bytes its dynamic
// table may have, whatever the peer allows, from 0 to Largest; what is below or above counts as
// these. Memory is allocated with the first entry.
//
// huffman says to write strings in the Huffman code where that is shorter. See the package's
// comment for what it costs.
func (e *Encoder) Init(most int, huffman bool) {
	e.table.init(most)
	if len(e.slots) != len(e.table.entries) {
		e.slots = nil
	}
	e.told, e.lowest, e.huffman = Initial, e.table.max, huffman
}

// Resize takes the peer's SETTINGS_HEADER_TABLE_SIZE, in bytes. The next block begins with what
// this changes. It is not called while a block is made.
func (e *Encoder) Resize(peer uint32) {
	size := int(min(uint64(peer), uint64(e.table.most)))
	e.table.resize(size)
	e.lowest = min(e.lowest, size)
}

// Begin begins a header block: it appends the table size updates that are due (RFC 7541, section
// 4.2).
func (e *Encoder) Begin(dst []byte) []byte {
	size := e.table.max
	switch {
	case e.lowest < min(e.told, size):
		// The table was to be smaller for a while. The smallest size could be said, but 0 is always
		// understood: golang.org/x/net refuses a second update while there are entries.
		e.table.evict(0)
		dst = appendInteger(append(dst, 0x20), 0x20, 5, uint64(size))
	case size != e.told:
		dst = appendInteger(dst, 0x20, 5, uint64(size))
	}
	e.told, e.lowest = size, size
	return dst
}

// AppendStatus appends the field :status. A status outside 100 to 599 is not a status, and is sent
// as 500.
func (e *Encoder) AppendStatus(dst []byte, status int) []byte {
	switch status {
	case 200:
		return append(dst, 0x80|8)
	case 204:
		return append(dst, 0x80|9)
	case 206:
		return append(dst, 0x80|10)
	case 304:
		return append(dst, 0x80|11)
	case 400:
		return append(dst, 0x80|12)
	case 404:
		return append(dst, 0x80|13)
	}
	if status < 100 || status > 599 || status == 500 {
		return append(dst, 0x80|14)
	}
	return append(dst, Status, 3, '0'+byte(status/100), '0'+byte(status/10%10), '0'+byte(status%10))
}

// AppendField appends a field. The name may be in any case, and is written in lower case.
func (e *Encoder) AppendField(dst, name, value []byte, how Indexing) []byte {
	hash := hashName(name)
	if i := staticIndex(name, hash); i != 0 {
		return e.AppendStatic(dst, i, value, how)
	}
	if how == Repeat {
		hash ^= hashValue(value)
		if i := e.find(0, name, value, hash); i != 0 {
			return appendInteger(dst, 0x80, 7, i)
		}
		if !e.add(0, name, value, hash) {
			how = Once
		}
	}
	dst = e.appendName(append(dst, patterns[how].pattern), name)
	return e.appendString(dst, value)
}

// AppendStatic appends a field whose name is that of entry index, 1 to Statics, of the static
// table.
func (e *Encoder) AppendStatic(dst []byte, index uint8, value []byte, how Indexing) []byte {
	index = statics[index].first
	s := &statics[index]
	if how != Never {
		for i := index; i <= s.last; i++ {
			if string(statics[i].value) == string(value) {
				return append(dst, 0x80|i)
			}
		}
	}
	if how == Repeat {
		hash := hashValue(value) ^ uint64(index)*nameFactor
		if i := e.find(index, nil, value, hash); i != 0 {
			return appendInteger(dst, 0x80, 7, i)
		}
		if !e.add(index, s.name, value, hash) {
			how = Once
		}
	}
	p := patterns[how]
	return e.appendString(appendInteger(dst, p.pattern, p.prefix, uint64(index)), value)
}

// patterns is how a literal field begins (RFC 7541, section 6.2).
var patterns = [...]struct{ pattern, prefix uint8 }{
	Once:   {0x00, 4},
	Repeat: {0x40, 6},
	Never:  {0x10, 4},
}

// find finds a field in the dynamic table, by its name in any case or by the name's static index.
// It returns the field's index, or 0. A name that goes over the ring's end is not looked at: the
// field is added once more then, and stands elsewhere.
func (e *Encoder) find(static uint8, name, value []byte, hash uint64) uint64 {
	if len(e.slots) == 0 {
		return 0
	}
	t := &e.table
	check := uint16(hash >> 32)
	b := e.bucket(check)
	for i := range b {
		age := uint64(uint16(t.next) - 1 - b[i])
		f := t.entry(age)
		if f == nil || f.check != check || f.static != static || int(f.value) != len(value) {
			continue
		}
		at := int(f.at)
		if static == 0 {
			end := at + int(f.name)
			if end > len(t.bytes) || !equalFold(t.bytes[at:end], name) {
				continue
			}
			at = end
		}
		if t.holds(at, value) {
			return Statics + 1 + age
		}
	}
	return 0
}

// bucket is the slots of a hash. With one slot, two fields of one response that share it would
// drive each other out for ever.
func (e *Encoder) bucket(check uint16) *[2]uint16 {
	return &e.slots[int(check)&(len(e.slots)-1)]
}

// note makes the entry with this number the one to be found first by its hash.
func (e *Encoder) note(check uint16, number uint) {
	b := e.bucket(check)
	b[0], b[1] = uint16(number), b[0]
}

// add adds a field to the dynamic table. It does not where that would take more than half of it:
// too much would have to go.
func (e *Encoder) add(static uint8, name, value []byte, hash uint64) bool {
	t := &e.table
	if overhead+len(name)+len(value) > t.max/2 {
		return false
	}
	f, _ := t.open(len(name), len(value), static)
	f.check = uint16(hash >> 32)
	if static == 0 {
		t.write(name)
		t.lowerName(f)
	}
	t.write(value)
	if len(e.slots) == len(t.entries) {
		e.note(f.check, t.next-1)
	} else {
		e.rehash()
	}
	return true
}

// rehash makes as many slots as the table's ring of entries needs.
func (e *Encoder) rehash() {
	t := &e.table
	e.slots = make([][2]uint16, len(t.entries))
	for age := t.count - 1; age >= 0; age-- {
		e.note(t.entry(uint64(age)).check, t.next-1-uint(age))
	}
}

// appendName appends a name in lower case as a string literal.
func (e *Encoder) appendName(dst, name []byte) []byte {
	if !e.huffman {
		dst = appendInteger(dst, 0, 7, uint64(len(name)))
		dst = append(dst, name...)
		toLower(dst[len(dst)-len(name):])
		return dst
	}
	from := len(dst)
	dst = append(dst, name...)
	low := dst[from:]
	toLower(low)
	dst = e.appendString(dst, low)
	n := copy(dst[from:], dst[from+len(name):])
	return dst[:from+n]
}

// appendString appends a string literal (RFC 7541, section 5.2).
func (e *Encoder) appendString(dst, s []byte) []byte {
	if e.huffman {
		if n := huffmanLen(s); n < len(s) {
			return appendHuffman(appendInteger(dst, 0x80, 7, uint64(n)), s)
		}
	}
	return append(appendInteger(dst, 0, 7, uint64(len(s))), s...)
}

// appendInteger appends an integer whose prefix has this many bits, behind those of pattern (RFC
// 7541, section 5.1).
func appendInteger(dst []byte, pattern, prefix uint8, v uint64) []byte {
	limit := uint64(1)<<(prefix&7) - 1
	if v < limit {
		return append(dst, pattern|byte(v))
	}
	dst = append(dst, pattern|byte(limit))
	for v -= limit; v >= 0x80; v >>= 7 {
		dst = append(dst, byte(v)|0x80)
	}
	return append(dst, byte(v))
}
