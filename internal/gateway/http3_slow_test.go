package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"plimsoll/internal/exchange"
	codec "plimsoll/internal/http3"
)

// limitedH3 runs a gateway whose first listener has limits.
func limitedH3(t *testing.T, limits, yaml string) *bed {
	t.Helper()
	return serveH3(t, strings.Replace(yaml, `"127.0.0.1:0"`, `"127.0.0.1:0", limits: {`+limits+`}`, 1))
}

func TestASlowHeadOverHTTP3IsAnswered(t *testing.T) {
	t.Parallel()
	b := limitedH3(t, "head_timeout: 50ms", oneUpstream(untouched(t).address()))
	c := b.h3()
	st := c.stream().say(false, frame(codec.Headers, section(c.request("GET", "/")...))[:5])
	st.answer()
	if st.status != 408 || !strings.Contains(string(st.body), "head_timeout") {
		t.Errorf("got %d %q", st.status, st.body)
	}
}

func TestASlowBodyOverHTTP3IsAnswered(t *testing.T) {
	t.Parallel()
	b := limitedH3(t, "min_body_rate: 0B", strings.Replace(oneUpstream(untouched(t).address()), "match: /",
		"match: /, timeout: 100ms", 1))
	c := b.h3()
	st := c.stream().say(false, frame(codec.Headers, section(c.request("POST", "/")...)), frame(codec.Data, "x"))
	st.answer()
	if st.status != 408 {
		t.Errorf("got %d %q", st.status, st.body)
	}
	// The client is told to send no more.
	if _, err := st.Write(make([]byte, 1<<20)); err == nil {
		t.Error("the rest of the body is still taken")
	}
}

// What a client does not take of a response is not read from the service, and one that takes
// nothing for long enough is given up. Other streams of its connection go on.
func TestASlowClientOfHTTP3IsHeldBackAndGivenUp(t *testing.T) {
	t.Parallel()
	sent := make(chan int64, 1)
	s := newService(t, func(c *serviceConn, _ int) {
		for {
			head := c.head()
			if head == "" {
				return
			}
			if !strings.Contains(head, "GET /large") {
				c.write(simple)
				continue
			}
			c.write("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
			n, err := io.CopyN(c, zeros{}, 100_000_000)
			if err != nil {
				sent <- n
				return
			}
		}
	})
	b := limitedH3(t, "send_timeout: 200ms", oneUpstream(s.address()))
	t.Cleanup(b.settled)
	c := b.dialH3(b.tls(), &quic.Config{InitialStreamReceiveWindow: 50_000, MaxStreamReceiveWindow: 50_000})
	c.greet()
	st := c.get("/large")
	if err := st.frame(); err != nil || st.status != 200 {
		t.Fatalf("%d, %v", st.status, err)
	}
	if n := <-sent; n > 20_000_000 {
		t.Errorf("%d bytes were read from the service for a client that takes 50000", n)
	}
	if _, err := io.Copy(io.Discard, st); err == nil {
		t.Error("a response that was cut off came to its end")
	}
	c.get("/").answer()
	if b.snapshot().SlowStreams3 != 1 || b.reasons(exchange.ClientSlow) != 1 {
		t.Errorf("%d slow streams", b.snapshot().SlowStreams3)
	}
}

// A client that takes a long response slowly, but fast enough, gets all of it.
func TestAPatientClientOfHTTP3GetsAllOfALongResponse(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *serviceConn, _ int) {
		for c.head() != "" {
			c.write("HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n")
			io.CopyN(c, zeros{}, 3_000_000)
		}
	})
	b := limitedH3(t, "send_timeout: 5s", oneUpstream(s.address()))
	c := b.dialH3(b.tls(), &quic.Config{InitialStreamReceiveWindow: 30_000, MaxStreamReceiveWindow: 30_000})
	c.greet()
	var streams []*h3stream
	for range 4 {
		streams = append(streams, c.get("/"))
	}
	var all sync.WaitGroup
	for _, st := range streams {
		all.Go(func() {
			if err := st.read(); err != nil || len(st.body) != 3_000_000 {
				t.Errorf("%d bytes came, %v", len(st.body), err)
			}
		})
	}
	all.Wait()
}

