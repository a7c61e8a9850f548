package gateway

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	codec "plimsoll/internal/http2"
)

// h2 is a raw client's connection of HTTP/2. It sends what a test tells it to, whatever the rules
// say, and takes down what comes. Of itself it acknowledges SETTINGS and PING, and opens its
// windows for all that comes unless it is thrifty. One goroutine reads and one writes, so that
// neither waits for the other.
type h2 struct {
	net.Conn
	t      *testing.T
	scheme string
	wake   chan struct{} // there is something to write
	closed chan struct{}

	writing sync.Mutex // of what follows
	out     bytes.Buffer
	keeping bool // nothing of it goes out now
	framer  *http2.Framer
	encoder *hpack.Encoder
	greeted bool // it said what it must say first; before, it answers nothing
	block   bytes.Buffer
	next    uint32

	mu       sync.Mutex // of what follows
	changed  chan struct{}
	streams  map[uint32]*h2stream
	goAways  []h2GoAway
	settings map[http2.SettingID]uint32
	taken    uint32 // what came since the window was opened
	window   int    // what may be sent
	initial  int    // the window that streams begin with
	acks     int    // of SETTINGS
	pongs    int
	thrifty  bool
	err      error // the connection's end; io.EOF for an orderly one
}

type h2GoAway struct {
	last  uint32
	code  http2.ErrCode
	debug string
}

// h2stream is what came on a stream. The client's lock guards it.
type h2stream struct {
	c        *h2
	id       uint32
	taken    uint32 // what came since the window was opened
	window   int    // what may be sent
	interims []int
	hints    []http.Header // their fields
	status   int
	fields   http.Header
	body     []byte
	trailers http.Header
	ended    bool
	reset    bool
	code     http2.ErrCode
}

// withH2 makes the first listener of a configuration offer HTTP/2.
func withH2(yaml string) string {
	return strings.Replace(yaml, `"127.0.0.1:0"`, `"127.0.0.1:0", http2: true`, 1)
}

// h2Upstream is oneUpstream on one loop, with HTTP/2 and limits of the listener.
func h2Upstream(address, limits string) string {
	return "loops: 1" + strings.Replace(withH2(oneUpstream(address)), "http2: true",
		"http2: true, limits: {"+limits+"}", 1)
}

// h2 connects a client of HTTP/2 with prior knowledge, which says what a client must say first.
func (i *instance) h2(settings ...http2.Setting) *h2 {
	i.t.Helper()
	c := newH2(i.t, i.dial().Conn, "http")
	c.greet(settings...)
	return c
}

// thriftyH2 connects one that opens no windows, and whose streams' windows begin with so many
// bytes.
func (i *instance) thriftyH2(window uint32) *h2 {
	i.t.Helper()
	c := newH2(i.t, i.dial().Conn, "http")
	c.thrifty = true
	c.greet(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	return c
}

// h2TLS connects a client of HTTP/2 over TLS.
func (i *instance) h2TLS(ca *authority) *h2 {
	i.t.Helper()
	p := i.mustDialTLS(&tls.Config{RootCAs: ca.pool, ServerName: "a", NextProtos: []string{"h2"}})
	if got := p.state().NegotiatedProtocol; got != "h2" {
		i.t.Fatalf("ALPN gave %q", got)
	}
	c := newH2(i.t, p.Conn, "https")
	c.greet()
	return c
}

// newH2 begins to read and write on a connection. Nothing is said of itself.
func newH2(t *testing.T, conn net.Conn, scheme string) *h2 {
	c := &h2{
		Conn: conn, t: t, scheme: scheme, wake: make(chan struct{}, 1), closed: make(chan struct{}),
		next: 1, changed: make(chan struct{}), streams: map[uint32]*h2stream{},
		settings: map[http2.SettingID]uint32{}, window: 65535, initial: 65535,
	}
	c.framer = http2.NewFramer(&c.out, conn)
	c.framer.AllowIllegalWrites = true
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.block)
	var both sync.WaitGroup
	both.Go(c.write)
	both.Go(c.read)
	t.Cleanup(func() {
		c.leave()
		both.Wait()
	})
	return c
}

