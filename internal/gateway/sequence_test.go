//go:build !race

package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"plimsoll/internal/exchange"
)

// These tests send many requests one after the other, or megabytes, and look at what is answered.
// What they go through runs under the race detector in shorter tests, which need a fifth of their
// time or less.

func TestHazardNoFieldOfARequestPoisonsTheCache(t *testing.T) {
	t.Parallel()
	b := serveCache(t, reflecting(t).address(), poisonRoutes, "")
	for _, p := range allSpoken {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			victim, evil := b.talk(p), b.talk(p)
			for n, name := range evilFields {
				for m, value := range evilValues {
					if m > 1 && p != allSpoken[0] {
						break // fields are read alike from here on
					}
					for _, kind := range []string{"fresh", "stale", "varies"} {
						if name == "Accept-Encoding" {
							// The gateway's own words for what a client takes: the service is
							// trusted to say that it goes by them.
							kind = "varies"
						}
						path := fmt.Sprintf("/%s/%d/%d/%v/%v%v", kind, n, m, p.http2, p.http3, p.tls)
						if kind == "stale" {
							victim.plainly(path, "nothing")
						}
						evil.begin("GET", path, name, value).read()
						victim.plainly(path, fmt.Sprintf("%s: %s", name, value))
						if t.Failed() {
							return
						}
					}
				}
			}
		})
	}
}

// Over every protocol, whole and in parts, a response whose file has become shorter is cut off:
// none ends as if it were whole.
func TestHazardNoResponseOfAFileThatShrinksPassesForWhole(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	files := map[string]string{}
	ranges := map[string]string{"whole": "", "part": "bytes=100-", "parts": "bytes=0-99,1000-8000000"}
	content := letters(size)
	for _, p := range allSpoken {
		for kind := range ranges {
			files[p.name+"/"+kind] = content
		}
	}
	root := tree(t, files)
	b := serveSpoken(t, "", fmt.Sprintf("routes: [{match: \"/{rest...}\", files: {root: %q, fresh: 1h}}]", root))
	var cuts uint64
	for _, p := range allSpoken {
		for kind, ranged := range ranges {
			path := "/" + strings.ReplaceAll(p.name, " ", "%20") + "/" + kind
			var fields []string
			status := 200
			if ranged != "" {
				fields, status = []string{"Range", ranged}, 206
			}
			before := b.talk(p).ask("GET", path, fields...)
			if before.status != status || len(before.body) < 7_000_000 {
				t.Fatalf("%s of %s: %v", kind, p.name, before)
			}
			c := b.talkSlowly(p)
			k := c.begin("GET", path, fields...)
			k.begun()
			if err := os.Truncate(filepath.Join(root, p.name, kind), 1000); err != nil {
				t.Fatal(err)
			}
			if c.two != nil {
				c.two.send(func(f *http2.Framer) {
					f.WriteWindowUpdate(0, 2*size)
					f.WriteWindowUpdate(k.two.id, 2*size)
				})
			}
			if g := k.read(); !g.cut || len(g.body) >= len(before.body) {
				t.Errorf("%s of %s, %d bytes before it shrank, got %v", kind, p.name, len(before.body), g)
			}
			cuts++
			eventually(t, "the cut to be counted", func() bool { return b.reasons(exchange.SourceFailed) == cuts })
		}
	}
}

