package document

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/experiment"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/record"
)

// documents are the types that have a schema: commands by their names, and files. line.json is the
// file from survey --export, under its name in the docs.
func documents() map[string]reflect.Type {
	all := map[string]reflect.Type{
		"load":                  reflect.TypeFor[Load](),
		"replay":                reflect.TypeFor[Replay](),
		"survey":                reflect.TypeFor[Survey](),
		"diagnose":              reflect.TypeFor[Diagnose](),
		"compare":               reflect.TypeFor[Compare](),
		"experiment":            reflect.TypeFor[Experiment](),
		"plan":                  reflect.TypeFor[DeploymentPlan](),
		"doctor":                reflect.TypeFor[Doctor](),
		"model":                 reflect.TypeFor[Model](),
		"profile":               reflect.TypeFor[Profile](),
		"verify-against-wrk":    reflect.TypeFor[Verify](),
		"verify-against-h2load": reflect.TypeFor[Verify](),
		"line.json":             reflect.TypeFor[record.LineFile](),
	}
	maps.Copy(all, record.Files())
	maps.Copy(all, experiment.Files())
	return all
}

// Names are the names of the documents with a schema, in order.
func Names() []string { return slices.Sorted(maps.Keys(documents())) }

// Schema is the JSON Schema (draft 2020-12) of a document. It allows unknown keys, because a later
// version may have more. ok is false if there is no such document.
func Schema(name string) (text []byte, ok bool) {
	of, ok := documents()[name]
	if !ok {
		return nil, false
	}
	return SchemaOf(name, of), true
}

// SchemaOf is the JSON Schema of a type that another package prints, in the form of Schema.
func SchemaOf(name string, of reflect.Type) []byte {
	s := schemaOf(of)
	s.Schema = "https://json-schema.org/draft/2020-12/schema"
	s.Title = "plimsoll " + name
	eachSchema(s, func(s *jsonschema.Schema) {
		if len(s.Properties) > 0 {
			s.AdditionalProperties = nil
		}
	})
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("document: the schema of %s has no JSON form: %v", name, err))
	}
	return append(text, '\n')
}

// snakeCase is the form of keys.
const snakeCase = `^[a-z][a-z0-9]*(_[a-z0-9]+)*$`

// schemaOf is the schema of a type. It allows no unknown keys. A nil slice would become null, which
// docs/json.md rules out: fields that may be nil are omitted then.
func schemaOf(of reflect.Type) *jsonschema.Schema {
	s, err := jsonschema.ForType(of, &jsonschema.ForOptions{
		TypeSchemas: map[reflect.Type]*jsonschema.Schema{
			reflect.TypeFor[measure.Tally]():  tallySchema(),
			reflect.TypeFor[measure.Sparse](): schemaOfHistogram(),
			reflect.TypeFor[diagnose.Rank]():  {Type: "string", Enum: ranks()},
		},
	})
	if err != nil {
		panic(fmt.Sprintf("document: %s has no schema: %v", of, err))
	}
	eachSchema(s, func(s *jsonschema.Schema) {
		if s.Items != nil {
			s.Type, s.Types = "array", nil
		}
		// A map's keys are not fields of a type, so only the schema can require their style.
		if settings := s.Properties["settings"]; settings != nil && settings.Type == "object" {
			settings.PropertyNames = &jsonschema.Schema{Pattern: snakeCase}
		}
	})
	return s
}

func schemaOfHistogram() *jsonschema.Schema {
	s, err := jsonschema.For[measure.JSONHistogram](nil)
	if err != nil {
		panic(fmt.Sprintf("document: a histogram has no schema: %v", err))
	}
	return s
}

func tallySchema() *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:       "object",
		Required:   []string{measure.OK.String()},
		Properties: make(map[string]*jsonschema.Schema),
	}
	for kind := range measure.Kinds {
		name := measure.Kind(kind).String()
		s.Properties[name] = &jsonschema.Schema{Type: "integer", Minimum: new(0.0)}
		s.PropertyOrder = append(s.PropertyOrder, name)
	}
	s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	return s
}

func ranks() (names []any) {
	for r := diagnose.Reach; r <= diagnose.Risk; r++ {
		names = append(names, r.String())
	}
	return names
}

// eachSchema calls f for a schema and all schemas in it.
func eachSchema(s *jsonschema.Schema, f func(*jsonschema.Schema)) {
	if s == nil {
		return
	}
	f(s)
	for _, p := range s.Properties {
		eachSchema(p, f)
	}
	eachSchema(s.Items, f)
	eachSchema(s.AdditionalProperties, f)
}
