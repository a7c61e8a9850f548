//go:build !linux

package kernel

import (
	"context"
	"errors"
	"time"

	"github.com/google/pprof/profile"
)

// Sampler exists only on Linux.
type Sampler struct{}

// OpenSampler returns an error: profiles exist only on Linux.
func OpenSampler(int) (*Sampler, error) {
	return nil, errors.New("only Linux's kernel can be asked for profiles")
}

// Close does nothing.
func (*Sampler) Close() {}

// Notes returns nil.
func (*Sampler) Notes() []string { return nil }

// Take is never called.
func (*Sampler) Take(context.Context, time.Duration) (*profile.Profile, error) {
	return nil, errors.New("only Linux's kernel can be asked for profiles")
}
