package gateway

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stuck is a file that nobody can open until the test lets them. It stands for a disk that does not
// answer: the kernel asks a listener (fanotify), which says nothing.
type stuck struct {
	t    *testing.T
	fd   int
	held []int32 // descriptors that the kernel gave with its questions
	once sync.Once
}

// stick makes a file one that cannot be opened. Only a privileged process may do that: for any other
// it is nil, and its test shows only what needs no such disk.
func stick(t *testing.T, path string) *stuck {
	t.Helper()
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK,
		unix.O_RDONLY|unix.O_CLOEXEC)
	if err == nil {
		err = unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_PERM, unix.AT_FDCWD, path)
	}
	if err != nil {
		t.Logf("this process may not hold up those that open a file: %v", err)
		return nil
	}
	s := &stuck{t: t, fd: fd}
	t.Cleanup(s.free)
	return s
}

// entered waits until somebody is held up.
func (s *stuck) entered() {
	s.t.Helper()
	eventually(s.t, "somebody to open the file", func() bool {
		var b [4096]byte
		n, err := unix.Read(s.fd, b[:])
		if err != nil {
			return false
		}
		for at := 0; at < n; {
			e := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&b[at]))
			s.held = append(s.held, e.Fd)
			at += int(e.Event_len)
		}
		return n > 0
	})
}

// free lets everybody open the file: the kernel does not ask a listener that is gone.
func (s *stuck) free() {
	s.once.Do(func() {
		unix.Close(s.fd)
		for _, fd := range s.held {
			unix.Close(int(fd))
		}
	})
}

// cool has the kernel drop files beneath root from its memory; probe is one more, of which the test
// finds out whether it does: that alone has the kernel read again.
// It is false where the file system keeps files in memory.
func cool(t *testing.T, root, probe string, names ...string) (cold bool) {
	t.Helper()
	for _, name := range append(names, probe) {
		f, err := os.Open(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
			t.Fatal(err)
		}
		if name != probe {
			continue
		}
		var one [1]byte
		_, err = unix.Preadv2(int(f.Fd()), [][]byte{one[:]}, 0, unix.RWF_NOWAIT)
		cold = err != nil
	}
	return cold
}

// filesConfig is a configuration of one loop with files beneath root at /f/.
func filesConfig(root, keys string) string {
	return fmt.Sprintf("routes: [{name: f, match: \"/f/{rest...}\", files: {root: %q%s}}]", root, keys)
}

// waits waits until so many requests wait for the disk.
func (i *instance) waits(n int) {
	i.t.Helper()
	eventually(i.t, fmt.Sprintf("%d requests to wait for the disk", n), func() bool {
		return strings.Contains(i.metrics(), fmt.Sprintf("plimsoll_files_waiting{route=\"f\"} %d\n", n))
	})
}

// While the disk does not answer, requests for what is not in memory wait, over every protocol, and
// the loop serves all others.
func TestAColdFileIsReadOffTheLoop(t *testing.T) {
	t.Parallel()
	content := letters(300_000)
	files := map[string]string{"probe.bin": content, "small.txt": "small", "stuck.txt": "stuck"}
	var names []string
	for n := range allSpoken {
		names = append(names, fmt.Sprintf("%d.bin", n))
		files[names[n]] = content
	}
	root := tree(t, files)
	b := serveSpoken(t, "", filesConfig(root, ", fresh: 1h, readers: 1"))
	disk := stick(t, filepath.Join(root, "stuck.txt"))
	var talkers []*talker
	for n, p := range allSpoken {
		c := b.talk(p)
		c.expect(200, "", "HEAD", "/f/"+names[n]) // which opens it, and reads nothing
		c.expect(200, "small", "GET", "/f/small.txt")
		talkers = append(talkers, c)
	}
	if disk == nil || !cool(t, root, "probe.bin", names...) {
		return
	}
	stuck := b.talk(allSpoken[0]).begin("GET", "/f/stuck.txt")
	disk.entered()
	var calls []*call
	for n, c := range talkers {
		calls = append(calls, c.begin("GET", "/f/"+names[n]))
	}
	b.waits(len(calls) + 1)
	for n, p := range allSpoken {
		b.talk(p).expect(200, "small", "GET", "/f/small.txt")
		if c := calls[n]; c.two != nil && c.two.got() > 0 {
			t.Errorf("%s: %d bytes came that nobody can have read", p.name, c.two.got())
		}
	}
	disk.free()
	if g := stuck.read(); g.status != 200 || g.body != "stuck" {
		t.Errorf("the request that the disk kept waiting got %v", g)
	}
	for n, g := range readAll(calls) {
		if g.cut || g.status != 200 || g.body != content {
			t.Errorf("%s: %v", allSpoken[n].name, g)
		}
	}
	b.waits(0)
}

