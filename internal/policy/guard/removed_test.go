package guard

import "testing"

func TestARefusedRemovalChangesNothing(t *testing.T) {
	p, err := New(Options{Key: "query:id", File: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	s := p.state
	if err := p.Add("byhand"); err != nil {
		t.Fatal(err)
	}
	full := make(map[uint64]bool, maxRemoved)
	full[s.hash([]byte("gone"))] = true
	for h := uint64(0); len(full) < maxRemoved; h++ {
		full[h] = true
	}
	s.mu.Lock()
	s.removed = full
	s.mu.Unlock()
	if err := p.Remove("byhand"); err != errManyRemoved {
		t.Fatalf("one removal too many gives %v", err)
	}
	s.swap(newFilter([]uint64{1}, 0.01))
	if !s.filter.Load().bloom.Has(s.hash([]byte("byhand"))) {
		t.Error("a key that was added is forgotten with the next list, although its removal was refused")
	}

	s.mu.Lock()
	s.removed = full
	s.mu.Unlock()
	if err := p.Remove("gone"); err != nil {
		t.Errorf("to remove again what is removed gives %v", err)
	}
}
