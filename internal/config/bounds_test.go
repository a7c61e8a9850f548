//go:build !race

// These configurations are as large as they may be. The race detector takes a minute and a half for
// them and has nothing to find: parsing has one goroutine. make test runs them without it.

package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/internal/config"
)

func TestAHundredThousandRoutesLoad(t *testing.T) {
	var b strings.Builder
	b.WriteString("listeners: [{address: \":1\"}]\nupstreams: {users: {targets: [\"127.0.0.1:1\"]}}\nroutes:\n")
	for i := range 100_000 {
		fmt.Fprintf(&b, "  - match: GET /api/v1/svc%d/users/{id}\n    upstream: users\n", i)
	}
	if cfg := parse(t, b.String()); len(cfg.Routes) != 100_000 {
		t.Errorf("%d routes", len(cfg.Routes))
	}
}

func TestTheListOfErrorsIsBounded(t *testing.T) {
	text := "listeners: [{address: \":1\"}]\nroutes:\n" + strings.Repeat("  - {match: /, upstream: nowhere, slo: P1}\n", 5000)
	_, err := config.Parse("test.yaml", []byte(text), ".")
	var list config.Errors
	if !errors.As(err, &list) || len(list) != 1001 {
		t.Fatalf("%d errors", len(list))
	}
	if last := list[1000].Error(); !strings.Contains(last, "more errors are not listed") {
		t.Errorf("the last is %q", last)
	}
}

func TestTooManyRoutesAreRefused(t *testing.T) {
	text := "listeners: [{address: \":1\"}]\nroutes: [" + strings.Repeat("1,", 200_001) + "]"
	if got := problems(t, text); !strings.Contains(got, "has 200001 routes; 200000 are the most") {
		t.Error(got)
	}
}

func TestAFileThatIsTooLargeIsRefused(t *testing.T) {
	text := "listeners: [{address: \":1\"}]\n" + strings.Repeat("#", 16<<20)
	if got := problems(t, text); !strings.Contains(got, "16777216 are the most") {
		t.Error(got)
	}
}

func TestAliasesCannotMultiplyWithoutBound(t *testing.T) {
	// Each upstream's targets are ten times the list before: a billion in all.
	var b strings.Builder
	b.WriteString("listeners:\n  - address: \":1\"\n    trusted_proxies: &a0 [10.0.0.0/8]\nupstreams:\n")
	for i := range 9 {
		list := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", ")
		fmt.Fprintf(&b, "  u%d: {targets: &a%d [%s]}\n", i, i+1, list)
	}
	problems(t, b.String())

	// A mapping of a thousand keys, merged ten thousand times.
	b.Reset()
	b.WriteString("listeners: [{address: \":1\"}]\nroutes:\n  - match: /\n    respond: {headers: &h {")
	for i := range 1000 {
		fmt.Fprintf(&b, "X-%d: a, ", i)
	}
	b.WriteString("}}\n")
	for i := range 10_000 {
		fmt.Fprintf(&b, "  - {match: /%d, respond: {headers: {<<: *h}}}\n", i)
	}
	if got := problems(t, b.String()); !strings.Contains(got, "stand for more than 1000000 values") {
		t.Error(got)
	}
}

// What is beyond the bound is not read: nothing may be said of it, or looked at.
func TestValuesBeyondTheBoundOfAliasesAreNotChecked(t *testing.T) {
	var b strings.Builder
	b.WriteString("listeners: [{address: \":1\"}]\nupstreams:\n  u: {targets: &all [")
	for i := range 1000 {
		fmt.Fprintf(&b, "\"127.0.0.1:%d\", ", i+1)
	}
	b.WriteString("]}\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "  u%d: {targets: *all}\n", i)
	}
	got := problems(t, b.String())
	if !strings.Contains(got, "stand for more than 1000000 values") || strings.Count(got, "\n") > 0 {
		t.Error(got)
	}
}

func TestAliasesCannotBeChainedWithoutBound(t *testing.T) {
	var b strings.Builder
	b.WriteString("listeners: [{address: \":1\"}]\nroutes:\n  - {match: /, respond: {headers: &h0 {A: b}}}\n")
	for i := range 100 {
		fmt.Fprintf(&b, "  - {match: /%d, respond: {headers: &h%d {<<: *h%d}}}\n", i, i+1, i)
	}
	if got := problems(t, b.String()); !strings.Contains(got, "more than 20 times") {
		t.Error(got)
	}
}

