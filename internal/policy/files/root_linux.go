package files

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pathOnly makes a descriptor that refers to a name without opening it.
const pathOnly = unix.O_PATH

// hasOpenat2 reports whether the kernel has openat2 and allows it.
func hasOpenat2() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH})
	if err == nil {
		unix.Close(fd)
	}
	return err != syscall.ENOSYS && err != syscall.EPERM && err != syscall.E2BIG
}

// openBeneath opens a name below a directory. While directories are renamed, the kernel may be
// unable to tell whether ".." leads out. It then returns EAGAIN, and openBeneath retries.
func openBeneath(dir int, name string, flags int, links bool) (fd int, err error) {
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	if flags&unix.O_PATH != 0 {
		how.Flags = uint64(unix.O_PATH | unix.O_CLOEXEC | flags&unix.O_DIRECTORY)
	}
	if !links {
		how.Resolve |= unix.RESOLVE_NO_SYMLINKS
	}
	for range 16 {
		if fd, err = unix.Openat2(dir, name, &how); err != syscall.EAGAIN && err != syscall.EINTR {
			break
		}
	}
	return fd, err
}

// remoteKinds are the file systems (statfs(2)) where a read may go over a network or to a process
// even if the content was read just before.
var remoteKinds = map[uint32]bool{
	0x6969: true, 0x517b: true, 0xff534d42: true, 0xfe534d42: true, // NFS, SMB
	0x65735546: true, 0x01021997: true, 0x786f4256: true, // FUSE, 9P, VirtualBox
	0x00c36400: true, 0x5346414f: true, 0x6b414653: true, 0x73757245: true, // Ceph, AFS, Coda
	0x0bd00bd0: true, 0x47504653: true, 0x01161970: true, // Lustre, GPFS, GFS2
}

// isRemote reports whether a file is on such a file system.
func isRemote(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return true
	}
	return remoteKinds[uint32(st.Type)]
}

// readNow reads the part of a file that is in memory and does not wait for the rest. EAGAIN means
// that nothing is in memory, EOPNOTSUPP that the file system cannot tell. A loop may call it.
func readNow(fd int, p []byte, at int64) (int, syscall.Errno) {
	part := unix.Iovec{Base: unsafe.SliceData(p)}
	part.SetLen(len(p))
	n, _, errno := syscall.RawSyscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&part)), 1,
		uintptr(at), uintptr(at>>32), unix.RWF_NOWAIT)
	return int(n), errno
}

func modifiedAt(st *unix.Stat_t) (sec, nsec int64) { return int64(st.Mtim.Sec), int64(st.Mtim.Nsec) }
func changedAt(st *unix.Stat_t) (sec, nsec int64)  { return int64(st.Ctim.Sec), int64(st.Ctim.Nsec) }

// readWarm reads from a file whose pages are in memory.
func readWarm(fd int, p []byte, at int64) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_PREAD64, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		uintptr(at), 0, 0)
	return int(n), errno
}
