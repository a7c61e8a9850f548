package scenario

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"plimsoll/internal/config/strict"
	"plimsoll/internal/head"
	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
)

// maxTaken is the longest value carried from an answer into a request, in bytes.
const maxTaken = 16 << 10

// check defines a good answer. Its texts are made once, when the scenario is read.
type check struct {
	statuses [16]uint64 // one bit for each good status up to 999
	want     string     // the good statuses in words
	fields   []fieldCheck
	contains []bodyCheck
	values   []jsonCheck
	cut      string // why a body longer than the kept part cannot be judged
}

type fieldCheck struct {
	name, want []byte
	part       bool // the value may contain want anywhere
	why        string
}

type bodyCheck struct {
	want []byte
	why  string
}

type jsonCheck struct {
	path   jsonPath
	kind   jsonKind
	want   []byte
	number float64
	why    string
}

func (c *check) allow(from, to int) {
	for status := from; status <= to; status++ {
		c.statuses[status/64] |= 1 << (status % 64)
	}
}

func (c *check) status(status int) bool {
	return status >= 0 && status < 1000 && c.statuses[status/64]&(1<<(status%64)) != 0
}

// judge applies the rest of the check to an answer whose status is good. why is empty if it passes.
func (c *check) judge(a *load.Answer, s *scan) (why string) {
	for i := range c.fields {
		if !c.fields[i].passes(a.Fields) {
			return c.fields[i].why
		}
	}
	for i := range c.contains {
		if !bytes.Contains(a.Body, c.contains[i].want) {
			return c.contains[i].why
		}
	}
	if len(c.values) > 0 && a.Cut {
		return c.cut
	}
	for i := range c.values {
		if !c.values[i].passes(a.Body, s) {
			return c.values[i].why
		}
	}
	return ""
}

// passes reports whether any field with the name has the value.
func (f *fieldCheck) passes(l *head.List) bool {
	for i := range l.Len() {
		at := l.At(i)
		if head.EqualFold(at.Name, f.name) &&
			(bytes.Equal(at.Value, f.want) || f.part && bytes.Contains(at.Value, f.want)) {
			return true
		}
	}
	return false
}

func (j *jsonCheck) passes(body []byte, s *scan) bool {
	k, raw, valid := s.find(body, j.path)
	if !valid || k != j.kind {
		return false
	}
	switch k {
	case jsonText:
		return s.same(raw, j.want)
	case jsonNumber:
		if bytes.Equal(raw, j.want) {
			return true
		}
		// A short copy stays on the stack. Nobody would write a float64 with more digits than this.
		if len(raw) > 32 {
			return false
		}
		n, err := strconv.ParseFloat(string(raw), 64)
		return err == nil && n == j.number
	case jsonBool:
		return bytes.Equal(raw, j.want)
	}
	return true
}

// reading is the check of one step while it is being read.
type reading struct {
	*check
	step string // the name of the request, for the texts
}

// readCheck reads a check section; at is nil if there is none.
func readCheck(step string, at *strict.Value) check {
	c := check{
		want: "below 400",
		cut:  step + ": the body is longer than is held for checks, so no JSON can be read from it",
	}
	if at == nil {
		c.allow(0, 399)
		return c
	}
	f, _ := at.Fields("status", "header", "body_contains", "json")
	r := reading{&c, step}
	if v, ok := f.Get("status"); ok {
		r.readStatus(v)
	} else {
		c.allow(0, 399)
	}
	if v, ok := f.Get("header"); ok {
		r.readFields(v)
	}
	if v, ok := f.Get("body_contains"); ok {
		for _, item := range v.OneOrMore() {
			if want, ok := item.Scalar(); ok {
				c.contains = append(c.contains, bodyCheck{
					[]byte(want),
					fmt.Sprintf("%s: the body does not contain %q", step, strict.Clip(want)),
				})
			}
		}
	}
	if v, ok := f.Get("json"); ok {
		r.readValues(v)
	}
	return c
}

func (r reading) readStatus(v strict.Value) {
	var words []string
	for _, item := range v.OneOrMore() {
		text, ok := item.Scalar()
		if !ok {
			continue
		}
		status, err := strconv.Atoi(text)
		class, isClass := strings.CutSuffix(text, "xx")
		switch {
		case isClass && len(class) == 1 && '1' <= class[0] && class[0] <= '5':
			first := int(class[0]-'0') * 100
			r.allow(first, first+99)
		case err == nil && 100 <= status && status <= 999:
			r.allow(status, status)
		default:
			item.Fail("%q is not a status; write 200, \"2xx\", or a list of them",
				strict.Clip(text))
		}
		words = append(words, text)
	}
	if len(words) == 0 && !v.IsScalar() {
		v.Fail("empty; name at least one status, or remove the key for any below 400")
	}
	r.want = strings.Join(words, " or ")
}

func (r reading) readFields(v strict.Value) {
	all, _ := v.Pairs()
	for _, p := range all {
		checkFieldName(p.Key, p.Name)
		f := fieldCheck{name: []byte(p.Name)}
		at := p.Value
		verb := "is not"
		if !at.IsScalar() {
			inner, ok := at.Fields("contains")
			if !ok {
				continue
			}
			if at, ok = inner.Need("contains"); !ok {
				continue
			}
			f.part, verb = true, "does not contain"
		}
		want, _ := at.Scalar()
		f.want = []byte(want)
		f.why = fmt.Sprintf("%s: the header %s %s %q", r.step, p.Name, verb, strict.Clip(want))
		r.fields = append(r.fields, f)
	}
}

