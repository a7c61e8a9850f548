package hpack

import "errors"

// What is wrong with a header block. Whatever it is, decoder and encoder are no longer in step: the
// connection ends with COMPRESSION_ERROR (RFC 9113, section 4.3).
var (
	ErrIndex     = errors.New("hpack: an index that no entry has")
	ErrInteger   = errors.New("hpack: an integer of more than five further bytes")
	ErrHuffman   = errors.New("hpack: a string that is not a Huffman code, or ends wrongly")
	ErrTruncated = errors.New("hpack: the block ends within a field")
	ErrSize      = errors.New("hpack: a table size above the announced one")
	ErrUpdate    = errors.New("hpack: a table size update behind a field")
)

// Field is one decoded field. Name and Value alias the memory given to Next, or static memory,
// which nobody may write to; neither has capacity to spare.
//
// Nothing of a field is judged: a name may have upper-case letters, and any byte may stand in a
// name or a value (RFC 9113, section 8.2.1).
type Field struct {
	Name, Value []byte
	// Index is the lowest index, 1 to Statics, of an entry of the static table with this name, and
	// 0 where the static table does not have the name.
	Index uint8
	// Sensitive says that no recipient may index the field (RFC 7541, section 7.1.3).
	Sensitive bool
}

// Decoder is the receiving end of one connection's header compression. One loop owns it. Init comes
// first. Memory for the dynamic table is allocated with the first entry, and grows to the announced
// size and at most two thirds of it more.
type Decoder struct {
	table table
	block []byte
	at    int
	list  int  // Size
	begun bool // a field was read of this block
	large bool // TooLarge
}

// Init readies a new or a used Decoder for a new connection. most is the announced
// SETTINGS_HEADER_TABLE_SIZE in bytes, from Initial to Largest; what is below or above counts as
// these. A peer may use Initial bytes until it has seen another announcement, and more only after
// an update that says so.
func (d *Decoder) Init(most int) {
	d.table.init(max(most, Initial))
	d.Begin(nil)
}

// Begin gives the Decoder a complete header block: the payloads of a HEADERS or PUSH_PROMISE frame
// and its CONTINUATIONs, without padding and priority. The block is borrowed until Next has said
// that it is at an end. Every block must be decoded to its end, also that of a message that nobody
// wants, because it may change the dynamic table.
func (d *Decoder) Begin(block []byte) {
	d.block, d.at, d.list, d.begun, d.large = block, 0, 0, false, false
}

// Size is the size of the fields that Next has read of the present block, delivered or not: the
// lengths of name and value and 32 for each (RFC 9113, section 6.5.2). A block of n bytes can have
// a Size of almost n times the table's, so the caller bounds it.
func (d *Decoder) Size() int { return d.list }

// TooLarge says whether a field of the present block did not fit into the memory given to Next.
func (d *Decoder) TooLarge() bool { return d.large }

// Next decodes the next field into f. It appends to dst what is not static of its name and value,
// and never more than dst's capacity holds: out aliases dst. What is left of the capacity may be
// overwritten; it is not memory of the block. ok is false at the block's end, and where err is not
// nil; f is not a field then. After an error the Decoder is good for nothing before the next Init.
//
// A field that does not fit into dst is not delivered, and none behind it: what is left of the
// block is decoded for its effect on the dynamic table and its Size. That costs no memory but the
// table's. In time, a field costs its bytes in the block, and a literal that enters the table also
// a copy of the name that it refers to there. Who has Size bounded may take a block far above the
// bound for an attack and end the connection rather than read on.
func (d *Decoder) Next(f *Field, dst []byte) (out []byte, ok bool, err error) {
	for d.at < len(d.block) {
		c := d.block[d.at]
		switch {
		case c >= 0x80: // section 6.1
			dst, ok, err = d.indexed(f, dst)
		case c >= 0x40: // section 6.2.1
			dst, ok, err = d.literal(f, dst, 6)
			f.Sensitive = false
		case c >= 0x20: // section 6.3
			if err = d.update(); err == nil {
				continue
			}
		default: // sections 6.2.2 and 6.2.3
			dst, ok, err = d.literal(f, dst, 4)
			f.Sensitive = c >= 0x10
		}
		if ok || err != nil {
			return dst, ok, err
		}
	}
	return dst, false, nil
}

