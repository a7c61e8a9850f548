package main

import "context"

// input reads what a person names or pipes in. A pipe may keep a read, or even its opening, waiting
// for as long as nobody writes, and nothing but a signal ends that: so the read is left to itself
// when ctx ends, as the process is about to.
func input[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, stoppedEarly(ctx, ctx.Err())
	}
}
