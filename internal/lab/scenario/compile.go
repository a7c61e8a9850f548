package scenario

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/config/strict"
	"plimsoll/internal/head"
)

// compiler makes a script from the file's mix.
type compiler struct {
	script    *script
	sources   map[string]int // index into script.sources by name
	authority string
	base      string
	common    []field // headers of all requests
	entered   map[string]bool
}

// field is a header field in the file.
type field struct {
	name string
	at   strict.Value
}

// thinkLimit is the longest think time.
const thinkLimit = time.Hour

// headers reads a mapping of header fields.
func headers(v strict.Value) (all []field) {
	given, _ := v.Pairs()
	for _, p := range given {
		checkFieldName(p.Key, p.Name)
		switch head.Lookup([]byte(p.Name)) {
		case head.ContentLength, head.TransferEncoding, head.Connection, head.KeepAlive,
			head.Upgrade, head.TE, head.Trailer, head.Expect:
			p.Key.Fail("%s says how the message is framed, which is the generator's business; "+
				"remove it", p.Name)
		}
		if _, ok := p.Value.Scalar(); ok {
			all = append(all, field{p.Name, p.Value})
		}
	}
	return all
}

// checkFieldName reports a name that is invalid for a header field.
func checkFieldName(v strict.Value, name string) {
	if !head.IsToken([]byte(name)) {
		v.Fail("%q is not a name of a header; it has letters, digits and \"-\"", strict.Clip(name))
	}
}

// building is one entry of the mix while it is being compiled.
type building struct {
	*compiler
	*session
	taken map[string]int  // slot by name, for values taken by earlier steps
	later map[string]bool // names taken by any step
	given map[[2]int]int  // slot by source and column
	needs map[int][]form  // by slot of an answer's value: the forms that it must fit
}

// entry reads one entry of the mix.
func (c *compiler) entry(v strict.Value) {
	f, ok := v.Fields("name", "weight", "request", "check", "steps")
	if !ok {
		return
	}
	e := &session{weight: 1}
	if at, ok := f.Need("name"); ok {
		e.name = readName(at)
		if c.entered == nil {
			c.entered = map[string]bool{}
		}
		if c.entered[e.name] && e.name != "" {
			at.Fail("%q is the name of another entry; rename one", strict.Clip(e.name))
		}
		c.entered[e.name] = true
	}
	if at, ok := f.Get("weight"); ok {
		if e.weight, ok = at.Number(); ok && !(e.weight > 0 && e.weight <= 1e9) {
			at.Fail("the weight must be above 0; remove the entry if it is not to be sent")
		}
	}
	b := &building{c, e, map[string]int{}, map[string]bool{}, map[[2]int]int{}, map[int][]form{}}
	what, ok := f.One("request", "steps")
	if !ok {
		return
	}
	if what == "request" {
		b.step(e.name, f, true)
	} else {
		if at, has := f.Get("check"); has {
			at.Fail("each of the steps has its own check; move it into one")
		}
		at, _ := f.Get("steps")
		b.sequence(at)
	}
	c.script.entries = append(c.script.entries, e)
}

func readName(v strict.Value) string {
	name, ok := v.Scalar()
	if ok && (name == "" || len(name) > 100 || strings.ContainsAny(name, "/\n\r\t")) {
		v.Fail("a name has 1 to 100 characters and no \"/\"; rename it")
	}
	return name
}

