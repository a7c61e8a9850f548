package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The parts of INET_DIAG that x/sys does not define, from linux/inet_diag.h.
const (
	diagRequestSize = 56
	diagMessageSize = 72
	diagInfo        = 2 // attribute of an answer, a struct tcp_info
	diagStates      = 1<<12 - 2
)

// The parts of UNIX_DIAG, from linux/unix_diag.h.
const (
	localRequestSize = 24
	localMessageSize = 16
	localName        = 0 // attributes of an answer: the bound name and the peer
	localPeer        = 2
)

// Limits of a dump.
const (
	diagPatience = 1 // seconds without an answer
	diagBuffer   = 32 << 10
	// An answer holds a few hundred sockets, fewer if they have many attributes.
	maxAnswers = maxSockets / 8
)

// diag asks the kernel for the TCP sockets of the calling thread's network namespace, each with its
// struct tcp_info, over a new netlink socket. It calls take once per socket, with the listening
// ones first within each address family. A dump costs 0.6 ms of a processor (BenchmarkDump): for
// each family the kernel goes through its whole table of sockets, of all namespaces.
func diag(take func(socket)) error { return diagInternet(unix.IPPROTO_TCP, take) }

// diagDatagrams does the same for UDP sockets.
func diagDatagrams(take func(socket)) error { return diagInternet(unix.IPPROTO_UDP, take) }

func diagInternet(protocol uint8, take func(socket)) error {
	d, err := openDump(func(body []byte) {
		if s, ok := parseDiag(body); ok {
			take(s)
		}
	})
	if err != nil {
		return fmt.Errorf("INET_DIAG is refused: %w", err)
	}
	defer unix.Close(d.fd)
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		err := d.ask(request(family, protocol))
		if family == unix.AF_INET6 && errors.Is(err, unix.ENOENT) {
			return nil // a kernel without IPv6
		}
		if err != nil {
			return fmt.Errorf("INET_DIAG is refused: %w", err)
		}
	}
	return nil
}

// diagLocal asks for the Unix stream sockets, each with its name and its peer.
func diagLocal(take func(localSocket)) error {
	d, err := openDump(func(body []byte) {
		if s, ok := parseLocal(body); ok {
			take(s)
		}
	})
	if err != nil {
		return fmt.Errorf("UNIX_DIAG is refused: %w", err)
	}
	defer unix.Close(d.fd)
	order := binary.NativeEndian
	out := message(localRequestSize)
	body := out[unix.NLMSG_HDRLEN:]
	body[0] = unix.AF_UNIX
	order.PutUint32(body[4:], diagStates)
	order.PutUint32(body[12:], 1<<localName|1<<localPeer)
	if err := d.ask(out); err != nil {
		return fmt.Errorf("UNIX_DIAG is refused: %w", err)
	}
	return nil
}

// parseLocal reads a struct unix_diag_msg and the attributes after it.
func parseLocal(body []byte) (s localSocket, ok bool) {
	if len(body) < localMessageSize || body[1] != unix.SOCK_STREAM {
		return s, false
	}
	order := binary.NativeEndian
	s = localSocket{state: int(body[2]), inode: uint64(order.Uint32(body[4:]))}
	for kind, value := range attributes(body[localMessageSize:]) {
		switch {
		case kind == localName:
			s.name = readable(value)
		case kind == localPeer && len(value) >= 4:
			s.peer = uint64(order.Uint32(value))
		}
	}
	return s, true
}

// attributes returns the attributes after a message.
func attributes(rest []byte) iter.Seq2[int, []byte] {
	order := binary.NativeEndian
	return func(yield func(int, []byte) bool) {
		for len(rest) >= unix.SizeofNlAttr {
			n := int(order.Uint16(rest))
			if n < unix.SizeofNlAttr || n > len(rest) ||
				!yield(int(order.Uint16(rest[2:])), rest[unix.SizeofNlAttr:n]) {
				return
			}
			rest = rest[min((n+3)&^3, len(rest)):]
		}
	}
}

// openDump opens the netlink socket for a dump.
func openDump(each func(body []byte)) (*dump, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO,
		&unix.Timeval{Sec: diagPatience}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &dump{fd: fd, buffer: make([]byte, diagBuffer), each: each}, nil
}

type dump struct {
	fd       int
	sequence uint32
	buffer   []byte
	count    int
	each     func(body []byte)
}

// request returns the request of a dump, without its sequence number.
func request(family, protocol uint8) []byte {
	out := message(diagRequestSize)
	body := out[unix.NLMSG_HDRLEN:]
	body[0], body[1], body[2] = family, protocol, 1<<(diagInfo-1)
	binary.NativeEndian.PutUint32(body[4:], diagStates)
	return out
}

