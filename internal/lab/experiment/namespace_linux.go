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

// Isolate has a program start in a network namespace of its own, which has nothing but a loopback
// interface, so that kernel settings can be changed there without the machine noticing. Who is not
// root gets a user namespace too, where the machine allows that.
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

// Inside says whether this process was started in a network namespace of its own by Isolate.
func Inside() bool { return insideNamespace() == nil }

// insideNamespace is nil when kernel settings may be changed: this process has a network namespace
// that is not the machine's. It brings the loopback interface up, which a new namespace has down.
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

// apart says whether this process's network namespace is not that of the process which started it.
// The variable alone proves nothing: anybody may set it.
func apart(own string) bool {
	if parents, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", os.Getppid())); err == nil {
		return own != parents
	}
	// Out of a user namespace the parent cannot be looked at. The one that Isolate makes knows a
	// single user, the machine's knows all of them.
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

// setKernel changes a setting of this process's network namespace.
func setKernel(name, value string) error {
	path := filepath.Join("/proc/sys", filepath.FromSlash(strings.ReplaceAll(name, ".", "/")))
	if err := os.WriteFile(path, []byte(value+"\n"), 0); err != nil {
		return fmt.Errorf("the kernel setting %s cannot be set to %q in a network "+
			"namespace of its own: %w", name, value, disk.Cause(err))
	}
	return nil
}
