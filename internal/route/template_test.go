package route

import (
	"strings"
	"testing"
)

func TestTemplates(t *testing.T) {
	rules := patterns("/v1/{user}/files/{path...}")
	table := mustCompile(t, rules)
	var m Match
	req := request("GET h/v1/j%20d/files/a/b%2Fc;v=1")
	table.Match(req, nil, req.Path, &m)
	for text, want := range map[string]string{
		"/":                                 "/",
		"/fixed/path":                       "/fixed/path",
		"/v2/{user}":                        "/v2/j%20d",
		"/{path...}":                        "/a/b%2Fc;v=1",
		"/{path}/{user}/{user}.json":        "/a/b%2Fc;v=1/j%20d/j%20d.json",
		"https://new.example/{user}?p=1":    "https://new.example/j%20d?p=1",
		"${scheme}://${host}/{user}${path}": "${scheme}://${host}/j%20d${path}",
	} {
		template, err := CompileTemplate(text, table.Names(0))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := template.Append([]byte("> "), &m); string(got) != "> "+want {
			t.Errorf("%q writes %q, want %q", text, got, want)
		}
		scratch := make([]byte, 0, 256)
		if n := testing.AllocsPerRun(100, func() { template.Append(scratch, &m) }); n != 0 {
			t.Errorf("%q: %v allocations", text, n)
		}
	}
}

func TestTemplatesThatAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":             "empty",
		"/{nobody}":    "it has id, rest",
		"/{id":         "without its other half",
		"/id}":         "without its other half",
		"/}{":          "without its other half",
		"/{}":          "no name",
		"{id}.example": "begins with a value",
		"{rest...}":    "begins with a value",
	} {
		if _, err := CompileTemplate(text, []string{"id", "rest"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if _, err := CompileTemplate("/{id}", nil); err == nil || !strings.Contains(err.Error(), "it has none") {
		t.Errorf("got %v", err)
	}
}
