package gateway

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Files for a gateway to serve, and the gateway that serves them.

// longAgo is when the files of tests were changed last: so that their dates are strong validators.
var longAgo = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

const longAgoText = "Thu, 29 Feb 2024 12:00:00 GMT"

// tree writes files beneath a new directory, by path; a path that ends in a slash is a directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		plant(t, filepath.Join(root, name), content, strings.HasSuffix(name, "/"))
	}
	return root
}

func plant(t *testing.T, path, content string, dir bool) {
	t.Helper()
	parent := filepath.Dir(path)
	if dir {
		parent = path
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	if dir {
		return
	}
	writeFile(t, path, content)
	if err := os.Chtimes(path, longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
}

// letters is content that shows where a part of it is from: it begins anew after a prime number of
// bytes, which nothing that is read or written is a multiple of. With a random letter for each byte
// of it, the tests took a twentieth longer under the race detector.
func letters(size int) string {
	b, r := make([]byte, min(size, 65521)), rand.New(rand.NewPCG(1, uint64(size)))
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return strings.Repeat(string(b), size/max(len(b), 1)+1)[:size]
}

// serving is a gateway with files beneath a root at /f/.
func serving(t *testing.T, root, keys string) *instance {
	t.Helper()
	return serveClean(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
routes: [{match: "/f/{rest...}", files: {root: %q%s}}]
`, root, keys))
}

// etagOf is the tag that a file has: a strong one of its inode, its time and its size.
func etagOf(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`"%x-%x-%x"`, inodeOf(info), info.ModTime().UnixNano(), info.Size())
}

func inodeOf(info os.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }
