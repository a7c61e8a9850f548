package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"plimsoll/internal/exchange"
)

const secret = "this is outside of the root"

// walled is a root with a secret beside it, and links to it.
func walled(t *testing.T) string {
	t.Helper()
	outer := tree(t, map[string]string{"secret.txt": secret, "root/a.txt": "a", "root/sub/b.txt": "b",
		"root/.git/config": secret,
		"root/sub/.env":    secret, "root/.well-known/x": "known", "root/index.html": "home"})
	root := filepath.Join(outer, "root")
	for name, to := range map[string]string{"out": "../secret.txt", "up": "..",
		"absolute": filepath.Join(outer, "secret.txt"),
		"in":       "sub/b.txt", "self": "self", "proc": "/proc/self/root", "sub/back": "../a.txt",
		"sub/beyond": "../../secret.txt"} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", filepath.Join(root, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return root
}

func TestHazardNoEncodingOfAPathLeadsOutOfTheRoot(t *testing.T) {
	t.Parallel()
	root := walled(t)
	for _, symlinks := range []string{"inside", "none"} {
		p := serving(t, root, ", symlinks: "+symlinks).dial()
		for _, path := range []string{
			"/../secret.txt", "/%2e%2e/secret.txt", "/.%2e/secret.txt", "/%2E./secret.txt",
			"/sub/../../secret.txt",
			"/sub/%2e%2e/%2e%2e/secret.txt", "/..%2fsecret.txt", "/..%2Fsecret.txt",
			"/sub%2f..%2f..%2fsecret.txt",
			"/..%5csecret.txt", "/..\\secret.txt", "/%252e%252e/secret.txt", "/..;/secret.txt",
			"/%c0%ae%c0%ae/secret.txt",
			"/..%00/secret.txt", "/a.txt%00", "/a.txt%00.png", "//secret.txt", "/./../secret.txt",
			"/sub//..//../secret.txt",
			"/out", "/up/secret.txt", "/absolute", "/proc/etc/passwd", "/sub/beyond", "/self", "/up/",
			"/out/",
			"/.git/config", "/.git/", "/sub/.env", "/%2egit/config", "/sub/%2eenv", "/pipe",
			"/socket", "/a.txt/", "/a.txt/b",
			"/sub%2fb.txt", "/" + strings.Repeat("x", 256), "/" + strings.Repeat("y/", 2200),
		} {
			r, body := p.get("/f" + path)
			if r.StatusCode != 404 && r.StatusCode != 400 || strings.Contains(body, secret) {
				t.Errorf("symlinks %s: %s got %d %q", symlinks, path, r.StatusCode, body)
			}
			if r.StatusCode == 400 {
				p = serving(t, root, ", symlinks: "+symlinks).dial()
			}
		}
		for path, want := range map[string]string{"/a.txt": "a", "/sub/b.txt": "b", "/%61.txt": "a",
			"/sub/../a.txt": "a", "/.well-known/x": "known"} {
			if r, body := p.get("/f" + path); r.StatusCode != 200 || body != want {
				t.Errorf("symlinks %s: %s got %d %q", symlinks, path, r.StatusCode, body)
			}
		}
		status := map[string]int{"inside": 200, "none": 404}[symlinks]
		for _, path := range []string{"/in", "/sub/back"} {
			if r, _ := p.get("/f" + path); r.StatusCode != status {
				t.Errorf("symlinks %s: %s got %d", symlinks, path, r.StatusCode)
			}
		}
	}
	p := serving(t, root, ", dotfiles: true").dial()
	if r, _ := p.get("/f/sub/.env"); r.StatusCode != 200 {
		t.Errorf("a dot-file that is served got %d", r.StatusCode)
	}
}

// A directory becomes a symlink that leads out, and back, while others ask for what is in it.
func TestHazardNoSymlinkIsInTimeToLeadOutOfTheRoot(t *testing.T) {
	t.Parallel()
	outer := tree(t, map[string]string{"evil/x.txt": secret, "root/real/x.txt": "good"})
	root := filepath.Join(outer, "root")
	g := serving(t, root, ", fresh: 10ms")
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			to := []string{"real", "../evil"}[n%2]
			next := filepath.Join(root, fmt.Sprint("next", n))
			if err := os.Symlink(to, next); err != nil {
				t.Error(err)
				return
			}
			if err := os.Rename(next, filepath.Join(root, "dir")); err != nil {
				t.Error(err)
				return
			}
		}
	})
	p := g.dial()
	for range 500 {
		if r, body := p.get("/f/dir/x.txt"); strings.Contains(body, secret) || r.StatusCode == 200 &&
			body != "good" {
			t.Errorf("got %d %q", r.StatusCode, body)
		}
	}
	close(stop)
	swapping.Wait()
}

