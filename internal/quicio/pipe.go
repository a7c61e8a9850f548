package quicio

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
)

// Pipe is one end of what connects two holders of a socket.
type Pipe struct{ p *pipe }

// Close calls a handover off, or ends it.
func (p *Pipe) Close() { p.p.Close() }

// pipe carries whole messages: packets as they came, with the addresses that they came from and
// what the kernel says beside. One that does not fit now is lost, as packets may be.
type pipe struct {
	*net.UnixConn
	in, out [maxMessage]byte // used by the one goroutine that reads the socket
}

// maxMessage is room for the largest packet that quic-go reads, and what stands in front of it.
const maxMessage = 4096

// handoverLimit is how long the first message may take. It was sent before the other side began.
const handoverLimit = 10 * time.Second

func newPipe(fd int) (*pipe, error) {
	file := os.NewFile(uintptr(fd), "pipe")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("hand over a UDP socket: %w", err)
	}
	return &pipe{UnixConn: conn.(*net.UnixConn)}, nil
}

// send sends a packet; false means that nobody is there any more.
func (p *pipe) send(m *ipv4.Message) bool {
	from := m.Addr.(*net.UDPAddr).AddrPort()
	address, err := from.MarshalBinary()
	if err != nil {
		return true
	}
	b := append(p.out[:0], byte(len(address)))
	b = append(append(b, address...), byte(m.NN))
	b = append(append(b, m.OOB[:m.NN]...), m.Buffers[0][:m.N]...)
	if len(b) > maxMessage {
		return true
	}
	raw, err := p.SyscallConn()
	if err != nil {
		return false
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		failed = syscall.Sendto(int(fd), b, sendFlags, nil)
		return true
	})
	return err == nil && (failed == nil || failed == syscall.EAGAIN || failed == syscall.ENOBUFS)
}

// receive takes one packet.
func (p *pipe) receive(messages []ipv4.Message) (int, error) {
	n, err := p.Read(p.in[:])
	if err != nil {
		return 0, err
	}
	b := p.in[:n]
	address, b, ok := prefixed(b)
	if !ok {
		return 0, nil
	}
	beside, packet, ok := prefixed(b)
	var from netip.AddrPort
	if !ok || from.UnmarshalBinary(address) != nil {
		return 0, nil
	}
	m := &messages[0]
	m.Addr = net.UDPAddrFromAddrPort(from)
	m.NN = copy(m.OOB, beside)
	m.N = copy(m.Buffers[0], packet)
	return 1, nil
}

// prefixed splits off bytes that their number stands in front of.
func prefixed(b []byte) (part, rest []byte, ok bool) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return nil, nil, false
	}
	n := 1 + int(b[0])
	return b[1:n], b[n:], true
}

func (p *pipe) sendHandover(h *handover) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(h); err != nil {
		return err
	}
	_, err := p.Write(b.Bytes())
	return err
}

func (p *pipe) receiveHandover() (*handover, error) {
	p.SetReadDeadline(time.Now().Add(handoverLimit))
	defer p.SetReadDeadline(time.Time{})
	n, err := p.Read(p.in[:])
	if err != nil {
		return nil, err
	}
	h := &handover{}
	return h, gob.NewDecoder(bytes.NewReader(p.in[:n])).Decode(h)
}

// duplicate is another descriptor of a socket.
func duplicate(conn syscall.Conn) (fd int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(old uintptr) {
		if fd, failed = syscall.Dup(int(old)); failed == nil {
			syscall.CloseOnExec(fd)
		}
	})
	if err == nil {
		err = failed
	}
	return fd, err
}
