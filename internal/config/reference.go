package config

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

const referenceHead = `# Configuration reference

This page is generated from the comments in internal/config/types*.go; change them, not it.

A configuration is one YAML file, and it is strict: an unknown key, a wrong type or a value out of
range is an error that names file, line and column. ` + "`plimsoll check FILE`" + ` shows all errors at
once, ` + "`plimsoll config schema`" + ` prints a JSON Schema for editors, and ` +
	"`plimsoll config defaults`" + ` a
file with every key that has a default.

- A **duration** is a number with a unit (ms, s, m, h): ` + "`250ms`, `1.5s`, `1h30m`" + `. A bare number is
  an error.
- A **size** is a number of bytes, bare or with a unit (B, KB, MB, GB, TB), where a KB is 1024
  bytes: ` + "`512B`, `64KB`" + `.
- A **share** is a percentage from 0% to 100%: ` + "`20%`, `1.5%`" + `.
- A relative **file** path starts from the directory of the configuration file.
- ` + "`${NAME}`" + ` in a value is replaced by the environment variable, and ` +
	"`${NAME:-text}`" + ` by text when
  it is unset or empty; a variable that is unset and has no default is an error. Environment
  variables are upper case. ` + "`$${`" + ` is a literal ` + "`${`" +
	`. Within [...] and {...}, put such a value in
  quotes. The admin API shows ` + "`${NAME}`" + `, not the value: keep secrets in the environment.
- Anchors, aliases and ` + "`<<`" + ` work as in YAML 1.1, within bounds. Tags do not.
- The file may have up to 16MB and 200,000 routes.

The values of ` + "`request_headers`, `response_headers`, `redirect.to` and `rewrite`" + `, and the
headers and body of a ` + "`fallback`" + `, may use variables of the exchange, which are lower case:
`

// Reference is docs/config.md: every key with its type, default, limits and comment, in Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	for i, name := range variables {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("`${" + name + "}`")
	}
	b.WriteString(", and `${path.NAME}` for the value of `{NAME}` in the route's pattern.\n")
	section(&b, reflect.TypeFor[Config](), "")
	return wrap(b.String())
}

// pageWidth is how many columns a line of the reference may have.
const pageWidth = 100

// wrap breaks lines at spaces so that they are not wider than the page. What it breaks continues
// below the line's text.
func wrap(page string) string {
	var b strings.Builder
	for line := range strings.Lines(page) {
		text := strings.Trim(line, " \n")
		start := strings.Index(line, text)
		indent := strings.Repeat(" ", start)
		if strings.HasPrefix(text, "- ") {
			indent += "  "
		}
		b.WriteString(line[:start])
		column := start
		for i, word := range strings.Split(text, " ") {
			width := utf8.RuneCountInString(word)
			switch {
			case i == 0:
			case column+1+width > pageWidth && !beginsBlock(word):
				b.WriteString("\n" + indent)
				column = len(indent)
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += width
		}
		b.WriteString(line[start+len(text):])
	}
	return b.String()
}

// beginsBlock says whether a line that begins with the word would not continue the paragraph.
func beginsBlock(word string) bool {
	return word == "" || strings.Trim(word, "#") == "" || strings.Trim(word, "0123456789") == "." ||
		word == "-" || word == "+" || word == "*" || word == ">" || word == "|"
}

// section writes the keys of a struct, then the sections of the structs within it. Where is the
// path that leads to it.
func section(b *strings.Builder, t reflect.Type, where string) {
	if where == "" {
		b.WriteString("\n## The top of the file\n")
	} else {
		own := where[strings.LastIndexByte(where, '.')+1:]
		text := strings.Replace(comments()[t.Name()], t.Name(), "`"+own+"`", 1)
		fmt.Fprintf(b, "\n## `%s`\n\n%s\n", where, text)
	}
	for _, k := range keysOf(t) {
		fmt.Fprintf(b, "\n- **`%s`** (%s)  \n  %s\n", k.name, k.summary(), k.doc(t.Name()))
	}
	for _, k := range keysOf(t) {
		if k.leaf().Kind() == reflect.Struct {
			section(b, k.leaf(), strings.TrimPrefix(where+"."+k.name, ".")+k.suffix())
		}
	}
}

// suffix is how the path goes on from the key to what is within it.
func (k *key) suffix() string {
	switch k.typ.Kind() {
	case reflect.Slice:
		return "[]"
	case reflect.Map:
		return ".NAME"
	}
	return ""
}

// summary is the type, default and limits of a key in a few words.
func (k *key) summary() string {
	parts := []string{k.kind()}
	if len(k.enum) > 0 {
		parts = append(parts, "one of "+strings.Join(k.enum, ", "))
	}
	if k.max != "" {
		parts = append(parts, k.min+" to "+k.max)
	}
	switch {
	case k.required:
		parts = append(parts, "required")
	case k.hasDef && k.typ.Kind() == reflect.Slice:
		parts = append(parts, "default `["+strings.ReplaceAll(k.def, ",", ", ")+"]`")
	case k.hasDef:
		parts = append(parts, "default `"+k.def+"`")
	}
	return strings.Join(parts, "; ")
}

// kind names the type of a key to people.
func (k *key) kind() string {
	var leaf string
	switch t := k.leaf(); {
	case t == durationType:
		leaf = "duration"
	case t == sizeType:
		leaf = "size"
	case t == percentType:
		leaf = "share"
	case k.file:
		leaf = "file"
	case t.Kind() == reflect.String:
		leaf = "string"
	case t.Kind() == reflect.Int:
		leaf = "whole number"
	case t.Kind() == reflect.Float64:
		leaf = "number"
	case t.Kind() == reflect.Bool:
		leaf = "true or false"
	default:
		leaf = "mapping"
		for _, inner := range keysOf(t) {
			if inner.scalar {
				leaf = "string or mapping"
			}
		}
	}
	switch k.typ.Kind() {
	case reflect.Slice:
		return "list of: " + leaf
	case reflect.Map:
		return "mapping of names to: " + leaf
	}
	return leaf
}
