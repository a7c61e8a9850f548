package gateway

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"plimsoll/internal/policy/compress"
)

// encoders is how much memory encoders at work take.
func (i *instance) encodersAtWork() int64 {
	used, _ := i.encoders.Memory()
	return used
}

// Each event can be decoded before the next is sent, over each protocol of the upstream's.
func TestEventsAreSeenAtOnce(t *testing.T) {
	for _, encoding := range []string{"gzip", "br", "zstd"} {
		for _, protocol := range []string{"", "h2c"} {
			t.Run(encoding+" "+protocol, func(t *testing.T) {
				next := make(chan string)
				events := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					for event := range next {
						io.WriteString(w, event)
						http.NewResponseController(w).Flush()
					}
				})
				b := newBackend(t, "b")
				b.answer(events)
				address := b.address
				if protocol != "" {
					address = plainH2C(t, events)
				}
				yaml := compressing(address, "{encodings: ["+encoding+"]}")
				if protocol != "" {
					yaml = strings.Replace(yaml, "retry:", "protocol: "+protocol+", retry:", 1)
				}
				g := serveClean(t, yaml)
				p := g.dial()
				p.send(anyEncoding)
				var from io.Reader
				for i, size := range []int{1, 10, 16 << 10, 70_000, 3, 32 << 10, 200_000, 0} {
					event := "data: " + words(size) + "\n\n"
					next <- event
					if i == 0 {
						r, err := http.ReadResponse(p.r, nil)
						if err != nil {
							t.Fatal(err)
						}
						if got := r.Header.Get("Content-Encoding"); got != encoding {
							t.Fatalf("the encoding is %q", got)
						}
						from = decoderOf(t, encoding, r.Body)
					}
					got := make([]byte, len(event))
					if _, err := io.ReadFull(from, got); err != nil || string(got) != event {
						t.Fatalf("event %d: %v, or another one came", i, err)
					}
				}
				close(next)
				if rest, err := io.ReadAll(from); err != nil || len(rest) > 0 {
					t.Errorf("at the end %q and %v", rest, err)
				}
			})
		}
	}
}

// What is cut off must not pass for whole: neither the message nor its encoding ends well.
func TestAResponseThatBreaksOffIsCutThoughItIsEncoded(t *testing.T) {
	content := words(100_000)
	for name, response := range map[string]string{
		"length": "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nContent-Length: 200000\r\n\r\n" + content,
		"chunks": fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nTransfer-Encoding: "+
			"chunked\r\n\r\n%x\r\n%s", 200_000, content),
		"an invalid chunk": fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: "+
			"text/css\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nnonsense\r\n",
			len(content), content),
	} {
		for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
			t.Run(name+" "+version, func(t *testing.T) {
				s := newService(t, closing(response))
				g := serveClean(t, compressing(s.address(), "true"))
				p := g.dial()
				p.send("GET / " + version + "\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n")
				got := p.expectCut()
				_, body, _ := strings.Cut(got, "\r\n\r\n")
				if !strings.Contains(got, "Content-Encoding: gzip") || strings.HasSuffix(got, "0\r\n\r\n") {
					t.Errorf("the message ends well: %.300q", got)
				}
				if version == "HTTP/1.0" {
					r, err := gzip.NewReader(strings.NewReader(body))
					if err == nil {
						_, err = io.ReadAll(r)
					}
					if err == nil {
						t.Error("the encoding ends well")
					}
				}
				p.Close()
				eventually(t, "the encoder to be given back", func() bool { return g.encodersAtWork() == 0 })
			})
		}
	}
}

