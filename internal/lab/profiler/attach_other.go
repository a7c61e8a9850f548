//go:build !linux

package profiler

import "errors"

// NewJVM returns an error: threads are only looked at on Linux.
func NewJVM(int) (*JVM, error) { return nil, errors.New("they are only taken on Linux") }
