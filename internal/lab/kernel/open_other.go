//go:build !linux

package kernel

// Open gives nothing here, and says so: what this package reads, only Linux has.
func Open(int) (sources []Source, missing []string, shut func() error) {
	return nil, []string{
		"kernel events: only Linux can be asked for them",
	}, func() error { return nil }
}