// leave closes the connection.
func (c *h2) leave() {
	c.writing.Lock()
	defer c.writing.Unlock()
	select {
	case <-c.closed:
	default:
		close(c.closed)
		c.Close()
	}
}

// greet says the preface and SETTINGS.
func (c *h2) greet(settings ...http2.Setting) {
	c.send(func(f *http2.Framer) {
		c.greeted = true
		c.out.WriteString(codec.Preface)
		f.WriteSettings(settings...)
	})
}

// send has f write frames, which go out together.
func (c *h2) send(f func(*http2.Framer)) {
	c.writing.Lock()
	f(c.framer)
	c.writing.Unlock()
	c.awake()
}

// reply is send of what the client says of itself.
func (c *h2) reply(f func(*http2.Framer)) {
	c.send(func(w *http2.Framer) {
		if c.greeted {
			f(w)
		}
	})
}

// now is send that comes back when the kernel has the frames.
func (c *h2) now(f func(*http2.Framer)) {
	c.writing.Lock()
	defer c.writing.Unlock()
	f(c.framer)
	c.Conn.Write(c.out.Bytes())
	c.out.Reset()
}

// together has all that f sends go out at once, so that the gateway gets it in one piece.
func (c *h2) together(f func()) {
	c.keep(true)
	f()
	c.keep(false)
	c.awake()
}

func (c *h2) keep(all bool) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.keeping = all
}

// raw sends bytes.
func (c *h2) raw(bytes string) {
	c.writing.Lock()
	c.out.WriteString(bytes)
	c.writing.Unlock()
	c.awake()
}

func (c *h2) awake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write writes what was sent until the connection ends.
func (c *h2) write() {
	for {
		select {
		case <-c.wake:
		case <-c.closed:
			return
		}
		c.writing.Lock()
		var p []byte
		if !c.keeping {
			p = bytes.Clone(c.out.Bytes())
			c.out.Reset()
		}
		c.writing.Unlock()
		if _, err := c.Conn.Write(p); err != nil {
			return // read is told too
		}
	}
}

// read takes down what comes until the connection ends.
func (c *h2) read() {
	for {
		f, err := c.framer.ReadFrame()
		c.mu.Lock()
		if err != nil {
			c.err = err
		} else {
			c.take(f)
		}
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// take takes one frame down, and answers those that want an answer.
func (c *h2) take(frame http2.Frame) {
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		c.takeSettings(f)
	case *http2.PingFrame:
		if f.IsAck() {
			c.pongs++
			return
		}
		data := f.Data
		c.reply(func(w *http2.Framer) { w.WritePing(true, data) })
	case *http2.GoAwayFrame:
		c.goAways = append(c.goAways, h2GoAway{f.LastStreamID, f.ErrCode, string(f.DebugData())})
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			c.window += int(f.Increment)
		} else if st := c.streams[f.StreamID]; st != nil {
			st.window += int(f.Increment)
		}
	case *http2.RSTStreamFrame:
		if st := c.streams[f.StreamID]; st != nil {
			st.reset, st.code = true, f.ErrCode
		}
	case *http2.MetaHeadersFrame:
		if st := c.streams[f.StreamID]; st != nil {
			st.takeFields(f)
		}
	case *http2.DataFrame:
		c.takeData(f)
	}
}

func (c *h2) takeSettings(f *http2.SettingsFrame) {
	if f.IsAck() {
		c.acks++
		return
	}
	f.ForeachSetting(func(s http2.Setting) error {
		c.settings[s.ID] = s.Val
		if s.ID == http2.SettingInitialWindowSize {
			for _, st := range c.streams {
				st.window += int(s.Val) - c.initial
			}
			c.initial = int(s.Val)
		}
		return nil
	})
	c.reply(func(w *http2.Framer) { w.WriteSettingsAck() })
}

