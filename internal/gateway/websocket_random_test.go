package gateway

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
)

// chopped is a connection whose writes are cut anywhere, and that keeps what it reads.
type chopped struct {
	net.Conn
	r    *rand.Rand
	came tape
}

func (c *chopped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.came = append(c.came, p[:n]...)
	return n, err
}

// tape is all that came on a connection: a head, and frames.
type tape []byte

// behindClose is how many bytes stand behind a close frame.
func (b tape) behindClose() int {
	_, b, _ = bytes.Cut(b, []byte("\r\n\r\n"))
	for len(b) >= 14 {
		first, n, head := b[0], int(b[1]&0x7f), 2+int(b[1]>>7)*4
		switch n {
		case 126:
			n, head = int(binary.BigEndian.Uint16(b[2:])), head+2
		case 127:
			n, head = int(binary.BigEndian.Uint64(b[2:])), head+8
		}
		b = b[min(len(b), head+n):]
		if first == 0x88 {
			return len(b)
		}
	}
	return 0 // what is less than a header was the close frame
}

func (c *chopped) Write(p []byte) (int, error) {
	for at := 0; at < len(p); {
		n := len(p) - at
		if c.r.IntN(3) > 0 {
			n = 1 + c.r.IntN(min(n, 1<<c.r.IntN(17)))
		}
		if m, err := c.Conn.Write(p[at : at+n]); err != nil {
			return at + m, err
		}
		at += n
		runtime.Gosched()
	}
	return len(p), nil
}

// chopping accepts chopped connections.
type chopping struct {
	net.Listener
	seed uint64
}

func (l *chopping) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.seed++
	return &chopped{Conn: c, r: rand.New(rand.NewPCG(l.seed, 1))}, nil
}

// end is one end of a WebSocket, in the hands of another implementation of the protocol. It sends
// noise in messages, fragments, pings and pongs, and takes down what comes.
type end struct {
	name, other string // begin the payloads of pings and pongs
	c           *gorilla.Conn
	r           *rand.Rand

	sent, got [][]byte
	foreign   []string // payloads of pings that are not the other end's
	pings     int      // of the other end's that came
	strange   string   // what must not come
	err       error
	arrived   chan int // messages that have come
	all       chan struct{}
	ended     chan struct{}
}

func newEnd(name, other string, c *gorilla.Conn, seed uint64) *end {
	e := &end{name: name, other: other, c: c, r: rand.New(rand.NewPCG(seed, 2)), arrived: make(chan int, 1000),
		all: make(chan struct{}), ended: make(chan struct{})}
	c.SetPingHandler(func(payload string) error {
		switch {
		case payload != fmt.Sprint("ping of ", other, " ", e.pings):
			e.foreign = append(e.foreign, payload)
		default:
			e.pings++
		}
		e.control(gorilla.PongMessage, payload)
		return nil
	})
	c.SetPongHandler(func(payload string) error {
		if !strings.HasPrefix(payload, "ping of "+name) && payload != "unasked of "+other {
			e.strange = fmt.Sprintf("a pong %q", payload)
		}
		return nil
	})
	go e.read()
	return e
}

func (e *end) control(kind int, payload string) {
	e.c.WriteControl(kind, []byte(payload), time.Now().Add(patience))
}

func (e *end) read() {
	defer close(e.ended)
	for {
		_, p, err := e.c.ReadMessage()
		if err != nil {
			e.err = err
			return
		}
		e.got = append(e.got, p)
		select {
		case e.arrived <- len(e.got):
		default:
		}
	}
}

// send sends so many messages, or as many as can be sent.
func (e *end) send(messages int) {
	defer close(e.all)
	for n, pings := 0, 0; n < messages; n++ {
		payload := make([]byte, e.r.IntN(1<<e.r.IntN(18)))
		for i := range payload {
			payload[i] = byte(e.r.Uint32())
		}
		w, err := e.c.NextWriter(gorilla.BinaryMessage)
		if err != nil {
			return
		}
		e.sent = append(e.sent, payload) // some of it may arrive
		for len(payload) > 0 {
			size := 1 + e.r.IntN(len(payload))
			if _, err := w.Write(payload[:size]); err != nil {
				return
			}
			payload = payload[size:]
			switch e.r.IntN(8) {
			case 0:
				e.control(gorilla.PingMessage, fmt.Sprint("ping of ", e.name, " ", pings))
				pings++
			case 1:
				e.control(gorilla.PongMessage, "unasked of "+e.name)
			case 2, 3:
				pause(context.Background(), time.Duration(e.r.IntN(3))*time.Millisecond) // for pings of the gateway
			}
		}
		if w.Close() != nil {
			return
		}
	}
}

// raw is every byte that came.
func (e *end) raw() tape {
	switch c := e.c.NetConn().(type) {
	case *chopped:
		return c.came
	case *h2Socket:
		c.c.mu.Lock() // more may still come
		defer c.c.mu.Unlock()
		return append(tape("\r\n\r\n"), c.st.body...)
	}
	panic("a connection that keeps nothing")
}

