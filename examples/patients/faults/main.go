//go:build linux

// Command faults reads records from a mapped file, and gives each page back when it has read it,
// meaning to save memory (major-faults): the next request that needs the page waits for the disk,
// and the thread it runs on with it, as a page fault is not I/O that Go can see.
//
// Cured, pages stay where they are.
package main

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"os"

	"golang.org/x/sys/unix"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

const (
	page    = 4096
	pages   = 128 << 20 / page
	records = 16 // read for each request
)

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	a, err := open()
	if err != nil {
		return nil, err
	}
	p.OnEnd(a.close)
	if !p.Cured {
		if err := a.forget(0, pages); err != nil {
			return nil, err
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sum := uint32(0)
		for range records {
			number := rand.IntN(pages)
			sum = crc32.Update(sum, crc32.IEEETable, a.memory[number*page:][:page])
			if !p.Cured {
				if err := a.forget(number, 1); err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
			}
		}
		fmt.Fprintln(w, sum, work.Do(3))
	}), nil
}

// archive is a file of records, a page each.
type archive struct {
	file   *os.File
	memory []byte
}

// open makes an archive in the folder for temporary files. Its name is gone at once, so that
// nothing stays behind.
func open() (*archive, error) {
	f, err := os.CreateTemp("", "patient-faults-*")
	if err != nil {
		return nil, fmt.Errorf("make the archive: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, fmt.Errorf("make the archive: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	record := make([]byte, page)
	for i := range pages {
		record[i%page]++
		w.Write(record) // Flush tells the error
	}
	if err := w.Flush(); err != nil {
		return nil, fmt.Errorf("fill the archive: %w", err)
	}
	// Only pages that are on the disk can be given back.
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("fill the archive: %w", err)
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, pages*page, unix.PROT_READ,
		unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map the archive: %w", err)
	}
	// Records are read in no order, so reading ahead would only fetch what nobody needs.
	if err := unix.Madvise(memory, unix.MADV_RANDOM); err != nil {
		return nil, fmt.Errorf("map the archive: %w", err)
	}
	return &archive{file: f, memory: memory}, nil
}

// forget gives pages back: from the service's memory, and from the kernel's.
func (a *archive) forget(first, count int) error {
	if err := unix.Madvise(a.memory[first*page:][:count*page], unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("give pages back: %w", err)
	}
	if err := unix.Fadvise(int(a.file.Fd()), int64(first)*page, int64(count)*page,
		unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("give pages back: %w", err)
	}
	return nil
}

func (a *archive) close() {
	unix.Munmap(a.memory)
	a.file.Close()
}
