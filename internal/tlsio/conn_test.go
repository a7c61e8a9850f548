package tlsio_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"plimsoll/internal/invariant"
	"plimsoll/internal/tlsio"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is a tested connection and an ordinary one at its other end, both established.
type pair struct {
	conn *tlsio.Conn
	sock *socket
	far  *tls.Conn
	link *peer
}

// connect runs both handshakes and returns both outcomes. change may alter the socket before.
func connect(loop *tlsio.Loop, server bool, tested, other *tls.Config, change func(*socket)) (*pair, error, error) {
	sock, link := newLink()
	if change != nil {
		change(sock)
	}
	p := &pair{sock: sock, link: link}
	if server {
		p.conn, p.far = tlsio.NewServer(sock, tested, loop), tls.Client(link, other)
	} else {
		p.conn, p.far = tlsio.NewClient(sock, tested, loop), tls.Server(link, other)
	}
	sock.rx.tell, sock.wake = p.conn.Wake, p.conn.Wake
	near := make(chan error, 1)
	go func() {
		err := p.conn.Handshake()
		if err != nil {
			sock.tx.end()
		}
		near <- err
	}()
	farErr := p.far.Handshake()
	if farErr != nil {
		link.Close()
	}
	return p, <-near, farErr
}

func established(t testing.TB, loop *tlsio.Loop, server bool, tested, other *tls.Config) *pair {
	t.Helper()
	p, near, far := connect(loop, server, tested, other, nil)
	if near != nil || far != nil {
		t.Fatalf("handshake: %v here, %v there", near, far)
	}
	return p
}

// readAll reads until there is nothing more, in pieces of at most size bytes.
func readAll(c *tlsio.Conn, size int) ([]byte, error) {
	var all []byte
	buf := make([]byte, size)
	for {
		n, err := c.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil {
			return all, err
		}
	}
}

func versions(t *testing.T, f func(t *testing.T, version uint16)) {
	t.Run("1.2", func(t *testing.T) { f(t, tls.VersionTLS12) })
	t.Run("1.3", func(t *testing.T) { f(t, tls.VersionTLS13) })
}

func TestServerAndClientTalkToCryptoTLS(t *testing.T) {
	s := newSite(t)
	plain := &tls.Config{GetCertificate: s.store.GetCertificate, NextProtos: []string{"http/1.1"}}
	own, err := tlsio.ClientConfig(tlsio.ClientOptions{CA: s.ca.file}, "site.test")
	must(t, err)
	tlsio.EachMode(t, func(t *testing.T) {
		versions(t, func(t *testing.T, v uint16) {
			for _, server := range []bool{true, false} {
				tested, other := s.server, s.capped(v)
				if !server {
					tested, other = own.Clone(), plain
					tested.MaxVersion = v
				}
				p := established(t, tlsio.NewLoop(), server, tested, other)
				for _, size := range []int{1, 200, 16384, 16385, 65536, 300_000} {
					exchange(t, p, size)
				}
				want := map[uint16]string{tls.VersionTLS12: "1.2", tls.VersionTLS13: "1.3"}[v]
				st := p.conn.State()
				if st.Version != want || st.ServerName != "site.test" || st.ALPN != "http/1.1" || st.Resumed {
					t.Errorf("server=%v: state %+v", server, st)
				}
				if !server && st.Subject != "CN=site,O=Harbour" {
					t.Errorf("subject %q", st.Subject)
				}
			}
		})
	})
}

// exchange sends size bytes each way and compares them.
func exchange(t *testing.T, p *pair, size int) {
	t.Helper()
	sent := bytes.Repeat([]byte("plimsoll"), size/8+1)[:size]
	if _, err := p.far.Write(sent); err != nil {
		t.Fatal(err)
	}
	got, err := readAll(p.conn, 4096)
	if err != error(again) || !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes sent, %d read, %v", size, len(got), err)
	}
	must(t, p.conn.Write(sent))
	got = make([]byte, size)
	if _, err := io.ReadFull(p.far, got); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d bytes back: %v", size, err)
	}
}

