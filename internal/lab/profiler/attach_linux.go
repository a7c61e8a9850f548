package profiler

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"plimsoll/internal/plainfile"
)

// threadDump is HotSpot's command (its AttachListener) with its three arguments, all empty, after the
// version of the protocol.
const threadDump = "1\x00threaddump\x00\x00\x00\x00"

// attachWait limits how long a JVM may take to open its socket.
const attachWait = 3 * time.Second

// mostMaps is the maximum size of a process's memory map, in bytes.
const mostMaps = 16 << 20

// attachable is a JVM process whose socket can be asked for.
type attachable struct {
	process *os.Process // refers to this process even when its number goes to another one
	// temporary is its /tmp, and folder the same opened. No link in a container leads out of it.
	temporary *os.Root
	folder    *os.File
	own       string // its number as it sees it itself
	uid, gid  int
}

// NewJVM prepares thread dumps of a JVM. Its error says why there will be none. It sends nothing yet.
func NewJVM(pid int) (*JVM, error) {
	process, err := os.FindProcess(pid)
	if err != nil {
		return nil, err
	}
	a := &attachable{process: process}
	err = a.examine()
	if err == nil {
		err = a.enter()
	}
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	return &JVM{dump: a.dump, close: a.close}, nil
}

// enter opens its /tmp.
func (a *attachable) enter() error {
	root, err := os.OpenRoot(a.proc("root"))
	if err != nil {
		return err
	}
	defer root.Close()
	// A target could put something else there that is waited for when it is opened.
	a.folder, err = root.OpenFile("tmp", os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	a.temporary, err = os.OpenRoot(descriptor(a.folder))
	return err
}

// descriptor returns the path by which a file that is open can be opened again.
func descriptor(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// proc returns the path of a file about the process.
func (a *attachable) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(a.process.Pid), name)
}

// close is JVM.close.
func (a *attachable) close() error {
	if a.folder != nil {
		a.folder.Close()
	}
	if a.temporary != nil {
		a.temporary.Close()
	}
	return a.process.Release()
}

// examine reads what the process's status says. A JVM that does not catch SIGQUIT (-Xrs) would be
// ended by it.
func (a *attachable) examine() error {
	process, err := procfs.NewProc(a.process.Pid)
	if err != nil {
		return err
	}
	status, err := process.NewStatus()
	if err != nil {
		return err
	}
	a.uid, a.gid, a.own = int(status.UIDs[1]), int(status.GIDs[1]), strconv.Itoa(a.process.Pid)
	if n := len(status.NSpids); n > 0 { // in a container it differs
		a.own = strconv.FormatUint(status.NSpids[n-1], 10)
	}
	caught, err := a.caught()
	switch {
	case err != nil:
		return err
	case caught&(1<<(syscall.SIGQUIT-1)) == 0:
		return errors.New("it does not listen to SIGQUIT, which asks for them (-Xrs)")
	case os.Geteuid() != 0 && os.Geteuid() != a.uid:
		return fmt.Errorf("it belongs to user %d: run plimsoll as that user, or as root", a.uid)
	}
	return a.isHotSpot()
}

// caught returns the signals that the process catches, which procfs does not parse: bit 0 is signal 1.
func (a *attachable) caught() (uint64, error) {
	status, err := plainfile.Read(a.proc("status"), 64<<10)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "\nSigCgt:")
	mask, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
}

// isHotSpot returns an error if the process is not HotSpot, by what it has in memory: another program
// may end at SIGQUIT though it catches it, and OpenJ9 writes large files.
func (a *attachable) isHotSpot() error {
	maps, err := plainfile.Read(a.proc("maps"), mostMaps)
	if err == nil && (!bytes.Contains(maps, []byte("/libjvm.so")) ||
		bytes.Contains(maps, []byte("/libj9vm"))) {
		err = errors.New("it is not HotSpot, which alone can be asked for them")
	}
	return err
}

// dump is JVM.dump.
func (a *attachable) dump(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, dumpWait)
	defer cancel()
	conn, err := a.connect(ctx)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		conn, err = a.open(ctx)
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if _, err := conn.Write([]byte(threadDump)); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(conn, mostDump+1))
	if err != nil {
		return nil, err
	}
	return answered(data)
}

// connect connects to the socket, if the process itself listens there as its user: anyone may create such
// a name in a shared /tmp, as a link too.
func (a *attachable) connect(ctx context.Context) (*net.UnixConn, error) {
	name := ".java_pid" + a.own
	fd, err := unix.Openat(int(a.folder.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	socket := os.NewFile(uintptr(fd), name)
	defer socket.Close()
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return nil, err
	}
	if is.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, fmt.Errorf("its /tmp/%s is not a socket", name)
	}
	var dialer net.Dialer
	dialed, err := dialer.DialContext(ctx, "unix", descriptor(socket))
	if err != nil {
		return nil, err
	}
	conn := dialed.(*net.UnixConn)
	if err := a.listens(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// listens returns an error if it is not the process that listens at the other end.
func (a *attachable) listens(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err == nil &&
		(int(peer.Pid) != a.process.Pid || int(peer.Uid) != a.uid) {
		err = fmt.Errorf("process %d of user %d listens at its /tmp/.java_pid%s", peer.Pid, peer.Uid,
			a.own)
	}
	return err
}

// open has the JVM open its socket: a file that says so, which must belong to the JVM's user, and a
// signal. Without the file the signal would have it print its threads.
func (a *attachable) open(ctx context.Context) (*net.UnixConn, error) {
	trigger := ".attach_pid" + a.own
	file, err := a.temporary.OpenFile(trigger, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("it cannot be asked to open its socket: %w", err)
	}
	defer a.temporary.Remove(trigger)
	if os.Geteuid() != a.uid {
		err = file.Chown(a.uid, a.gid)
	}
	file.Close()
	if err == nil {
		// It may have got another number, or set aside the signal, since it was looked at.
		if err = cmp.Or(a.examine(), ctx.Err()); err == nil {
			err = a.process.Signal(syscall.SIGQUIT)
		}
	}
	if err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeout(ctx, attachWait)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-soon.Done():
			again.Stop()
			return nil, fmt.Errorf("it did not open its socket within %v of SIGQUIT: "+
				"was it started with -XX:+DisableAttachMechanism?", attachWait)
		}
		if conn, err := a.connect(soon); err == nil {
			return conn, nil
		}
	}
}
