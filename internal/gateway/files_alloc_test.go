//go:build !race

package gateway

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"
	"time"
)

// A warm file costs no allocation, whether it is sent from memory, by the kernel, in part, or not at
// all because the client has it.
func TestAllocNothingPerWarmFile(t *testing.T) {
	root := tree(t, map[string]string{"small.txt": letters(1000), "large.bin": letters(100_000), "a.js": "x", "a.js.br": "y"})
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
			head := make([]byte, 64<<10)
			buf := make([]byte, 256<<10)
			p.send(string(request))
			r, body := p.response("GET")
			if r.Status[:3] != c.status {
				t.Fatalf("got %s", r.Status)
			}
			size := 0 // of a whole response
			exchange := func() {
				if _, err := p.Write(request); err != nil {
					t.Fatal(err)
				}
				if size == 0 {
					n, err := p.Read(head)
					if err != nil {
						t.Fatal(err)
					}
					size = bytes.Index(head[:n], []byte("\r\n\r\n")) + 4 + len(body)
					_, err = io.ReadFull(p, buf[:size-n])
					if err != nil {
						t.Fatal(err)
					}
					return
				}
				if _, err := io.ReadFull(p, buf[:size]); err != nil {
					t.Fatal(err)
				}
			}
			for range 1000 {
				exchange()
			}
			const requests = 2000
			began := time.Now()
			n := mallocs(func() {
				for range requests {
					exchange()
				}
			})
			took := time.Since(began)
			idle := mallocs(func() { pause(t.Context(), took) })
			if n > idle+requests/20 {
				t.Errorf("%d allocations over %d requests and %d without any, want none for a request", n, requests, idle)
			}
		})
	}
}
