//go:build !linux

package harness

import "errors"

// precede gives this process precedence over its target. It only works on Linux.
func precede() error { return errors.New("the generator's priority can only be raised on Linux") }
