//go:build !race

package gateway

import (
	"fmt"
	"testing"
)

// A compressed response allocates nothing either, once encoders are there. With longer content
// go-brrr allocates about once for each 32 KB that it has flushed.
func TestAllocNothingPerCompressedResponse(t *testing.T) {
	content := words(20_000)
	response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nETag: "+
		"\"a\"\r\nContent-Length: %d\r\n\r\n%s", len(content), content)
	for _, encoding := range []string{"gzip", "br", "zstd"} {
		t.Run(encoding, func(t *testing.T) {
			g := serve(t, compressing(fixedService(t, []byte(response)),
				"{encodings: ["+encoding+"], adapt: false}"))
			p := g.dial()
			request, buf := []byte(anyEncoding), make([]byte, 64<<10)
			exchange := func() {
				if _, err := p.Write(request); err != nil {
					t.Fatal(err)
				}
				for n := 0; n < 7 || string(buf[n-7:n]) != "\r\n0\r\n\r\n"; {
					m, err := p.Read(buf[n:])
					if err != nil {
						t.Fatal(err)
					}
					n += m
				}
			}
			expectNoAllocations(t, 150, 400, exchange)
		})
	}
}
