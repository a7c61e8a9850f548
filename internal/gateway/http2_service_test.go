package gateway

import (
	"bufio"
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

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Service is a service that speaks HTTP/2 and does what a test tells it to, whatever the rules
// say. Of itself it acknowledges SETTINGS and PING, and opens its windows for all that comes unless
// it is thrifty.
type h2Service struct {
	t        *testing.T
	ln       net.Listener
	settings []http2.Setting
	mute     bool // it sends no SETTINGS
	thrifty  bool

	// begun is called with each request's head, asked when the request is whole; either may be nil.
	begun, asked func(*h2Asked)

	mu      sync.Mutex // of what follows
	changed chan struct{}
	conns   []*h2Served
	all     []*h2Asked // in their order
}

// h2Served is a connection to the service.
type h2Served struct {
	net.Conn
	s        *h2Service
	writing  sync.Mutex // of what follows
	framer   *http2.Framer
	block    bytes.Buffer
	encoder  *hpack.Encoder
	window   int // what may be sent, of the connection
	windows  map[uint32]int
	initial  int
	limits   *sync.Cond // the windows, on writing
	streams  map[uint32]*h2Asked
	goAway   *http2.ErrCode // that came; the service's lock guards it, and ended
	ended    bool
	accepted int // which connection it is, from 0
}

// h2Asked is a request that came. The service's lock guards it until it is whole.
type h2Asked struct {
	c        *h2Served
	id       uint32
	method   string
	path     string
	pseudo   map[string]string
	fields   http.Header
	body     []byte
	trailers http.Header
	whole    bool
	reset    bool
	code     http2.ErrCode
}

// newH2Service starts a service. prepare sets its fields; secure makes it TLS.
func newH2Service(t *testing.T, secure *tls.Config, prepare func(*h2Service)) *h2Service {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if secure != nil {
		ln = tls.NewListener(ln, secure)
	}
	s := &h2Service{t: t, ln: ln, changed: make(chan struct{})}
	prepare(s)
	go s.accept()
	t.Cleanup(func() {
		ln.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.conns {
			c.Close()
		}
	})
	return s
}

func (s *h2Service) address() string { return s.ln.Addr().String() }

func (s *h2Service) accept() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			return
		}
		c := &h2Served{Conn: conn, s: s, framer: http2.NewFramer(conn, conn), initial: 65535, window: 65535,
			windows: map[uint32]int{}, streams: map[uint32]*h2Asked{}}
		c.framer.AllowIllegalWrites = true
		c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		c.encoder = hpack.NewEncoder(&c.block)
		c.limits = sync.NewCond(&c.writing)
		s.mu.Lock()
		c.accepted = len(s.conns)
		s.conns = append(s.conns, c)
		s.mu.Unlock()
		go c.serve()
	}
}

// tell says that something has changed. The service's lock is held.
func (s *h2Service) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// wait waits until something holds, which is asked under the lock.
func (s *h2Service) wait(what string, holds func() bool) {
	s.t.Helper()
	eventually(s.t, what, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return holds()
	})
}

// requests is how many came.
func (s *h2Service) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// connections is how many were made.
func (s *h2Service) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (c *h2Served) serve() {
	defer func() {
		c.Close()
		c.s.mu.Lock()
		c.ended = true
		c.s.tell()
		c.s.mu.Unlock()
		c.writing.Lock()
		c.window = 1 << 40 // nobody waits any more
		for id := range c.windows {
			c.windows[id] = 1 << 40
		}
		c.limits.Broadcast()
		c.writing.Unlock()
	}()
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c, preface); err != nil || string(preface) != http2.ClientPreface {
		return
	}
	if !c.s.mute {
		c.do(func(f *http2.Framer) { f.WriteSettings(c.s.settings...) })
	}
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		c.take(frame)
	}
}

// do writes frames.
func (c *h2Served) do(f func(*http2.Framer)) {
	c.writing.Lock()
	defer c.writing.Unlock()
	f(c.framer)
}

func (c *h2Served) take(frame http2.Frame) {
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if f.IsAck() {
			return
		}
		c.writing.Lock()
		if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
			c.initial = int(v)
		}
		c.writing.Unlock()
		c.do(func(w *http2.Framer) { w.WriteSettingsAck() })
	case *http2.PingFrame:
		if !f.IsAck() {
			c.do(func(w *http2.Framer) { w.WritePing(true, f.Data) })
		}
	case *http2.WindowUpdateFrame:
		c.writing.Lock()
		if f.StreamID == 0 {
			c.window += int(f.Increment)
		} else {
			c.windows[f.StreamID] += int(f.Increment)
		}
		c.limits.Broadcast()
		c.writing.Unlock()
	case *http2.MetaHeadersFrame:
		c.takeFields(f)
	case *http2.DataFrame:
		c.takeData(f)
	case *http2.RSTStreamFrame:
		c.change(f.StreamID, func(a *h2Asked) { a.reset, a.code = true, f.ErrCode })
	case *http2.GoAwayFrame:
		c.s.mu.Lock()
		c.goAway = &f.ErrCode
		c.s.tell()
		c.s.mu.Unlock()
	}
}

func (c *h2Served) change(id uint32, f func(*h2Asked)) *h2Asked {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	a := c.streams[id]
	if a != nil {
		f(a)
	}
	c.s.tell()
	return a
}

