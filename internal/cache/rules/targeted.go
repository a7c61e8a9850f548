package rules

import (
	"github.com/dunglas/httpsfv"

	"plimsoll/internal/head"
)

// directives reads a response's directives for this cache, from the first targeted field that is
// present and valid, or else from Cache-Control (RFC 9213, section 2.2). targeted says which;
// Expires counts only with Cache-Control.
func (o *Options) directives(d *Directives, fields *head.List) (targeted bool) {
	for _, name := range o.Targeted {
		d.reset()
		if is([]byte(name), "surrogate-control") {
			if d.addSurrogate(fields) {
				return true
			}
			continue
		}
		if d.addStructured(fields, name) {
			return true
		}
	}
	d.reset()
	eachNamed(fields, "cache-control", func(value []byte) { d.add(value) })
	return false
}

// eachNamed calls f with the value of each field called name, which must be in lower case.
func eachNamed(fields *head.List, name string, f func(value []byte)) {
	for i := range fields.Len() {
		if field := fields.At(i); is(field.Name, name) {
			f(field.Value)
		}
	}
}

// addStructured reads a targeted field, a dictionary of RFC 9651. A field that is empty, is not a
// dictionary or gives a directive the wrong type does not count.
func (d *Directives) addStructured(fields *head.List, name string) bool {
	var lines []string
	for i := range fields.Len() {
		if f := fields.At(i); head.EqualFold(f.Name, []byte(name)) {
			lines = append(lines, string(f.Value))
		}
	}
	if lines == nil {
		return false
	}
	dictionary, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil || len(dictionary.Names()) == 0 {
		return false
	}
	for _, key := range dictionary.Names() {
		member, _ := dictionary.Get(key)
		if !d.takeStructured(key, member) {
			return false
		}
	}
	return true
}

// takesSeconds reports whether the value of a directive is a number of seconds.
func takesSeconds(name string) bool {
	switch name {
	case "max-age", "s-maxage", "stale-while-revalidate", "stale-if-error":
		return true
	}
	return false
}

// takeStructured adds one member; it returns false if the member has the wrong type.
func (d *Directives) takeStructured(name string, member httpsfv.Member) bool {
	item, single := member.(httpsfv.Item)
	m := directive{name: []byte(name)}
	if takesSeconds(name) {
		n, number := item.Value.(int64)
		if !single || !number {
			return false
		}
		m.valued = true
		d.takeSeconds(&m, max(n, 0))
		return true
	}
	switch value := item.Value.(type) {
	case bool:
		if !value {
			return true // no-store=?0 means that the directive is not set
		}
	case string:
		m.valued, m.argument = true, []byte(value)
	case httpsfv.Token:
		m.valued, m.argument = true, []byte(value)
	}
	d.take(&m)
	return true
}

// takeSeconds adds a directive with the time n in seconds.
func (d *Directives) takeSeconds(m *directive, n int64) {
	n = min(n, maxDelta)
	switch string(m.name) {
	case "max-age":
		d.MaxAge = shorter(d.MaxAge, n)
	case "s-maxage":
		d.SMaxAge = shorter(d.SMaxAge, n)
	case "stale-while-revalidate":
		d.StaleWhileRevalidate = shorter(d.StaleWhileRevalidate, n)
	case "stale-if-error":
		d.StaleIfError = shorter(d.StaleIfError, n)
	}
}

// addSurrogate reads Surrogate-Control (Edge Architecture 1.0): max-age=FRESH+STALE, no-store, and
// members for one particular surrogate, which have a parameter and are ignored. Other directives of
// Cache-Control do not occur in it. addSurrogate returns false if the field has neither directive.
func (d *Directives) addSurrogate(fields *head.List) bool {
	found := false
	eachNamed(fields, "surrogate-control", func(line []byte) {
		for {
			m, rest, more, ok := nextDirective(line)
			if !ok {
				d.Set |= Malformed
			}
			if !more {
				return
			}
			line = rest
			switch {
			case is(m.name, "no-store"):
				d.Set |= NoStore
				found = true
			case is(m.name, "max-age"):
				d.takeSurrogateAge(&m)
				found = true
			}
		}
	})
	return found
}

func (d *Directives) takeSurrogateAge(m *directive) {
	fresh, stale := m.argument, []byte(nil)
	for i, c := range m.argument {
		if c == ';' {
			return // for the one surrogate whose name follows
		}
		if c == '+' && stale == nil {
			fresh, stale = m.argument[:i], m.argument[i+1:]
		}
	}
	m.argument = fresh
	d.MaxAge = shorter(d.MaxAge, m.seconds())
	if stale != nil {
		m.argument = stale
		d.StaleWhileRevalidate = shorter(d.StaleWhileRevalidate, m.seconds())
	}
}
