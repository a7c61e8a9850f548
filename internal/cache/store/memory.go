//go:build !race

package store

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// reserve reserves n bytes of address space, which take memory only once they are written.
func reserve(n int) ([]byte, error) {
	memory, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserving %d bytes of address space for the cache: %w; "+
			"make it smaller, or raise ulimit -v", n, err)
	}
	return memory, nil
}

// release returns the memory of a page to the system. On its next use it is zeroed.
func release(page []byte) {
	// The contents are unused either way: if the system refuses, the page stays resident and is
	// reused.
	_ = unix.Madvise(page, adviceRelease)
}

// unreserve returns the address space to the system.
func unreserve(memory []byte) error { return unix.Munmap(memory) }
