package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/internal/freeport"
)

// goroutines is how many goroutines stand in a function whose name contains a text.
func goroutines(text string) int {
	buf := make([]byte, 4<<20)
	n := 0
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, text) {
			n++
		}
	}
	return n
}

// freeAddress is a loopback address that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	ports, err := freeport.Find(1)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0])
}

// listensAt says whether anybody accepts at an address.
func listensAt(address string) bool {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// drained is how the gateway ended; the test fails when it does not.
func (i *instance) drained() error {
	i.t.Helper()
	select {
	case err := <-i.stopped:
		i.stopped <- err
		return err
	case <-time.After(patience):
		i.t.Fatal("the gateway did not end")
		return nil
	}
}

// load is steady traffic of clients that obey "Connection: close" and take anything but a 200 for a
// failure.
type load struct {
	t       *testing.T
	address string
	session func(l *load, keep bool) error // does requests on one connection; nil: HTTP/1.1 at address
	stop    chan struct{}
	wg      sync.WaitGroup
	done    atomic.Int64 // requests that were answered well
	mu      sync.Mutex
	failed  []string
}

// startLoad begins traffic to an address: so many clients that keep their connections, and as many
// that open one for each request.
func startLoad(t *testing.T, address string, clients int) *load {
	return startLoadOf(t, &load{address: address}, clients)
}

// startLoadOf is startLoad for clients of any kind.
func startLoadOf(t *testing.T, l *load, clients int) *load {
	l.t, l.stop = t, make(chan struct{})
	for n := range 2 * clients {
		l.wg.Go(func() { l.client(n < clients) })
	}
	t.Cleanup(func() { l.end() })
	return l
}

func (l *load) over() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// end stops the clients and returns what failed.
func (l *load) end() []string {
	if !l.over() {
		close(l.stop)
	}
	l.wg.Wait()
	return l.failed
}

// more waits until so many further requests have been answered.
func (l *load) more(n int64) {
	l.t.Helper()
	from := l.done.Load()
	eventually(l.t, fmt.Sprintf("%d more requests are answered", n), func() bool { return l.done.Load() >= from+n })
}

func (l *load) client(keep bool) {
	for !l.over() {
		session := l.session
		if session == nil {
			session = (*load).connection
		}
		if err := session(l, keep); err != nil {
			l.mu.Lock()
			l.failed = append(l.failed, err.Error())
			l.mu.Unlock()
			return
		}
	}
}

func (l *load) connection(keep bool) error {
	c, err := net.DialTimeout("tcp", l.address, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	return l.ask(c, bufio.NewReader(c), keep)
}

// ask does requests of HTTP/1.1 on a connection: many, or one.
func (l *load) ask(c io.Writer, r *bufio.Reader, keep bool) error {
	for n := 1; !l.over(); n++ {
		last, err := ask(c, r)
		if err != nil {
			return fmt.Errorf("request %d of a connection: %w", n, err)
		}
		l.done.Add(1)
		if last || !keep {
			return nil
		}
	}
	return nil
}

// ask sends one request and reads its answer; last tells that the connection ends with it.
func ask(c io.Writer, r *bufio.Reader) (last bool, err error) {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return false, err
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return false, err
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return false, err
	}
	if resp.StatusCode != 200 {
		return false, errors.New(resp.Status)
	}
	return resp.Close, nil
}

// gate is a service's script that tells of each request head it gets and answers when it is let.
type gate struct {
	got chan string
	let chan string // each is a response
	end <-chan struct{}
}

func newGate(t *testing.T) *gate {
	return &gate{got: make(chan string, 1000), let: make(chan string, 1000), end: t.Context().Done()}
}

// script answers with what comes out of let; an empty response closes the connection.
func (g *gate) script(c *serviceConn, _ int) {
	for {
		h := c.head()
		if h == "" {
			return
		}
		g.got <- h
		response := ""
		select {
		case response = <-g.let:
		case <-g.end:
		}
		if response == "" {
			return
		}
		if _, err := io.WriteString(c, response); err != nil {
			return
		}
	}
}

// next is the next request head that the service gets.
func (g *gate) next(t *testing.T) string {
	t.Helper()
	select {
	case h := <-g.got:
		return h
	case <-time.After(patience):
		t.Fatal("the service was sent no request")
		return ""
	}
}
