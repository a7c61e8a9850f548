//go:build !race

// One goroutine: the race detector finds nothing here, and gives an arena other memory.

package store

import "testing"

// A hit that finds an entry in the moment in which its last user lets go must not get it: the
// memory may be another's already.
func TestWhatIsForgottenCannotBeHeld(t *testing.T) {
	s, err := New(Options{Bytes: MinBytes})
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.newEntry(&Head{Key: []byte("k"), URI: []byte("k"), Block: []byte("b")}, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.publish(e)
	e.Release()
	if !e.acquire() {
		t.Fatal("an entry that is stored cannot be held")
	}
	s.Remove([]byte("k"))
	e.Release()
	if e.acquire() || s.Stats().Live != 0 {
		t.Error("an entry whose memory was given back can be held")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
