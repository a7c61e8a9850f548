package proxy_test

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// exchangeWith has a client send a GET and the target answer it with the pieces, one a read.
func (b *bed) exchangeWith(pieces ...string) (client, target *sock) {
	client = b.client(saying(silence, get))
	target = b.asked()
	target.in = saying(silence, pieces...)
	for range pieces {
		b.tell(target)
		b.turn()
	}
	return client, target
}

const (
	earlyHints = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
	okResponse = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
)

func TestInterimResponsesOfOneReadGoOutInOneWrite(t *testing.T) {
	b := newBed(t, nil)
	client, _ := b.exchangeWith(strings.Repeat(earlyHints, 30), strings.Repeat(earlyHints, 20)+okResponse)
	out := string(client.out)
	if n := strings.Count(out, earlyHints); n != 50 || !strings.HasSuffix(out, "\r\n\r\nok") {
		t.Errorf("the client got %d interim responses, want 50, and\n%q", n, out[max(0, len(out)-100):])
	}
	if !strings.HasPrefix(out, strings.Repeat(earlyHints, 50)+"HTTP/1.1 200 OK\r\n") {
		t.Error("the response does not follow its interim responses")
	}
	if client.sends > 3 {
		t.Errorf("two reads made %d writes, want at most 3", client.sends)
	}
}

func TestAnUpstreamMayNotFloodItsClientWithInterimResponses(t *testing.T) {
	long := "HTTP/1.1 103 Early Hints\r\nLink: " + strings.Repeat("x", 8000) + "\r\n\r\n"
	for name, c := range map[string]struct {
		interim string
		times   int
		status  string
	}{
		"64":                        {earlyHints, 64, "200"},
		"65":                        {earlyHints, 65, "502"},
		"65 that are not passed on": {"HTTP/1.1 100 Continue\r\n\r\n", 65, "502"},
		"7 of 8 KB":                 {long, 7, "200"},
		"9 of 8 KB":                 {long, 9, "502"},
	} {
		for _, way := range []string{"at once", "one by one", "byte by byte"} {
			t.Run(fmt.Sprint(name, " ", way), func(t *testing.T) {
				b := newBed(t, nil)
				all := strings.Repeat(c.interim, c.times) + okResponse
				pieces := []string{all}
				switch way {
				case "one by one":
					pieces = strings.SplitAfter(all, "\r\n\r\n")
				case "byte by byte":
					pieces = strings.Split(all, "")
				}
				client, target := b.exchangeWith(pieces...)
				if !bytes.Contains(client.out, []byte("HTTP/1.1 "+c.status)) {
					t.Errorf("the client got no %s, but\n%q", c.status, client.out[max(0, len(client.out)-200):])
				}
				if target.closed != (c.status == "502") {
					t.Errorf("the upstream's connection is closed: %v", target.closed)
				}
			})
		}
	}
}

func TestAFloodOfInterimResponsesEnds(t *testing.T) {
	b := newBed(t, nil)
	client := b.client(saying(silence, get))
	target, flood := b.asked(), strings.Repeat(earlyHints, 2000)
	target.in = func(p []byte) (int, syscall.Errno) { return copy(p, flood), 0 }
	b.tell(target)
	b.turn()
	if n := bytes.Count(client.out, []byte(" 103 ")); n > 64 || client.sends > 2 {
		t.Errorf("a flood brought the client %d interim responses in %d writes", n, client.sends)
	}
	if !bytes.Contains(client.out, []byte("upstream_bad")) {
		t.Error("the flood is not called a bad response")
	}
}
