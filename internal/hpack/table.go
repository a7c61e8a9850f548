package hpack

const (
	// overhead is what an entry counts for beside its name and its value (RFC 7541, section 4.1).
	overhead = 32
	// Initial is the size of a dynamic table, in bytes, before SETTINGS_HEADER_TABLE_SIZE or an
	// update says otherwise (RFC 9113, section 6.5.2).
	Initial = 4096
	// Largest is the most bytes that a dynamic table of this room has. An entry keeps lengths and
	// places in 16 bits.
	Largest = 1 << 16

	firstBytes   = 512
	firstEntries = 16
)

// entry is a field in a dynamic table. The bytes of a name that is not static stand in front of
// those of the value.
type entry struct {
	at     uint16 // where its bytes begin
	name   uint16 // length
	value  uint16 // length
	static uint8  // the lowest index of its name in the static table, 0 where it is not there
	check  uint16 // a part of its hash, for an Encoder
}

func (e *entry) size() int { return overhead + int(e.name) + int(e.value) }

// stored is how many bytes of the ring an entry has.
func (e *entry) stored() int {
	if e.static != 0 {
		return int(e.value)
	}
	return int(e.name) + int(e.value)
}

// table is a dynamic table (RFC 7541, section 2.3.2): a ring of entries over a ring of bytes. Both
// are allocated with the first entry and double up to what most asks for.
type table struct {
	bytes   []byte
	entries []entry // a power of two of them
	next    uint    // the number of the next entry; the newest has next-1
	count   int     // entries
	tail    int     // where in bytes the next entry goes
	used    int     // bytes of the ring that entries have
	size    int     // of all entries, by RFC 7541, section 4.1
	max     int     // the present bound of size
	most    int     // the bound of max
}

// init readies a new or a used table. It keeps the memory of a used one where that is not too much.
func (t *table) init(most int) {
	most = min(max(most, 0), Largest)
	*t = table{bytes: t.bytes, entries: t.entries, max: min(most, Initial), most: most}
	if len(t.bytes) > most {
		t.bytes, t.entries = nil, nil
	}
}

// entry finds an entry by its age, 0 for the newest; nil where there is none.
func (t *table) entry(age uint64) *entry {
	if age >= uint64(t.count) {
		return nil
	}
	return &t.entries[(t.next-1-uint(age))&uint(len(t.entries)-1)]
}

// resize sets the bound of the size, at most most.
func (t *table) resize(bound int) {
	t.max = bound
	t.evict(bound)
}

// evict takes out the oldest entries until the size is at most bound.
func (t *table) evict(bound int) {
	for t.size > bound {
		e := t.entry(uint64(t.count - 1))
		t.size -= e.size()
		t.used -= e.stored()
		t.count--
	}
}

// open makes room for an entry of a name and a value of these lengths, and adds it. Its bytes are
// to be written next: the name's, unless it is static, and then the value's. An entry larger than
// the table empties it and is not added (RFC 7541, section 4.4): ok is false then.
//
// The bytes of an entry that was evicted to make room may be copied into the new one, and nowhere
// else: they are still there, and what is written overwrites them in their own order.
func (t *table) open(name, value int, static uint8) (e *entry, ok bool) {
	size := overhead + name + value
	if size > t.max {
		t.evict(0)
		return nil, false
	}
	stored := value
	if static == 0 {
		stored += name
	}
	t.reserve(stored)
	t.evict(t.max - size)
	e = &t.entries[t.next&uint(len(t.entries)-1)]
	*e = entry{at: uint16(t.tail), name: uint16(name), value: uint16(value), static: static}
	t.next++
	t.count++
	t.size += size
	t.used += stored
	return e, true
}

// reserve makes the rings large enough for another entry, as far as most allows. That comes before
// anything is evicted: a larger ring does not have the bytes of what was.
func (t *table) reserve(stored int) {
	if t.used+stored > len(t.bytes) || t.count == len(t.entries) {
		t.grow(t.used + stored)
	}
}

// grow makes the rings larger, the ring of bytes for need bytes where most allows that.
func (t *table) grow(need int) {
	if t.count == len(t.entries) {
		entries := make([]entry, max(2*len(t.entries), firstEntries))
		for i := t.next - uint(t.count); i != t.next; i++ {
			entries[i&uint(len(entries)-1)] = t.entries[i&uint(len(t.entries)-1)]
		}
		t.entries = entries
	}
	if need <= len(t.bytes) || len(t.bytes) == t.most {
		return
	}
	bytes := make([]byte, 0, min(max(need, 2*len(t.bytes), firstBytes), t.most))
	for age := t.count - 1; age >= 0; age-- {
		e := t.entry(uint64(age))
		at := len(bytes)
		bytes = t.appendBytes(bytes, int(e.at), e.stored())
		e.at = uint16(at)
	}
	t.tail = len(bytes)
	t.bytes = bytes[:cap(bytes)]
	t.wrap()
}

func (t *table) wrap() {
	if t.tail >= len(t.bytes) {
		t.tail -= len(t.bytes)
	}
}

// write writes the next bytes of the newest entry.
func (t *table) write(b []byte) {
	n := copy(t.bytes[t.tail:], b)
	t.tail += n
	if n < len(b) {
		t.tail = copy(t.bytes, b[n:])
	}
	t.wrap()
}

// writeAgain writes n bytes of the ring, from at on, as the next bytes of the newest entry.
func (t *table) writeAgain(at, n int) {
	for n > 0 {
		part := min(n, len(t.bytes)-at)
		t.write(t.bytes[at : at+part])
		at, n = 0, n-part
	}
}

// appendBytes appends n bytes of the ring, from at on.
func (t *table) appendBytes(dst []byte, at, n int) []byte {
	if end := at + n; end <= len(t.bytes) {
		return append(dst, t.bytes[at:end]...)
	}
	dst = append(dst, t.bytes[at:]...)
	return append(dst, t.bytes[:at+n-len(t.bytes)]...)
}

// lowerName makes the name of the newest entry lower-case, which was written last.
func (t *table) lowerName(e *entry) {
	at, end := int(e.at), int(e.at)+int(e.name)
	toLower(t.bytes[at:min(end, len(t.bytes))])
	toLower(t.bytes[:max(end-len(t.bytes), 0)])
}

// holds says whether n bytes of the ring, from at on, are b.
func (t *table) holds(at int, b []byte) bool {
	if end := at + len(b); end <= len(t.bytes) {
		return string(t.bytes[at:end]) == string(b)
	}
	first := len(t.bytes) - at
	return string(t.bytes[at:]) == string(b[:first]) &&
		string(t.bytes[:len(b)-first]) == string(b[first:])
}