// indexed reads an indexed field.
func (d *Decoder) indexed(f *Field, dst []byte) (out []byte, ok bool, err error) {
	d.begun = true
	i, err := d.integer(7)
	if err != nil {
		return dst, false, err
	}
	if i <= Statics {
		if i == 0 {
			return dst, false, ErrIndex
		}
		s := &statics[i]
		d.list += s.size
		f.Name, f.Value, f.Index, f.Sensitive = s.name, s.value, s.first, false
		return dst, !d.large, nil
	}
	e := d.table.entry(i - Statics - 1)
	if e == nil {
		return dst, false, ErrIndex
	}
	d.list += e.size()
	from := len(dst)
	if e.stored() > cap(dst)-from {
		d.large = true
	}
	if d.large {
		return dst, false, nil
	}
	dst = d.table.appendBytes(dst, int(e.at), e.stored())
	f.Index, f.Sensitive = e.static, false
	if e.static != 0 {
		f.Name = statics[e.static].name
	} else {
		end := from + int(e.name)
		f.Name, from = dst[from:end:end], end
	}
	f.Value = dst[from:len(dst):len(dst)]
	return dst, true, nil
}

// literal reads a literal field whose name's index has a prefix of this many bits: 6 where the
// field enters the dynamic table, otherwise 4.
func (d *Decoder) literal(f *Field, dst []byte, prefix uint8) (out []byte, ok bool, err error) {
	d.begun = true
	var name, value piece
	if err = d.name(&name, prefix); err != nil {
		return dst, false, err
	}
	if err = d.string(&value); err != nil {
		return dst, false, err
	}
	if d.large {
		return dst, false, d.pass(&name, &value, prefix == 6)
	}
	from := len(dst)
	switch {
	case name.static != 0:
		f.Name, f.Index, ok = statics[name.static].name, name.static, true
	case name.known:
		f.Index = 0
		e := d.table.entry(name.age)
		if ok = int(e.name) <= cap(dst)-from; ok {
			dst = d.table.appendBytes(dst, int(e.at), int(e.name))
			f.Name = dst[from:len(dst):len(dst)]
		}
	default:
		if dst, ok, err = name.append(dst); ok {
			f.Name = dst[from:len(dst):len(dst)]
			if f.Index = exactIndex(f.Name); f.Index != 0 {
				f.Name, dst = statics[f.Index].name, dst[:from]
			}
		}
	}
	at := len(dst)
	if ok {
		dst, ok, err = value.append(dst)
	}
	switch {
	case err != nil:
		return dst[:from], false, err
	case !ok:
		d.large = true
		return dst[:from], false, d.pass(&name, &value, prefix == 6)
	}
	f.Value = dst[at:len(dst):len(dst)]
	d.list += overhead + len(f.Name) + len(f.Value)
	if prefix == 6 {
		if _, ok := d.table.open(len(f.Name), len(f.Value), f.Index); ok {
			d.table.write(dst[from:])
		}
	}
	return dst, true, nil
}

// pass does of a literal field what must be done of one that is not delivered. It needs no memory
// for it: what enters the table goes there in pieces.
func (d *Decoder) pass(name, value *piece, insert bool) error {
	var n int
	var err error
	switch {
	case name.static != 0:
		n = len(statics[name.static].name)
	case name.known:
		n = int(d.table.entry(name.age).name)
	default:
		if n, err = name.size(); err != nil {
			return err
		}
	}
	m, err := value.size()
	if err != nil {
		return err
	}
	d.list += overhead + n + m
	if !insert {
		return nil
	}
	at := 0
	if name.known && name.static == 0 {
		d.table.reserve(n + m)
		at = int(d.table.entry(name.age).at)
	}
	if !name.known && n <= longest {
		var b [longest]byte
		spelled, _, _ := name.append(b[:0])
		name.static = exactIndex(spelled)
	}
	if _, ok := d.table.open(n, m, name.static); !ok {
		return nil
	}
	switch {
	case name.static != 0:
	case name.known:
		d.table.writeAgain(at, n)
	default:
		name.write(&d.table)
	}
	value.write(&d.table)
	return nil
}

