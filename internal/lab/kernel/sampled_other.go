//go:build !linux

package kernel

import (
	"context"
	"errors"
	"time"

	"github.com/google/pprof/profile"
)

// Sampler is there on Linux only.
type Sampler struct{}

// OpenSampler gives nothing here, and says so.
func OpenSampler(int) (*Sampler, error) {
	return nil, errors.New("only Linux's kernel can be asked for profiles")
}

// Close does nothing.
func (*Sampler) Close() {}

// Notes are none.
func (*Sampler) Notes() []string { return nil }

// Take is never called.
func (*Sampler) Take(context.Context, time.Duration) (*profile.Profile, error) {
	return nil, errors.New("only Linux's kernel can be asked for profiles")
}
