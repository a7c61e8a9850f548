package gateway

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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

// stick makes a file one that cannot be opened. Only a privileged process may do that.
func stick(t *testing.T, path string) *stuck {
	t.Helper()
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK,
		unix.O_RDONLY|unix.O_CLOEXEC)
	if err == nil {
		err = unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_PERM, unix.AT_FDCWD, path)
	}
	if err != nil {
		t.Fatal(err)
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

// cool has the kernel drop a file beneath root from its memory. It may keep pages that something still
// holds for a moment, so it is asked until nothing of the file is left.
func cool(t *testing.T, root, name string) {
	t.Helper()
	eventually(t, name+" to leave the kernel's memory", func() bool {
		return dropped(t, filepath.Join(root, name))
	})
}

// dropped asks the kernel to drop a file from its memory, and says whether nothing of it is left.
func dropped(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
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
	return !anyInMemory(t, f)
}

// anyInMemory says whether the kernel holds a page of a file in memory. Unlike a read that does not
// wait, which begins to read ahead, mincore(2) changes nothing.
func anyInMemory(t *testing.T, f *os.File) bool {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	content, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(content)
	pages := make([]byte, (len(content)+os.Getpagesize()-1)/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&content[0])),
		uintptr(len(content)), uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
		t.Fatal(errno)
	}
	return slices.ContainsFunc(pages, func(p byte) bool { return p&1 != 0 })
}

// disksMayStick says whether this process may hold up those that open a file, and whether the file
// system of tests reads a file again that was dropped. Without both there is no disk that does not
// answer, and the test says so.
func disksMayStick(t *testing.T) bool {
	t.Helper()
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC, unix.O_RDONLY)
	if err != nil {
		t.Logf("not tested: this process may not hold up those that open a file: %v", err)
		return false
	}
	unix.Close(fd)
	probe := filepath.Join(tree(t, map[string]string{"probe.bin": letters(300_000)}), "probe.bin")
	for range 100 {
		if dropped(t, probe) {
			return true
		}
	}
	t.Log("not tested: this file system keeps its files in memory")
	return false
}

// filesConfig is a configuration of one loop with files beneath root at /f/.
func filesConfig(root, keys string) string {
	return fmt.Sprintf("routes: [{name: f, match: \"/f/{rest...}\", files: {root: %q%s}}]", root, keys)
}

// waits waits until so many requests wait for the disk.
func (i *instance) waits(n int) {
	i.t.Helper()
	eventually(i.t, fmt.Sprintf("%d requests to wait for the disk", n), func() bool {
		return i.waitForDisk(n)
	})
}

// waitForDisk says whether so many requests wait for the disk.
func (i *instance) waitForDisk(n int) bool {
	return strings.Contains(i.metrics(), fmt.Sprintf("plimsoll_files_waiting{route=\"f\"} %d\n", n))
}

// coldCall is a request for a file that the disk has, and what comes of it.
type coldCall struct {
	*call
	answer chan *got
}

// beginCold begins a request for a file that has to be read from the disk, and returns once so many
// wait for that. A read that does not wait has the kernel begin to read, and a disk may be done before
// the kernel looks again: nobody waits then, and the file is dropped and asked for once more.
func (c *talker) beginCold(root, name, content string, waiting int) coldCall {
	c.t.Helper()
	for range 1000 {
		cool(c.t, root, name)
		k := coldCall{c.begin("GET", "/f/"+name), make(chan *got, 1)}
		go func() { k.answer <- k.read() }()
		eventually(c.t, "a request to wait for the disk, or its answer", func() bool {
			return len(k.answer) == 1 || c.bed.waitForDisk(waiting)
		})
		if len(k.answer) == 0 {
			return k
		}
		if g := <-k.answer; g.cut || g.status != 200 || g.body != content {
			c.t.Fatalf("%s: %v", c.p.name, g)
		}
	}
	c.t.Fatalf("%s: the disk never kept a request waiting", c.p.name)
	return coldCall{}
}