// How many requests wait for a disk is bounded. Those beyond are refused at once; what is known is
// served, and a response that has begun is not refused.
func TestRequestsThatWaitForADiskAreBounded(t *testing.T) {
	t.Parallel()
	content := letters(300_000)
	root := tree(t, map[string]string{"probe.bin": content, "big.bin": content, "small.txt": "small",
		"stuck.txt": "stuck", "new.txt": "new"})
	b := serveSpoken(t, "", filesConfig(root, ", fresh: 1h, readers: 1, max_waiting: 2"))
	disk := stick(t, filepath.Join(root, "stuck.txt"))
	c := b.talk(allSpoken[0])
	c.expect(200, "", "HEAD", "/f/big.bin")
	c.expect(200, "small", "GET", "/f/small.txt")
	if disk == nil || !cool(t, root, "probe.bin", "big.bin") {
		return
	}
	calls := []*call{b.talk(allSpoken[0]).begin("GET", "/f/stuck.txt")}
	disk.entered()
	calls = append(calls, b.talk(allSpoken[0]).begin("GET", "/f/new.txt"))
	b.waits(2)
	calls = append(calls, b.talk(allSpoken[0]).begin("GET", "/f/big.bin"))
	b.waits(3)
	for _, p := range allSpoken {
		c := b.talk(p)
		g := c.ask("GET", "/f/none.txt")
		if g.status != 503 || !strings.Contains(g.body, "files_busy") ||
			g.fields.Get("Retry-After") != "1" {
			t.Errorf("%s: one too many got %v", p.name, g)
		}
		c.expect(200, "small", "GET", "/f/small.txt")
	}
	b.expectMetrics(fmt.Sprintf(`plimsoll_files_refused_total{route="f"} %d`, len(allSpoken)))
	disk.free()
	for n, g := range readAll(calls) {
		if want := []string{"stuck", "new", content}[n]; g.cut || g.status != 200 || g.body != want {
			t.Errorf("request %d got %v", n, g)
		}
	}
	b.waits(0)
	c.expect(404, c.ask("GET", "/f/none.txt").body, "GET", "/f/none.txt")
}

// A request waits for a disk for a bounded time, and a client that leaves waits no longer. What was
// looked for meanwhile is known to those who come later.
func TestARequestDoesNotWaitForADiskForLong(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"stuck.txt": "stuck"})
	b := serveSpoken(t, "", filesConfig(root, ", fresh: 1h, readers: 1, max_wait: 50ms"))
	disk := stick(t, filepath.Join(root, "stuck.txt"))
	if disk == nil {
		return
	}
	for _, p := range allSpoken {
		g := b.talk(p).ask("GET", "/f/stuck.txt")
		if g.status != 503 || !strings.Contains(g.body, "files_busy") {
			t.Errorf("%s: got %v", p.name, g)
		}
	}
	b.talk(allSpoken[0]).begin("GET", "/f/stuck.txt").leave()
	eventually(t, "the client's exchange to end", func() bool { return b.snapshot().Active == 0 })
	disk.entered()
	disk.free()
	b.waits(0)
	b.talk(allSpoken[0]).expect(200, "stuck", "GET", "/f/stuck.txt")
	b.expectMetrics(`plimsoll_files_found_total{from="memory",route="f"} 1`)
}

// What a client does not take of a file stays in the file: it costs no memory, and nobody waits for
// it.
func TestASlowClientOfAFileHoldsUpNobody(t *testing.T) {
	t.Parallel()
	content := letters(16 << 20)
	root := tree(t, map[string]string{"big.bin": content, "small.txt": "small"})
	g := serveClean(t, "loops: 1\nlisteners: [{address: \"127.0.0.1:0\"}]\n"+
		filesConfig(root, ", fresh: 1h"))
	p := g.dial()
	for range 2 { // from here on the kernel sends it
		if r, body := p.get("/f/big.bin"); r.StatusCode != 200 || body != content {
			t.Fatalf("got %d and %d bytes", r.StatusCode, len(body))
		}
	}
	var slow []*peer
	for range 20 {
		s := g.dialNarrow()
		s.send("GET /f/big.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		s.expect("HTTP/1.1 200 OK\r\n")
		slow = append(slow, s)
	}
	for range 100 {
		if r, body := p.get("/f/small.txt"); r.StatusCode != 200 || body != "small" {
			t.Fatalf("another client got %d %q", r.StatusCode, body)
		}
	}
	if n := g.buffered(); n > 20*64<<10 {
		t.Errorf("%d bytes of buffers are kept for clients that take nothing", n)
	}
	for n, s := range slow {
		if n > 0 {
			s.Close()
			continue
		}
		if rest := s.rest(); !strings.HasSuffix(rest, content) {
			t.Errorf("the client that goes on reading gets %d bytes", len(rest))
		}
	}
}

// A client that takes nothing of a file is given up, and its response ends unfinished.
func TestAClientThatTakesNothingOfAFileIsGivenUp(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"big.bin": letters(16 << 20)})
	g := serveClean(t, "loops: 1\nlisteners: [{address: \"127.0.0.1:0\", limits: {send_timeout: 500ms}}]\n"+
		filesConfig(root, ", fresh: 1h"))
	warm := g.dial()
	warm.get("/f/big.bin")
	warm.Close()
	p := g.dialNarrow()
	p.send("GET /f/big.bin HTTP/1.1\r\nHost: a\r\n\r\n")
	eventually(t, "the client to be given up", func() bool {
		return g.snapshot().SlowConnections == 1
	})
	r, err := http.ReadResponse(p.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := new(bytes.Buffer).ReadFrom(r.Body); err == nil || n >= 16<<20 {
		t.Errorf("its response ended with %v after %d bytes", err, n)
	}
}
