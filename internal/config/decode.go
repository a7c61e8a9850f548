package config

import (
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// maxAliased bounds how many nodes are visited through aliases, so that a small file cannot stand
// for a huge one.
const maxAliased = 1_000_000

// maxAliasDepth bounds how many aliases may be followed on the way to one value.
const maxAliasDepth = 20

// decoder walks the tree of one file along the types and fills them, noting every error and going
// on. One goroutine, one file.
type decoder struct {
	base    string
	lookup  func(string) (string, bool)
	errs    errorList
	suggest suggester
	anchors map[string]*ast.AnchorNode
	aliased int
	files   fileCache

	broken  map[ast.Node]bool
	sources sources
	given   given

	// What the checks of single values leave for those of the whole.
	references []named          // to upstreams
	stores     []storeUse       // of Redis, by limits
	steps      []stepUse        // that routes give in place of the live answer
	routeNames []named          // that the file gives
	deadlines  []named          // the fields of routes' deadlines
	pathValues []named          // ${path.NAME} in the route that is being decoded
	addresses  map[string]place // that are listened on
}

// named is a name that the file has somewhere.
type named struct {
	at   place
	name string
}

// checker is a type with rules that its tags cannot say. Check runs after the value and all within
// it are decoded.
type checker interface{ check(s *scope) }

// decode fills what v points to from the whole document.
func (d *decoder) decode(root place, v any) {
	d.value(root, reflect.ValueOf(v).Elem(), &key{})
}

// value fills v from the node at p. The key says what v's tags ask of it.
func (d *decoder) value(p place, v reflect.Value, k *key) {
	p, ok := d.resolve(p)
	if !ok || !d.charge(p, 1) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		// A default is shared by every copy of its prototype: never write through the pointer that
		// is there.
		v.Set(reflect.New(v.Type().Elem()))
		d.value(p, v.Elem(), k)
	case reflect.Struct:
		d.structure(p, v)
	case reflect.Slice:
		d.list(p, v, k)
	case reflect.Map:
		d.mapping(p, v, k)
	default:
		d.scalar(p, v, k)
	}
}

func (d *decoder) structure(p place, v reflect.Value) {
	v.Set(prototype(v.Type()))
	s := &scope{decoder: d, mapping: p, present: map[string]place{}, failed: map[string]bool{}}
	keys := keysOf(v.Type())
	if _, isMapping := p.node.(*ast.MappingNode); isMapping {
		d.keys(s, keys)
	} else {
		shorthand := slices.IndexFunc(keys, func(k key) bool { return k.scalar })
		if _, isList := p.node.(*ast.SequenceNode); shorthand < 0 || isList {
			d.wrong(p, v.Type())
			return
		}
		s.present[keys[shorthand].name] = p
	}
	for i := range keys {
		k := &keys[i]
		at, ok := s.present[k.name]
		if !ok {
			if k.required {
				d.fail(s.at(k.name), "missing; add it")
			}
			continue
		}
		before := d.errs.count()
		d.value(at, v.Field(k.index), k)
		if d.overspent() {
			return // what comes now is not read, and the checks would find it missing
		}
		s.failed[k.name] = d.errs.count() > before
		if k.required && !s.failed[k.name] && v.Field(k.index).Len() == 0 {
			s.failed[k.name] = true
			d.fail(at, "empty; give it at least one value")
		}
	}
	d.exactlyOne(s, keys)
	if c, ok := v.Addr().Interface().(checker); ok {
		c.check(s)
	}
}

// keys notes which of the known keys the mapping has, and what it has besides.
func (d *decoder) keys(s *scope, known []key) {
	names := make([]string, len(known))
	for i := range known {
		names[i] = known[i].name
	}
	for _, e := range d.entriesOf(s.mapping) {
		if slices.Contains(names, e.name) {
			s.present[e.name] = e.value
		} else if d.errs.full() {
			d.errs.beyond++
		} else {
			d.fail(e.key, "unknown key; %s", d.suggest.advice(e.name, names))
		}
	}
}