// Whatever the protocol, the encoding and how the service says where its content ends, the client
// decodes what the service sent.
func TestCompressedContentIsWhatTheServiceSent(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	certificate := ca.issue(t, "a")
	chunks := func(content string) string {
		var b strings.Builder
		for n := 1; len(content) > 0; n = n*3%70_001 + 1 {
			piece := content[:min(n, len(content))]
			content = content[len(piece):]
			fmt.Fprintf(&b, "%x\r\n%s\r\n", len(piece), piece)
		}
		return "Transfer-Encoding: chunked\r\n\r\n" + b.String() + "0\r\n\r\n"
	}
	framings := map[string]func(string) string{
		"length":     func(c string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(c), c) },
		"chunks":     chunks,
		"to the end": func(c string) string { return "Connection: close\r\n\r\n" + c },
	}
	contents := map[string]string{"words": words(300_000), "noise": randomBytes(200_000),
		"little": words(1500)}
	for name, framed := range framings {
		for what, content := range contents {
			t.Run(name+" of "+what, func(t *testing.T) {
				t.Parallel()
				for i, p := range allSpoken {
					encoding := []string{"gzip", "br", "zstd"}[(i+len(name)+len(what))%3]
					c := &likeCase{fields: "Accept-Encoding: " + encoding + "\n",
						routes: "[{match: /, upstream: s, compress: true}]",
						response: "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nETag: \"a\"\r\n" +
							framed(content)}
					_, got := c.run(t, p, ca, certificate)
					head, body, _ := strings.Cut(got, "\n\n")
					if want := "200\nContent-Encoding: " + encoding +
						"\nContent-Type: text/plain\nEtag: W/\"a\"\nVary: Accept-Encoding"; head != want {
						t.Errorf("%s: the head is\n%s\nwant\n%s", p.name, head, want)
						continue
					}
					if body = strings.TrimSuffix(body, "\n"); decoded(t, encoding, body) != content {
						t.Errorf("%s, %s: %d bytes do not stand for what was sent", p.name, encoding,
							len(body))
					}
					if what != "noise" && len(body) > len(content)/2+100 {
						t.Errorf("%s, %s: %d bytes became %d", p.name, encoding, len(content), len(body))
					}
				}
			})
		}
	}
}

func TestBalancersFollowTheWeights(t *testing.T) {
	for _, policy := range []string{"round_robin", "random", "least_requests"} {
		t.Run(policy, func(t *testing.T) {
			all := backends(t, 3)
			g := serve(t, balanced(2, targetsOf(all, 3, 1, 0), "balance: "+policy))
			// One after the other, so that it is the weights that decide and not who is busy; on
			// connections that go to either loop.
			got := map[string]int{}
			for range 8 {
				for answer, n := range g.crowd(1, 100, "/") {
					got[answer] += n
				}
			}
			if got["200 a"]+got["200 b"] != 800 {
				t.Fatalf("the clients got %v, want nothing from the target of weight 0", got)
			}
			if a := got["200 a"]; a < 500 || a > 700 {
				t.Errorf("the target of weight 3 got %d of 800, want about 600", a)
			}
		})
	}
}

func TestTheSameKeyGoesToTheSameTarget(t *testing.T) {
	for _, c := range []struct {
		hash    string
		request func(user string) (path, header string)
	}{
		{"header:X-User", func(user string) (string, string) { return "/", "X-User: " + user }},
		{"cookie:session", func(user string) (string, string) { return "/", "Cookie: a=b; session=" + user }},
		{"client_address", func(user string) (string, string) { return "/", "X-Forwarded-For: 198.51.100." + user }},
		{"path:id", func(user string) (string, string) { return "/users/" + user, "Accept: a" }},
	} {
		t.Run(c.hash, func(t *testing.T) {
			all := backends(t, 4)
			g := serve(t, balanced(2, targetsOf(all), fmt.Sprintf("balance: {hash: %q}", c.hash)))
			used := map[string]bool{}
			for user := range 40 {
				path, header := c.request(fmt.Sprint(user + 1))
				// Each from a connection of its own, so from either loop.
				_, first := g.get(path, header)
				_, second := g.get(path, header)
				_, third := g.get(path, header)
				if first != second || second != third {
					t.Fatalf("user %d was sent to %q, %q and %q", user, first, second, third)
				}
				used[first] = true
			}
			if len(used) != 4 {
				t.Errorf("forty users went to %d of 4 targets", len(used))
			}
		})
	}
}