func TestHandshakeSplitByteByByte(t *testing.T) {
	s := newSite(t)
	versions(t, func(t *testing.T, v uint16) {
		p, near, far := connect(tlsio.NewLoop(), true, s.server, s.capped(v), func(k *socket) { k.crumbs = true })
		if near != nil || far != nil {
			t.Fatal(near, far)
		}
		exchange(t, p, 200)
	})
}

func TestRecordsSplitAtEveryByte(t *testing.T) {
	s := newSite(t)
	tlsio.EachMode(t, func(t *testing.T) {
		versions(t, func(t *testing.T, v uint16) {
			p := established(t, tlsio.NewLoop(), true, s.server, s.capped(v))
			if v == tls.VersionTLS12 {
				exchange(t, p, 1)
			}
			for cut := 0; ; cut++ {
				fmt.Fprint(p.far, "first message")
				fmt.Fprint(p.far, "second")
				wire := make([]byte, 4096)
				n, _ := p.sock.rx.take(wire)
				if cut > n {
					break
				}
				p.sock.rx.put(wire[:cut])
				head, err := readAll(p.conn, 4096)
				if err != error(again) {
					t.Fatalf("cut at %d: %v", cut, err)
				}
				p.sock.rx.put(wire[cut:n])
				tail, _ := readAll(p.conn, 4096)
				if got := string(head) + string(tail); got != "first messagesecond" {
					t.Fatalf("cut at %d: %q", cut, got)
				}
			}
		})
	})
}

func TestDrainedSocketIsAskedOnce(t *testing.T) {
	s := newSite(t)
	p := established(t, tlsio.NewLoop(), true, s.server, s.client)
	fmt.Fprint(p.far, "a request")
	p.sock.reads = 0
	buf := make([]byte, 4096)
	if n, err := p.conn.Read(buf); n != 9 || err != nil || p.sock.reads != 1 {
		t.Fatalf("%d bytes, %v, after %d calls", n, err, p.sock.reads)
	}
	if n, err := p.conn.Read(buf); n != 0 || err != error(again) || p.sock.reads != 2 {
		t.Fatalf("%d bytes, %v, after %d calls", n, err, p.sock.reads)
	}
}

func TestOneWriteIsOneSocketWrite(t *testing.T) {
	s := newSite(t)
	p := established(t, tlsio.NewLoop(), true, s.server, s.client)
	for size, want := range map[int]int{0: 0, 1: 1, 16384: 1, 16385: 1, 65536: 1, 65537: 2, 200_000: 4} {
		p.sock.writes = 0
		must(t, p.conn.Write(make([]byte, size)))
		if p.sock.writes != want {
			t.Errorf("%d bytes in %d writes, want %d", size, p.sock.writes, want)
		}
	}
}

func TestPlaintextLeftInsideIsSafeFromOtherConnections(t *testing.T) {
	s, loop := newSite(t), tlsio.NewLoop()
	var all []*pair
	for i := range 8 {
		p := established(t, loop, true, s.server, s.client)
		readAll(p.conn, 100)
		fmt.Fprint(p.far, strings.Repeat(string(rune('a'+i)), 5000))
		all = append(all, p)
	}
	got := make([]strings.Builder, len(all))
	buf := make([]byte, 997)
	for got[0].Len() < 5000 {
		for i, p := range all {
			n, err := p.conn.Read(buf)
			must(t, err)
			got[i].Write(buf[:n])
			if inside := got[i].Len() < 5000; p.conn.Buffered() != inside {
				t.Fatalf("connection %d, %d of 5000 bytes read, Buffered is %v", i, got[i].Len(), !inside)
			}
		}
	}
	for i := range all {
		if want := strings.Repeat(string(rune('a'+i)), 5000); got[i].String() != want {
			t.Errorf("connection %d read something else than was sent to it", i)
		}
	}
	if loop.BuffersOut() != 0 {
		t.Errorf("%d buffers out after everything was read", loop.BuffersOut())
	}
}