// While the disk does not answer, requests for what is not in memory wait, over every protocol, and
// the loop serves all others.
func TestAColdFileIsReadOffTheLoop(t *testing.T) {
	t.Parallel()
	if !disksMayStick(t) {
		return
	}
	content := letters(300_000)
	files := map[string]string{"small.txt": "small", "stuck.txt": "stuck"}
	var names []string
	for n := range allSpoken {
		names = append(names, fmt.Sprintf("%d.bin", n))
		files[names[n]] = content
	}
	root := tree(t, files)
	b := serveSpoken(t, "", filesConfig(root, ", fresh: 1h, readers: 1, max_wait: 1h"))
	disk := stick(t, filepath.Join(root, "stuck.txt"))
	var talkers []*talker
	for n, p := range allSpoken {
		c := b.talk(p)
		c.expect(200, "", "HEAD", "/f/"+names[n]) // which opens it, and reads nothing
		c.expect(200, "small", "GET", "/f/small.txt")
		talkers = append(talkers, c)
	}
	stuck := b.talk(allSpoken[0]).begin("GET", "/f/stuck.txt")
	disk.entered()
	var calls []coldCall
	for n, c := range talkers {
		calls = append(calls, c.beginCold(root, names[n], content, n+2))
	}
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
	for n, c := range calls {
		if g := <-c.answer; g.cut || g.status != 200 || g.body != content {
			t.Errorf("%s: %v", allSpoken[n].name, g)
		}
	}
	b.waits(0)
}

// How many requests wait for a disk is bounded. Those beyond are refused at once; what is known is
// served, and a response that has begun is not refused.
func TestRequestsThatWaitForADiskAreBounded(t *testing.T) {
	t.Parallel()
	if !disksMayStick(t) {
		return
	}
	content := letters(300_000)
	root := tree(t, map[string]string{"big.bin": content, "small.txt": "small",
		"stuck.txt": "stuck", "new.txt": "new"})
	b := serveSpoken(t, "", filesConfig(root, ", fresh: 1h, readers: 1, max_waiting: 2, max_wait: 1h"))
	disk := stick(t, filepath.Join(root, "stuck.txt"))
	c := b.talk(allSpoken[0])
	c.expect(200, "", "HEAD", "/f/big.bin")
	c.expect(200, "small", "GET", "/f/small.txt")
	calls := []*call{b.talk(allSpoken[0]).begin("GET", "/f/stuck.txt")}
	disk.entered()
	calls = append(calls, b.talk(allSpoken[0]).begin("GET", "/f/new.txt"))
	b.waits(2)
	big := b.talk(allSpoken[0]).beginCold(root, "big.bin", content, 3)
	for _, p := range allSpoken {
		c := b.talk(p)
		g := c.ask("GET", "/f/none.txt")
		if g.status != 503 || !strings.Contains(g.body, "files_busy") || g.fields.Get("Retry-After") != "1" {
			t.Errorf("%s: one too many got %v", p.name, g)
		}
		c.expect(200, "small", "GET", "/f/small.txt")
	}
	b.expectMetrics(fmt.Sprintf(`plimsoll_files_refused_total{route="f"} %d`, len(allSpoken)))
	disk.free()
	for n, g := range append(readAll(calls), <-big.answer) {
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
	if !disksMayStick(t) {
		return
	}
	root := tree(t, map[string]string{"stuck.txt": "stuck"})
	b := serveSpoken(t, "", filesConfig(root, ", fresh: 1h, readers: 1, max_wait: 50ms"))
	disk := stick(t, filepath.Join(root, "stuck.txt"))
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
	g := serveClean(t, "loops: 1\nlisteners: [{address: \"127.0.0.1:0\"}]\n"+filesConfig(root, ", fresh: 1h"))
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
	eventually(t, "the client to be given up", func() bool { return g.snapshot().SlowConnections == 1 })
	r, err := http.ReadResponse(p.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := new(bytes.Buffer).ReadFrom(r.Body); err == nil || n >= 16<<20 {
		t.Errorf("its response ended with %v after %d bytes", err, n)
	}
}
