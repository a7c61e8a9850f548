package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/demo"
)

// TestTheCommandLine runs the scripts in which the program does things at the same time. Those in
// testdata/alone, in which it does not, or what other tests show to the race detector, run without
// it (alone_test.go).
func TestTheCommandLine(t *testing.T) { runScripts(t, "testdata/script") }

func TestTheDemosConfigurationIsRight(t *testing.T) {
	files, err := demo.WriteFiles(t.TempDir(), demo.Addresses{HTTP: "127.0.0.1:8080",
		HTTPS: "127.0.0.1:8443", Admin: "127.0.0.1:9900",
		Shop: [2]string{"127.0.0.1:9001", "127.0.0.1:9002"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	limited := func() bool {
		is, err := config.Load(files.Config)
		if err != nil {
			t.Fatalf("the demo's configuration is refused:\n%v", err)
		}
		return is.Upstreams["shop"].Concurrency != nil
	}
	if limited() {
		t.Error("the concurrency at the shop is limited, which hides what the survey is to find")
	}
	if err := demo.Protect(files.Config); err != nil {
		t.Fatal(err)
	}
	if !limited() {
		t.Error("the overload finds a shop that is not protected")
	}
}

func TestTheReadmesConfigurationIsRight(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "```yaml\n")
	block, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("README.md has no block of YAML")
	}
	file := filepath.Join(t.TempDir(), "readme.yaml")
	if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(file); err != nil {
		t.Errorf("the configuration in README.md is refused:\n%v", err)
	}
}
