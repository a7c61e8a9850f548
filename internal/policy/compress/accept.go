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

// Weights are in thousandths, as precise as they can be written.
const (
	unsaid  = -1
	fullest = 1000
)

// weights are what a client says of codings.
type weights struct {
	coding             [codings]int
	identity, anything int // "identity" and "*"
}

// choose is the coding that the client prefers, of those in order; of several it likes alike, the
// first. False: no coding, because it asks for none, or prefers the content as it is. A client that
// refuses even that gets it all the same: an error would help it less.
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

// read takes in one Accept-Encoding field. A member that is malformed says nothing; of one that is
// there twice the lower weight counts: who refuses it once means it.
func (w *weights) read(value []byte) {
	for len(value) > 0 {
		var member []byte
		member, value, _ = bytes.Cut(value, comma)
		name, parameters, _ := bytes.Cut(member, semicolon)
		weight, ok := weightOf(parameters)
		if !ok {
			continue
		}
		if said := w.place(bytes.TrimSpace(name)); said != nil && (*said == unsaid || weight < *said) {
			*said = weight
		}
	}
}

// place is where the weight of a name goes, or nil.
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

// weightOf reads what follows a coding's name: nothing, or q= and a number from 0 to 1 with three
// digits at most (RFC 9110, section 12.4.2).
func weightOf(p []byte) (weight int, ok bool) {
	if p = bytes.TrimSpace(p); len(p) == 0 {
		return fullest, true
	}
	if len(p) < 3 || p[0]|0x20 != 'q' || p[1] != '=' || p[2] != '0' && p[2] != '1' {
		return 0, false
	}
	weight = int(p[2]-'0') * fullest
	if p = p[3:]; len(p) == 0 {
		return weight, true
	}
	if p[0] != '.' || len(p) > 4 {
		return 0, false
	}
	for i, unit := 1, fullest/10; i < len(p); i, unit = i+1, unit/10 {
		if p[i] < '0' || p[i] > '9' {
			return 0, false
		}
		weight += int(p[i]-'0') * unit
	}
	return weight, weight <= fullest
}
