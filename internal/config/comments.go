package config

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"sync"
)

//go:embed types*.go
var typesSource embed.FS

// comments are the doc comments of the types*.go: by type, and by type and field as "Type.Field".
// Names of Go in them are replaced by the keys that people write.
var comments = sync.OnceValue(func() map[string]string {
	found := make(map[string]string)
	files, err := typesSource.ReadDir(".")
	if err != nil {
		panic("config: the files of the types: " + err.Error())
	}
	for _, f := range files {
		source, err := typesSource.ReadFile(f.Name())
		if err != nil {
			panic("config: " + err.Error())
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), source, parser.ParseComments)
		if err != nil {
			panic("config: " + f.Name() + " was compiled, but does not parse: " + err.Error())
		}
		collect(found, file)
	}
	return found
})

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

// doc is the comment of a key with its Go name in front replaced by the key.
func (k *key) doc(owner string) string {
	text := comments()[owner+"."+k.goName]
	if rest, found := strings.CutPrefix(text, k.goName+" "); found {
		return k.name + " " + rest
	}
	if rest, found := strings.CutPrefix(text, k.goName+":"); found {
		return k.name + ":" + rest
	}
	return text
}