func TestMergedKeysGiveWayToOwn(t *testing.T) {
	cfg := parse(t, `
listeners: [{address: ":1"}]
upstreams:
  a: &a {targets: ["127.0.0.1:1"], slow_start: 5s, pool: &p {max_idle: 3}}
  b: {<<: *a, slow_start: 6s}
  c: {targets: ["127.0.0.1:2"], pool: {<<: [{max_idle: 7}, *p], max_pending: 1}}
`)
	b, c := cfg.Upstreams["b"], cfg.Upstreams["c"]
	if b.SlowStart.String() != "6s" || b.Pool.MaxIdle != 3 || b.Targets[0].Address != "127.0.0.1:1" {
		t.Errorf("b: %+v", b)
	}
	if c.Pool.MaxIdle != 7 || c.Pool.MaxPending != 1 {
		t.Errorf("c: %+v", c.Pool)
	}
}

func TestNestingIsBounded(t *testing.T) {
	const n = 200_000
	for name, text := range map[string]string{
		"flow lists":       strings.Repeat("[", n) + strings.Repeat("]", n),
		"open flow lists":  strings.Repeat("[", n),
		"flow mappings":    strings.Repeat("{a: ", n) + strings.Repeat("}", n),
		"flow pairs":       "[" + strings.Repeat("a: ", n) + "b]",
		"block lists":      strings.Repeat("- ", n) + "a",
		"block pairs":      strings.Repeat("a: ", n) + "b",
		"explicit keys":    strings.Repeat("? ", n) + "a",
		"explicit values":  strings.Repeat("? a\n: ", n) + "a",
		"lists in pairs":   strings.Repeat("- a: ", n) + "b",
		"anchors":          "a: " + strings.Repeat("&a ", n) + "b",
		"tags":             "a: " + strings.Repeat("!a ", n) + "b",
		"anchored lists":   strings.Repeat("- &a ", n) + "b",
		"flow in a scalar": "a: " + strings.Repeat("b [", n),
	} {
		t.Run(name, func(t *testing.T) { problems(t, text) })
	}
}

func TestPositionsCountLinesAndCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"listeners:\r\n  - address: 8080\r\n": "test.yaml:2:14: listeners[0].address: expected a string",
		"\ufefflisteners: 5\n":                "test.yaml:1:12: listeners: expected a list",
		"# äöü\nlisteners: [{address: \":1\"}]\nroutes: [{name: \"ä€\", b: 1}]": "test.yaml:3:23: routes[0].b: unknown key",
		"listeners:\n  - address: |\n      a\n    backlog: x\n":                 "test.yaml:4:14: listeners[0].backlog: expected a whole number",
		"listeners: [{\n  address: ':1',\n  backlog: x}]\n":                     "test.yaml:3:12: listeners[0].backlog: expected a whole number",
	} {
		if got := problems(t, text); !strings.Contains(got, want) {
			t.Errorf("%q:\n%s\nwant %s", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"listeners: [{address: \":1\"}]\nroutes: [{match: \"GET a/{b}/{c...}\", redirect: {to: \"/{b}${path.c}\"}}]",
		"listeners: &a [*a]\nupstreams: {a: {<<: *a, targets: [{weight: ~}]}}",
		"listeners:\n- address: |\n    ${A:-b}\n? [a]\n: {b: c}\n",
		"{listeners: [{address: \":1\", tls: {certificates: [{cert: a, key: b}]}}], admin: , access_log: {path: a/b}}",
	} {
		f.Add(seed)
	}
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range found {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(text))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := config.Parse("fuzz", []byte(text), "testdata/good")
		if cfg == nil && err == nil {
			t.Fatalf("configuration %v and error %v", cfg, err)
		}
		if err != nil {
			return
		}
		if _, err := config.Parse("again", cfg.YAML(), ""); err != nil {
			t.Fatalf("what was written does not load:\n%v\n%s", err, cfg.YAML())
		}
	})
}
