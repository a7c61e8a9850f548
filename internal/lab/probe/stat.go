package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// stat is the part of /proc/PID/stat that matters here. It is read without procfs, which takes four
// times as long: the search for the target's descendants reads one for every process of the
// machine.
type stat struct {
	name                      string
	state                     byte // R, S, D, …
	parent                    int
	minor, major              float64 // page faults
	childMinor, childMajor    float64
	user, system              float64 // ticks
	childUser, childSystem    float64 // of ended children that were waited for
	threads, start, pageCount uint64
}

// The fields after the name, which is in parentheses and may contain anything.
const (
	fieldState   = 0
	fieldParent  = 1
	fieldFaults  = 7  // minor, children's minor, major, children's major
	fieldUser    = 11 // followed by system and the children's user and system
	fieldThreads = 17
	fieldStart   = 19
	fieldPages   = 21
)

// statOf reads the stat of a process. Its error is for humans.
func statOf(root string, pid int) (stat, error) {
	var memory [1024]byte
	text, err := readSmall(filepath.Join(root, strconv.Itoa(pid), "stat"), memory[:])
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return stat{}, fmt.Errorf("there is no process %d on this machine", pid)
	}
	if err != nil {
		return stat{}, fmt.Errorf("process %d cannot be read: %w", pid, err)
	}
	s, ok := parseStat(text)
	if !ok {
		return s, fmt.Errorf("process %d cannot be read: its stat is not understood", pid)
	}
	return s, nil
}

func parseStat(text []byte) (s stat, ok bool) {
	open, shut := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || shut < open {
		return s, false
	}
	s.name = string(text[open+1 : shut])
	field := 0
	for value := range bytes.FieldsSeq(text[shut+1:]) {
		// The state is a letter. Other negative values are not used.
		n, err := strconv.ParseUint(string(value), 10, 64)
		switch field {
		case fieldState:
			s.state = value[0]
		case fieldParent:
			s.parent = int(n)
		case fieldFaults:
			s.minor = float64(n)
		case fieldFaults + 1:
			s.childMinor = float64(n)
		case fieldFaults + 2:
			s.major = float64(n)
		case fieldFaults + 3:
			s.childMajor = float64(n)
		case fieldUser:
			s.user = float64(n)
		case fieldUser + 1:
			s.system = float64(n)
		case fieldUser + 2:
			s.childUser = float64(n)
		case fieldUser + 3:
			s.childSystem = float64(n)
		case fieldThreads:
			s.threads = n
		case fieldStart:
			s.start = n
		case fieldPages:
			s.pageCount = n
			return s, err == nil
		}
		field++
	}
	return s, false
}

// readSmall reads a small file into memory, as far as it fits. It uses system calls directly:
// os.Open would cost twice as much.
func readSmall(name string, memory []byte) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, memory)
	return memory[:max(n, 0)], err
}

// readWhole reads a file of /proc that may be longer than a page; the kernel returns a page at a
// time. A file that does not fit is an error, because half of it would be taken for the whole.
func readWhole(name string, memory []byte) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	defer unix.Close(fd)
	for n := 0; n < len(memory); {
		more, err := unix.Read(fd, memory[n:])
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if more == 0 {
			return memory[:n], nil
		}
		n += more
	}
	return nil, fmt.Errorf("%s is longer than %d KB", name, len(memory)>>10)
}
