//go:build !race

package config

import "testing"

// One goroutine makes ten million comparisons, and the race detector has nothing to find.
func TestSuggestionsAreBounded(t *testing.T) {
	known := make([]string, 1000)
	for i := range known {
		known[i] = "a-name-among-many"
	}
	var s suggester
	for range 10_000 {
		s.nearest("another-among-them", known)
	}
	if s.compared > maxCompared+10_000 {
		t.Errorf("%d comparisons", s.compared)
	}
}
