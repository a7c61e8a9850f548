package reactor

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

// Address is a socket address, ready to be given to the kernel: an IP address and port, or a unix
// socket's path.
type Address struct {
	IP   netip.AddrPort
	Path string // of a unix socket; empty for IP
}

// ParseAddress reads "unix:/path", "1.2.3.4:80" or "[::1]:80". Names are resolved by the
// caller, not here.
func ParseAddress(s string) (Address, error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if len(path) == 0 || len(path) >= 108 {
			return Address{}, fmt.Errorf("address %q: a unix socket's path has 1 to 107 bytes", s)
		}
		return Address{Path: path}, nil
	}
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return Address{}, fmt.Errorf("address %q: must be IP:port, [IPv6]:port or unix:/path", s)
	}
	return Address{IP: netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())}, nil
}

// String is the address as ParseAddress reads it.
func (a Address) String() string {
	if a.Path != "" {
		return "unix:" + a.Path
	}
	return a.IP.String()
}

func (a Address) family() int {
	switch {
	case a.Path != "":
		return syscall.AF_UNIX
	case a.IP.Addr().Is4():
		return syscall.AF_INET
	}
	return syscall.AF_INET6
}

func (a Address) sockaddr() (syscall.Sockaddr, int) {
	switch {
	case a.Path != "":
		return &syscall.SockaddrUnix{Name: a.Path}, syscall.AF_UNIX
	case a.IP.Addr().Is4():
		return &syscall.SockaddrInet4{Port: int(a.IP.Port()), Addr: a.IP.Addr().As4()}, syscall.AF_INET
	}
	sa := &syscall.SockaddrInet6{Port: int(a.IP.Port()), Addr: a.IP.Addr().As16()}
	if zone := a.IP.Addr().Zone(); zone != "" {
		if ifi, err := net.InterfaceByName(zone); err == nil {
			sa.ZoneId = uint32(ifi.Index)
		}
	}
	return sa, syscall.AF_INET6
}
