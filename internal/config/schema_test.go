//go:build !race

package config_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/jsonschema-go/jsonschema"

	"plimsoll/internal/config"
)

func schema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(config.JSONSchema(), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func valueOf(t *testing.T, file string) any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return v
}

func TestEveryGoodConfigurationSatisfiesTheSchema(t *testing.T) {
	s := schema(t)
	for _, file := range append(files(t, "testdata/good/*.yaml"), "testdata/defaults.yaml") {
		if err := s.Validate(valueOf(t, file)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestConfigurationsOfTheWrongShapeDoNotSatisfyTheSchema(t *testing.T) {
	s := schema(t)
	for _, file := range files(t, "testdata/bad/shape_*.yaml") {
		if s.Validate(valueOf(t, file)) == nil {
			t.Errorf("%s satisfies the schema", file)
		}
	}
	for _, text := range []string{
		`{}`,
		`{listeners: []}`,
		`{listeners: [{address: ""}]}`,
		`{listeners: [{address: ":1", nonsense: 1}]}`,
		`{listeners: [{address: ":1", backlog: 0}]}`,
		`{listeners: [{address: ":1", limits: {idle_timeout: 5}}]}`,
		`{listeners: [{address: ":1", limits: {request_line: 5XB}}]}`,
		`{listeners: [{address: ":1"}], routes: [{match: /}]}`,
		`{listeners: [{address: ":1"}], routes: [{match: /, respond: {}, upstream: a}]}`,
		`{listeners: [{address: ":1"}], routes: [{match: /, upstream: a, sla: P10}]}`,
		`{listeners: [{address: ":1"}], routes: [{match: /, redirect: {to: /, status: 300}}]}`,
		`{listeners: [{address: ":1"}], routes: [{match: /, respond: {}, limits: [{key: client_address}]}]}`,
		`{listeners: [{address: ":1"}], routes: [{match: /, respond: {}, limits: [{rate: 1/s, algorithm: none}]}]}`,
		`{listeners: [{address: ":1"}], upstreams: {a: {targets: [{weight: 1}]}}}`,
		`{listeners: [{address: ":1"}], upstreams: {a: {targets: [a], balance: best}}}`,
		`{listeners: [{address: ":1"}], upstreams: {a: {targets: [a], health: {panic: 0.3}}}}`,
	} {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if s.Validate(v) == nil {
			t.Errorf("satisfies the schema: %s", text)
		}
	}
}

func TestTheSchemaDescribesEveryKey(t *testing.T) {
	var s jsonschema.Schema
	if err := json.Unmarshal(config.JSONSchema(), &s); err != nil {
		t.Fatal(err)
	}
	if s.Schema != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("draft %q", s.Schema)
	}
	check := func(name string, s *jsonschema.Schema) {
		for _, form := range append(s.AnyOf, s) {
			for key, property := range form.Properties {
				if property.Description == "" {
					t.Errorf("%s.%s has no description", name, key)
				}
			}
		}
	}
	check("", &s)
	for name, def := range s.Defs {
		check(name, def)
	}
}
