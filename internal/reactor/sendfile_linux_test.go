package reactor_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"plimsoll/internal/reactor"
)

// fileOf is an open file with some content.
func fileOf(t *testing.T, content []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// A file is sent whole to a peer that reads when the socket is full already, behind what is in
// front of it, and nothing of it is queued.
func TestAFileIsSentAsFarAsThePeerTakesIt(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // 4 MB
	f := fileOf(t, content)
	l := newLoops(t, 1)[0]
	near, far := peers(t, true)
	c, _ := reading(t, l, far)
	front, sent, drains := []byte("in front "), int64(0), 0
	pump := func() {
		n, err := c.SendFile(front, int(f.Fd()), 16+sent, int64(len(content))-16-sent)
		front, sent = nil, sent+n
		if err != nil || c.Queued() != 0 || c.Congested() != (sent < int64(len(content))-16) {
			t.Errorf("after %d bytes: %v, %d queued, congested: %v", sent, err, c.Queued(), c.Congested())
		}
	}
	on(t, l, func() {
		c.drained = func() { drains++; pump() }
		pump()
	})
	got := make([]byte, len("in front ")+len(content)-16)
	if _, err := io.ReadFull(near, got); err != nil || string(got[:9]) != "in front " ||
		!bytes.Equal(got[9:], content[16:]) {
		t.Errorf("the peer got something else: %v", err)
	}
	on(t, l, func() {
		if drains == 0 || c.Written() != int64(len(got)) {
			t.Errorf("%d times drained, and %d bytes were written", drains, c.Written())
		}
		if n, err := c.SendFile([]byte("x"), int(f.Fd()), int64(len(content))-10, 20); n != 10 ||
			err != reactor.ErrFileCut {
			t.Errorf("beyond the end: %d bytes, %v", n, err)
		}
		if c.Failed() {
			t.Error("the file's end is taken for the connection's")
		}
	})
}
