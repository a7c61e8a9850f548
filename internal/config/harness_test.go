package config_test

import (
	"testing"

	"plimsoll/internal/config"
)

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test.yaml", []byte(text), "testdata/good")
	if err != nil {
		t.Fatalf("does not load:\n%v", err)
	}
	return cfg
}

// problems loads what must not load, and returns the errors.
func problems(t *testing.T, text string) string {
	t.Helper()
	_, err := config.Parse("test.yaml", []byte(text), "testdata/good")
	if err == nil {
		t.Fatal("loads, and should not")
	}
	return err.Error()
}
