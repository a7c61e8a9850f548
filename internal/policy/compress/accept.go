package compress

import (
	"bytes"

	"plimsoll/internal/head"
)

// coding is a content coding.
type coding int8

const (
	zstdCoding coding = iota
	brotliCoding
	gzipCoding
	codings
)

// codingNames are the names that fields use (RFC 8878, RFC 7932, RFC 1952).
var codingNames = [codings]string{"zstd", "br", "gzip"}

// unsaid is the weight of a coding that the client does not name.
const unsaid = -1

// weights are the weights that a client gives to codings, in thousandths.
type weights struct {
	coding             [codings]int
	identity, anything int // "identity" and "*"
}

// choose returns the coding in order that the client prefers; of several that it prefers equally,
// the first. It returns false for no coding, if the client accepts none or prefers the plain
// content. A client that refuses even the plain content gets it nevertheless, because an error
// would help it less.
func choose(request *head.List, order []coding) (best coding, ok bool) {
	if !request.Has(head.AcceptEncoding) {
		return 0, false
	}
	w := weights{identity: unsaid, anything: unsaid}
	for i := range w.coding {
		w.coding[i] = unsaid
	}
	for i := range request.Len() {
		if f := request.At(i); f.ID == head.AcceptEncoding {
			w.read(f.Value)
		}
	}
	least := w.identity
	if least == unsaid {
		least = w.anything
	}
	for _, c := range order {
		said := w.coding[c]
		if said == unsaid {
			said = w.anything
		}
		if said > 0 && said >= least && (!ok || said > least) {
			best, least, ok = c, said, true
		}
	}
	return best, ok
}

// read reads one Accept-Encoding field. It ignores malformed members. If a coding occurs twice, the
// lower weight counts, because a refusal must be obeyed.
func (w *weights) read(value []byte) {
	for len(value) > 0 {
		var member []byte
		member, value, _ = bytes.Cut(value, comma)
		name, parameters, _ := bytes.Cut(member, semicolon)
		weight, ok := head.Weight(parameters)
		if !ok {
			continue
		}
		if said := w.place(bytes.TrimSpace(name)); said != nil && (*said == unsaid || weight < *said) {
			*said = weight
		}
	}
}

// place is where the weight of a name is stored; nil for an unknown name.
func (w *weights) place(name []byte) *int {
	switch {
	case len(name) == 1 && name[0] == '*':
		return &w.anything
	case head.EqualFold(name, identityName):
		return &w.identity
	case head.EqualFold(name, xGzipName): // the same (RFC 9110, section 8.4.1.3)
		return &w.coding[gzipCoding]
	}
	for c := range codings {
		if len(name) == len(codingNames[c]) && head.EqualFold(name, codingValues[c]) {
			return &w.coding[c]
		}
	}
	return nil
}

var (
	comma, semicolon = []byte(","), []byte(";")
	identityName     = []byte("identity")
	xGzipName        = []byte("x-gzip")
	codingValues     = func() (all [codings][]byte) {
		for c, name := range codingNames {
			all[c] = []byte(name)
		}
		return
	}()
)
