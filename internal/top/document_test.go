package top

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"plimsoll/internal/lab/document"
)

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	s := new(jsonschema.Schema)
	text := document.SchemaOf(Command, reflect.TypeFor[Document]())
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheDocumentIsAsItsSchemaSays(t *testing.T) {
	s := schema(t)
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	empty := compare(at(0, nil, nil), at(1, nil, nil), nil)
	for name, f := range map[string]*Figures{"full": some(), "empty": empty} {
		text, err := json.Marshal(NewDocument(f))
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		if err := resolved.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if v["command"] != "top" || v["schema_version"] != float64(document.SchemaVersion) {
			t.Errorf("%s begins with %v, %v", name, v["schema_version"], v["command"])
		}
		if strings.Contains(string(text), "null") {
			t.Errorf("%s has a null: %s", name, text)
		}
		v["routes"] = "none"
		if resolved.Validate(v) == nil {
			t.Errorf("%s: routes may be a text", name)
		}
	}
}

// As docs/json.md has it, a figure's key says its unit, or the key above it does.
func TestKeysSayTheirUnits(t *testing.T) {
	units := []string{"_per_second", "_share", "_seconds", "_factor", "_ms"}
	bare := []string{"p50", "p99", "low", "estimate", "high", "confidence"}
	seen := 0
	var check func(*jsonschema.Schema)
	check = func(s *jsonschema.Schema) {
		if s == nil {
			return
		}
		for key, p := range s.Properties {
			ends := func(unit string) bool { return strings.HasSuffix(key, unit) }
			if p.Type == "number" || slices.Contains(p.Types, "number") {
				seen++
				if !slices.ContainsFunc(units, ends) && !slices.Contains(bare, key) {
					t.Errorf("the key %s does not say its unit", key)
				}
			}
			check(p)
		}
		check(s.Items)
	}
	check(schema(t))
	if seen < 15 {
		t.Errorf("%d figures only", seen)
	}
}
