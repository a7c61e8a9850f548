//go:build !race

package gateway

import (
	"path/filepath"
	"testing"
)

// A warm file costs no allocation, whether it is sent from memory, by the kernel, in part, or not
// at all because the client has it.
func TestAllocNothingPerWarmFile(t *testing.T) {
	root := tree(t, map[string]string{"small.txt": letters(1000), "large.bin": letters(100_000),
		"a.js": "x", "a.js.br": "y"})
	tag := etagOf(t, filepath.Join(root, "large.bin"))
	for name, c := range map[string]struct{ path, fields, status string }{
		"a small file": {"small.txt", "", "200"}, "a large file": {"large.bin", "", "200"},
		"a range":             {"large.bin", "Range: bytes=1000-90000\r\n", "206"},
		"what the client has": {"large.bin", "If-None-Match: " + tag + "\r\nAccept: */*\r\n", "304"},
		"a coding":            {"a.js", "Accept-Encoding: gzip, br;q=0.5\r\n", "200"},
	} {
		t.Run(name, func(t *testing.T) {
			p := serving(t, root, ", precompressed: [br], fresh: 1h").dial()
			request := []byte("GET /f/" + c.path + " HTTP/1.1\r\nHost: a\r\n" + c.fields + "\r\n")
			p.send(string(request))
			r, body := p.response("GET")
			if r.Status[:3] != c.status {
				t.Fatalf("got %s", r.Status)
			}
			expectNoAllocations(t, 1000, 2000, p.repeat(t, request, len(body)).exchange)
		})
	}
}
