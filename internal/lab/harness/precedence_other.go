//go:build !linux

package harness

import "errors"

// precede would give this process precedence over its target.
func precede() error { return errors.New("the generator's priority can only be raised on Linux") }