// message returns the head of a request, with room for the rest of it.
func message(size int) []byte {
	order := binary.NativeEndian
	out := make([]byte, unix.NLMSG_HDRLEN+size)
	order.PutUint32(out, uint32(len(out)))
	order.PutUint16(out[4:], unix.SOCK_DIAG_BY_FAMILY)
	order.PutUint16(out[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	return out
}

// ask sends a request and reads all its answers.
func (d *dump) ask(request []byte) error {
	d.sequence++
	binary.NativeEndian.PutUint32(request[8:], d.sequence)
	if err := unix.Sendto(d.fd, request, 0, &unix.SockaddrNetlink{
		Family: unix.AF_NETLINK,
	}); err != nil {
		return err
	}
	for range maxAnswers {
		n, from, err := unix.Recvfrom(d.fd, d.buffer, unix.MSG_TRUNC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("the kernel does not answer within %d s", diagPatience)
		}
		if err != nil {
			return err
		}
		if kernel, ok := from.(*unix.SockaddrNetlink); !ok || kernel.Pid != 0 {
			continue
		}
		if n > len(d.buffer) {
			return fmt.Errorf("an answer of the kernel has %d bytes, more than %d",
				n, len(d.buffer))
		}
		if last, err := d.messages(d.buffer[:n]); last || err != nil {
			return err
		}
	}
	return fmt.Errorf("the kernel's answer does not end after %d parts", maxAnswers)
}

// messages reads the messages of one answer.
func (d *dump) messages(text []byte) (last bool, err error) {
	order := binary.NativeEndian
	for len(text) >= unix.NLMSG_HDRLEN {
		size := int(order.Uint32(text))
		if size < unix.NLMSG_HDRLEN || size > len(text) {
			return false, errors.New("an answer of the kernel is not understood")
		}
		kind := order.Uint16(text[4:])
		sequence := order.Uint32(text[8:])
		body := text[unix.NLMSG_HDRLEN:size]
		text = text[min((size+3)&^3, len(text)):]
		if sequence != d.sequence {
			continue
		}
		switch kind {
		case unix.NLMSG_DONE, unix.NLMSG_ERROR:
			if len(body) >= 4 {
				if number := int32(order.Uint32(body)); number < 0 {
					return true, unix.Errno(-number)
				}
			}
			return true, nil
		case unix.SOCK_DIAG_BY_FAMILY:
			d.each(body)
			if d.count++; d.count > maxSockets {
				return false, fmt.Errorf("there are more than %d sockets", maxSockets)
			}
		}
	}
	return false, nil
}

// latestAck is after how many milliseconds the other end acknowledges a question at the latest that it
// has not answered: the kernel waits for at most 200. What comes later are keep-alive probes.
const latestAck = 250

// awaits reports whether an answer is awaited, from how many milliseconds ago the last question was
// sent, the last answer came, and the last segment that acknowledged something, and from the number of
// segments that were not acknowledged. Times are known to a tick of the kernel, of up to 10 ms. What was
// sent in the tick in which the last answer came is a question if the other end has not acknowledged it,
// or has since: an answer acknowledges what was asked, and a question alone is acknowledged later.
func awaits(question, answer, heard, unacked uint32) bool {
	if question != answer {
		return question < answer
	}
	return unacked > 0 || heard < answer && answer-heard <= latestAck
}

// parseDiag reads a struct inet_diag_msg and the attributes after it.
func parseDiag(body []byte) (s socket, ok bool) {
	if len(body) < diagMessageSize {
		return s, false
	}
	size := 4
	if body[0] == unix.AF_INET6 {
		size = 16
	}
	order := binary.NativeEndian
	address := func(at, port int) netip.AddrPort {
		a, _ := netip.AddrFromSlice(body[at : at+size])
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(body[port:]))
	}
	s = socket{
		local:  address(8, 4),
		remote: address(24, 6),
		state:  int(body[1]),
		inode:  uint64(order.Uint32(body[68:])),
	}
	if s.state == listening {
		s.queue, s.limit = order.Uint32(body[56:]), order.Uint32(body[60:])
	}
	const (
		sentAgain = int(unsafe.Offsetof(unix.TCPInfo{}.Total_retrans))
		sent      = int(unsafe.Offsetof(unix.TCPInfo{}.Last_data_sent)) // ms ago
		came      = int(unsafe.Offsetof(unix.TCPInfo{}.Last_data_recv))
		full      = int(unsafe.Offsetof(unix.TCPInfo{}.Snd_mss))
		heard     = int(unsafe.Offsetof(unix.TCPInfo{}.Last_ack_recv))
		unacked   = int(unsafe.Offsetof(unix.TCPInfo{}.Unacked)) // segments
		acked     = int(unsafe.Offsetof(unix.TCPInfo{}.Bytes_acked))
		received  = int(unsafe.Offsetof(unix.TCPInfo{}.Bytes_received))
		asked     = int(unsafe.Offsetof(unix.TCPInfo{}.Data_segs_out)) // the last one read
		answered  = int(unsafe.Offsetof(unix.TCPInfo{}.Data_segs_in))
	)
	for kind, info := range attributes(body[diagMessageSize:]) {
		if kind == diagInfo && len(info) >= sentAgain+4 {
			s.retransmits = order.Uint32(info[sentAgain:])
			s.waits = awaits(order.Uint32(info[sent:]), order.Uint32(info[came:]),
				order.Uint32(info[heard:]), order.Uint32(info[unacked:]))
			s.told = true
		}
		if kind == diagInfo && len(info) >= asked+4 {
			s.data = data{
				sent:      order.Uint32(info[asked:]),
				came:      order.Uint32(info[answered:]),
				sentBytes: order.Uint64(info[acked:]),
				cameBytes: order.Uint64(info[received:]),
				full:      order.Uint32(info[full:]),
			}
		}
	}
	return s, true
}