// A client that takes what waits for it slowly is not its service's silence, however much of that it has
// taken when the service's time is over.
func TestASlowClientOfHTTP3IsNotItsServicesSilence(t *testing.T) {
	t.Parallel()
	const all = 1_000_000
	s := newService(t, func(c *serviceConn, _ int) {
		if strings.Contains(c.head(), "GET /silent") {
			c.write("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n")
			c.drain()
			return
		}
		c.write("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
		io.CopyN(c, zeros{}, all)
	})
	b := limitedH3(t, "send_timeout: 10m",
		strings.Replace(oneUpstream(s.address()), "match: /", "match: /, stream_timeout: 200ms", 1))
	c := b.dialH3(b.tls(), &quic.Config{InitialStreamReceiveWindow: 30_000, MaxStreamReceiveWindow: 30_000})
	c.greet()
	st := c.get("/")
	taken := int64(0)
	eventually(t, "less waits than may, and too much to read on", func() bool {
		held := b.shared.HTTP3Held.Load()
		right := held > 34<<10 && held < 60<<10
		if !right { // it may come to rest with too little, which is too much to read on, too
			n, _ := io.CopyN(io.Discard, st, 4000)
			taken += n
		}
		return right
	})
	if err := b.h3().get("/silent").read(); err == nil {
		t.Error("a response came to its end whose service was silent in the middle")
	}
	if rest, err := io.Copy(io.Discard, st); err != nil || taken+rest < all {
		t.Errorf("%d bytes came, %v", taken+rest, err)
	}
}

// What still waits for a client when its WebSocket has ended is judged as any other response is.
func TestAClientOfHTTP3ThatDoesNotTakeTheEndOfItsWebSocketIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *serviceConn, _ int) {
		c.request()
		c.write(wasSwitched + unmasked(0x82, strings.Repeat("x", 9000)))
		c.drain()
	})
	b := limitedH3(t, "send_timeout: 100ms", strings.Replace(oneUpstream(s.address()), "match: /",
		"match: /, websocket: {lifetime: 50ms, close_grace: 10ms}", 1))
	c := b.dialH3(b.tls(), &quic.Config{InitialStreamReceiveWindow: 1000, MaxStreamReceiveWindow: 1000})
	c.greet()
	fields := append([]string{":protocol", "websocket"}, c.request("CONNECT", "/")...)
	c.stream().say(false, frame(codec.Headers, section(fields...)))
	eventually(t, "the stream is reset", func() bool { return b.snapshot().SlowStreams3 == 1 })
	if held := b.shared.HTTP3Held.Load(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// Exchanges over HTTP/3 that only wait for their clients give their connections up as others do.
func TestSlowClientsOfHTTP3DoNotKeepAPoolFromOthers(t *testing.T) {
	t.Parallel() // it waits for the second after which connections are reclaimed
	const pool = 4
	for name, ask := range map[string]func(*h3){
		"uploads": func(c *h3) {
			head := section(c.request("POST", "/up", "content-length", "100000")...)
			c.stream().say(false, frame(codec.Headers, head), frame(codec.Data, "abc"))
		},
		"readers": func(c *h3) { c.get("/pour") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pour := pouring(nil)
			s := newService(t, func(c *serviceConn, n int) {
				switch head, _ := c.R.Peek(6); string(head) {
				case "POST /":
					c.drain()
				case "GET /p":
					pour(c, n)
				default:
					answering(okResponse)(c, n)
				}
			})
			b := serveH3(t, streamed(fmt.Sprintf(`
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: ["%s"], pool: {max_connections: %d}}}
routes: [{match: /, upstream: s}]
`, s.address(), pool)))
			slow := b.h3From("127.0.0.2")
			for range 2 * pool { // as many use the pool as it has connections, and as many wait
				ask(slow)
			}
			eventually(t, "the pool to be full", func() bool { return b.waiting("s") == pool })
			st := b.h3From("127.0.0.3").get("/")
			if st.answer(); st.status != 200 {
				t.Errorf("a client of another address got %d", st.status)
			}
			if b.stats("s").Reclaimed == 0 {
				t.Error("no connection is counted as reclaimed")
			}
		})
	}
}