func (c *h2) takeData(f *http2.DataFrame) {
	st := c.streams[f.StreamID]
	if st == nil {
		return
	}
	st.body = append(st.body, f.Data()...)
	st.ended = f.StreamEnded()
	if c.thrifty {
		return
	}
	if c.taken += f.Length; c.taken >= 32<<10 {
		c.reply(func(w *http2.Framer) { w.WriteWindowUpdate(0, c.taken) })
		c.taken = 0
	}
	if st.taken += f.Length; st.taken >= 32<<10 && !st.ended {
		st.allow(st.taken)
		st.taken = 0
	}
}

func (st *h2stream) takeFields(f *http2.MetaHeadersFrame) {
	fields := http.Header{}
	for _, field := range f.RegularFields() {
		fields.Add(field.Name, field.Value)
	}
	st.ended = f.StreamEnded()
	if st.status != 0 {
		st.trailers = fields
		return
	}
	status := 0
	fmt.Sscan(f.PseudoValue("status"), &status)
	if status < 200 {
		st.interims, st.hints = append(st.interims, status), append(st.hints, fields)
		return
	}
	st.status, st.fields = status, fields
}

// wait waits until what came makes a condition true. It is asked under the lock.
func (c *h2) wait(what string, holds func() bool) {
	c.t.Helper()
	deadline := time.After(patience)
	for {
		c.mu.Lock()
		ok, changed, err, away := holds(), c.changed, c.err, slices.Clone(c.goAways)
		c.mu.Unlock()
		switch {
		case ok:
			return
		case err != nil:
			c.t.Fatalf("waited for %s, and the connection ended with %v after %v", what, err, away)
		}
		select {
		case <-changed:
		case <-deadline:
			c.t.Fatalf("timed out waiting for %s; GOAWAY: %v", what, away)
		}
	}
}

// stream makes the client know a stream, whose frames the test sends itself; 0 is the next one.
func (c *h2) stream(id uint32) *h2stream {
	c.writing.Lock()
	if id == 0 {
		id = c.next
	}
	c.next = max(c.next, id+2)
	c.writing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	st := &h2stream{c: c, id: id, window: c.initial}
	c.streams[id] = st
	return st
}

// encode makes a field block of names and values. Blocks must be sent in the order in which they
// are made.
func (c *h2) encode(fields ...string) []byte {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		c.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(c.block.Bytes())
}

// headers sends a field block, in as many frames as it needs.
func (st *h2stream) headers(block []byte, end bool) {
	const most = 16 << 10
	st.c.send(func(f *http2.Framer) {
		first := block[:min(len(block), most)]
		rest := block[len(first):]
		f.WriteHeaders(http2.HeadersFrameParam{
			StreamID: st.id, BlockFragment: first, EndStream: end, EndHeaders: len(rest) == 0,
		})
		for len(rest) > 0 {
			n := min(len(rest), most)
			f.WriteContinuation(st.id, n == len(rest), rest[:n])
			rest = rest[n:]
		}
	})
}

// request is a request's pseudo-fields, with further fields.
func (c *h2) request(method, path string, more ...string) []string {
	return append([]string{
		":method", method, ":scheme", c.scheme, ":authority", "a", ":path", path,
	}, more...)
}

// open sends the head of a request whose body follows.
func (c *h2) open(method, path string, more ...string) *h2stream {
	st := c.stream(0)
	st.headers(c.encode(c.request(method, path, more...)...), false)
	return st
}

// ask sends a request without a body.
func (c *h2) ask(method, path string, more ...string) *h2stream {
	st := c.stream(0)
	st.headers(c.encode(c.request(method, path, more...)...), true)
	return st
}

// data sends one frame of data, whatever the windows say.
func (st *h2stream) data(data string, end bool) {
	c := st.c
	c.mu.Lock()
	st.window -= len(data)
	c.window -= len(data)
	c.mu.Unlock()
	c.send(func(f *http2.Framer) { f.WriteData(st.id, end, []byte(data)) })
}