func TestPartialRecordsHoldTheirBufferUntilReleased(t *testing.T) {
	s, loop := newSite(t), tlsio.NewLoop()
	p := established(t, loop, true, s.server, s.client)
	p.sock.rx.put([]byte{23, 3, 3, 1, 0, 'x'})
	if _, err := readAll(p.conn, 100); err != error(again) || p.conn.Buffered() {
		t.Fatal(err)
	}
	if loop.BuffersOut() != 1 {
		t.Fatalf("%d buffers out with a partial record", loop.BuffersOut())
	}
	p.conn.Release()
	p.conn.Release()
	if loop.BuffersOut() != 0 {
		t.Fatalf("%d buffers out after the release", loop.BuffersOut())
	}
	if _, err := p.conn.Read(make([]byte, 1)); err == nil || err == error(again) {
		t.Fatalf("read after release: %v", err)
	}
}

func TestOrderlyEndDiffersFromATruncatedOne(t *testing.T) {
	s := newSite(t)
	ends := map[string]struct {
		end  func(p *pair)
		want error
	}{
		"close_notify":                 {func(p *pair) { p.far.CloseWrite() }, io.EOF},
		"close_notify, then the end":   {func(p *pair) { p.far.CloseWrite(); p.link.Close() }, io.EOF},
		"the end without close_notify": {func(p *pair) { p.link.Close() }, io.ErrUnexpectedEOF},
		"the end within a header":      {func(p *pair) { p.sock.rx.put([]byte{23, 3}); p.link.Close() }, io.ErrUnexpectedEOF},
		"the end within a record":      {func(p *pair) { p.sock.rx.put([]byte{23, 3, 3, 0, 99, 1}); p.link.Close() }, io.ErrUnexpectedEOF},
		"a reset":                      {func(p *pair) { p.sock.fail = syscall.ECONNRESET }, syscall.ECONNRESET},
		// ETIMEDOUT calls itself temporary.
		"a dead path": {func(p *pair) { p.sock.fail = syscall.ETIMEDOUT }, syscall.ETIMEDOUT},
	}
	tlsio.EachMode(t, func(t *testing.T) {
		for name, c := range ends {
			for _, before := range []string{"", "last words"} {
				loop := tlsio.NewLoop()
				p := established(t, loop, true, s.server, s.client)
				fmt.Fprint(p.far, before)
				if strings.HasPrefix(name, "a ") {
					readAll(p.conn, 100)
					before = ""
				}
				c.end(p)
				got, err := readAll(p.conn, 100)
				if string(got) != before || err != c.want {
					t.Errorf("%s: read %q, %v", name, got, err)
				}
				if _, err := p.conn.Read(make([]byte, 9)); err != c.want || !p.conn.Buffered() || loop.BuffersOut() != 0 {
					t.Errorf("%s: the second time %v, %d buffers out", name, err, loop.BuffersOut())
				}
			}
		}
	})
}

