package experiment

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/disk"
)

// Isolate makes a program start in its own network namespace, which has only a loopback interface.
// Kernel settings changed there do not affect the machine. Unless the user is root, the program
// also gets a user namespace, if the machine allows that.
func Isolate(program *exec.Cmd) error {
	outside, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return fmt.Errorf("this machine's network namespace cannot be determined: %w",
			disk.Cause(err))
	}
	program.Env = append(program.Environ(), outsideVariable+"="+outside)
	if program.SysProcAttr == nil {
		program.SysProcAttr = new(syscall.SysProcAttr)
	}
	program.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
	if uid := os.Geteuid(); uid != 0 {
		program.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		program.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{
			ContainerID: 0,
			HostID:      uid,
			Size:        1,
		}}
		program.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{
			ContainerID: 0,
			HostID:      os.Getegid(),
			Size:        1,
		}}
	}
	return nil
}

// Inside reports whether Isolate started this process in its own network namespace.
func Inside() bool { return insideNamespace() == nil }

// insideNamespace returns nil if kernel settings may be changed: this process has a network
// namespace that is not the machine's. It brings up the loopback interface, which is down in a new
// namespace.
func insideNamespace() error {
	outside, own := os.Getenv(outsideVariable), ""
	if outside != "" {
		own, _ = os.Readlink("/proc/self/ns/net")
	}
	if own == "" || own == outside || !apart(own) {
		return errors.New("kernel settings are only changed in a network namespace of its own, " +
			"and this is not one: run it with plimsoll experiment")
	}
	return loopbackUp()
}

// apart reports whether this process's network namespace differs from its parent's. The environment
// variable alone proves nothing: anyone may set it.
func apart(own string) bool {
	if parents, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", os.Getppid())); err == nil {
		return own != parents
	}
	// From inside a user namespace the parent's namespace is not readable. Isolate's user namespace
	// maps a single user, the machine's maps all of them.
	users, err := os.ReadFile("/proc/self/uid_map")
	ids := strings.Fields(string(users))
	return err == nil && len(ids) == 3 && ids[2] == "1"
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("the loopback interface cannot be brought up: %w", err)
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, request)
	}
	if err == nil {
		request.SetUint16(request.Uint16() | unix.IFF_UP)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
	}
	if err != nil {
		return fmt.Errorf("the loopback interface cannot be brought up: %w", err)
	}
	return nil
}

// setKernel changes a kernel setting of this process's network namespace.
func setKernel(name, value string) error {
	path := filepath.Join("/proc/sys", filepath.FromSlash(strings.ReplaceAll(name, ".", "/")))
	if err := os.WriteFile(path, []byte(value+"\n"), 0); err != nil {
		return fmt.Errorf("the kernel setting %s cannot be set to %q in a network "+
			"namespace of its own: %w", name, value, disk.Cause(err))
	}
	return nil
}
