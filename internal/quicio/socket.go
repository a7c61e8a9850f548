package quicio

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/net/ipv4"
)

type addr = net.Addr

// Socket is a UDP socket on which QUIC is spoken. It may change hands: from a process to the one
// that an upgrade has started, or to another endpoint of the same process. Its owner reads it, and
// passes on what belongs to connections of those that had it before; they go on writing to it, and
// keep their connections until these end. See Successor.
//
// A packet says by its connection identifier whose it is: that begins with the tag of who gave it.
type Socket struct {
	*net.UDPConn
	batch *ipv4.PacketConn
	keys  Keys
	tag   tag

	older  []tag                // of those that had the socket before
	before atomic.Pointer[pipe] // to the last of them; nil for none
	after  atomic.Pointer[pipe] // from the one that has it now; nil while that is this one
	begun  bool                 // we may read
	closed atomic.Bool
}

// tag begins the connection identifiers of one holder of a socket.
type tag [4]byte

// idLength is the length of connection identifiers: a tag, and as many random bytes as make
// guessing hopeless.
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
	s := newSocket(conn)
	rand.Read(s.keys.Reset[:])
	rand.Read(s.keys.Token[:])
	return s, nil
}

func newSocket(conn *net.UDPConn) *Socket {
	s := &Socket{UDPConn: conn, batch: ipv4.NewPacketConn(conn)}
	rand.Read(s.tag[:])
	return s
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

// ReadBatch is how quic-go reads: from the socket, or from who has it now. It gives what belongs to
// older connections to those that have them.
func (s *Socket) ReadBatch(messages []ipv4.Message, flags int) (n int, err error) {
	if !s.begun {
		s.await()
		s.begun = true
	}
	for n == 0 && err == nil {
		if after := s.after.Load(); after != nil {
			n, err = after.receive(messages)
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !s.closed.Load() {
				// Who has the socket is gone, and left it to us.
				s.after.Store(nil)
				s.UDPConn.SetReadDeadline(time.Time{})
				n, err = 0, nil
				continue
			}
		} else {
			n, err = s.batch.ReadBatch(messages, flags)
			if errors.Is(err, os.ErrDeadlineExceeded) && s.after.Load() != nil {
				n, err = 0, nil
				continue
			}
		}
		if before := s.before.Load(); before != nil && n > 0 {
			n = s.passOn(before, messages[:n])
		}
	}
	return n, err
}

// passOn sends the packets of older connections to who has them, and moves the others together.
func (s *Socket) passOn(before *pipe, messages []ipv4.Message) (n int) {
	for i := range messages {
		m := &messages[i]
		if t, ok := tagOf(m.Buffers[0][:m.N]); ok && slices.Contains(s.older, t) {
			if before.send(m) {
				continue
			}
			// Nobody has them any more: quic-go tells the client so.
			s.before.CompareAndSwap(before, nil)
		}
		if i != n {
			exchange(&messages[n], m)
		}
		n++
	}
	return n
}

// exchange gives each of two messages what the other has. The memory stays where it is.
func exchange(a, b *ipv4.Message) {
	a.N = copy(a.Buffers[0], b.Buffers[0][:b.N])
	a.NN = copy(a.OOB, b.OOB[:b.NN])
	a.Addr, a.Flags = b.Addr, b.Flags
}

// tagOf is the tag that a packet's connection identifier begins with, where it is as long as ours
// are (RFC 8999, section 5; RFC 9000, section 17).
func tagOf(packet []byte) (t tag, ok bool) {
	const longHeader, version, length = 0x80, 1, 5
	id := packet[min(1, len(packet)):]
	if len(packet) > 0 && packet[0]&longHeader != 0 {
		if len(packet) <= length || int(packet[length]) != idLength {
			return t, false
		}
		id = packet[length+1:]
	}
	if len(id) < idLength {
		return t, false
	}
	return tag(id), true
}

// SetReadDeadline is how quic-go stops to read.
func (s *Socket) SetReadDeadline(t time.Time) error {
	for _, p := range []*pipe{s.before.Load(), s.after.Load()} {
		if p != nil {
			p.SetReadDeadline(t)
		}
	}
	return s.UDPConn.SetReadDeadline(t)
}

// Close closes the socket. Who had it before, or has it now, keeps it.
func (s *Socket) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	for _, p := range []*pipe{s.before.Load(), s.after.Load()} {
		if p != nil {
			p.Close()
		}
	}
	return s.UDPConn.Close()
}

// handover says what the next holder of a socket must know, as the first message on its pipe.
type handover struct {
	Keys Keys
	Tags []byte // of everybody before it, one behind the other
}

// Successor makes what another needs to take the socket over: a descriptor of the socket, and one
// of a pipe between the two. They are the caller's. Nothing changes before TakenOver is called with
// the other end; closing that instead calls it off.
func (s *Socket) Successor() (socket, end int, p *Pipe, err error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return 0, 0, nil, fmt.Errorf("hand over a UDP socket: %w", err)
	}
	own, err := newPipe(ours)
	if err != nil {
		syscall.Close(theirs)
		return 0, 0, nil, err
	}
	h := handover{Keys: s.keys, Tags: append([]byte{}, s.tag[:]...)}
	for _, t := range s.older {
		h.Tags = append(h.Tags, t[:]...)
	}
	if err = own.sendHandover(&h); err == nil {
		socket, err = duplicate(s.UDPConn)
	}
	if err != nil {
		own.Close()
		syscall.Close(theirs)
		return 0, 0, nil, fmt.Errorf("hand over a UDP socket: %w", err)
	}
	return socket, theirs, &Pipe{own}, nil
}

// TakenOver has the socket read by who has the other end of the pipe. This one keeps the
// connections that it has.
func (s *Socket) TakenOver(p *Pipe) {
	s.after.Store(p.p)
	s.UDPConn.SetReadDeadline(time.Now()) // the reader looks again
	p.p.Write(begin)
}

// begin is the message that who has had the socket reads it no more.
var begin = []byte("begin")

// Inherit takes a socket over, by the descriptors that Successor has made, which belong to it. It
// is read when the one before says so, or is gone.
func Inherit(socket, end int) (*Socket, error) {
	file := os.NewFile(uintptr(socket), "udp")
	defer file.Close()
	before, err := newPipe(end)
	if err != nil {
		return nil, err
	}
	h, err := before.receiveHandover()
	if err != nil {
		before.Close()
		return nil, fmt.Errorf("take over a UDP socket: %w", err)
	}
	conn, err := net.FilePacketConn(file)
	if err != nil {
		before.Close()
		return nil, fmt.Errorf("take over a UDP socket: %w", err)
	}
	s := newSocket(conn.(*net.UDPConn))
	s.keys = h.Keys
	for tags := h.Tags; len(tags) >= len(tag{}); tags = tags[len(tag{}):] {
		s.older = append(s.older, tag(tags))
	}
	s.before.Store(before)
	return s, nil
}

// await waits until the one before reads no more.
func (s *Socket) await() {
	before := s.before.Load()
	if before == nil {
		return
	}
	message := make([]byte, len(begin))
	if _, err := io.ReadFull(before, message); err != nil {
		s.before.CompareAndSwap(before, nil)
	}
}