func TestHalfCloseLeavesReading(t *testing.T) {
	s := newSite(t)
	p := established(t, tlsio.NewLoop(), true, s.server, s.client)
	must(t, p.conn.Write([]byte("bye")))
	must(t, p.conn.CloseWrite())
	if got, err := io.ReadAll(p.far); string(got) != "bye" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if p.conn.Write([]byte("more")) == nil {
		t.Fatal("wrote after CloseWrite")
	}
	fmt.Fprint(p.far, "still here")
	if got, err := readAll(p.conn, 100); string(got) != "still here" || err != error(again) {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestBadRecordsEndTheConnection(t *testing.T) {
	s := newSite(t)
	bad := map[string][]byte{
		"forged":       append([]byte{23, 3, 3, 0, 40}, make([]byte, 40)...),
		"too long":     {23, 3, 3, 0xff, 0xff},
		"of no type":   append([]byte{99, 3, 3, 0, 40}, make([]byte, 40)...),
		"plain alert":  {21, 3, 3, 0, 2, 2, 40},
		"http":         []byte("GET / HTTP/1.1\r\nHost: site.test\r\n\r\n"),
		"wrong record": append([]byte{23, 3, 9, 0, 40}, make([]byte, 40)...),
	}
	tlsio.EachMode(t, func(t *testing.T) {
		for name, wire := range bad {
			loop := tlsio.NewLoop()
			p := established(t, loop, true, s.server, s.client)
			p.sock.keep = true
			p.sock.rx.put(wire)
			_, err := readAll(p.conn, 100)
			if err == error(again) || err == io.EOF {
				t.Errorf("%s: %v", name, err)
			}
			if len(p.sock.last) == 0 {
				t.Errorf("%s: the peer was told nothing", name)
			}
			if p.conn.Write([]byte("x")) == nil || loop.BuffersOut() != 0 {
				t.Errorf("%s: the connection goes on, %d buffers out", name, loop.BuffersOut())
			}
		}
	})
}

func TestFailedSocketFailsWrites(t *testing.T) {
	s := newSite(t)
	for _, size := range []int{10, 100_000} {
		p := established(t, tlsio.NewLoop(), true, s.server, s.client)
		p.sock.fail = syscall.EPIPE
		if err := p.conn.Write(make([]byte, size)); err != syscall.EPIPE {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestRefusedHandshakesSayWhy(t *testing.T) {
	s := newSite(t)
	stranger := newAuthority(t)
	own, err := tlsio.ClientConfig(tlsio.ClientOptions{CA: stranger.file}, "site.test")
	must(t, err)
	plain := &tls.Config{GetCertificate: s.store.GetCertificate}
	_, near, far := connect(tlsio.NewLoop(), false, own, plain, nil)
	var unverified *tls.CertificateVerificationError
	if !errors.As(near, &unverified) || far == nil || !strings.Contains(far.Error(), "bad certificate") {
		t.Errorf("a server of an unknown authority: %v here, %v there", near, far)
	}
	h2 := s.client.Clone()
	h2.NextProtos = []string{"h2"}
	if _, near, far := connect(tlsio.NewLoop(), true, s.server, h2, nil); near == nil || far == nil {
		t.Error("a client that only speaks h2 was accepted")
	}
	old := s.capped(tls.VersionTLS12)
	modern := s.config(t, tlsio.ServerOptions{MinVersion: "1.3"})
	if _, near, far := connect(tlsio.NewLoop(), true, modern, old, nil); near == nil || far == nil {
		t.Error("a TLS 1.2 client was accepted by a 1.3 listener")
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	s := newSite(t)
	versions(t, func(t *testing.T, v uint16) {
		p := established(t, tlsio.NewLoop(), true, s.server, s.capped(v))
		request, response, buf := make([]byte, 200), make([]byte, 200), make([]byte, 4096)
		read := func() {
			if n, err := p.conn.Read(buf); n != 200 || err != nil {
				t.Fatal(n, err)
			}
			if n, err := p.conn.Read(buf); n != 0 || err != error(again) {
				t.Fatal(n, err)
			}
		}
		wire := make([]byte, 0, 1<<20)
		for range 300 {
			p.far.Write(request)
		}
		wire = wire[:cap(wire)]
		n, _ := p.sock.rx.take(wire)
		wire = wire[:n]
		one := n / 300
		receive := func() {
			p.sock.rx.put(wire[:one])
			wire = wire[one:]
			read()
		}
		send := func() {
			must(t, p.conn.Write(response))
			p.link.rx.take(buf)
		}
		receive()
		send()
		if a := testing.AllocsPerRun(100, receive); a != 0 {
			t.Errorf("%v allocations for a request and a drained read", a)
		}
		// crypto/tls encrypts into a buffer of a sync.Pool, which forgets some on purpose under the
		// race detector.
		if a := testing.AllocsPerRun(100, send); a != 0 && !invariant.On {
			t.Errorf("%v allocations for a response", a)
		}
	})
}

func BenchmarkTurn(b *testing.B) {
	s := newSite(b)
	p := established(b, tlsio.NewLoop(), true, s.server, s.client)
	buf, message := make([]byte, 4096), make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		p.far.Write(message)
		p.conn.Read(buf)
		p.conn.Read(buf)
		p.conn.Write(message)
		p.link.rx.take(buf)
	}
}
