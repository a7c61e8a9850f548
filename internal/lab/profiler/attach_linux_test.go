package profiler

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// attached is a process of ours with this number, whose /tmp is a folder.
func attached(t *testing.T, pid int) (a *attachable, folder string) {
	folder = t.TempDir()
	temporary, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := temporary.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	a = &attachable{
		process: process, temporary: temporary, folder: opened, own: "7", uid: os.Geteuid(),
	}
	t.Cleanup(func() { a.close() })
	return a, folder
}

// listening makes a socket at a path, to which this process listens.
func listening(t *testing.T, path string) {
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

func TestOnlyTheProcessItselfIsAskedForDumps(t *testing.T) {
	a, folder := attached(t, os.Getpid())
	if conn, err := a.connect(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a socket: %v, %v", conn, err)
	}
	listening(t, filepath.Join(folder, ".java_pid7"))
	conn, err := a.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	other, folder := attached(t, os.Getppid())
	listening(t, filepath.Join(folder, ".java_pid7"))
	if _, err := other.connect(t.Context()); err == nil || !strings.Contains(err.Error(), "listens at") {
		t.Errorf("a socket of another process: %v", err)
	}
	a.uid++
	if _, err := a.connect(t.Context()); err == nil || !strings.Contains(err.Error(), "listens at") {
		t.Errorf("a socket of another user: %v", err)
	}
}

func TestALinkInPlaceOfTheSocketIsNotFollowed(t *testing.T) {
	a, folder := attached(t, os.Getpid())
	elsewhere := filepath.Join(t.TempDir(), "socket")
	listening(t, elsewhere)
	if err := os.Symlink(elsewhere, filepath.Join(folder, ".java_pid7")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.connect(t.Context()); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("%v", err)
	}
}

func TestAFileThatAsksForTheSocketAlreadyIsNotTakenOver(t *testing.T) {
	a, folder := attached(t, os.Getpid())
	trigger := filepath.Join(folder, ".attach_pid7")
	if err := os.WriteFile(trigger, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.open(t.Context()); !errors.Is(err, os.ErrExist) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(trigger); err != nil {
		t.Errorf("it was removed: %v", err)
	}
}