// The service is not sent more than it takes: the client's windows hold the rest back.
func TestASlowServiceHoldsAClientOfHTTP3Back(t *testing.T) {
	t.Parallel()
	reads := make(chan bool)
	s := newService(t, func(c *serviceConn, _ int) {
		c.head()
		<-reads
		io.CopyN(io.Discard, c.R, 16_000_000)
		c.write(simple)
	})
	b := limitedH3(t, "", oneUpstream(s.address()))
	c := b.h3()
	st := c.stream().say(false, frame(codec.Headers, section(c.request("POST", "/", "content-length", "16000000")...)))
	st.Write([]byte("\x00\x80\xf4\x24\x00")) // a frame of 16000000 bytes
	body, n := make([]byte, 16_000_000), 0
	for went := 1; went > 0 && n < len(body); n += went { // until nothing goes for a while
		st.SetWriteDeadline(time.Now().Add(700 * time.Millisecond))
		went, _ = st.Write(body[n:])
	}
	if n > 12_000_000 {
		t.Errorf("%d bytes went", n)
	}
	close(reads)
	st.SetWriteDeadline(time.Now().Add(patience))
	st.Write(body[n:])
	st.Close()
	st.answer()
	if st.status != 200 {
		t.Errorf("got %d %q", st.status, st.body)
	}
}

func TestConnectionsOfHTTP3AreBounded(t *testing.T) {
	t.Parallel()
	s := newService(t, answering(simple))
	b := limitedH3(t, "max_connections: 1", oneUpstream(s.address()))
	first := b.h3()
	first.get("/").answer()
	second := b.dialH3(b.tls(), nil)
	if code := second.endedBy(); code != uint64(codec.ExcessiveLoad) {
		t.Errorf("one too many ended with %#x", code)
	}
	if n := b.snapshot().RefusedConnections[1]; n != 1 {
		t.Errorf("%v were refused", b.snapshot().RefusedConnections)
	}
	first.get("/").answer()
	first.CloseWithError(0x100, "")
	eventually(t, "there is room again", func() bool { return b.shared.Clients.Load() == 0 })
	b.h3().get("/").answer()
}

func TestStreamsOfHTTP3AreBounded(t *testing.T) {
	t.Parallel()
	held := newGate(t)
	s := newService(t, held.script)
	b := limitedH3(t, "", oneUpstream(s.address()))
	c := b.h3()
	for range 100 {
		c.get("/")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.OpenStreamSync(ctx); err == nil {
		t.Error("a 101st request may begin")
	}
	eventually(t, "all are under way", func() bool { return b.snapshot().Active == 100 })
}

// Clients whose address nobody has seen must show it, once many handshakes are under way.
func TestClientsOfHTTP3ShowTheirAddressUnderLoad(t *testing.T) {
	t.Parallel()
	s := newService(t, answering(simple))
	ca := newAuthority(t)
	cert := ca.issue(t, "a")
	yaml := strings.Replace(withH3(oneUpstream(s.address()), cert), "tls: {", "tls: {max_handshakes: 2, handshake_timeout: 2s, ", 1)
	b := &bed{serve(t, yaml), ca}
	l := b.listeners[b.config.Listeners[0].Address]
	// Three that say hello and then nothing more: their handshakes stay open.
	for range 3 {
		half := &quic.Transport{Conn: &mute{PacketConn: udpOn(t, "127.0.0.1"), after: 1}}
		t.Cleanup(func() { half.Close() })
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		t.Cleanup(cancel)
		go half.Dial(ctx, dialAddr(t, b.address(0)), b.tls(), nil)
		eventually(t, "its handshake is under way, or it was asked", func() bool {
			st := l.quic.Stats()
			return st.Handshakes > 0 && st.Handshakes+int64(st.Retries) > 0
		})
	}
	eventually(t, "clients are asked for a token", func() bool { return l.quic.Stats().Retries > 0 })
	b.h3().get("/").answer()
	eventually(t, "the handshakes of those that say nothing end", func() bool {
		st := l.quic.Stats()
		return st.Handshakes == 0 && st.Failed > 0
	})
	b.h3().get("/").answer()
}

// mute sends some packets, and then loses all.
type mute struct {
	net.PacketConn
	after int
	mu    sync.Mutex
}

func (m *mute) WriteTo(p []byte, to net.Addr) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.after--; m.after < 0 {
		return len(p), nil
	}
	return m.PacketConn.WriteTo(p, to)
}
