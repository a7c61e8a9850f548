package rules

import "plimsoll/internal/head"

var (
	nameIfNoneMatch     = []byte("If-None-Match")
	nameIfModifiedSince = []byte("If-Modified-Since")
)

// Forward makes the fields of the request that goes to the origin for Fetch and Revalidate: nothing
// in it but what the key has, what is known to change no answer, and for Revalidate the validators
// of what is stored (s is nil for Fetch). The client's preconditions and its range stay behind: the
// whole is fetched, and they are evaluated against that. So does its Cache-Control: a reload ends
// here, and does not reach caches behind this one. The query to send is AppendQuery's, the
// method is GET.
//
// dst was reset. Its fields alias the request, the block, and scratch, whose memory is used as far
// as it goes. Fields that the gateway adds come afterwards.
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

// Validate adds the validators of what is stored to the fields of a request, which then alias the
// block.
func (o *Options) Validate(dst *head.List, s *Stored, block []byte) {
	if tag := s.ETag(block); tag != nil {
		dst.Add(nameIfNoneMatch, tag)
	}
	if modified := s.ModifiedText(block); modified != nil {
		dst.Add(nameIfModifiedSince, modified)
	}
}

// repeated says whether a field before the i-th has its name.
func repeated(fields *head.List, i int) bool {
	name := fields.At(i).Name
	for before := range i {
		if head.EqualFold(fields.At(before).Name, name) {
			return true
		}
	}
	return false
}

// forwardOne adds a field with its normalised value, unless that is empty, and gives what is left of
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
		return scratch // it did not fit, and has memory of its own
	}
	return out[len(out):]
}
