package record_test

import (
	"maps"
	"testing"

	"plimsoll/internal/lab/record"
)

func TestSettingsOfOlderRunsAreReadUnderTheirNewKeys(t *testing.T) {
	dir := t.TempDir()
	w, err := record.Create(dir, record.Manifest{
		Kind:     record.KindLoad,
		Settings: map[string]string{"new-connections": "true", "seed": "7"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"new_connections": "true", "seed": "7"}
	if !maps.Equal(r.Manifest.Settings, want) {
		t.Errorf("%v, want %v", r.Manifest.Settings, want)
	}
}
