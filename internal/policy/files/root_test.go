package files

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Every way in which names are resolved refuses the same: the one of openat2, and those for kernels
// without it.
func TestEveryWayToResolveNamesStaysBeneathTheRoot(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "root")
	for _, path := range []string{"root/sub"} {
		if err := os.MkdirAll(filepath.Join(outer, path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"secret", "root/a", "root/sub/b"} {
		if err := os.WriteFile(filepath.Join(outer, path), []byte(path), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"in": "sub/b", "out": "../secret", "up": "..",
		"absolute": filepath.Join(dir, "a"), "dir": "sub"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	type way struct{ walk, links bool }
	for _, w := range []way{{false, true}, {false, false}, {true, true}, {true, false}} {
		if !w.walk && !hasOpenat2() {
			continue
		}
		r := &root{path: dir, links: w.links, walk: w.walk}
		if err := r.reopen(); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]bool{"a": true, "sub/b": true, "in": w.links,
			"dir/b": w.links, "out": false, "up/secret": false,
			"absolute": false, "../secret": false, "sub/../../secret": false, "none": false, "a/b": false} {
			fd, err := r.open(name, 0)
			if got := err == nil; got != want {
				t.Errorf("%+v: opening %s: %v, want it to be there: %v", w, name, err, want)
			}
			if err == nil {
				unix.Close(fd)
			} else if !isAbsent(err) {
				t.Errorf("%+v: opening %s says %v, which is not that it is absent", w, name, err)
			}
			if st, err := r.look(name); (err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG) != want {
				t.Errorf("%+v: looking at %s: %v, want it to be there: %v", w, name, err, want)
			}
		}
	}
}

// A path that asks for a name that no file has is refused before anything is opened.
func TestPathsThatNameNoFile(t *testing.T) {
	p := &Policy{}
	for path, want := range map[string]bool{"": true, "a": true, "a/": true, "a/b.c": true,
		".well-known/x": true, ".": false, "..": false,
		"a/../b": false, "a//b": false, ".git": false, "a/.env": false, "a/.well-known": true} {
		if got := p.served([]byte(path)); got != want {
			t.Errorf("%q is served: %v, want %v", path, got, want)
		}
	}
	for text, want := range map[string]string{"a%20b": "a b", "%C3%A9": "é", "a%2fb": "", "a%5Cb": "",
		"a%00b": "", "a%2": "", "a%zz": "", "a\x00": ""} {
		if got, ok := decode(nil, []byte(text)); ok != (want != "") || ok && string(got) != want {
			t.Errorf("%q becomes %q, %v, want %q", text, got, ok, want)
		}
	}
}

// What was in memory is sent by the kernel for a time; a segment counts when all of it was read.
func TestWarmthOfSegments(t *testing.T) {
	const mega = 1 << 20
	var w warmth
	w.begin(2*mega+100, false)
	w.blind.Store(true)
	covered := w.found(0, mega-1, 1)
	if n := w.warm(-1, 0, mega, 1); n != 0 || covered != 0 {
		t.Errorf("a part of a segment makes %d bytes warm, and counts from %d", n, covered)
	}
	covered = w.found(covered, mega+5, 1)
	if n := w.warm(-1, 10, 2*mega, 1); n != mega-10 || covered != mega {
		t.Errorf("%d bytes are warm, and what follows counts from %d", n, covered)
	}
	w.found(2*mega, 2*mega+100, 1)
	if n := w.warm(-1, 2*mega, 2*mega+100, 1); n != 100 {
		t.Errorf("of the last segment %d bytes are warm", n)
	}
	if n := w.warm(-1, 0, mega, 1+warmTime); n != 0 {
		t.Errorf("%d bytes are warm when their time is over", n)
	}
	var remote warmth
	remote.begin(100, true)
	remote.found(0, 100, 1)
	if n := remote.warm(-1, 0, 100, 1); n != 0 {
		t.Errorf("%d bytes of a file that is elsewhere are warm", n)
	}
}
