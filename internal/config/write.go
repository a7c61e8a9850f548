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
func (c *Config) YAML() []byte { return writer{}.file(c) }

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
	return writer{comment: true}.file(cfg)
}

// writer turns values into lines of YAML. A line has no indentation of its own: the code that holds
// the lines of a part shifts them.
type writer struct {
	comment bool // show what is absent, as comments
}

func (w writer) file(c *Config) []byte {
	return []byte(strings.Join(w.mapping(reflect.ValueOf(c).Elem(), c.sources), "\n") + "\n")
}

// mapping is the lines of a struct, or none when all its keys are absent.
func (w writer) mapping(v reflect.Value, from *sources) []string {
	var lines []string
	keys := keysOf(v.Type())
	for i := range keys {
		k := &keys[i]
		part := w.entry(k.name, "", v.Field(k.index), k, from.key(k))
		if part == nil && w.comment {
			part = w.absent(k)
			// Within a commented part, what it cannot do without stands out.
			if !k.required {
				part = shift(part, "# ", "# ")
			}
		}
		lines = append(lines, part...)
	}
	return lines
}

// entry is the lines of a key and its value, or none when the value is absent. entryName is the
// name again where the key is not one of a struct but of a free mapping.
func (w writer) entry(name, entryName string, v reflect.Value, k *key, from *sources) []string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	name = quote(name) + ":"
	switch v.Kind() {
	case reflect.Struct:
		lines := w.mapping(v, from)
		if !slices.ContainsFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "# ") }) {
			return nil
		}
		return append([]string{name}, shift(lines, "  ", "  ")...)
	case reflect.Slice:
		return w.list(name, v, k, from)
	case reflect.Map:
		if v.Len() == 0 {
			return nil
		}
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int {
			return strings.Compare(a.String(), b.String())
		})
		lines := []string{name}
		for _, n := range names {
			item := v.MapIndex(n)
			part := w.entry(n.String(), n.String(), item, k, from.at(n.String()))
			if part == nil {
				part = []string{quote(n.String()) + ": " + emptyYAML(item)}
			}
			lines = append(lines, shift(part, "  ", "  ")...)
		}
		return lines
	}
	if v.Kind() == reflect.String && v.Len() == 0 {
		return nil
	}
	return []string{name + " " + scalarYAML(v, k, entryName, from)}
}

func (w writer) list(name string, v reflect.Value, k *key, from *sources) []string {
	switch {
	case v.IsNil():
		return nil
	case v.Len() == 0:
		return []string{name + " []"} // which may not be the default
	}
	if v.Type().Elem().Kind() != reflect.Struct {
		items := make([]string, v.Len())
		for i := range items {
			items[i] = scalarYAML(v.Index(i), k, "", from.item(i))
		}
		return []string{name + " [" + strings.Join(items, ", ") + "]"}
	}
	lines := []string{name}
	for i := range v.Len() {
		lines = append(lines, shift(w.mapping(v.Index(i), from.item(i)), "  - ", "    ")...)
	}
	return lines
}

// emptyYAML is an entry of a free mapping of which nothing is written.
func emptyYAML(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		return "{}"
	}
	return `""`
}

// absent is the lines of a key that is not there, as it would be with its defaults.
func (w writer) absent(k *key) []string {
	t := k.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		return append([]string{k.name + ":"}, shift(w.mapping(prototype(t), nil), "  ", "  ")...)
	case reflect.Slice:
		return []string{k.name + ": []"}
	case reflect.Map:
		return []string{k.name + ": {}"}
	}
	return []string{k.name + `: ""`}
}

// shift puts first before the first line and rest before the others.
func shift(lines []string, first, rest string) []string {
	for i := range lines {
		lines[i] = first + lines[i]
		first = rest
	}
	return lines
}

func scalarYAML(v reflect.Value, k *key, entryName string, from *sources) string {
	if v.Kind() != reflect.String {
		return fmt.Sprint(v.Interface())
	}
	return quote(k.shown(v.String(), entryName, from))
}

var yamlWords = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

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
	if isPlain(text) && !slices.Contains(yamlWords, strings.ToLower(text)) {
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
