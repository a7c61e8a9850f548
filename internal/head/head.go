// Package head holds the heads of HTTP messages: the parts of the start line and the fields,
// whatever protocol carried them. It knows names and values, and the rules for their bytes, for
// hosts and for lengths that all versions share (RFC 9110). It knows no wire format and no sockets.
//
// Every []byte in a head is borrowed: it aliases the buffer into which the message was read, or
// memory of the code that set it, and is valid for as long as that owner says. Nothing in this
// package allocates once a List has grown to its usual size.
package head

// Request is the head of a request.
type Request struct {
	Method []byte // as received; methods are case-sensitive (RFC 9110, section 9.1)
	Scheme []byte // "http" or "https": how the client came
	Host   []byte // the one valid authority, lower-case, with the port if one was given
	Target []byte // the request target's path and query as received; "*" for OPTIONS *
	Path   []byte // the canonical path (package route), set once, before matching
	Query  []byte // what follows "?", without it; nil where there is none
	Fields List
	Length int64 // body bytes; 0 for no body, Unknown where only the transfer coding tells its end
}

// Response is the head of a response.
type Response struct {
	Status int
	Fields List
	// body bytes; 0 for no body, Unknown where only the end of the stream, or of the chunks, tells
	Length int64
}

// Unknown is the Length of a body whose end is not known in advance.
const Unknown int64 = -1

// Field is one header field.
type Field struct {
	Name  []byte // in the case it arrived or was set in
	Value []byte // without white space around it
	// Line is the field as it stood on an HTTP/1 wire, "Name: value\r\n", where it stood there in
	// exactly that form, and nil otherwise. A serialiser may copy it whole; code that changes Name
	// or Value sets it to nil.
	Line []byte
	ID   ID
}

// List is the fields of one message, in order.
type List struct {
	fields []Field
	// bit ID is set when a field of that known name was added: absence is known without a search
	present uint64
}

// Reset empties the list and keeps its memory.
func (l *List) Reset() {
	clear(l.fields)
	l.fields = l.fields[:0]
	l.present = 0
}

// Len is the number of fields.
func (l *List) Len() int { return len(l.fields) }

// At is the i-th field, valid until the list changes.
func (l *List) At(i int) *Field { return &l.fields[i] }

// Append adds a field at the end.
func (l *List) Append(f Field) {
	*l.Extend(f.ID) = f
}

// usual is how many fields a List first makes room for: more than most messages have.
const usual = 16

// Extend appends a field of the given ID and returns it, otherwise empty, to be filled in before
// the list is used again. It saves a parser the copies of a Field that Append makes.
func (l *List) Extend(id ID) *Field {
	// What lies between the length and the capacity is always zero: Reset and truncate clear what
	// they cut off.
	n := len(l.fields)
	switch {
	case n < cap(l.fields):
		l.fields = l.fields[:n+1]
	case n == 0:
		l.fields = make([]Field, 1, usual)
	default:
		l.fields = append(l.fields, Field{})
	}
	f := &l.fields[n]
	f.ID = id
	l.present |= 1 << (id & 63)
	return f
}

// Add appends a field by name and value, both borrowed.
func (l *List) Add(name, value []byte) {
	l.Append(Field{Name: name, Value: value, ID: Lookup(name)})
}

// Has says whether a field of the known name id is there.
func (l *List) Has(id ID) bool { return l.present&(1<<id) != 0 }

// HasAny says whether a field is there whose ID has its bit in ids.
func (l *List) HasAny(ids uint64) bool { return l.present&ids != 0 }

// Get is the first field of the known name id, or nil. id is neither Other nor Alias: those are
// found by Find.
func (l *List) Get(id ID) *Field {
	if l.present&(1<<id) == 0 {
		return nil
	}
	for i := range l.fields {
		if l.fields[i].ID == id {
			return &l.fields[i]
		}
	}
	return nil
}

// Value is the value of the first field of the known name id, or nil.
func (l *List) Value(id ID) []byte {
	if f := l.Get(id); f != nil {
		return f.Value
	}
	return nil
}

// Find is the first field called name in any case, or nil.
func (l *List) Find(name []byte) *Field {
	id := Lookup(name)
	if id > Alias {
		return l.Get(id)
	}
	if !l.Has(id) {
		return nil
	}
	for i := range l.fields {
		if l.fields[i].is(id, name) {
			return &l.fields[i]
		}
	}
	return nil
}

// is says whether the field is called name, whose ID is id.
func (f *Field) is(id ID, name []byte) bool {
	return f.ID == id && (id > Alias || EqualFold(f.Name, name))
}

// Set replaces the first field called name with value and removes further ones, or appends it.
func (l *List) Set(name, value []byte) {
	first := l.Find(name)
	if first == nil {
		l.Add(name, value)
		return
	}
	first.Value, first.Line = value, nil
	id, kept, seen := first.ID, l.fields[:0], false
	for _, f := range l.fields {
		if f.is(id, name) {
			if seen {
				continue
			}
			seen = true
		}
		kept = append(kept, f)
	}
	l.truncate(kept)
}

// Remove takes out every field called name, in any case.
func (l *List) Remove(name []byte) {
	id := Lookup(name)
	if id > Alias {
		l.RemoveID(id)
		return
	}
	if !l.Has(id) {
		return
	}
	kept := l.fields[:0]
	for _, f := range l.fields {
		if !f.is(id, name) {
			kept = append(kept, f)
		}
	}
	l.truncate(kept)
}

// RemoveID takes out every field whose ID is id: all of that known name, or all of unknown names,
// or all aliases.
func (l *List) RemoveID(id ID) {
	if !l.Has(id) {
		return
	}
	kept := l.fields[:0]
	for _, f := range l.fields {
		if f.ID != id {
			kept = append(kept, f)
		}
	}
	l.truncate(kept)
	l.present &^= 1 << id
}

// RemoveFunc takes out every field for which drop says so.
func (l *List) RemoveFunc(drop func(*Field) bool) {
	kept := l.fields[:0]
	for i := range l.fields {
		if !drop(&l.fields[i]) {
			kept = append(kept, l.fields[i])
		}
	}
	l.truncate(kept)
	l.present = 0
	for i := range l.fields {
		l.present |= 1 << l.fields[i].ID
	}
}

func (l *List) truncate(kept []Field) {
	clear(l.fields[len(kept):])
	l.fields = kept
}