func (c *h2Served) takeFields(f *http2.MetaHeadersFrame) {
	fields := http.Header{}
	for _, field := range f.RegularFields() {
		name := http.CanonicalHeaderKey(field.Name)
		fields[name] = append(fields[name], field.Value)
	}
	c.s.mu.Lock()
	a := c.streams[f.StreamID]
	if a != nil {
		a.trailers = fields
	} else {
		a = &h2Asked{c: c, id: f.StreamID, fields: fields, pseudo: map[string]string{},
			method: f.PseudoValue("method"), path: f.PseudoValue("path")}
		for _, p := range f.PseudoFields() {
			a.pseudo[p.Name] = p.Value
		}
		c.streams[f.StreamID] = a
		c.s.all = append(c.s.all, a)
		c.writing.Lock()
		c.windows[a.id] += c.initial
		c.writing.Unlock()
		if c.s.begun != nil {
			go c.s.begun(a)
		}
	}
	c.s.tell()
	c.s.mu.Unlock()
	c.end(a, f.StreamEnded())
}

func (c *h2Served) takeData(f *http2.DataFrame) {
	a := c.change(f.StreamID, func(a *h2Asked) { a.body = append(a.body, f.Data()...) })
	if n := uint32(f.Length); n > 0 && !c.s.thrifty {
		c.do(func(w *http2.Framer) {
			w.WriteWindowUpdate(0, n)
			w.WriteWindowUpdate(f.StreamID, n)
		})
	}
	c.end(a, f.StreamEnded())
}

func (c *h2Served) end(a *h2Asked, ended bool) {
	if a == nil || !ended {
		return
	}
	c.change(a.id, func(a *h2Asked) { a.whole = true })
	if c.s.asked != nil {
		go c.s.asked(a)
	}
}

// headers sends a field block of pairs of names and values.
func (a *h2Asked) headers(end bool, pairs ...string) {
	a.c.do(func(f *http2.Framer) {
		a.c.block.Reset()
		for i := 0; i < len(pairs); i += 2 {
			a.c.encoder.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
		}
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: a.id, BlockFragment: a.c.block.Bytes(),
			EndStream: end, EndHeaders: true})
	})
}

// data sends content as the windows allow.
func (a *h2Asked) data(content string, end bool) {
	c := a.c
	for first := true; first || content != ""; first = false {
		c.writing.Lock()
		for content != "" && (c.window <= 0 || c.windows[a.id] <= 0) {
			c.limits.Wait()
		}
		n := min(len(content), c.window, c.windows[a.id], 16<<10)
		n = max(n, 0)
		c.window -= n
		c.windows[a.id] -= n
		err := c.framer.WriteData(a.id, end && n == len(content), []byte(content[:n]))
		c.writing.Unlock()
		content = content[n:]
		if err != nil {
			return
		}
	}
}

// ok answers with 200 and a body.
func (a *h2Asked) ok(body string) {
	a.headers(body == "", ":status", "200", "content-length", fmt.Sprint(len(body)))
	if body != "" {
		a.data(body, true)
	}
}

func (a *h2Asked) resetWith(code http2.ErrCode) {
	a.c.do(func(f *http2.Framer) { f.WriteRSTStream(a.id, code) })
}

// answerLike sends what a response of HTTP/1.1 says, interim responses and trailers too.
func (a *h2Asked) answerLike(t *testing.T, response string) {
	from := bufio.NewReader(strings.NewReader(response))
	for {
		r, err := http.ReadResponse(from, &http.Request{Method: a.method})
		if err != nil {
			t.Error(err)
			return
		}
		pairs := []string{":status", fmt.Sprint(r.StatusCode)}
		for _, name := range slices.Sorted(keysOf(r.Header)) {
			for _, value := range r.Header[name] {
				if name != "Connection" && name != "Keep-Alive" {
					pairs = append(pairs, strings.ToLower(name), value)
				}
			}
		}
		body, err := readString(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		if r.StatusCode < 200 {
			a.headers(false, pairs...)
			continue
		}
		a.headers(len(body) == 0 && len(r.Trailer) == 0, pairs...)
		if len(body) > 0 {
			a.data(body, len(r.Trailer) == 0)
		}
		if len(r.Trailer) > 0 {
			var trailers []string
			for _, name := range slices.Sorted(keysOf(r.Trailer)) {
				trailers = append(trailers, strings.ToLower(name), r.Trailer.Get(name))
			}
			a.headers(true, trailers...)
		}
		return
	}
}

func keysOf(h http.Header) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range h {
			if !yield(name) {
				return
			}
		}
	}
}

// words puts the request into the words of sawWords, as if it had come over HTTP/1.1.
func (a *h2Asked) words() string {
	a.c.s.mu.Lock()
	defer a.c.s.mu.Unlock()
	fields := a.fields.Clone()
	fields["Host"] = []string{a.pseudo[":authority"]}
	framing := ""
	if len(a.body) > 0 && fields.Get("Content-Length") == "" {
		framing = "chunked"
	}
	return fmt.Sprintf("%s %s HTTP/1.1\n%s%s\n\n%s\n%s", a.method, a.path, fieldLines(fields), framing, a.body,
		fieldLines(a.trailers))
}
