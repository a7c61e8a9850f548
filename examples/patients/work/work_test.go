package work

import "testing"

func TestEachUnitOfWorkCounts(t *testing.T) {
	seen := map[string]int{}
	for units := range 20 {
		line := Do(units)
		if before, again := seen[line]; again {
			t.Errorf("%d units come to the same as %d: %s", units, before, line)
		}
		seen[line] = units
		if line != Do(units) {
			t.Errorf("%d units come to two results", units)
		}
	}
}

func BenchmarkUnit(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Do(1)
	}
}
