package files

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// file is an open file, or the content of a small one, with the header fields that describe it. It
// does not change, except for the atomics.
type file struct {
	fd      int    // -1 if content is set
	content []byte // the complete content; nil for a file that is read while it is sent
	size    int64
	stamp   stamp

	modified  int64 // seconds since 1970, as Last-Modified says
	wall      int64 // nanoseconds since 1970, when it was opened: tells the century of dates
	settled   bool  // Last-Modified is a strong validator (RFC 9110, section 8.8.2.2)
	unsettled bool  // changed so recently that a further change might not be detectable

	etag, lastModified, contentType, encoding head.Field

	warmth warmth
}

// stamp distinguishes versions of a file's content.
type stamp struct {
	device, inode           uint64
	size                    int64
	modified, modifiedNanos int64
	changed, changedNanos   int64
}

func stampOf(st *unix.Stat_t) stamp {
	s := stamp{device: uint64(st.Dev), inode: st.Ino, size: st.Size}
	s.modified, s.modifiedNanos = modifiedAt(st)
	s.changed, s.changedNanos = changedAt(st)
	return s
}

// grain is the coarsest resolution of file times: two changes within it may leave the same times.
const grain = 20 * time.Millisecond

// openFile opens a file that was looked at before. Its content type is that of the name of.
func (s *store) openFile(name string, looked *unix.Stat_t, of string) (*file, error) {
	if looked.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, unix.ENOENT // a directory, a pipe, a device, a socket
	}
	fd, err := s.root.open(name, 0)
	if err != nil {
		return nil, err
	}
	st, err := statOf(fd)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG { // replaced meanwhile
		err = unix.ENOENT
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	f := &file{fd: fd, size: st.Size, stamp: stampOf(&st)}
	f.describe(time.Now(), of)
	if f.size <= s.o.MemoryFile && f.size+2*entryBytes <= s.o.Memory {
		err = f.readWhole()
		unix.Close(fd)
		f.fd = -1
		return f, err
	}
	s.files.Add(1)
	f.warmth.begin(f.size, isRemote(fd))
	return f, nil
}

// describe makes the header fields that describe the file.
func (f *file) describe(now time.Time, name string) {
	f.wall = now.UnixNano()
	// A time in the future would be useless to caches (RFC 9110, section 8.8.2.1).
	f.modified = min(f.stamp.modified, now.Unix())
	f.settled = now.Unix()-f.modified >= 1
	last := max(f.stamp.modified*1e9+f.stamp.modifiedNanos, f.stamp.changed*1e9+f.stamp.changedNanos)
	f.unsettled = f.wall-last < int64(grain)
	f.etag = exchange.StaticField("ETag", fmt.Sprintf(`"%x-%x-%x"`, f.stamp.inode,
		uint64(f.stamp.modified*1e9+f.stamp.modifiedNanos), f.size))
	f.lastModified = exchange.StaticField("Last-Modified", string(head.AppendDate(nil, f.modified*1e9)))
	f.contentType = exchange.StaticField("Content-Type", typeOf(name))
}

// readWhole reads the content, with the length that the file had before. It is an error if the file
// is shorter by now.
func (f *file) readWhole() error {
	f.content = make([]byte, f.size)
	n, err := readAt(f.fd, f.content, 0)
	if err == nil && n < len(f.content) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// readAt reads until p is full or the file ends. It may wait for the disk.
func readAt(fd int, p []byte, at int64) (n int, err error) {
	for n < len(p) {
		m, err := unix.Pread(fd, p[n:], at+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, err
		}
		if m == 0 {
			break
		}
		n += m
	}
	return n, nil
}

var encodingFields = map[string]head.Field{
	"br":   exchange.StaticField("Content-Encoding", "br"),
	"zstd": exchange.StaticField("Content-Encoding", "zstd"),
	"gzip": exchange.StaticField("Content-Encoding", "gzip"),
}

// warmth records which segments of a file were recently in memory, so that the kernel can send them
// from a loop. What a loop has read without waiting was in memory, and what a goroutine has read is
// now. Once a whole segment was in memory, samples of it show whether it still is.
type warmth struct {
	until  []atomic.Int64 // by segment, on the loops' clock; 0 for never found
	size   int64          // the file's
	shift  uint           // a segment is 1<<shift bytes
	remote bool           // having been read does not mean being in memory
	blind  atomic.Bool    // the file system cannot tell what is in memory
}

const (
	// warmTime is for how many nanoseconds what was in memory is assumed to still be. The kernel
	// drops the least recently used pages; pages that it drops earlier cost the loop one disk read.
	warmTime = int64(2 * time.Second)
	// leastSegment is the binary logarithm of the smallest segment's size. mostSegments is the
	// largest number of segments: larger files have larger segments.
	leastSegment = 20
	mostSegments = 1024
	// sample is the distance between samples: checking a megabyte costs 5 µs. Pages between two
	// samples may nevertheless be gone, which also costs one disk read.
	sample = 64 << 10
)

func (w *warmth) begin(size int64, remote bool) {
	w.size, w.shift, w.remote = size, leastSegment, remote
	for (size-1)>>w.shift >= mostSegments {
		w.shift++
	}
	w.until = make([]atomic.Int64, (size-1)>>w.shift+1)
}

// warm is how many bytes of the file fd are warm from at on, up to the end to. Loop only.
func (w *warmth) warm(fd int, at, to, now int64) int64 {
	i := at >> w.shift
	until := w.until[i].Load()
	if now < until || until != 0 && w.renew(fd, i, now) {
		return min(to, (i+1)<<w.shift) - at
	}
	return 0
}

// renew reports, by samples, whether a segment that was in memory still is.
func (w *warmth) renew(fd int, i, now int64) bool {
	if w.blind.Load() {
		return false
	}
	var one [1]byte
	end := min(w.size, (i+1)<<w.shift)
	for at := i << w.shift; at < end; at += sample {
		if n, errno := readNow(fd, one[:], at); n != 1 || errno != 0 {
			w.until[i].Store(0)
			return false
		}
	}
	w.until[i].Store(now + warmTime)
	return true
}

// found records that the bytes between from and to were in memory. It returns the offset from which
// the following bytes must be contiguous to complete a segment.
func (w *warmth) found(from, to, now int64) int64 {
	if w.remote {
		return to
	}
	mask := int64(1)<<w.shift - 1
	i := (from + mask) >> w.shift
	for ; i < int64(len(w.until)) && min(w.size, (i+1)<<w.shift) <= to; i++ {
		w.until[i].Store(now + warmTime)
	}
	return max(from, min(i<<w.shift, to))
}
