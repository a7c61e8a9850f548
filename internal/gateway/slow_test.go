package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"plimsoll/internal/exchange"
	"plimsoll/internal/reactor"
)

func TestAnEarlyAnswerIsWholeAlthoughTheClientStopsUploading(t *testing.T) {
	t.Parallel() // it takes the ten seconds that a body's rate is measured over
	finish := make(chan struct{})
	s := newService(t, func(c *serviceConn, _ int) {
		if len(c.head()) == 0 {
			return
		}
		io.CopyN(io.Discard, c.R, 3)
		c.write("HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nno")
		<-finish
		c.write("no")
	})
	silent := newService(t, func(c *serviceConn, _ int) { c.drain() })
	g := serveClean(t, `
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}, silent: {targets: ["`+silent.address()+`"]}}
routes: [{match: /, upstream: s, hold_body: 0B}, {match: /silent, upstream: silent}]
`)
	p := g.dial()
	p.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc")
	p.expect("HTTP/1.1 413 ")
	// A body that begins later is judged later: once this one was, the first would have been.
	judged := g.dial()
	judged.send("POST /silent HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nabc")
	judged.expect("HTTP/1.1 408 ")
	judged.Close()
	close(finish)
	if rest := p.rest(); rest[len(rest)-4:] != "nono" {
		t.Errorf("the answer ends with %q, want it whole", rest)
	}
	p.Close()
}

// limitedTo is a gateway in front of one service, with limits of its listener.
func limitedTo(s *service, limits string) string {
	return strings.Replace(oneUpstream(s.address()), `"127.0.0.1:0"`, `"127.0.0.1:0", limits: {`+limits+`}`, 1)
}

// dialNarrow connects a client whose kernel takes little in advance. Segments are small because a
// peer with a small buffer tells of room only once there is some for a whole one, and loopback's
// have 64 KB.
func (i *instance) dialNarrow() *peer {
	i.t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10)
			syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1000)
		})
	}}
	c, err := d.Dial("tcp", i.address(0))
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return &peer{Conn: c, t: i.t, r: bufio.NewReader(c)}
}

// sip reads n bytes in equal portions, one each tick, and returns what came before an error.
func sip(t *testing.T, from io.Reader, n, portions int, tick time.Duration) ([]byte, error) {
	t.Helper()
	clock := time.NewTicker(tick)
	defer clock.Stop()
	got := make([]byte, n)
	for at := 0; at < n; {
		<-clock.C
		read, err := io.ReadFull(from, got[at:min(n, at+(n+portions-1)/portions)])
		if at += read; err != nil {
			return got[:at], err
		}
	}
	return got, nil
}

func TestHazardProgressMeasuredAtTheKernelsBuffer(t *testing.T) {
	t.Parallel() // it reads over several times send_timeout
	body := noise(3 << 20)
	head := "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	for name, last := range map[string]string{"and the connection goes on": "", "as the connection's last": "Connection: close\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, answering(head+string(body)))
			g := serveClean(t, limitedTo(s, "send_timeout: 4s"))
			p := g.dialNarrow()
			p.send("GET / HTTP/1.1\r\nHost: a\r\n" + last + "\r\n")
			if r, err := http.ReadResponse(p.r, nil); err != nil || r.StatusCode != 200 {
				t.Fatalf("got %v, %v", r, err)
			}
			got, err := sip(t, p.r, len(body), 100, 100*time.Millisecond)
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("got %d of %d bytes and %v", len(got), len(body), err)
			}
			if n := g.snapshot().SlowConnections; n != 0 {
				t.Errorf("%d connections are counted as slow", n)
			}
		})
	}
}

// slowly gives bytes at a rate. One whose turn comes late gives as many more.
type slowly struct {
	rate  int // bytes a second
	began time.Time
	given int
	tick  *time.Ticker
}

func (s *slowly) Read(p []byte) (int, error) {
	for due := 0; ; {
		<-s.tick.C
		if due = int(time.Since(s.began).Seconds()*float64(s.rate)) - s.given; due > 0 {
			n := copy(p, bytes.Repeat([]byte("x"), due))
			s.given += n
			return n, nil
		}
	}
}

// short is as long as the kernel takes at once.
const short = 60 << 10

func TestHazardAClientThatTakesNothingOfAShortResponseIsCutToo(t *testing.T) {
	for name, last := range map[string]string{"and the connection goes on": "",
		"and uploads on": "Connection: close\r\nContent-Length: 10\r\n"} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, func(c *serviceConn, _ int) {
				c.head()
				c.write("HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(short) + "\r\n\r\n" + string(noise(short)))
				c.drain()
			})
			g := serve(t, streamed(limitedTo(s, "send_timeout: 100ms")))
			p := g.dialNarrow()
			p.send("POST / HTTP/1.1\r\nHost: a\r\n" + last + "\r\n")
			eventually(t, "the connection to be cut", func() bool { s := g.snapshot(); return s.SlowConnections == 1 && s.Closed == 1 })
		})
	}
}