func TestEncodersComeBackHoweverAResponseEnds(t *testing.T) {
	more := make(chan bool)
	b := newBackend(t, "b")
	b.answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, words(5000))
		http.NewResponseController(w).Flush()
		select {
		case <-more:
		case <-r.Context().Done():
		}
	})
	for way, leave := range ways {
		t.Run(way, func(t *testing.T) {
			g := serveClean(t, compressing(b.address, "true"))
			var all []*peer
			for range 5 {
				p := g.dial()
				p.send(anyEncoding)
				p.expect("HTTP/1.1 200 OK\r\n")
				all = append(all, p)
			}
			if g.encodersAtWork() < 5*(600<<10) {
				t.Errorf("%d bytes of encoders are at work", g.encodersAtWork())
			}
			for _, p := range all {
				leave(p)
			}
			eventually(t, "the encoders to be given back", func() bool { return g.encodersAtWork() == 0 })
		})
	}
	t.Run("a client that reads nothing", func(t *testing.T) {
		endless := newService(t, func(c *serviceConn, _ int) {
			c.head()
			c.write("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
			for c.write(randomBytes(64 << 10)) {
			}
		})
		g := serveClean(t, compressing(endless.address(), "true"))
		p := g.dial()
		p.send(anyEncoding)
		stalls(t, "what the service could send", func() int64 {
			return int64(g.route("r").Policies["compress"].(compress.Status).BytesIn)
		})
		if held := g.buffered(); held > 1<<20 {
			t.Errorf("%d bytes are held for a client that reads nothing", held)
		}
		p.reset()
		eventually(t, "the encoder to be given back", func() bool { return g.encodersAtWork() == 0 })
	})
}

func TestTrailersThatSpeakOfTheContentGo(t *testing.T) {
	s := newService(t, answering("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTrailer: "+
		"Repr-Digest, X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"3\r\nabc\r\n0\r\nRepr-Digest: x\r\nX-Sum: 1\r\n\r\n"))
	g := serveClean(t, compressing(s.address(), "true"))
	p := g.dial()
	p.send(anyEncoding)
	r, body := p.response("GET")
	if decoded(t, r.Header.Get("Content-Encoding"), body) != "abc" || r.Trailer.Get("X-Sum") != "1" ||
		r.Trailer.Get("Repr-Digest") != "" {
		t.Errorf("got %q and the trailers %v", body, r.Trailer)
	}
	p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, body := p.response("GET"); body != "abc" || r.Trailer.Get("Repr-Digest") != "x" ||
		r.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("without an encoding: %q, %v, %v", body, r.Header, r.Trailer)
	}
}

func TestAnHTTP10ClientGetsEncodedContentToTheEnd(t *testing.T) {
	content := words(5000)
	s := newService(t, answering(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: "+
		"text/html\r\nContent-Length: %d\r\n\r\n%s", len(content), content)))
	g := serveClean(t, compressing(s.address(), "{encodings: [br]}"))
	p := g.dial()
	p.send("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nAccept-Encoding: br\r\n\r\n")
	head, body, _ := strings.Cut(p.rest(), "\r\n\r\n")
	if strings.Contains(head, "chunked") || strings.Contains(head, "Content-Length") ||
		decoded(t, "br", body) != content {
		t.Errorf("the head is\n%s\nwith %d bytes", head, len(body))
	}
}

func TestTheGatewaysOwnAnswersAreEncodedToo(t *testing.T) {
	s := untouched(t)
	g := routed(t, s, `
  - {match: /page, compress: {encodings: [gzip]}, respond: {headers: {Content-Type: text/html},
    body: "`+strings.Repeat("hello ", 30_000)+`"}}
  - {match: /short, compress: true, respond: {body: hello}}
  - {match: /off, compress: false, respond: {headers: {Content-Type: text/html},
    body: "`+strings.Repeat("hello ", 3000)+`"}}
`)
	p := g.dial()
	ask := func(method, path string) (*http.Response, string) {
		p.send(method + " " + path + " HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n")
		return p.response(method)
	}
	if r, body := ask("GET", "/page"); decoded(t, "gzip", body) != strings.Repeat("hello ", 30_000) ||
		r.ContentLength != -1 {
		t.Errorf("got %v with %d bytes", r.Header, len(body))
	}
	if r, _ := ask("HEAD", "/page"); r.Header.Get("Content-Encoding") != "gzip" ||
		r.Header.Get("Content-Length") != "" || r.Header.Get("Vary") == "" {
		t.Errorf("HEAD got %v", r.Header)
	}
	if r, body := ask("GET", "/short"); body != "hello" || r.Header.Get("Vary") != "" {
		t.Errorf("something short got %v", r.Header)
	}
	if r, _ := ask("GET", "/off"); r.Header.Get("Content-Encoding") != "" || r.Header.Get("Vary") != "" {
		t.Errorf("where it is off: %v", r.Header)
	}
	s.expectUntouched()
}

