package record

import (
	"cmp"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/probe"
	"plimsoll/internal/lab/scrape"
)

// What is written and is not in the documentation is of no use to other programs.
func TestEveryFileFieldAndValueIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/run-directory.md")
	if err != nil {
		t.Fatal(err)
	}
	content := string(text)
	want := func(name string) {
		if !strings.Contains(content, "`"+name+"`") {
			t.Errorf("docs/run-directory.md does not explain `%s`", name)
		}
	}
	seen := make(map[reflect.Type]bool)
	for _, v := range []any{Manifest{}, stepLine{}, windowLine{}, measure.Sample{}, Result{}} {
		eachField(reflect.TypeOf(v), seen, want)
	}
	for i := range measure.Kinds {
		want(measure.Kind(i).String())
	}
	for _, v := range probe.Values {
		want(v.Name)
	}
	for _, v := range scrape.Values {
		want(v.Name)
	}
	for _, kind := range scrape.Kinds {
		want(string(kind) + profileSuffix)
	}
	for _, v := range []SLOVerdict{Pass, Fail, Undecided, Invalid} {
		want(string(v))
	}
	for _, name := range append([]string{manifestFile, stepsFile, resultFile}, stepFiles...) {
		if !strings.Contains(content, name) {
			t.Errorf("docs/run-directory.md does not name %s", name)
		}
	}
}

// eachField visits the names that encoding/json gives the fields of a struct, and of what they
// hold.
func eachField(t reflect.Type, seen map[reflect.Type]bool, visit func(name string)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() ||
		t == reflect.TypeFor[measure.Sparse]() || seen[t] {
		return
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" {
				continue // it is not written
			}
			visit(cmp.Or(name, f.Name))
		}
		eachField(f.Type, seen, visit)
	}
}