func TestHazardAFileThatShrinksCutsItsResponse(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"sendfile", "read"} {
		root := tree(t, map[string]string{"big.bin": letters(8 << 20)})
		path := filepath.Join(root, "big.bin")
		g := serving(t, root, ", fresh: 1h")
		warm := g.dial()
		if how == "sendfile" {
			warm.get("/f/big.bin")
			warm.get("/f/big.bin")
		}
		p := g.dial()
		p.Conn.(*net.TCPConn).SetReadBuffer(128 << 10)
		p.send("GET /f/big.bin HTTP/1.1\r\nHost: a\r\n\r\n")
		r, err := http.ReadResponse(p.r, nil)
		if err != nil || r.ContentLength != 8<<20 {
			t.Fatalf("%s: %v, %v", how, r, err)
		}
		if err := os.Truncate(path, 1000); err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, r.Body)
		if err == nil || n >= 8<<20 {
			t.Errorf("%s: a response of a file that became shorter had %d bytes and ended with %v",
				how, n, err)
		}
		eventually(t, "the cut to be counted", func() bool { return g.reasons(exchange.SourceFailed) == 1 })
	}
}

func TestHazardAFileThatGrowsSendsWhatWasAnnounced(t *testing.T) {
	t.Parallel()
	content := letters(8 << 20)
	root := tree(t, map[string]string{"big.bin": content})
	path := filepath.Join(root, "big.bin")
	g := serving(t, root, ", fresh: 1h")
	p := g.dial()
	p.Conn.(*net.TCPConn).SetReadBuffer(128 << 10)
	p.send("GET /f/big.bin HTTP/1.1\r\nHost: a\r\n\r\nGET /f/none HTTP/1.1\r\nHost: a\r\n\r\n")
	r, err := http.ReadResponse(p.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("HTTP/1.1 200 Forged\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r.Body); err != nil || string(got) != content {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if status := p.status("GET"); status != 404 {
		t.Errorf("the next response has status %d", status)
	}
}

func TestAFileThatIsReplacedGoesOnAsItWas(t *testing.T) {
	t.Parallel()
	old := letters(8 << 20)
	root := tree(t, map[string]string{"big.bin": old})
	path := filepath.Join(root, "big.bin")
	g := serving(t, root, ", fresh: 10ms")
	p := g.dial()
	p.Conn.(*net.TCPConn).SetReadBuffer(128 << 10)
	p.send("GET /f/big.bin HTTP/1.1\r\nHost: a\r\n\r\n")
	r, err := http.ReadResponse(p.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	plant(t, path+".new", "new", false)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	q := g.dial()
	eventually(t, "the new file", func() bool { _, body := q.get("/f/big.bin"); return body == "new" })
	if got, err := io.ReadAll(r.Body); err != nil || string(got) != old {
		t.Errorf("the old file: %d bytes, %v", len(got), err)
	}
}

// What is known of a file is bounded in its age, whether or not the kernel tells of the change; and
// it tells, so that an hour needs not pass.
func TestChangesOfFilesAreSeen(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"a.txt": "one", "dir/": ""})
	for _, fresh := range []string{"10ms", "1h"} {
		p := serving(t, root, ", precompressed: [gzip], fresh: "+fresh).dial()
		see := func(path, want string) {
			t.Helper()
			eventually(t, fmt.Sprintf("%s to be %q", path, want), func() bool {
				r, body := p.get(path, "Accept-Encoding: gzip")
				return body == want || want == "" && r.StatusCode == 404
			})
		}
		plant(t, filepath.Join(root, "a.txt"), "one", false)
		see("/f/a.txt", "one")
		see("/f/dir/", "")
		see("/f/b.txt", "")
		writeFile(t, filepath.Join(root, "a.txt"), "two")
		see("/f/a.txt", "two")
		writeFile(t, filepath.Join(root, "b.txt"), "new")
		see("/f/b.txt", "new")
		writeFile(t, filepath.Join(root, "dir/index.html"), "index")
		see("/f/dir/", "index")
		writeFile(t, filepath.Join(root, "a.txt.gz"), "packed")
		see("/f/a.txt", "packed")
		for _, name := range []string{"a.txt.gz", "b.txt", "dir/index.html"} {
			if err := os.Remove(filepath.Join(root, name)); err != nil {
				t.Fatal(err)
			}
		}
		see("/f/a.txt", "two")
		see("/f/b.txt", "")
		see("/f/dir/", "")
	}
}

// A deployment that swaps the symlink at the root's path is seen.
func TestTheRootMayBeSwapped(t *testing.T) {
	t.Parallel()
	outer := tree(t, map[string]string{"v1/a.txt": "one", "v2/a.txt": "two"})
	current := filepath.Join(outer, "current")
	if err := os.Symlink("v1", current); err != nil {
		t.Fatal(err)
	}
	p := serving(t, current, ", fresh: 10ms").dial()
	if _, body := p.get("/f/a.txt"); body != "one" {
		t.Fatalf("got %q", body)
	}
	os.Symlink("v2", current+".new")
	if err := os.Rename(current+".new", current); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new root", func() bool { _, body := p.get("/f/a.txt"); return body == "two" })
}