func (d *decoder) exactlyOne(s *scope, keys []key) {
	var among, found []string
	for i := range keys {
		if keys[i].one {
			among = append(among, keys[i].name)
			if s.has(keys[i].name) {
				found = append(found, keys[i].name)
			}
		}
	}
	switch {
	case len(among) == 0 || len(found) == 1:
	case len(found) == 0:
		d.fail(s.mapping, "has none of %s; give exactly one", strings.Join(among, ", "))
	default:
		s.reject(found[1], "%s are given; exactly one of %s may be", strings.Join(found, " and "),
			strings.Join(among, ", "))
	}
}

func (d *decoder) list(p place, v reflect.Value, k *key) {
	node, ok := p.node.(*ast.SequenceNode)
	if !ok {
		d.wrong(p, v.Type())
		return
	}
	if v.Type() == reflect.TypeFor[[]Route]() && len(node.Values) > maxRoutes {
		d.fail(p, "has %d routes; %d are the most", len(node.Values), maxRoutes)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(node.Values), len(node.Values)))
	for i, item := range node.Values {
		d.value(p.item(i, item), v.Index(i), k)
	}
}

func (d *decoder) mapping(p place, v reflect.Value, k *key) {
	if _, isMapping := p.node.(*ast.MappingNode); !isMapping {
		d.wrong(p, v.Type())
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range d.entriesOf(p) {
		if _, f := scalarText(e.key.node); f != word && v.Type().Key() != statusType {
			d.fail(e.key, "expected a string as the key, found %s; write it in quotes", found(e.key.node))
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(e.value, item, k)
		v.SetMapIndex(reflect.ValueOf(e.name).Convert(v.Type().Key()), item)
	}
}

// statusType is that of keys that may be written as numbers.
var statusType = reflect.TypeFor[Status]()

// scalar fills v, which has a text, from the node at p.
func (d *decoder) scalar(p place, v reflect.Value, k *key) {
	text, form := scalarText(p.node)
	fromEnvironment := false
	if form == word {
		e, err := expand(text, k.template, d.lookup)
		if err != nil {
			d.fail(p, "%v", err)
			return
		}
		if e.used {
			d.note(p, v, k, text, e)
		}
		text, fromEnvironment = e.text, e.used
		for _, name := range e.values {
			d.pathValues = append(d.pathValues, named{p, name})
		}
	}
	if !accepts(v.Type(), form, fromEnvironment) {
		d.wrong(p, v.Type())
		return
	}
	if err := setText(v, text); err != nil {
		d.fail(p, "%v", err)
		return
	}
	if k.file && text != "" && !filepath.IsAbs(text) {
		v.SetString(filepath.Join(d.base, text))
	}
	d.limits(p, v, k, text)
}

// note keeps what the environment gave to a scalar, and the source of it where it is a string.
func (d *decoder) note(p place, v reflect.Value, k *key, source string, e expansion) {
	maps.Copy(d.given, e.given)
	if v.Kind() != reflect.String {
		return
	}
	if k.file && e.text != "" && !filepath.IsAbs(e.text) {
		// Not joined: ".." after a reference must stay.
		source = d.base + string(filepath.Separator) + source
	}
	d.sources.put(p.path, source)
}

// limits checks what the key's tags say about a scalar that has been set.
func (d *decoder) limits(p place, v reflect.Value, k *key, text string) {
	if len(k.enum) > 0 && !slices.Contains(k.enum, text) {
		advice := "choose one of them"
		// Among short words and numbers everything is near everything.
		if near := d.suggest.nearest(text, k.enum); len(near) > 3 {
			advice = "did you mean " + near + "?"
		}
		d.fail(p, "%q is not one of %s; %s", clip(text), strings.Join(k.enum, ", "), advice)
	}
	if k.max == "" {
		return
	}
	var n float64
	if v.CanInt() {
		n = float64(v.Int())
	} else {
		n = v.Float()
	}
	if n < k.low || n > k.high {
		d.fail(p, "%s is outside %s to %s; choose a value within", text, k.min, k.max)
	}
}
