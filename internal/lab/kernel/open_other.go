//go:build !linux

package kernel

// Open returns no sources, and a message that they exist only on Linux.
func Open(int) (sources []Source, missing []string, shut func() error) {
	return nil, []string{
		"kernel events: only Linux can be asked for them",
	}, func() error { return nil }
}
