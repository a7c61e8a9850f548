package gateway

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// callers is a listener whose connections are there already.
type callers struct {
	net.Listener
	conns chan net.Conn
	close sync.Once
}

func (l *callers) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *callers) Close() error {
	l.close.Do(func() { close(l.conns) })
	return nil
}

// caller is a connection from an address.
type caller struct {
	net.Conn
	from string
}

func (c caller) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.from), Port: 1} }

func (l *callers) call(from string) {
	c, other := net.Pipe()
	other.Close()
	l.conns <- caller{c, from}
}

func (l *adminListener) waits() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, queue := range l.waiting {
		n += len(queue)
	}
	return n
}

// HAZARDS: one queue for all. While connections of one address wait for room, those of others are
// let in.
func TestHazardAnAddressWhoseConnectionsWaitKeepsNobodyElseFromTheAdminAddress(t *testing.T) {
	const flood = 1000
	for name, crowd := range map[string]int{"as many as may wait": adminWaiting, "more": flood} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ln := &callers{conns: make(chan net.Conn, 2*flood)}
				l := newAdminListener(ln, &adminCounts{})
				for range adminPerAddress + crowd {
					ln.call("10.0.0.1")
				}
				ln.call("10.0.0.2")
				began := time.Now()
				for {
					c, err := l.Accept()
					if err != nil {
						t.Fatal(err)
					}
					if c.(*adminConn).client.String() == "10.0.0.2" {
						break
					}
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("a probe of another address waited for %s", took)
				}
				synctest.Wait()
				if n := l.waits(); n > adminWaiting {
					t.Errorf("%d wait to be let in, want at most %d", n, adminWaiting)
				}
				go func() { // net/http goes on accepting
					for {
						if _, err := l.Accept(); err != nil {
							return
						}
					}
				}()
				<-time.After(adminWaiting * adminPatience)
				if n := l.waits(); n != 0 {
					t.Errorf("%d still wait", n)
				}
				l.Close()
			})
		})
	}
}
