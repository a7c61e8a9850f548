package stacks

import "testing"

// LimitWork bounds the work of a test that would take seconds else.
func LimitWork(t *testing.T, frames int) {
	whole := mostWork
	mostWork = frames
	t.Cleanup(func() { mostWork = whole })
}