func (r reading) readValues(v strict.Value) {
	all, _ := v.Pairs()
	for _, p := range all {
		path, err := parseJSONPath(p.Name)
		if err != nil {
			p.Key.Fail("%v", err)
			continue
		}
		j := jsonCheck{path: path}
		if _, isNull := p.Value.Node.(*ast.NullNode); isNull {
			j.kind, j.want = jsonNull, []byte("null")
		} else {
			want, ok := p.Value.Scalar()
			if !ok {
				continue
			}
			j.want = []byte(want)
			switch p.Value.Node.(type) {
			case *ast.IntegerNode, *ast.FloatNode:
				j.kind = jsonNumber
				if j.number, err = strconv.ParseFloat(want, 64); err != nil {
					p.Value.Fail("%q is not a number that JSON has; write it in digits",
						strict.Clip(want))
				}
			case *ast.BoolNode:
				j.kind = jsonBool
			default:
				j.kind = jsonText
			}
		}
		j.why = fmt.Sprintf("%s: the JSON value %s is not %s",
			r.step, p.Name, strict.Clip(string(j.want)))
		r.values = append(r.values, j)
	}
}

// take carries a value from an answer into a slot of the session. Its texts are made once.
type take struct {
	slot          int
	path          jsonPath // or
	field         []byte   // or, if both are nil, the body
	after, before []byte
	needs         []form // forms that the value must fit, depending on where it is used
	// The reasons why a value cannot be carried.
	missing, long, unfit, cut string
}

// from finds the value in an answer and appends it to dst. why is empty if it was found.
func (t *take) from(a *load.Answer, s *scan, dst []byte) (v []byte, why string) {
	switch {
	case t.path != nil:
		if a.Cut {
			return dst, t.cut
		}
		k, raw, valid := s.find(a.Body, t.path)
		switch {
		case !valid || k == jsonAbsent || k == jsonNull:
			return dst, t.missing
		case len(raw) > maxTaken:
			return dst, t.long
		case k == jsonText:
			dst = unescape(dst, raw)
		default:
			dst = append(dst, raw...)
		}
	default:
		part, ok := t.part(a)
		if !ok {
			return dst, t.missing
		}
		if len(part) > maxTaken {
			return dst, t.long
		}
		dst = append(dst, part...)
	}
	for _, f := range t.needs {
		if !f.fits(dst) {
			return dst, t.unfit
		}
	}
	return dst, ""
}

// part is the text between after and before in the body or in a field. Of several fields with the
// name, the first that has it counts.
func (t *take) part(a *load.Answer) (part []byte, ok bool) {
	if t.field == nil {
		return between(a.Body, t.after, t.before)
	}
	for i := range a.Fields.Len() {
		if f := a.Fields.At(i); head.EqualFold(f.Name, t.field) {
			if part, ok = between(f.Value, t.after, t.before); ok {
				return part, true
			}
		}
	}
	return nil, false
}

// between is the part of b after after and up to before. Both may be empty. If b does not contain
// before, the part ends with b.
func between(b, after, before []byte) (part []byte, ok bool) {
	at := bytes.Index(b, after)
	if at < 0 {
		return nil, false
	}
	b = b[at+len(after):]
	if len(before) > 0 {
		b, _, _ = bytes.Cut(b, before)
	}
	return b, len(b) > 0
}

// readTake reads how to take a value.
func readTake(step, name string, v strict.Value) (t take) {
	t.long = fmt.Sprintf("%s: the value of %s is longer than %d bytes", step, name, maxTaken)
	t.cut = fmt.Sprintf("%s: the body is longer than is held, so %s cannot be read from it",
		step, name)
	f, ok := v.Fields("json", "header", "body")
	if !ok {
		return t
	}
	what, ok := f.One("json", "header", "body")
	if !ok {
		return t
	}
	at, _ := f.Get(what)
	place := "the body"
	switch what {
	case "json":
		text, _ := at.Scalar()
		path, err := parseJSONPath(text)
		if err != nil {
			at.Fail("%v", err)
		}
		t.path, place = path, strict.Clip(text)
	case "header":
		if at.IsScalar() {
			text, _ := at.Scalar()
			t.field = []byte(text)
		} else if inner, ok := at.Fields("name", "after", "before"); ok {
			if n, ok := inner.Need("name"); ok {
				text, _ := n.Scalar()
				t.field, at = []byte(text), n
			}
			t.readEdges(inner)
		}
		checkFieldName(at, string(t.field))
		place = "the header " + strict.Clip(string(t.field))
	case "body":
		if inner, ok := at.Fields("after", "before"); ok {
			inner.Need("after")
			t.readEdges(inner)
		}
	}
	if len(t.after) > 0 {
		place += fmt.Sprintf(" after %q", strict.Clip(string(t.after)))
	}
	t.missing = fmt.Sprintf("%s: no value for %s at %s", step, name, place)
	return t
}

func (t *take) readEdges(f strict.Fields) {
	for name, into := range map[string]*[]byte{"after": &t.after, "before": &t.before} {
		if v, ok := f.Get(name); ok {
			text, ok := v.Scalar()
			if ok && text == "" {
				v.Fail("empty; remove the key")
			}
			*into = []byte(text)
		}
	}
}

// failed is the verdict for an answer that is not good.
func failed(k measure.Kind, why string) load.AnswerVerdict {
	return load.AnswerVerdict{Kind: k, Why: why}
}
