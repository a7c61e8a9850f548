package ladder

import (
	"errors"
	"io"
	"slices"
	"strings"

	"plimsoll/internal/exchange"
)

// page is the parts of a static answer that are filled in for each exchange. They are compiled when
// the config is loaded, and rendered into memory that the loop reuses.
type page struct {
	body   *exchange.Template // nil if the answer's own body is used
	fields []field
}

type field struct {
	name  []byte
	value *exchange.Template
}

// newPage removes from o the parts that have variables; it returns nil if there are none. Parts
// without variables stay in o, with "$${" replaced by "${".
func newPage(o *exchange.StaticOptions, pathNames []string, plain bool) (*page, error) {
	p := &page{}
	names := make([]string, 0, len(o.Headers))
	for name := range o.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	contentType := "text/plain"
	for _, name := range names {
		text := o.Headers[name]
		value, err := exchange.CompileTemplate(text, pathNames)
		constant, ok := []byte(nil), false
		if err == nil {
			constant, ok = value.Constant()
		}
		switch isType := strings.EqualFold(name, "Content-Type"); {
		case !strings.Contains(text, "${"): // NewStatic checks it
			if isType {
				contentType = text
			}
		case err != nil:
			return nil, err
		case ok:
			o.Headers[name] = string(constant)
		case isType:
			return nil, errors.New("the Content-Type has a variable; the body is escaped for " +
				"one type, so name that")
		default:
			if err := exchange.CheckFieldName(name); err != nil {
				return nil, err
			}
			delete(o.Headers, name)
			p.fields = append(p.fields, field{[]byte(name), value})
		}
	}
	if err := p.takeBody(o, pathNames, contentType, plain); err != nil {
		return nil, err
	}
	if p.body == nil && p.fields == nil {
		return nil, nil
	}
	return p, nil
}

// takeBody compiles the body.
func (p *page) takeBody(o *exchange.StaticOptions, pathNames []string, contentType string, plain bool) error {
	if plain || !strings.Contains(string(o.Body), "${") {
		return nil
	}
	body, err := exchange.CompileBody(string(o.Body), pathNames, contentType)
	if err != nil {
		return err
	}
	if constant, ok := body.Constant(); ok {
		o.Body = constant
		return nil
	}
	// The text stays in o, so that NewStatic sees that there is a body, which it may have to refuse
	// or give a type.
	p.body = body
	return nil
}

// answer answers the exchange.
func (p *page) answer(x *exchange.Exchange, static *exchange.Static, w *part) {
	if p.body == nil {
		static.Answer(x, x.Reason)
	} else {
		b := w.newBody()
		b.text = p.body.Append(b.text[:0], x)
		static.AnswerFrom(x, x.Reason, int64(len(b.text)), b)
	}
	for i := range p.fields {
		x.Response.Fields.Add(p.fields[i].name, x.Render(p.fields[i].value))
	}
}

// maxSpare is how many bodies a loop keeps for reuse; maxKept is the size in bytes of the largest
// that is kept.
const (
	maxSpare = 64
	maxKept  = 16 << 10
)

// body is the body of one exchange, as a Source, so that its memory is kept until the exchange is
// over and then reused.
type body struct {
	w    *part
	text []byte
	at   int
	next *body // in the free list
}

func (w *part) newBody() *body {
	b := w.spare
	if b == nil {
		return &body{w: w}
	}
	w.spare, b.next = b.next, nil
	w.kept--
	return b
}

// Next implements exchange.Source.
func (b *body) Next(most int) ([]byte, error) {
	data := b.text[b.at:min(len(b.text), b.at+most)]
	if b.at += len(data); b.at == len(b.text) {
		return data, io.EOF
	}
	return data, nil
}

// Close implements exchange.Source.
func (b *body) Close() {
	b.at = 0
	if w := b.w; w.kept < maxSpare && cap(b.text) <= maxKept {
		b.next, w.spare = w.spare, b
		w.kept++
	}
}
