//go:build race

package store

// The race detector does not see memory outside the heap.
func reserve(n int) ([]byte, error) { return make([]byte, n), nil }

func release([]byte) {}

func unreserve([]byte) error { return nil }
