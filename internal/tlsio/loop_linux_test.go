package tlsio_test

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"plimsoll/internal/tlsio"
)

// fdSocket is a tlsio.Socket over a real non-blocking descriptor.
type fdSocket struct {
	fd    int
	queue []byte // what the kernel did not take
}

func wouldBlock(n int, err error) (int, error) {
	if err == unix.EAGAIN {
		return 0, again
	}
	return n, err
}

func (s *fdSocket) RawRead(p []byte) (int, error) {
	n, err := wouldBlock(unix.Read(s.fd, p))
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

func (s *fdSocket) RawWrite(p []byte) (int, error) { return wouldBlock(unix.Write(s.fd, p)) }
func (s *fdSocket) Read(p []byte) (int, error)     { return s.RawRead(p) }

func (s *fdSocket) Write(p []byte) error {
	s.queue = append(s.queue, p...)
	return s.flush()
}

func (s *fdSocket) flush() error {
	for len(s.queue) > 0 {
		n, err := s.RawWrite(s.queue)
		s.queue = s.queue[n:]
		if err != nil {
			if err == error(again) {
				return nil
			}
			return err
		}
	}
	return nil
}

// epollLoop runs one connection as a reactor would: edge-triggered, with its handshake on a
// goroutine of the limiter. It echoes everything, and reports what it saw.
type epollLoop struct {
	sock fdSocket
	conn *tlsio.Conn
	ep   int
	wake int
	done chan error // the handshake's result

	opened chan tlsio.State
	ended  chan error
}

func runLoop(fd int, cfg *tls.Config, limiter *tlsio.HandshakeLimiter) *epollLoop {
	l := &epollLoop{
		sock: fdSocket{fd: fd}, done: make(chan error, 1),
		opened: make(chan tlsio.State, 1), ended: make(chan error, 1),
	}
	l.conn = tlsio.NewServer(&l.sock, cfg, tlsio.NewLoop())
	l.ep, _ = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	l.wake, _ = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	const edges = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
	unix.EpollCtl(l.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: edges & 0xffffffff, Fd: int32(fd)})
	unix.EpollCtl(l.ep, unix.EPOLL_CTL_ADD, l.wake, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET&0xffffffff, Fd: int32(l.wake)})
	limiter.Go(func() {
		l.done <- l.conn.Handshake()
		unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	go func() {
		err := l.run()
		l.conn.Release()
		for _, fd := range []int{l.sock.fd, l.ep, l.wake} {
			unix.Close(fd)
		}
		close(l.opened)
		l.ended <- err
	}()
	return l
}

func (l *epollLoop) run() error {
	established := false
	events := make([]unix.EpollEvent, 8)
	for {
		if _, err := unix.EpollWait(l.ep, events, -1); err != nil && err != unix.EINTR {
			return err
		}
		if !established {
			select {
			case err := <-l.done:
				if err != nil {
					return err
				}
				established = true
				l.opened <- *l.conn.State()
			default:
				l.conn.Wake()
				continue
			}
		}
		if err := l.sock.flush(); err != nil {
			return err
		}
		if err := l.echo(); err != error(again) {
			if err == io.EOF {
				l.conn.CloseWrite()
			}
			return err
		}
	}
}

func (l *epollLoop) echo() error {
	buf := make([]byte, 8192)
	for {
		n, err := l.conn.Read(buf)
		if err != nil {
			return err
		}
		if err := l.conn.Write(buf[:n]); err != nil {
			return err
		}
	}
}

// echoServer accepts on a loopback port and runs a loop for each connection.
type echoServer struct {
	address string
	loops   chan *epollLoop
}

func newEchoServer(t *testing.T, cfg *tls.Config) *echoServer {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &echoServer{address: ln.Addr().String(), loops: make(chan *epollLoop, 64)}
	limiter := tlsio.NewHandshakeLimiter(2, 64)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.loops <- runLoop(descriptor(c.(*net.TCPConn)), cfg, limiter)
		}
	}()
	t.Cleanup(func() { ln.Close(); <-over })
	return s
}

// descriptor takes a connection's descriptor out of Go's poller.
func descriptor(c interface{ File() (*os.File, error) }) int {
	f, err := c.File()
	if err != nil {
		panic(err)
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	f.Close()
	c.(io.Closer).Close()
	unix.SetNonblock(fd, true)
	return fd
}

func TestManyClientsOverRealSockets(t *testing.T) {
	s := newSite(t)
	server := newEchoServer(t, s.server)
	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			version := uint16(tls.VersionTLS12 + i%2)
			c, err := tls.Dial("tcp", server.address, s.capped(version))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			sent := make([]byte, 1<<20)
			for j := range sent {
				sent[j] = byte(j * i)
			}
			go func() {
				c.Write(sent)
				c.CloseWrite()
			}()
			got, err := io.ReadAll(c)
			if err != nil || string(got) != string(sent) {
				t.Errorf("client %d got %d bytes back, %v", i, len(got), err)
			}
		})
	}
	clients.Wait()
	for range 16 {
		l := <-server.loops
		if err := <-l.ended; err != io.EOF {
			t.Errorf("a loop ended with %v", err)
		}
	}
}