// check compares what came with what the other end sent.
// A gateway that closed the tunnel before that (its lifetime was over, or a busy machine kept a
// pong from it) says 1001.
func (e *end) check(t *testing.T, from *end, code int, whole bool) {
	t.Helper()
	var closed *gorilla.CloseError
	if errors.As(e.err, &closed) && closed.Code == 1001 {
		code, whole = 1001, false
	}
	if closed == nil || closed.Code != code {
		t.Errorf("the %s ended with %v, want a close frame with %d", e.name, e.err, code)
	}
	for i, p := range e.got {
		if i >= len(from.sent) || !bytes.Equal(p, from.sent[i]) {
			t.Fatalf("the %s got a message %d of %d bytes that was not sent", e.name, i, len(p))
		}
	}
	if whole && len(e.got) != len(from.sent) {
		t.Errorf("the %s got %d of %d messages", e.name, len(e.got), len(from.sent))
	}
	if e.strange != "" {
		t.Errorf("the %s got %s", e.name, e.strange)
	}
}

// worldOfSockets is a gateway, a service of another implementation, and a client of the same.
type worldOfSockets struct {
	g       *instance
	service chan *end
	seed    uint64
}

func newWorldOfSockets(t *testing.T, seed uint64, r *rand.Rand) *worldOfSockets {
	w := &worldOfSockets{service: make(chan *end, 1), seed: seed}
	b := newBackendAt(t, "s", "tcp", "127.0.0.1:0", func(l net.Listener) net.Listener { return &chopping{l, seed} })
	up := gorilla.Upgrader{WriteBufferSize: 1 << (6 + r.IntN(9)), ReadBufferSize: 1 << (8 + r.IntN(8)),
		CheckOrigin: func(*http.Request) bool { return true }}
	b.answer(func(rw http.ResponseWriter, req *http.Request) {
		c, err := up.Upgrade(rw, req, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		e := newEnd("service", "client", c, seed+100)
		w.service <- e
		<-e.ended
		<-e.all
	})
	route := fmt.Sprintf(", websocket: {close_grace: 10m, ping_interval: %dms", 1+r.IntN(20))
	if r.IntN(2) == 0 {
		route += ", max_message: 1MB"
	}
	if r.IntN(5) == 0 {
		route += fmt.Sprintf(", lifetime: %dms", 1+r.IntN(60))
	}
	w.g = serve(t, w.yaml(b.address, route+"}", "chat"))
	return w
}

func (w *worldOfSockets) yaml(target, route, name string) string {
	return withH2(`
listeners: [{address: "127.0.0.1:0"}]
drain: {timeout: 10m}
upstreams: {s: {targets: ["` + target + `"]}}
routes: [{match: /, name: ` + name + `, upstream: s` + route + `}]
`)
}

// client connects over HTTP/1.1 or HTTP/2.
func (w *worldOfSockets) client(t *testing.T, h2 bool, r *rand.Rand) *end {
	t.Helper()
	dialer := gorilla.Dialer{
		WriteBufferSize: 1 << (6 + r.IntN(9)),
		NetDial: func(string, string) (net.Conn, error) {
			own := rand.New(rand.NewPCG(w.seed, 3))
			if h2 {
				return w.g.webSocketOverH2(func() int { return 1 + own.IntN(1<<(1+own.IntN(14))) }), nil
			}
			return &chopped{Conn: w.g.dial().Conn, r: own}, nil
		},
	}
	c, _, err := dialer.Dial("ws://a/", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return newEnd("client", "service", c, w.seed+200)
}

// What either side sends arrives in whole frames, whatever the gateway puts in between and however
// the bytes are split, up to the end that somebody or something brings at any moment.
func TestFramesStayWholeWhateverHappens(t *testing.T) {
	worlds := 24
	if testing.Short() {
		worlds = 4
	}
	var pings sync.Map
	t.Run("worlds", func(t *testing.T) {
		for n := range worlds {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				pings.Store(n, runWorldOfSockets(t, uint64(n)))
			})
		}
	})
	sum := uint64(0)
	pings.Range(func(_, n any) bool { sum += n.(uint64); return true })
	if sum == 0 && !t.Failed() {
		t.Error("the gateway sent no ping in any of them")
	}
}

// runWorldOfSockets plays one world, and returns how many pings the gateway sent.
func runWorldOfSockets(t *testing.T, seed uint64) (pings uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorldOfSockets(t, seed, r)
	client := w.client(t, seed%2 == 0, r)
	service := <-w.service
	go client.send(r.IntN(30))
	go service.send(20 + r.IntN(40))
	for range r.IntN(20) { // then the end comes
		select {
		case <-service.arrived:
		case <-client.arrived:
		case <-client.ended:
		}
	}
	code, wholeUp, wholeDown := 1001, false, false
	switch r.IntN(4) {
	case 0:
		go w.g.stop()
	case 1:
		if err := w.g.reload(w.yaml("127.0.0.1:1", "", "other")); err != nil {
			t.Fatal(err)
		}
	case 2:
		<-client.all
		code, wholeUp = 1000, true
		client.control(gorilla.CloseMessage, closeFrame(1000))
	default:
		<-service.all
		code, wholeDown = 1000, true
		service.control(gorilla.CloseMessage, closeFrame(1000))
	}
	<-client.ended
	<-service.ended
	client.c.Close()
	<-client.all
	<-service.all
	client.check(t, service, code, wholeDown)
	service.check(t, client, code, wholeUp)
	for _, payload := range service.foreign {
		t.Errorf("the service got a ping %q", payload)
	}
	for _, payload := range client.foreign {
		if len(payload) != 8 {
			t.Errorf("the client got a ping %q", payload)
		}
	}
	for _, e := range []*end{client, service} {
		if n := e.raw().behindClose(); n != 0 {
			t.Errorf("the %s got %d bytes behind a close frame", e.name, n)
		}
	}
	return uint64(len(client.foreign))
}