func TestAResponseGivenUpForASlowClientDoesNotLookWhole(t *testing.T) {
	body := string(noise(2 << 20))
	for name, c := range map[string]struct {
		version, framing string
		err              error
	}{
		"of a known length":       {"1.1", "Content-Length: 2097152\r\n\r\n", io.ErrUnexpectedEOF},
		"in chunks":               {"1.1", "Connection: close\r\n\r\n", io.ErrUnexpectedEOF},
		"to the connection's end": {"1.0", "Connection: close\r\n\r\n", syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, closing("HTTP/1.1 200 OK\r\n"+c.framing+body))
			g := serveClean(t, limitedTo(s, "send_timeout: 1s"))
			p := g.dialNarrow()
			p.send("GET / HTTP/" + c.version + "\r\nHost: a\r\n\r\n")
			eventually(t, "the exchange to be cut", func() bool { return g.reasons(exchange.ClientSlow) == 1 })
			r, err := http.ReadResponse(p.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r.Body); !errors.Is(err, c.err) || len(got) >= len(body) {
				t.Errorf("the client got %d of %d bytes and %v, want %v", len(got), len(body), err, c.err)
			}
			p.Close()
		})
	}
}

func TestSlowReadersTogetherHoldLittleMemory(t *testing.T) {
	const readers = 200
	most := int64(reactor.LoopQueue + reactor.HighWater + reactor.ScratchSize + readers*3*reactor.TightWater)
	var poured atomic.Int64
	piece := strings.Repeat("0123456789abcdef", 1<<10)
	s := newService(t, func(c *serviceConn, _ int) {
		if c.head() == "" || !c.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n") {
			return
		}
		for c.write(piece) {
			poured.Add(int64(len(piece)))
		}
	})
	// On a slow machine the first would be cut.
	g := serve(t, "loops: 1"+limitedTo(s, "send_timeout: 10m"))
	for range readers {
		g.dialNarrow().send(get)
	}
	eventually(t, "the service to be asked by all", func() bool { return s.connections() == readers })
	// The service would go on for ever. When it cannot, the gateway has stopped reading.
	peak := int64(0)
	stalls(t, "what the service pours", func() int64 {
		peak = max(peak, g.buffered())
		return poured.Load()
	})
	if peak > most {
		t.Errorf("%d bytes of buffers are held for %d clients that do not read, want at most %d", peak, readers, most)
	}
}

func TestTheLeastRateCountsForAResponseThatIsOnlyWaitingToBeTaken(t *testing.T) {
	for name, last := range map[string]string{"and the connection goes on": "", "as the connection's last": "Connection: close\r\n"} {
		t.Run(name, func(t *testing.T) {
			// No more than the gateway and the kernel hold, so that the exchange is over at once.
			body := string(noise(400 << 10))
			s := newService(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 409600\r\n\r\n"+body))
			g := serveClean(t, limitedTo(s, "send_timeout: 200ms, min_body_rate: 1MB"))
			p := g.dialNarrow()
			p.send("GET / HTTP/1.1\r\nHost: a\r\n" + last + "\r\n")
			eventually(t, "the exchange to be over", func() bool { return g.snapshot().Requests == 1 })
			got, err := sip(t, p.r, len(body), 100, 20*time.Millisecond) // 200 KB a second
			if err == nil || len(got) == len(body) {
				t.Error("a client that takes its response at a fifth of the least rate got it whole")
			}
			if n := g.snapshot().SlowConnections; n != 1 {
				t.Errorf("%d connections are counted as slow, want 1", n)
			}
			p.Close()
		})
	}
}

func TestAPipelinedUploadBehindAQueuedAnswerIsNotTakenForASlowReader(t *testing.T) {
	t.Parallel() // it takes the ten seconds that a body's rate is measured over
	s := newService(t, replying(func(r *http.Request, body string) string {
		if r.Method == "GET" {
			return "HTTP/1.1 200 OK\r\nContent-Length: 307200\r\n\r\n" + string(noise(300<<10))
		}
		return "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nthat"
	}))
	silent := newService(t, func(c *serviceConn, _ int) { c.drain() })
	g := serveClean(t, `
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["`+s.address()+`"]}, silent: {targets: ["`+silent.address()+`"]}}
routes: [{match: /, upstream: s}, {match: /silent, upstream: silent}]
`)
	p := g.dialNarrow()
	p.send(get + "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n")
	eventually(t, "the first exchange to be over", func() bool { return g.snapshot().Requests == 1 })
	half := make(chan struct{})
	go func() {
		defer close(half)
		upload := &slowly{rate: 10_000, began: time.Now(), tick: time.NewTicker(10 * time.Millisecond)}
		defer upload.tick.Stop()
		io.Copy(p, io.LimitReader(upload, 100_000))
	}()
	judged := g.dial() // after the body of the first client
	judged.send("POST /silent HTTP/1.1\r\nHost: a\r\nContent-Length: 4000\r\n\r\nabc")
	judged.expect("HTTP/1.1 408 ")
	judged.Close()
	<-half
	p.send(strings.Repeat("x", 100_000))
	p.response("GET")
	if r, body := p.response("POST"); r.StatusCode != 200 || body != "that" {
		t.Errorf("the upload got %d %q", r.StatusCode, body)
	}
	p.Close()
}
