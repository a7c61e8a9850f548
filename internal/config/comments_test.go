//go:build !race

package config

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const commentsFile = "comments.json"

// TestMain writes the comments before any test that writes what is made of them.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("update").Value.String() == "true" {
		text, err := written()
		if err == nil {
			err = os.WriteFile(commentsFile, text, 0o644)
		}
		if err != nil {
			panic(err)
		}
		commentsJSON = text
	}
	os.Exit(m.Run())
}

func TestTheCommentsAreThoseOfTheTypes(t *testing.T) {
	want, err := written()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(commentsFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs, write it with: go test ./internal/config -update", commentsFile)
	}
}

// written returns what comments.json has to be.
func written() ([]byte, error) {
	names, err := filepath.Glob("types*.go")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		collect(found, file)
	}
	text, err := json.MarshalIndent(found, "", " ")
	return append(text, '\n'), err
}

func collect(found map[string]string, file *ast.File) {
	for _, declaration := range file.Decls {
		types, ok := declaration.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE {
			continue
		}
		for _, spec := range types.Specs {
			t := spec.(*ast.TypeSpec)
			found[t.Name.Name] = flow(types.Doc.Text())
			for _, field := range t.Type.(*ast.StructType).Fields.List {
				for _, name := range field.Names {
					found[t.Name.Name+"."+name.Name] = flow(field.Doc.Text())
				}
			}
		}
	}
}

// flow joins the lines of a comment.
func flow(text string) string { return strings.Join(strings.Fields(text), " ") }
