package upstream

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Address is where a target listens: a TCP address, or the path of a unix socket.
type Address struct {
	// TCP is valid unless this is a unix socket.
	TCP netip.AddrPort
	// Path of the unix socket, or empty.
	Path string
	// Host is the name or the IP address of the target in the config, without its port, for TLS and
	// for Host headers. It is "localhost" for a unix socket.
	Host string
}

// Unix reports whether this is a unix socket.
func (a Address) Unix() bool { return a.Path != "" }

// String returns the address in the form of the config, with the IP address that a name was
// resolved to.
func (a Address) String() string {
	if a.Unix() {
		return "unix:" + a.Path
	}
	return a.TCP.String()
}

// Authority returns "host:port" as in the config, for a Host header, or "localhost" for a unix
// socket.
func (a Address) Authority() string {
	if a.Unix() {
		return a.Host
	}
	return net.JoinHostPort(a.Host, strconv.Itoa(int(a.TCP.Port())))
}

// maxUnixPath is what sockaddr_un holds, less the closing NUL.
const maxUnixPath = 107

// parseAddress reads a configured address. For a name, the result's TCP holds only the port, and
// named is true.
func parseAddress(s string) (a Address, named bool, err error) {
	if path, ok := strings.CutPrefix(s, "unix:"); ok {
		if path == "" || len(path) > maxUnixPath || strings.IndexByte(path, 0) >= 0 {
			return a, false, fmt.Errorf("target %q: a unix socket needs a path of 1 to %d bytes", s,
				maxUnixPath)
		}
		return Address{Path: path, Host: "localhost"}, false, nil
	}
	host, portText, err := net.SplitHostPort(s)
	if err != nil {
		return a, false, fmt.Errorf("target %q is not \"host:port\", \"[v6]:port\" or "+
			"\"unix:/path\": %w", s, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return a, false, fmt.Errorf("target %q: the port must be a number from 1 to 65535", s)
	}
	if host == "" {
		return a, false, fmt.Errorf("target %q has no host: write the address to connect to", s)
	}
	a.Host = host
	if ip, err := netip.ParseAddr(host); err == nil {
		a.TCP = netip.AddrPortFrom(ip.Unmap(), uint16(port))
		return a, false, nil
	}
	a.TCP = netip.AddrPortFrom(netip.Addr{}, uint16(port))
	return a, true, nil
}
