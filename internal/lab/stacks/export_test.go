package stacks

import "testing"

// LimitWork lowers mostWork for a test that would otherwise take seconds.
func LimitWork(t *testing.T, frames int) {
	whole := mostWork
	mostWork = frames
	t.Cleanup(func() { mostWork = whole })
}
