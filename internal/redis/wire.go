package redis

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Bounds on what a server sends. The longest reply is an option; the others are far beyond what any
// command of ours is answered with.
const (
	maxLine     = 64 << 10 // bytes of a line: a simple string, an error, a number
	maxDepth    = 16       // arrays in each other
	maxElements = 1 << 20  // of one reply, in all its arrays: rueidis takes 40 bytes for each at once
	maxWord     = 16       // bytes that are noted of a word
)

// wire follows a stream of RESP, the protocol of Redis, without keeping it. It knows where messages
// end, what they begin with, and refuses what rueidis cannot take: rueidis makes room for as much
// as a header announces, recurses as deeply as arrays are nested, and panics on negative lengths.
//
// It is stricter than the protocol: there are no streamed strings and arrays and no attributes,
// which no server of Redis sends, and lines end in CR LF. It reads each byte as rueidis does, or
// stops: a message that the two took for different ones would get around it.
type wire struct {
	longest int64 // bytes of a message
	// Message is called before the last byte of a message is passed on.
	message func(*message) error

	kind    byte   // of the element whose line is being read; 0 between elements
	line    []byte // its first bytes
	long    int    // its length
	ended   bool   // a CR is the last byte that came
	skip    int64  // bytes left of a bulk string, the CR LF behind it included
	depth   int
	left    [maxDepth]int64 // elements that are missing at each depth
	size    int64           // bytes of the message
	count   int64           // elements of it
	current message
}

// message is what is noted of one message.
type message struct {
	kind  byte
	words [2]word // its first two elements that are not arrays
	had   int     // of these
}

// word is an element that is text.
type word struct {
	text [maxWord]byte
	long int64
}

func (w *word) is(text string) bool {
	return w.long == int64(len(text)) && string(w.text[:min(w.long, maxWord)]) == text
}

// goesAstray says whether an error sends its command to another server, but not to which. rueidis
// goes by how it begins, and takes the third of its parts. A slot has at most five digits, so both
// spaces are in what is noted.
func (w *word) goesAstray() bool {
	text := w.text[:min(w.long, maxWord)]
	return (bytes.HasPrefix(text, []byte("MOVED")) || bytes.HasPrefix(text, []byte("ASK"))) &&
		bytes.Count(text, []byte(" ")) < 2
}

// add notes a part of the word.
func (w *word) add(p []byte) {
	if w.long < maxWord {
		copy(w.text[w.long:], p)
	}
	w.long += int64(len(p))
}

// pass follows p and says how much of it may be passed on; less than all comes with the reason.
func (w *wire) pass(p []byte) (n int, err error) {
	for n < len(p) {
		var took int
		switch {
		case w.skip > 2:
			took = int(min(w.skip-2, int64(len(p)-n)))
			w.note(p[n : n+took])
			w.skip -= int64(took)
		case w.skip > 0:
			took, err = 1, w.behindBulk(p[n])
		case w.kind == 0:
			took, err = 1, w.begin(p[n])
		default:
			took, err = 1, w.inLine(p[n])
		}
		if err != nil {
			return n, err
		}
		n += took
	}
	return n, nil
}

// note notes a part of an element that is text.
func (w *wire) note(p []byte) {
	if m := &w.current; m.had < len(m.words) {
		m.words[m.had].add(p)
	}
}

func (w *wire) begin(b byte) error {
	if bytes.IndexByte([]byte("+-:_,#($!=*%~>"), b) < 0 {
		return fmt.Errorf("it does not speak the protocol of Redis: a message begins with the byte %q",
			b)
	}
	if w.depth == 0 {
		w.current = message{kind: b}
		w.size, w.count = 0, 0
	} else if b == '>' {
		return errors.New("it sent a push message within another message")
	}
	w.kind, w.line, w.long, w.ended = b, w.line[:0], 0, false
	return nil
}

var errWrongLength = errors.New("it sent a null or a boolean of a wrong length")

func (w *wire) inLine(b byte) error {
	switch {
	case w.ended && b == '\n':
		return w.endLine()
	case w.ended || b == '\n':
		return errors.New("it sent a line that does not end in CR LF")
	case w.kind == '#' && w.long == 0 && b == '\r':
		return errWrongLength
	case b == '\r':
		w.ended = true
	case w.kind == '_' || w.kind == '#' && w.long == 1:
		// Not at the line's end: rueidis does not wait for that.
		return errWrongLength
	case w.long == maxLine:
		return fmt.Errorf("it sent a line of more than %d bytes", maxLine)
	default:
		if w.long++; w.long <= 2*maxWord {
			w.line = append(w.line, b)
		}
	}
	return nil
}

// endLine ends the line of an element, which may be all of it.
func (w *wire) endLine() error {
	kind := w.kind
	w.kind = 0
	w.size += int64(w.long) + 3
	if w.size > w.longest {
		return w.tooLong()
	}
	switch kind {
	case '$', '!', '=':
		n, err := w.announced(kind == '$')
		if err != nil {
			return err
		}
		if n < 0 {
			return w.endElement(false)
		}
		w.skip = n + 2
		if w.size += w.skip; w.size > w.longest {
			return w.tooLong()
		}
		return nil
	case '*', '~', '>', '%':
		n, err := w.announced(kind == '*')
		if err != nil {
			return err
		}
		return w.beginArray(n, kind)
	}
	w.note(w.line)
	if m := &w.current; m.had < len(m.words) {
		m.words[m.had].long = int64(w.long)
	}
	return w.endElement(true)
}

// announced is the length that the line says, or -1 where that may stand for null.
func (w *wire) announced(null bool) (int64, error) {
	if null && w.long == 2 && string(w.line) == "-1" {
		return -1, nil
	}
	// No sign, no more digits than an int32 has.
	n, err := strconv.ParseUint(string(w.line), 10, 31)
	if err != nil || w.long > len(w.line) {
		return 0, fmt.Errorf("it announced a length of %q", w.line)
	}
	return int64(n), nil
}

func (w *wire) beginArray(n int64, kind byte) error {
	if kind == '%' {
		n *= 2
	}
	if n <= 0 {
		return w.endElement(false)
	}
	if w.count += n; w.count > maxElements {
		return fmt.Errorf("it announced a reply of more than %d elements", maxElements)
	}
	if w.depth == maxDepth {
		return fmt.Errorf("it sent arrays more than %d deep in each other", maxDepth)
	}
	w.left[w.depth] = n
	w.depth++
	return nil
}

// behindBulk follows the CR LF behind a bulk string.
func (w *wire) behindBulk(b byte) error {
	if b != "\n\r"[w.skip-1] {
		return errors.New("it sent a string that is longer than announced")
	}
	if w.skip--; w.skip > 0 {
		return nil
	}
	return w.endElement(true)
}

// endElement ends an element, and the arrays that end with it.
func (w *wire) endElement(text bool) error {
	if w.current.had < len(w.current.words) {
		if !text {
			w.current.words[w.current.had] = word{long: math.MaxInt64} // is not a text
		}
		w.current.had++
	}
	for w.depth > 0 {
		if w.left[w.depth-1]--; w.left[w.depth-1] > 0 {
			return nil
		}
		w.depth--
	}
	return w.message(&w.current)
}

func (w *wire) tooLong() error {
	return fmt.Errorf("it sent a reply of more than %d bytes", w.longest)
}