// sequence reads the steps of an entry.
func (b *building) sequence(v strict.Value) {
	steps, ok := v.List()
	if ok && len(steps) == 0 {
		v.Fail("empty; give it at least one step")
	}
	if len(steps) > maxSteps {
		v.Fail("%d steps; %d are the most", len(steps), maxSteps)
		return
	}
	read := make([]strict.Fields, len(steps))
	for i, s := range steps {
		read[i], _ = s.Fields("name", "request", "check", "take", "think")
		if t, ok := read[i].Get("take"); ok {
			if all, ok := t.Pairs(); ok {
				for _, p := range all {
					b.later[p.Name] = true
				}
			}
		}
	}
	names := map[string]bool{}
	for i, f := range read {
		name := "step " + strconv.Itoa(i+1)
		if at, ok := f.Need("name"); ok {
			name = readName(at)
			if names[name] {
				at.Fail("%q is the name of another step; rename one", strict.Clip(name))
			}
			names[name] = true
		}
		b.step(b.name+"/"+name, f, i == len(read)-1)
	}
	b.settleNeeds()
}

// step reads one request with its check, takes and think time.
func (b *building) step(name string, f strict.Fields, last bool) {
	st := step{name: name}
	st.about.Name = len(b.script.names)
	b.script.names = append(b.script.names, name)
	if at, ok := f.Need("request"); ok {
		b.request(&st, at)
	}
	var at *strict.Value
	if v, ok := f.Get("check"); ok {
		at = &v
	}
	st.check = readCheck(name, at)
	if t, ok := f.Get("take"); ok {
		all, _ := t.Pairs()
		for _, p := range all {
			b.take(&st, p)
		}
	}
	st.about.Body = len(st.check.contains) > 0 || len(st.check.values) > 0 ||
		slices.ContainsFunc(st.takes, func(t take) bool { return t.field == nil })
	if st.about.Head && st.about.Body {
		f.Of.Fail("the answer to a HEAD request has no body to check or to take from; use GET")
	}
	if v, ok := f.Get("think"); ok {
		if last {
			v.Fail("nothing comes after the last step, so there is no time to think; remove it")
		}
		st.readThink(v)
	}
	b.steps = append(b.steps, st)
}

func (st *step) readThink(v strict.Value) {
	if !v.IsScalar() {
		f, ok := v.Fields("exponential")
		if !ok {
			return
		}
		if v, ok = f.Need("exponential"); !ok {
			return
		}
		st.random = true
	}
	d, ok := v.Duration()
	if st.think = time.Duration(d); ok && st.think > thinkLimit {
		v.Fail("%v is longer than the %v that a think time may have; shorten it",
			st.think, thinkLimit)
	}
}

// take reads one value that a step takes from its answer.
func (b *building) take(st *step, p strict.Pair) {
	_, isSource := b.compiler.sources[p.Name]
	_, again := b.taken[p.Name]
	switch {
	case !isValueName(p.Name):
		p.Key.Fail("a value's name begins with a lower-case letter and has letters, digits, " +
			"\"_\" and \"-\"; rename it")
		return
	case isSource:
		p.Key.Fail("%s is a source of the data section already; rename one", p.Name)
		return
	case again:
		p.Key.Fail("%s is taken by a step before this one already; rename one", p.Name)
		return
	}
	t := readTake(st.name, p.Name, p.Value)
	t.unfit = fmt.Sprintf("%s: the value of %s has a byte that cannot go where a later "+
		"request puts it", st.name, p.Name)
	t.slot = len(b.slots)
	b.slots = append(b.slots, slot{source: -1})
	b.taken[p.Name] = t.slot
	st.takes = append(st.takes, t)
}

// settleNeeds sets the forms that each take's value must fit, once all its uses are known.
func (b *building) settleNeeds() {
	for i := range b.steps {
		for j := range b.steps[i].takes {
			t := &b.steps[i].takes[j]
			t.needs = b.needs[t.slot]
		}
	}
}

