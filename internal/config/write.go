package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// YAML is the configuration as a file that says everything, defaults too, and means the same when
// it is loaded again in the same environment; only secrets are left out, so that it can be shown. A
// string that the environment gave some of is as the file has it. Paths are as the checks left
// them, seen from the working directory.
func (c *Config) YAML() []byte { return new(writer).file(c) }

// Defaults is a configuration with one listener, one upstream and one route, and with every key
// there is: those that have a default with it, and those that are off or empty as comments.
func Defaults() []byte {
	cfg, err := Parse("defaults", []byte(`
listeners: [{address: "127.0.0.1:8080"}]
upstreams: {service: {targets: ["127.0.0.1:9000"]}}
routes: [{match: /, upstream: service}]
`), ".")
	if err != nil {
		panic(fmt.Sprintf("config: the smallest configuration does not load: %v", err))
	}
	return (&writer{comment: true}).file(cfg)
}

// writer turns values into lines of YAML. It writes each line once, as every reload writes the
// configuration, for its version. Whether a part is empty is known only when it is written: if it is,
// its lines are removed again (undo).
type writer struct {
	comment bool // show what is absent, as comments
	text    []byte
	indent  []byte // what the lines of the part at hand begin with
	// where the next line has the dash of a list's item in the place of a space; 0 for nowhere
	dash int
}

// mark is a place in the text to go back to.
type mark struct{ text, dash int }

func (w *writer) here() mark   { return mark{len(w.text), w.dash} }
func (w *writer) undo(to mark) { w.text, w.dash = w.text[:to.text], to.dash }

// shift has the lines from here on begin with more, until unshift is given what it returns.
func (w *writer) shift(more string) (before int) {
	before = len(w.indent)
	w.indent = append(w.indent, more...)
	return before
}

func (w *writer) unshift(before int) { w.indent = w.indent[:before] }

// line writes a line of these words.
func (w *writer) line(words ...string) {
	start := len(w.text)
	w.text = append(w.text, w.indent...)
	if w.dash > 0 {
		w.text[start+w.dash] = '-'
		w.dash = 0
	}
	for _, word := range words {
		w.text = append(w.text, word...)
	}
	w.text = append(w.text, '\n')
}

func (w *writer) file(c *Config) []byte {
	w.mapping(reflect.ValueOf(c).Elem(), c.sources)
	return w.text
}

// mapping writes the lines of a struct, and says whether any key is there. If all are absent, it
// writes nothing, or only comments.
func (w *writer) mapping(v reflect.Value, from *sources) (some bool) {
	keys := keysOf(v.Type())
	for i := range keys {
		k := &keys[i]
		switch {
		case w.entry(k.name, "", v.Field(k.index), k, from.key(k)):
			some = true
		case w.comment && k.required: // within a commented part, what it cannot do without stands out
			w.absent(k)
			some = true
		case w.comment:
			outside := w.shift("# ")
			w.absent(k)
			w.unshift(outside)
		}
	}
	return some
}

// entry writes the lines of a key and its value, and says whether there are any: there are none
// when the value is absent. entryName is the name again where the key is not one of a struct but
// of a free mapping.
func (w *writer) entry(name, entryName string, v reflect.Value, k *key, from *sources) bool {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return false
		}
		v = v.Elem()
	}
	name = quote(name)
	switch v.Kind() {
	case reflect.Struct:
		before := w.here()
		w.line(name, ":")
		outside := w.shift("  ")
		some := w.mapping(v, from)
		w.unshift(outside)
		if !some {
			w.undo(before)
		}
		return some
	case reflect.Slice:
		return w.list(name, v, k, from)
	case reflect.Map:
		return w.freeMapping(name, v, k, from)
	case reflect.String:
		if v.Len() == 0 {
			return false
		}
	}
	w.line(name, ": ", scalarYAML(v, k, entryName, from))
	return true
}

// freeMapping writes a mapping whose keys have names of the user's choice.
func (w *writer) freeMapping(name string, v reflect.Value, k *key, from *sources) bool {
	if v.Len() == 0 {
		return false
	}
	names := v.MapKeys()
	slices.SortFunc(names, func(a, b reflect.Value) int {
		return strings.Compare(a.String(), b.String())
	})
	w.line(name, ":")
	outside := w.shift("  ")
	for _, n := range names {
		item := v.MapIndex(n)
		if !w.entry(n.String(), n.String(), item, k, from.at(n.String())) {
			w.line(quote(n.String()), ": ", emptyYAML(item))
		}
	}
	w.unshift(outside)
	return true
}

func (w *writer) list(name string, v reflect.Value, k *key, from *sources) bool {
	switch {
	case v.IsNil():
		return false
	case v.Len() == 0:
		w.line(name, ": []") // which may not be the default
		return true
	}
	if v.Type().Elem().Kind() != reflect.Struct {
		items := make([]string, v.Len())
		for i := range items {
			items[i] = scalarYAML(v.Index(i), k, "", from.item(i))
		}
		w.line(name, ": [", strings.Join(items, ", "), "]")
		return true
	}
	w.line(name, ":")
	outside := w.shift("    ")
	for i := range v.Len() {
		w.dash = len(w.indent) - 2
		w.mapping(v.Index(i), from.item(i))
	}
	w.dash = 0
	w.unshift(outside)
	return true
}

// emptyYAML is an entry of a free mapping of which nothing is written.
func emptyYAML(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		return "{}"
	}
	return `""`
}

// absent writes the lines of a key that is not there, as it would be with its defaults.
func (w *writer) absent(k *key) {
	t := k.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		w.line(k.name, ":")
		outside := w.shift("  ")
		w.mapping(prototype(t), nil)
		w.unshift(outside)
	case reflect.Slice:
		w.line(k.name, ": []")
	case reflect.Map:
		w.line(k.name, ": {}")
	default:
		w.line(k.name, `: ""`)
	}
}

func scalarYAML(v reflect.Value, k *key, entryName string, from *sources) string {
	if v.Kind() == reflect.String {
		return quote(k.shown(v.String(), entryName, from))
	}
	value := v.Interface()
	if s, is := value.(fmt.Stringer); is {
		return s.String()
	}
	return fmt.Sprint(value)
}

var yamlWords = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

const longestWord = len("false")

// isPlain says that a text needs no quotes in YAML, unless it is one of yamlWords: it begins with a
// letter or a slash, and goes on with those, digits, "_", "." and "-".
func isPlain(text string) bool {
	for i := range len(text) {
		c := text[i]
		first := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '/'
		later := c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-'
		if !first && (i == 0 || !later) {
			return false
		}
	}
	return text != ""
}

// quote is a string in YAML, bare where every reader of YAML takes it for a string.
func quote(text string) string {
	if isPlain(text) && (len(text) > longestWord || !slices.Contains(yamlWords, strings.ToLower(text))) {
		return text
	}
	// A string of JSON is one of YAML.
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // a string always has a JSON form
	}
	return strings.TrimSuffix(b.String(), "\n")
}
