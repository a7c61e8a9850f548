package kernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/measure"
)

const (
	// maxConnections bounds the connections to distinguish in the kernel; the one that has been
	// idle longest is evicted.
	maxConnections = 1024
	// maxNamed bounds the connections that are reported by name.
	maxNamed = 8
)

// connection identifies a connection, in the program's format.
type connection struct {
	Remote     [16]byte // an IPv4 address is written as ::ffff:192.0.2.1
	RemotePort [2]byte  // in network byte order
	LocalPort  uint16
}

const connectionSize = 20

func (c connection) String() string {
	remote := netip.AddrPortFrom(netip.AddrFrom16(c.Remote).Unmap(),
		binary.BigEndian.Uint16(c.RemotePort[:]))
	return fmt.Sprintf("%d-%s", c.LocalPort, remote)
}

// retransmits reports the TCP segments that are retransmitted in the target's network namespace, by
// connection. The kernel mostly retransmits on a timer, outside of any process, so retransmits
// cannot be attributed to a process.
type retransmits struct {
	*programs
	target      *target
	connections []connection
	counts      []uint64
	// named holds the connections reported by name, with their highest counts: a connection that
	// was evicted in the kernel starts there again at zero.
	named map[connection]uint64
}

func (*retransmits) Name() string { return "retransmits by connection" }

func newRetransmits(t *target) (*retransmits, error) {
	r := &retransmits{target: t, named: make(map[connection]uint64)}
	var namespace uint32
	link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", t.pid))
	if err != nil {
		return r, errors.New("the target's network namespace may not be looked up: " +
			"run as root or as the target's user")
	}
	if _, err := fmt.Sscanf(link, "net:[%d]", &namespace); err != nil {
		return r, fmt.Errorf("the target's network namespace is not understood: %q", link)
	}
	fields, err := findSockFields()
	if err != nil {
		return r, err
	}
	maps := map[string]*ebpf.MapSpec{
		"connections": {
			Type:       ebpf.LRUHash,
			KeySize:    connectionSize,
			ValueSize:  8,
			MaxEntries: maxConnections,
		},
		"total": {Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1},
	}
	r.programs, err = load(maps, map[string]asm.Instructions{
		"tcp_retransmit_skb": onRetransmit(fields, namespace),
	})
	if err != nil {
		return r, err
	}
	r.connections, r.counts = make([]connection, maxConnections), make([]uint64, maxConnections)
	return r, nil
}

func (r *retransmits) Read(into map[string]float64) error {
	if err := r.target.check(); err != nil {
		return err
	}
	var total uint64
	if err := r.collection.Maps["total"].Lookup(uint32(0), &total); err != nil {
		return err
	}
	into[measure.BPFRetransmits] = float64(total)
	if total == 0 {
		return nil
	}
	var cursor ebpf.MapBatchCursor
	n, err := r.collection.Maps["connections"].BatchLookup(&cursor, r.connections, r.counts, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return err
	}
	r.name(r.connections[:n], r.counts[:n])
	for c, count := range r.named {
		into[measure.BPFRetransmitsOf+c.String()] = float64(count)
	}
	return nil
}

// name updates the named connections, and names the busiest others while there is room.
func (r *retransmits) name(connections []connection, counts []uint64) {
	order := make([]int, len(connections))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	for _, i := range order {
		before, known := r.named[connections[i]]
		if known || len(r.named) < maxNamed {
			r.named[connections[i]] = max(before, counts[i])
		}
	}
}

// Offsets of the program's variables on the stack.
const (
	stackKey   = -24 // a connection
	stackZero  = -28
	stackCount = -40
)

// sockFields are the offsets of the fields that identify a connection, in bytes from the start of a
// sock; inode is from the start of its net.
type sockFields struct {
	net, inode, family, address4, address6, remotePort, localPort int16
}

func findSockFields() (f sockFields, err error) {
	types, err := kernelTypes()
	if err != nil {
		return f, err
	}
	for _, w := range []struct {
		into *int16
		of   string
		path []string
	}{
		{&f.net, "sock", []string{"__sk_common", "skc_net", "net"}},
		{&f.inode, "net", []string{"ns", "inum"}},
		{&f.family, "sock", []string{"__sk_common", "skc_family"}},
		{&f.address4, "sock", []string{"__sk_common", "skc_daddr"}},
		{&f.address6, "sock", []string{"__sk_common", "skc_v6_daddr"}},
		{&f.remotePort, "sock", []string{"__sk_common", "skc_dport"}},
		{&f.localPort, "sock", []string{"__sk_common", "skc_num"}},
	} {
		if *w.into, err = offset(types, w.of, w.path...); err != nil {
			return f, err
		}
	}
	return f, nil
}

// onRetransmit is the program for tcp_retransmit_skb(const struct sock *sk, …), for the network
// namespace with this inode.
func onRetransmit(f sockFields, namespace uint32) asm.Instructions {
	p := asm.Instructions{
		asm.LoadMem(asm.R7, asm.R1, 0, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, f.net, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, f.inode, asm.Word),
		asm.LoadImm(asm.R2, int64(namespace), asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R2, "exit"),
		asm.StoreImm(asm.RFP, stackZero, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, 0).WithReference("total"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackZero),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
	}
	p = append(p, f.key("keyed")...)
	return append(p,
		asm.LoadMapPtr(asm.R1, 0).WithReference("connections").WithSymbol("keyed"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackKey),
		asm.FnMapLookupElem.Call(),
		asm.JNE.Imm(asm.R0, 0, "known"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreMem(asm.RFP, stackCount, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, 0).WithReference("connections"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackKey),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, stackCount),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
		asm.Ja.Label("exit"),
		asm.Mov.Imm(asm.R1, 1).WithSymbol("known"),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"),
		asm.Return(),
	)
}

// key puts the connection of the sock in register 7 on the stack, and goes to done.
func (f sockFields) key(done string) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.R7, f.remotePort, asm.Half),
		asm.StoreMem(asm.RFP, stackKey+16, asm.R1, asm.Half),
		asm.LoadMem(asm.R1, asm.R7, f.localPort, asm.Half),
		asm.StoreMem(asm.RFP, stackKey+18, asm.R1, asm.Half),
		asm.LoadMem(asm.R1, asm.R7, f.family, asm.Half),
		asm.JEq.Imm(asm.R1, unix.AF_INET6, "six"),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, stackKey, asm.R1, asm.DWord),
		asm.StoreImm(asm.RFP, stackKey+8, 0, asm.Half),
		asm.StoreImm(asm.RFP, stackKey+10, 0xffff, asm.Half),
		asm.LoadMem(asm.R1, asm.R7, f.address4, asm.Word),
		asm.StoreMem(asm.RFP, stackKey+12, asm.R1, asm.Word),
		asm.Ja.Label(done),
		asm.Mov.Reg(asm.R1, asm.RFP).WithSymbol("six"),
		asm.Add.Imm(asm.R1, stackKey),
		asm.Mov.Imm(asm.R2, 16),
		asm.Mov.Reg(asm.R3, asm.R7),
		asm.Add.Imm(asm.R3, int32(f.address6)),
		asm.FnProbeReadKernel.Call(),
	}
}
