package store

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// reserve gives n bytes of address space, which take memory only once they are written.
func reserve(n int) ([]byte, error) {
	memory, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserving %d bytes of address space for the cache: %w; "+
			"make it smaller, or raise ulimit -v", n, err)
	}
	return memory, nil
}

// release gives the memory of a page back to the system. Its next use finds zeros.
func release(page []byte) {
	// The bytes are dead either way: where the system refuses, they stay resident and are used again.
	_ = unix.Madvise(page, adviceRelease)
}

// unreserve gives the address space back.
func unreserve(memory []byte) error { return unix.Munmap(memory) }
