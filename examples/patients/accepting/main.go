//go:build linux

// Command accepting accepts slowly, from a queue with room for few (accept-queue-overflow): it
// looks each client up, and accepts nobody meanwhile. When the queue is full the kernel drops what
// clients send to connect, and they try again a whole second later. It takes clients that make a
// new connection for each request.
//
// Cured, the queue is long, and clients are looked up where it holds nobody up.
package main

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll/examples/patients/ward"
	"plimsoll/examples/patients/work"
)

func main() { ward.Main(shop) }

func shop(p *ward.Patient) (http.Handler, error) {
	p.Listen = func(address string) (net.Listener, error) {
		if p.Cured {
			return listen(address, 4096)
		}
		l, err := listen(address, 4)
		return doorman{l}, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if p.Cured {
			lookUp()
		}
		fmt.Fprintln(w, work.Do(6))
	}), nil
}

// lookUp asks somebody whether a client may come in.
func lookUp() { time.Sleep(2 * time.Millisecond) }

// doorman looks clients up one after the other.
type doorman struct{ net.Listener }

func (d doorman) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err == nil {
		lookUp()
	}
	return c, err
}

// listen is net.Listen with a backlog of its own choice, an IPv4 address only.
func listen(address string, backlog int) (net.Listener, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Is4() {
		return nil, fmt.Errorf("%q is not an IPv4 address with a port: write it as 127.0.0.1:18800",
			address)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), "listener")
	defer f.Close() // the listener has a copy of its own
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return nil, fmt.Errorf("let the address be used again: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{
		Addr: at.Addr().As4(),
		Port: int(at.Port()),
	}); err != nil {
		return nil, fmt.Errorf("bind %s: %w", address, err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return net.FileListener(f)
}
