package main

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rogpeppe/go-internal/testscript"

	"plimsoll/internal/lab/document"
)

// valid is the script command "valid NAME FILE", which validates a JSON document by the schema
// that plimsoll schema NAME prints.
func valid(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: valid NAME FILE")
	}
	text, ok := document.Schema(args[0])
	if !ok {
		ts.Fatalf("there is no schema of %s", args[0])
	}
	var schema jsonschema.Schema
	ts.Check(json.Unmarshal(text, &schema))
	resolved, err := schema.Resolve(nil)
	ts.Check(err)
	var printed any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &printed))
	ts.Check(resolved.Validate(printed))
}
