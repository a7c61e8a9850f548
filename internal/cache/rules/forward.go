package rules

import "plimsoll/internal/head"

var (
	nameIfNoneMatch     = []byte("If-None-Match")
	nameIfModifiedSince = []byte("If-Modified-Since")
)

// Forward makes the fields of the request to the origin for Fetch and Revalidate. It contains only
// fields that are in the key or are known not to change an answer and, for Revalidate, the
// validators of the stored response (s is nil for Fetch). It does not contain the client's
// preconditions and range, which are evaluated against the complete response, nor its
// Cache-Control: a reload does not reach caches behind this one. The query to send is that of
// AppendQuery; the method is GET.
//
// dst must have been reset. Its fields alias the request, the block and scratch, whose memory is
// used as far as it suffices. Fields of the gateway are added afterwards.
func (o *Options) Forward(dst *head.List, scratch []byte, r *Request, s *Stored, block []byte) {
	fields := &r.Head.Fields
	for i := range fields.Len() {
		f := fields.At(i)
		switch o.Key.treat(f.Name) {
		case Plain, Credential:
			if f.ID != head.Alias {
				dst.Append(*f)
			}
		case Keyed, Negotiated:
			if f.ID != head.Alias && !repeated(fields, i) {
				scratch = o.Key.forwardOne(dst, scratch, f, fields)
			}
		}
	}
	if s != nil {
		o.Validate(dst, s, block)
	}
}

// Validate adds the validators of the stored response to the fields of a request, which then alias
// the block.
func (o *Options) Validate(dst *head.List, s *Stored, block []byte) {
	if tag := s.ETag(block); tag != nil {
		dst.Add(nameIfNoneMatch, tag)
	}
	if modified := s.ModifiedText(block); modified != nil {
		dst.Add(nameIfModifiedSince, modified)
	}
}

// repeated reports whether a field before the i-th has the same name.
func repeated(fields *head.List, i int) bool {
	name := fields.At(i).Name
	for before := range i {
		if head.EqualFold(fields.At(before).Name, name) {
			return true
		}
	}
	return false
}

// forwardOne adds a field with its normalised value, unless that is empty, and returns the rest of
// scratch.
func (k *Key) forwardOne(dst *head.List, scratch []byte, f *head.Field, fields *head.List) []byte {
	var lower [maxName]byte // longer names have no treatment
	name := append(lower[:0], f.Name...)
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			name[i] = c | 0x20
		}
	}
	out, _ := k.appendValue(scratch[:0], string(name), fields)
	if len(out) > 0 {
		dst.Add(f.Name, out[:len(out):len(out)])
	}
	if cap(out) != cap(scratch) {
		return scratch // it did not fit in scratch and has its own memory
	}
	return out[len(out):]
}
