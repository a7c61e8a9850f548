package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// key is what the types and their tags say about one key of a mapping. The decoder, the JSON
// Schema, the reference and the writer all read it, so that they cannot disagree.
type key struct {
	name     string // in YAML
	goName   string
	index    int // of the field
	typ      reflect.Type
	def      string // as in YAML; lists are separated by commas
	hasDef   bool
	min, max string // as in YAML
	low      float64
	high     float64
	enum     []string
	required bool
	one      bool
	scalar   bool
	template bool
	file     bool
	secret   bool
}

var (
	durationType = reflect.TypeFor[Duration]()
	sizeType     = reflect.TypeFor[Size]()
	percentType  = reflect.TypeFor[Percent]()
)

var keyTables sync.Map // reflect.Type → []key

// keysOf is the table of a struct's keys in the order of its fields.
func keysOf(t reflect.Type) []key {
	if table, ok := keyTables.Load(t); ok {
		return table.([]key)
	}
	var table []key
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("yaml")
		if !f.IsExported() || name == "-" {
			continue
		}
		k := key{
			name: name, goName: f.Name, index: i, typ: f.Type,
			min: f.Tag.Get("min"), max: f.Tag.Get("max"),
			required: f.Tag.Get("required") != "", one: f.Tag.Get("one") != "",
			scalar:   f.Tag.Get("scalar") != "",
			template: f.Tag.Get("template") != "", file: f.Tag.Get("file") != "",
			secret: f.Tag.Get("secret") != "",
		}
		k.def, k.hasDef = f.Tag.Lookup("default")
		if list := f.Tag.Get("enum"); list != "" {
			k.enum = strings.Split(list, ",")
		}
		if k.max != "" {
			k.low, k.high = limit(k.leaf(), k.min), limit(k.leaf(), k.max)
		}
		table = append(table, k)
	}
	keyTables.Store(t, table)
	return table
}

// leaf is the type that limits and words speak of: what a pointer points to, or the values of a
// list or mapping.
func (k *key) leaf() reflect.Type {
	t := k.typ
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

// limit is the value of a min or max tag. A tag that does not parse is a mistake in types.go, which
// every test finds.
func limit(t reflect.Type, text string) float64 {
	v := reflect.New(t).Elem()
	mustSet(v, text)
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

var prototypes sync.Map // reflect.Type → reflect.Value

// prototype is a struct of type t with every default in place. It is copied, so that what it points
// to is shared by all copies and must not be written through.
func prototype(t reflect.Type) reflect.Value {
	if v, ok := prototypes.Load(t); ok {
		return v.(reflect.Value)
	}
	v := reflect.New(t).Elem()
	for _, k := range keysOf(t) {
		field := v.Field(k.index)
		switch {
		case field.Kind() == reflect.Struct:
			field.Set(prototype(k.typ))
		case k.hasDef:
			mustSet(field, k.def)
		}
	}
	prototypes.Store(t, v)
	return v
}

// mustSet puts the text of a tag into v.
func mustSet(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		mustSet(v.Elem(), text)
		return
	case reflect.Slice:
		for item := range strings.SplitSeq(text, ",") {
			v.Set(reflect.Append(v, reflect.ValueOf(item)))
		}
		return
	}
	if err := setText(v, text); err != nil {
		panic(fmt.Sprintf("config: a tag in types.go: %v", err))
	}
}

// setText puts a scalar's text into v, which is none of the structured kinds. The error says what
// is wrong and what to do.
func setText(v reflect.Value, text string) error {
	switch v.Type() {
	case durationType:
		d, err := ParseDuration(text)
		v.SetInt(int64(d))
		return err
	case sizeType:
		s, err := ParseSize(text)
		v.SetInt(int64(s))
		return err
	case percentType:
		p, err := ParsePercent(text)
		v.SetFloat(float64(p))
		return err
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false; write one of them", text)
		}
		v.SetBool(text == "true")
	case reflect.Int:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a whole number; write one in digits", text)
		}
		v.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !isNumber(text) {
			return fmt.Errorf("%q is not a number; write one such as 1.5", text)
		}
		v.SetFloat(n)
	default:
		panic("config: a field of a type that has no text: " + v.Type().String())
	}
	return nil
}