// find returns the slot of a value by its name in a template. at is the position of the template.
func (b *building) find(at strict.Value) names {
	return func(name string, f form) (int, error) {
		if slot, ok := b.taken[name]; ok {
			if (f == inHeader || f == inURL) && !slices.Contains(b.needs[slot], f) {
				b.needs[slot] = append(b.needs[slot], f)
			}
			return slot, nil
		}
		base, column, dotted := strings.Cut(name, ".")
		if i, ok := b.compiler.sources[base]; ok {
			return b.cell(i, column, dotted, f)
		}
		if b.later[name] {
			return 0, fmt.Errorf("${%s} is only known after the step that takes it; "+
				"use it in a step after that", name)
		}
		return 0, fmt.Errorf("${%s} is not a value; %s (\"$${\" is a literal \"${\")",
			strict.Clip(name), config.Suggest(strings.TrimPrefix(name, "raw:"), b.known()))
	}
}

// known returns the names that a template may use in this step.
func (b *building) known() (all []string) {
	for name := range b.taken {
		all = append(all, name)
	}
	for _, s := range b.script.sources {
		if s.columns == nil {
			all = append(all, s.name)
		}
		for _, c := range s.columns {
			all = append(all, s.name+"."+c)
		}
	}
	return all
}

// cell is the slot of a source's column, or of its number.
func (b *building) cell(i int, column string, dotted bool, f form) (int, error) {
	s := b.script.sources[i]
	s.used = true
	if s.count == 0 {
		return 0, nil // the source is invalid, which has been reported
	}
	at := slices.Index(s.columns, column)
	switch {
	case s.columns == nil && dotted:
		return 0, fmt.Errorf("${%s.%s}: %s is numbers, which have no columns; write ${%s}",
			s.name, strict.Clip(column), s.name, s.name)
	case s.columns == nil:
		at = 0
	case !dotted:
		return 0, fmt.Errorf("${%s} is a whole row; name a column, as ${%s.%s}",
			s.name, s.name, s.columns[0])
	case at < 0:
		return 0, fmt.Errorf("${%s.%s}: %s has no such column; %s",
			s.name, strict.Clip(column), s.name, config.Suggest(column, s.columns))
	}
	if row := s.unfit(at, f); row > 0 {
		return 0, fmt.Errorf("${%s.%s}: the value of row %d has a byte that cannot go here; "+
			"fix the file", s.name, column, row)
	}
	key := [2]int{i, at}
	n, ok := b.given[key]
	if !ok {
		n = len(b.slots)
		b.slots = append(b.slots, slot{i, at})
		b.given[key] = n
		if !slices.Contains(b.session.sources, i) {
			b.session.sources = append(b.session.sources, i)
		}
	}
	return n, nil
}

// template compiles the text of a key. If that fails, it reports the error and returns nil.
func (b *building) template(at strict.Value, text string, f form) pieces {
	p, err := template(text, f, b.find(at), at.In.Lookup)
	if err != nil {
		at.Fail("%v", err)
		return nil
	}
	return p
}

// unused reports sources that no request uses: usually a mistyped name.
func (c *compiler) unused() {
	idle := slices.DeleteFunc(slices.Clone(c.script.sources), func(s *source) bool {
		return s.used
	})
	// An invalid text may have used it.
	if len(idle) == 0 || idle[0].at.In.Failed() {
		return
	}
	for _, s := range idle {
		s.at.Fail("no request uses ${%s}; use it, or remove it", s.name)
	}
}

// request compiles the bytes of a request.
func (b *building) request(st *step, v strict.Value) {
	f, ok := v.Fields("method", "path", "headers", "body", "body_file")
	if !ok {
		return
	}
	method := "GET"
	if at, ok := f.Get("method"); ok {
		if method, ok = at.Text(); ok && !goodMethod(method) {
			at.Fail("%q is not a method that can be sent; write GET, POST, "+
				"or another in capitals, but not CONNECT", strict.Clip(method))
		}
	}
	st.about.Head = method == "HEAD"
	lines := pieces{}.add(method + " " + b.base).join(b.path(f)).add(" HTTP/1.1\r\n")
	given := b.fields(f)
	if !slices.ContainsFunc(given, func(f field) bool {
		return strings.EqualFold(f.name, "host")
	}) {
		lines = lines.add("Host: " + b.authority + "\r\n")
	}
	kind := ""
	for _, g := range given {
		text, _ := g.at.Scalar()
		value := b.template(g.at, text, inHeader)
		for _, x := range value {
			if !inHeader.fits(x.text) {
				g.at.Fail("a header cannot hold a line break or another control character; " +
					"remove it")
			}
		}
		if strings.EqualFold(g.name, "content-type") {
			kind = strings.ToLower(text)
		}
		lines = lines.add(g.name + ": ").join(value).add("\r\n")
	}
	b.finish(st, method, lines, b.body(f, kind))
}

// finish joins head and body as far as they are known.
func (b *building) finish(st *step, method string, lines, body pieces) {
	fixed, known := body.fixed()
	switch {
	case body == nil && !slices.Contains([]string{"POST", "PUT", "PATCH"}, method):
		lines = lines.add("\r\n")
	case known:
		lines = lines.add("Content-Length: " + strconv.Itoa(len(fixed)) + "\r\n\r\n" +
			string(fixed))
	default:
		st.head, st.body = lines.add("Content-Length: "), body
		return
	}
	if whole, ok := lines.fixed(); ok {
		st.whole = whole
		return
	}
	st.head = lines
}

func goodMethod(m string) bool {
	return m != "" && len(m) <= 30 && strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") == "" &&
		m != "CONNECT"
}

// path compiles the path and the query.
func (b *building) path(f strict.Fields) pieces {
	at, ok := f.Need("path")
	if !ok {
		return nil
	}
	text, ok := at.Text()
	if !ok {
		return nil
	}
	if !strings.HasPrefix(text, "/") {
		at.Fail("a path begins with \"/\"; the host is that of the target")
		return nil
	}
	p := b.template(at, text, inPath)
	for _, x := range p {
		if !inURL.fits(x.text) {
			at.Fail("a path has no blanks, no \"#\" and only ASCII; percent-encode the rest, " +
				"as %%20 for a blank")
			return nil
		}
	}
	return p
}

// fields returns the request's headers, preceded by the common ones that it does not override.
func (b *building) fields(f strict.Fields) []field {
	var own []field
	if at, ok := f.Get("headers"); ok {
		own = headers(at)
	}
	var all []field
	for _, c := range b.common {
		if !slices.ContainsFunc(own, func(o field) bool {
			return strings.EqualFold(o.name, c.name)
		}) {
			all = append(all, c)
		}
	}
	return append(all, own...)
}

// body compiles the body; nil if there is none.
func (b *building) body(f strict.Fields, contentType string) pieces {
	at, ok := f.Get("body")
	file, fromFile := f.Get("body_file")
	text := ""
	switch {
	case ok && fromFile:
		at.Fail("body and body_file are both given; keep one")
		return nil
	case fromFile:
		name, isText := file.Text()
		if !isText {
			return nil
		}
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(file.In.Dir, path)
		}
		content, err := file.In.Read(path, min(maxBody, file.In.Left))
		file.In.Left -= int64(len(content))
		if err != nil {
			file.Fail("%s cannot be read: %v", strict.Clip(name), err)
			return nil
		}
		text, at = string(content), file
	case ok:
		if text, ok = at.Scalar(); !ok {
			return nil
		}
	default:
		return nil
	}
	p := b.template(at, text, bodyForm(contentType, text))
	if p == nil {
		p = pieces{}
	}
	return p
}

// bodyForm is the form that makes values safe in a body of a type. Without a Content-Type, the type
// is guessed from the body.
func bodyForm(contentType, text string) form {
	switch {
	case strings.Contains(contentType, "json"):
		return inJSON
	case strings.Contains(contentType, "x-www-form-urlencoded"):
		return inForm
	case contentType != "":
		return asIs
	}
	if text = strings.TrimSpace(text); strings.HasPrefix(text, "{") ||
		strings.HasPrefix(text, "[") {
		return inJSON
	}
	return asIs
}