// piece is a name or a value of a literal field before it is decoded.
type piece struct {
	raw     []byte // as it stands in the block
	huffman bool
	known   bool   // it is not a string of the block: it is the name of an entry of a table
	static  uint8  // the entry's index in the static table, or that of its name, lowest; 0 for none
	age     uint64 // the entry's in the dynamic table, where static is 0
}

// name reads the name of a literal field, whose index has a prefix of this many bits.
func (d *Decoder) name(p *piece, prefix uint8) error {
	i, err := d.integer(prefix)
	switch {
	case err != nil:
		return err
	case i == 0:
		return d.string(p)
	case i <= Statics:
		p.known, p.static = true, statics[i].first
	default:
		p.known, p.age = true, i-Statics-1
		e := d.table.entry(p.age)
		if e == nil {
			return ErrIndex
		}
		p.static = e.static
	}
	return nil
}

// string reads a string literal (RFC 7541, section 5.2).
func (d *Decoder) string(p *piece) error {
	if d.at == len(d.block) {
		return ErrTruncated
	}
	p.huffman = d.block[d.at] >= 0x80
	n, err := d.integer(7)
	if err != nil {
		return err
	}
	if n > uint64(len(d.block)-d.at) {
		return ErrTruncated
	}
	p.raw = d.block[d.at : d.at+int(n)]
	d.at += int(n)
	return nil
}

// append appends the string to dst. ok is false where that takes more than dst's capacity: dst is
// as it was then.
func (p *piece) append(dst []byte) (out []byte, ok bool, err error) {
	if !p.huffman {
		if len(p.raw) > cap(dst)-len(dst) {
			return dst, false, nil
		}
		return append(dst, p.raw...), true, nil
	}
	t := text{src: p.raw}
	n, more, ok := t.decode(dst[len(dst):cap(dst)])
	switch {
	case !ok:
		return dst, false, ErrHuffman
	case more:
		return dst, false, nil
	}
	return dst[:len(dst)+n], true, nil
}

// size is the string's length, decoded.
func (p *piece) size() (int, error) {
	if !p.huffman {
		return len(p.raw), nil
	}
	var b [256]byte
	t, size := text{src: p.raw}, 0
	for more := true; more; {
		var n int
		var ok bool
		if n, more, ok = t.decode(b[:]); !ok {
			return 0, ErrHuffman
		}
		size += n
	}
	return size, nil
}

// write writes the string to the newest entry of t. Its size is known, so it is valid.
func (p *piece) write(t *table) {
	if !p.huffman {
		t.write(p.raw)
		return
	}
	var b [256]byte
	src := text{src: p.raw}
	for more := true; more; {
		var n int
		n, more, _ = src.decode(b[:])
		t.write(b[:n])
	}
}

// update reads a table size update. They stand at the beginning of a block only (RFC 7541, section
// 4.2).
func (d *Decoder) update() error {
	size, err := d.integer(5)
	switch {
	case err != nil:
		return err
	case d.begun:
		return ErrUpdate
	case size > uint64(d.table.most):
		return ErrSize
	}
	d.table.resize(int(size))
	return nil
}

// integer reads an integer whose prefix has this many bits (RFC 7541, section 5.1). There is a byte
// left to read.
func (d *Decoder) integer(prefix uint8) (uint64, error) {
	limit := uint64(1)<<(prefix&7) - 1
	v := uint64(d.block[d.at]) & limit
	d.at++
	if v < limit {
		return v, nil
	}
	return d.integerRest(v)
}

// integerRest reads what follows a prefix of ones. Five bytes suffice for 32 bits, and more for
// nothing that a block may say.
func (d *Decoder) integerRest(v uint64) (uint64, error) {
	for shift := 0; shift < 5*7; shift += 7 {
		if d.at == len(d.block) {
			return 0, ErrTruncated
		}
		c := d.block[d.at]
		d.at++
		v += uint64(c&0x7f) << shift
		if c < 0x80 {
			return v, nil
		}
	}
	return 0, ErrInteger
}
