package quicio

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"

	"github.com/quic-go/quic-go"
)

type addr = net.Addr

// Socket is a UDP socket on which QUIC is spoken, and the tag by which connection identifiers say
// that they were given by this process.
type Socket struct {
	*net.UDPConn
	keys Keys
	tag  tag
}

// tag begins the connection identifiers of one process. It says of a packet whether its connection
// is this process's or belongs to the one before.
type tag [4]byte

// idLength is the length of connection identifiers: a tag, and as many random bytes as make guessing
// hopeless.
const idLength = len(tag{}) + 8

// Bind makes a socket on an address. An address without a host is one of IPv4 and IPv6.
func Bind(a netip.AddrPort) (*Socket, error) {
	network := "udp"
	if a.Addr().Is4() {
		network = "udp4"
	}
	conn, err := net.ListenUDP(network, net.UDPAddrFromAddrPort(a))
	if err != nil {
		return nil, fmt.Errorf("listen on %s over UDP: %w", a, err)
	}
	s := &Socket{UDPConn: conn, keys: newKeys()}
	rand.Read(s.tag[:])
	return s, nil
}

// GenerateConnectionID implements quic.ConnectionIDGenerator.
func (s *Socket) GenerateConnectionID() (quic.ConnectionID, error) {
	id := make([]byte, idLength)
	copy(id, s.tag[:])
	rand.Read(id[len(s.tag):])
	return quic.ConnectionIDFromBytes(id), nil
}

// ConnectionIDLen implements quic.ConnectionIDGenerator.
func (s *Socket) ConnectionIDLen() int { return idLength }