func TestTheServiceSeesWhatTheClientTakes(t *testing.T) {
	s := newService(t, answering("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: "+
		"br\r\nETag: \"a\"\r\nContent-Length: 3\r\n\r\nabc"))
	g := serveClean(t, compressing(s.address(), "{min_size: 0B}"))
	p := g.dial()
	p.send(anyEncoding)
	if r, body := p.response("GET"); body != "abc" || r.Header.Get("Content-Encoding") != "br" ||
		r.Header.Get("Etag") != `"a"` || r.ContentLength != 3 {
		t.Errorf("what the service has encoded came as %v, %q", r.Header, body)
	}
	if !strings.Contains(s.saw(), "Accept-Encoding: gzip, br, zstd\r\n") {
		t.Errorf("the service saw %q", s.saw())
	}
	g.expectMetrics(`plimsoll_compress_passed_total{reason="encoded",route="r"} 1`,
		`plimsoll_compress_responses_total{encoding="br",route="r"} 0`)
}

// curl decodes with the libraries that browsers have, none of which is ours.
func TestCurlDecodesWhatWeEncode(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal("curl is missing: scripts/tools.sh installs it")
	}
	content := words(500_000)
	b := newBackend(t, "b")
	b.answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for rest := content; len(rest) > 0; {
			n := min(len(rest), 30_011)
			io.WriteString(w, rest[:n])
			http.NewResponseController(w).Flush()
			rest = rest[n:]
		}
	})
	for _, encoding := range []string{"gzip", "br", "zstd"} {
		for _, level := range []string{"fast", "balanced", "small"} {
			g := serveClean(t, compressing(b.address,
				"{encodings: ["+encoding+"], adapt: false, level: "+level+"}"))
			var said bytes.Buffer
			c := exec.CommandContext(t.Context(), curl, "-sS", "--compressed", "-D", "/dev/stderr",
				g.url("/"))
			c.Stderr = &said
			out, err := c.Output()
			if err != nil || string(out) != content || !strings.Contains(said.String(),
				"Content-Encoding: "+encoding) {
				t.Errorf("%s, %s: curl gives %v, %d bytes, and\n%s", encoding, level, err, len(out),
					said.String())
			}
		}
	}
}

// A reload changes how a route compresses, and what was begun goes on.
func TestAReloadChangesCompression(t *testing.T) {
	more := make(chan bool)
	b := newBackend(t, "b")
	b.answer(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "first ")
		http.NewResponseController(w).Flush()
		<-more
		io.WriteString(w, "second")
	})
	g := serveClean(t, compressing(b.address, "{encodings: [gzip]}"))
	p := g.dial()
	p.send(anyEncoding)
	r, err := http.ReadResponse(p.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	from := decoderOf(t, "gzip", r.Body)
	if _, err := io.ReadFull(from, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if err := g.reload(compressing(b.address, "false") + "compress_memory: 16MB\n"); err != nil {
		t.Fatal(err)
	}
	more <- true
	if rest, err := io.ReadAll(from); string(rest) != "second" || err != nil {
		t.Errorf("what was begun goes on with %q, %v", rest, err)
	}
	other := g.dial()
	other.send(anyEncoding)
	more <- true
	if r, body := other.response("GET"); body != "first second" || r.Header.Get("Content-Encoding") != "" {
		t.Errorf("after the reload got %q, %v", body, r.Header)
	}
}
