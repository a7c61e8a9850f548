package main

import (
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestALoadThatWasWhatWasAskedForExitsWithZero(t *testing.T) {
	for _, c := range []struct {
		what      string
		generator measure.Generator
		early     string
		fails     bool
	}{
		{"at ease", measure.Generator{}, "", false},
		{"a full closed loop", measure.Generator{Full: "the loop was busy"}, "", false},
		{"the generator was the limit", measure.Generator{Invalid: "the loop was busy"}, "", true},
		{"stopped", measure.Generator{Full: "the loop was busy"}, "it was stopped", true},
	} {
		err := exitOfLoad(&measure.Totals{Generator: c.generator}, c.early)
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