// upload sends data as the windows let it, in frames of a size; it says whether all was sent before
// the stream or the connection ended.
func (st *h2stream) upload(data []byte, frame int, end bool) bool {
	c := st.c
	for len(data) > 0 {
		n := 0
		c.mu.Lock()
		for n = min(len(data), frame, st.window, c.window); n <= 0; {
			changed, over := c.changed, st.reset || st.ended || c.err != nil
			c.mu.Unlock()
			if over {
				return false
			}
			<-changed
			c.mu.Lock()
			n = min(len(data), frame, st.window, c.window)
		}
		c.mu.Unlock()
		st.data(string(data[:n]), end && n == len(data))
		data = data[n:]
	}
	return true
}

// close resets the stream.
func (st *h2stream) close(code http2.ErrCode) {
	st.c.send(func(f *http2.Framer) { f.WriteRSTStream(st.id, code) })
}

// allow opens the stream's window.
func (st *h2stream) allow(n uint32) {
	st.c.send(func(f *http2.Framer) { f.WriteWindowUpdate(st.id, n) })
}

// answer waits for the whole response.
func (st *h2stream) answer() (status int, body string) {
	st.c.t.Helper()
	st.c.wait(fmt.Sprintf("the answer on stream %d", st.id),
		func() bool { return st.ended || st.reset })
	if !st.ended {
		st.c.t.Fatalf("stream %d was reset with %v", st.id, st.code)
	}
	return st.status, string(st.body)
}

// expect waits for the whole response, which must be this one.
func (st *h2stream) expect(status int, body string) {
	st.c.t.Helper()
	if s, b := st.answer(); s != status || b != body {
		st.c.t.Errorf("stream %d got %d %.200q, want %d %.200q", st.id, s, b, status, body)
	}
}

// expectReset waits until the gateway resets the stream.
func (st *h2stream) expectReset(code http2.ErrCode) {
	st.c.t.Helper()
	st.c.wait(fmt.Sprintf("stream %d to be reset", st.id), func() bool { return st.reset })
	if st.code != code {
		st.c.t.Errorf("stream %d was reset with %v, want %v", st.id, st.code, code)
	}
}

// expectGoAway waits for the last GOAWAY and the connection's orderly end.
func (c *h2) expectGoAway(code http2.ErrCode) h2GoAway {
	c.t.Helper()
	c.expectOver()
	if len(c.goAways) == 0 {
		c.t.Fatalf("the connection ended with %v and no GOAWAY", c.err)
	}
	last := c.goAways[len(c.goAways)-1]
	if last.code != code {
		c.t.Errorf("GOAWAY says %v (%s), want %v", last.code, last.debug, code)
	}
	return last
}

// expectOver waits for the connection's orderly end.
func (c *h2) expectOver() {
	c.t.Helper()
	c.wait("the connection's end", func() bool { return c.err != nil })
	if c.err != io.EOF {
		c.t.Errorf("the connection ended with %v, want its orderly end", c.err)
	}
}

// served waits until the gateway has dealt with all that was sent: it answers a PING behind it.
func (c *h2) served() {
	c.t.Helper()
	c.mu.Lock()
	before := c.pongs
	c.mu.Unlock()
	c.send(func(f *http2.Framer) { f.WritePing(false, [8]byte{1}) })
	c.wait("the answer to a PING", func() bool { return c.pongs > before })
}

// got is how much of the response's body has come.
func (st *h2stream) got() int {
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	return len(st.body)
}

// refusedH2 is how often clients of HTTP/2 were refused for a reason.
func (i *instance) refusedH2(why codec.Reason) uint64 { return i.snapshot().RefusedHTTP2[why] }

// expectRefusedH2 waits until refusals are counted, so many, and for no other reason.
func (i *instance) expectRefusedH2(why codec.Reason, n uint64) {
	i.t.Helper()
	eventually(i.t, fmt.Sprintf("%d refusals for %v", n, why), func() bool {
		return i.refusedH2(why) == n
	})
	for other, times := range i.snapshot().RefusedHTTP2 {
		if codec.Reason(other) != why && times != 0 {
			i.t.Errorf("%d refusals are counted for %v too", times, codec.Reason(other))
		}
	}
}
