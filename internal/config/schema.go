package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// environment is the form of a value that the environment gives: what it will be is not known to an
// editor.
const environment = `\$\{[A-Z_][A-Z0-9_]*(:-[^}]*)?\}`

// JSONSchema is a JSON Schema (draft 2020-12) of the file, for editors. It knows the shape, the
// words and the limits of numbers; limits of durations, and what keys mean to each other, are only
// found by Parse.
func JSONSchema() []byte {
	defs := make(map[string]*jsonschema.Schema)
	root := schemaOf(reflect.TypeFor[Config](), defs)
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.Title = "plimsoll configuration"
	root.Defs = defs
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("config: the schema has no JSON form: %v", err))
	}
	return append(text, '\n')
}

// schemaOf is the schema of a struct. Structs within it are put into defs.
func schemaOf(t reflect.Type, defs map[string]*jsonschema.Schema) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:                 "object",
		Description:          comments()[t.Name()],
		Properties:           make(map[string]*jsonschema.Schema),
		AdditionalProperties: never(),
	}
	var shorthand *jsonschema.Schema
	for _, k := range keysOf(t) {
		property := k.schema(k.typ, defs)
		property.Description = k.doc(t.Name())
		if k.hasDef {
			property.Default = k.jsonDefault()
		}
		s.Properties[k.name] = property
		s.PropertyOrder = append(s.PropertyOrder, k.name)
		if k.required {
			s.Required = append(s.Required, k.name)
		}
		if k.one {
			s.OneOf = append(s.OneOf, &jsonschema.Schema{Required: []string{k.name}})
		}
		if k.scalar {
			shorthand = k.schema(k.typ, defs)
		}
	}
	if shorthand != nil {
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{shorthand, s}}
	}
	return s
}

// schema is the schema of a key's value, or of the values within it.
func (k *key) schema(t reflect.Type, defs map[string]*jsonschema.Schema) *jsonschema.Schema {
	switch t {
	case durationType:
		return pattern(`^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)`)
	case sizeType:
		return anyOf(&jsonschema.Schema{Type: "integer", Minimum: new(0.0)}, pattern(`^[0-9]+([KMGT]?B)?$`))
	case percentType:
		return pattern(`^[0-9]+(\.[0-9]*)?%$`)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return k.schema(t.Elem(), defs)
	case reflect.Struct:
		if defs[t.Name()] == nil {
			defs[t.Name()] = schemaOf(t, defs)
		}
		return &jsonschema.Schema{Ref: "#/$defs/" + t.Name()}
	case reflect.Slice:
		s := &jsonschema.Schema{Type: "array", Items: k.schema(t.Elem(), defs)}
		if k.required {
			s.MinItems = new(1)
		}
		return s
	case reflect.Map:
		s := &jsonschema.Schema{Type: "object", AdditionalProperties: k.schema(t.Elem(), defs)}
		if k.required {
			s.MinProperties = new(1)
		}
		return s
	case reflect.String:
		return k.words()
	case reflect.Bool:
		return anyOf(&jsonschema.Schema{Type: "boolean"}, pattern(environment))
	}
	return anyOf(k.number(t), pattern(environment))
}

// words is the schema of a string, which may be one of a few only.
func (k *key) words() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	if len(k.enum) > 0 {
		for _, word := range k.enum {
			s.Enum = append(s.Enum, word)
		}
		return anyOf(s, pattern(environment))
	}
	if k.required {
		s.MinLength = new(1)
	}
	return s
}

func (k *key) number(t reflect.Type) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "number"}
	if t.Kind() == reflect.Int {
		s.Type = "integer"
	}
	if k.max != "" {
		s.Minimum, s.Maximum = new(k.low), new(k.high)
	}
	for _, word := range k.enum {
		n, err := strconv.Atoi(word)
		if err != nil {
			panic("config: a number's enum in types.go: " + err.Error())
		}
		s.Enum = append(s.Enum, n)
	}
	return s
}

// jsonDefault is the default as an editor would put it into the file.
func (k *key) jsonDefault() json.RawMessage {
	var value any = k.def
	switch t := k.leaf(); {
	case k.typ.Kind() == reflect.Slice:
		value = strings.Split(k.def, ",")
	case t.Kind() == reflect.Bool, t.Kind() == reflect.Int, t.Kind() == reflect.Float64 && t != percentType:
		return json.RawMessage(k.def)
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("config: a default in types.go: %v", err))
	}
	return text
}

func pattern(expression string) *jsonschema.Schema {
	if expression != environment {
		expression += "|" + environment
	}
	return &jsonschema.Schema{Type: "string", Pattern: expression}
}

func anyOf(schemas ...*jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: schemas}
}

// never is the schema that nothing satisfies, which is written as false.
func never() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }
