package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/prometheus/procfs"

	"plimsoll/internal/lab/measure"
)

// network is the network namespace to read: the target's, which in a container differs from this
// program's.
type network struct {
	root      string    // of /proc
	dir       string    // its folder net has the counters: of /proc, or of a process
	proc      procfs.FS // of that folder
	namespace string    // the file to enter it by; empty if this program is in it
	of        *processes
}

// networkOf returns the namespace of the target, which is nil if there is none. It compares the
// files of the namespaces, not their links: everyone may read the files, but only the target's own
// user the links.
func networkOf(root string, proc procfs.FS, target *processes) *network {
	n := &network{root: root, dir: root, proc: proc, of: target}
	if target == nil {
		return n
	}
	dir := filepath.Join(root, strconv.Itoa(target.pid))
	theirs, err1 := os.Stat(filepath.Join(dir, "net/dev"))
	ours, err2 := os.Stat(filepath.Join(root, "net/dev"))
	if err1 != nil || err2 != nil || os.SameFile(theirs, ours) {
		return n
	}
	if inside, err := procfs.NewFS(dir); err == nil {
		n.dir, n.proc, n.namespace = dir, inside, filepath.Join(dir, "ns/net")
	}
	return n
}

// gone reports that the namespace can no longer be read because its process has ended. The
// process's own source reports that.
func (n *network) gone() bool { return n.namespace != "" && n.of.lost != nil }

// inside calls do in the namespace in which sockets are opened and settings are read.
func (n *network) inside(do func() error) error {
	if n.namespace == "" {
		return do()
	}
	return within(n.namespace, do)
}

// sockets reads /proc/net/sockstat and sockstat6. It costs 35 µs (BenchmarkSockets).
type sockets struct{ *network }

func (sockets) Name() string { return "host sockets" }

func (s sockets) Read(into map[string]float64) error {
	if s.gone() {
		return nil
	}
	four, err := s.proc.NetSockstat()
	if err != nil {
		return err
	}
	six, err := s.proc.NetSockstat6()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, stat := range []*procfs.NetSockstat{four, six} {
		if stat == nil {
			continue
		}
		for _, p := range stat.Protocols {
			switch p.Protocol {
			case "TCP", "TCP6":
				into[measure.HostTCPInUse] += float64(p.InUse)
				if p.TW != nil {
					into[measure.HostTCPTimeWait] += float64(*p.TW)
				}
			}
		}
	}
	return nil
}

// traffic reads /proc/net/dev, all interfaces except the loopback. It costs 15 µs with four
// interfaces (BenchmarkTraffic). procfs would panic on a line that is too short.
type traffic struct {
	*network
	text [256 << 10]byte
}

func (*traffic) Name() string { return "host network" }

// The columns of an interface, after its name.
const (
	receivedBytes   = 0
	receivedDropped = 3
	sentBytes       = 8
	sentDropped     = 11
)

func (t *traffic) Read(into map[string]float64) error {
	if t.gone() {
		return nil
	}
	text, err := readWhole(filepath.Join(t.dir, "net/dev"), t.text[:])
	if err != nil {
		return err
	}
	var total [sentDropped + 1]float64
	for line := range bytes.Lines(text) {
		name, columns, found := bytes.Cut(line, []byte(":"))
		if !found || string(bytes.TrimSpace(name)) == "lo" {
			continue // the two heading lines have no colon
		}
		column := 0
		for value := range bytes.FieldsSeq(columns) {
			n, err := strconv.ParseUint(string(value), 10, 64)
			if err != nil {
				return errors.New("net/dev is not understood")
			}
			if column < len(total) {
				total[column] += float64(n)
			}
			column++
		}
		if column <= sentDropped {
			return errors.New("net/dev is not understood")
		}
	}
	into[measure.HostNetReceived] = total[receivedBytes]
	into[measure.HostNetSent] = total[sentBytes]
	into[measure.HostNetDropped] = total[receivedDropped] + total[sentDropped]
	return nil
}

// tcpCounters reads /proc/net/snmp and netstat. It costs 70 µs (BenchmarkTCPCounters), mostly in
// the kernel. procfs would parse each of their 200 columns.
type tcpCounters struct {
	*network
	text [32 << 10]byte
}

func (*tcpCounters) Name() string { return "host TCP counters" }

func (t *tcpCounters) Read(into map[string]float64) error {
	if t.gone() {
		return nil
	}
	last, text := "", []byte(nil)
	for _, table := range []struct {
		file, name string
		values     map[string]string
	}{
		{"snmp", "Tcp:", snmpValues}, {"snmp", "Udp:", udpValues}, {"netstat", "TcpExt:", netstatValues},
	} {
		if table.file != last {
			var err error
			if text, err = readWhole(filepath.Join(t.dir, "net", table.file), t.text[:]); err != nil {
				return err
			}
			last = table.file
		}
		if found := columns(text, table.name, table.values, into); found < len(table.values) {
			return fmt.Errorf("%s of net/%s has %d of the %d columns that are read",
				table.name, table.file, found, len(table.values))
		}
	}
	return nil
}

// The names of the tables' columns here.
var (
	snmpValues = map[string]string{
		"RetransSegs":  measure.HostTCPRetransmits,
		"OutSegs":      measure.HostTCPSegmentsSent,
		"ActiveOpens":  measure.HostTCPOpenedActive,
		"PassiveOpens": measure.HostTCPOpenedPassive,
	}
	udpValues     = map[string]string{"OutDatagrams": measure.HostUDPSent}
	netstatValues = map[string]string{
		"ListenOverflows": measure.HostTCPListenOverflows,
		"ListenDrops":     measure.HostTCPListenDrops,
		"TCPSynRetrans":   measure.HostTCPSYNRetransmits,
	}
)

// columns reads a table of two lines, one of names and one of values, both starting with the
// table's name. It returns how many values it found.
func columns(
	text []byte, table string, values map[string]string, into map[string]float64,
) (found int) {
	var names []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(table)) {
			continue
		}
		if names == nil {
			names = line
			continue
		}
		for len(names) > 0 && len(line) > 0 {
			var name, value []byte
			name, names, _ = bytes.Cut(names, []byte(" "))
			value, line, _ = bytes.Cut(line, []byte(" "))
			as, wanted := values[string(bytes.TrimSpace(name))]
			if !wanted {
				continue
			}
			if n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err == nil {
				into[as] = float64(n)
				found++
			}
		}
		return found
	}
	return found
}

// settings reads the kernel's settings of the calling thread's namespace. It returns the range of
// ports for outgoing connections, 0, 0 if that cannot be read. It costs 25 µs (BenchmarkSettings).
func settings(root string, into map[string]float64) (low, high uint16, err error) {
	var memory [64]byte
	read := func(name, as string) error {
		text, err := readSmall(filepath.Join(root, "sys/net", name), memory[:])
		if err != nil {
			return fmt.Errorf("the kernel's setting net/%s cannot be read: %w", name, err)
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
		if err != nil {
			return fmt.Errorf("the kernel's setting net/%s is not a number", name)
		}
		into[as] = float64(n)
		return nil
	}
	err = errors.Join(read("core/somaxconn", measure.HostTCPSomaxconn),
		read("ipv4/tcp_tw_reuse", measure.HostTCPTimeWaitReuse))
	entries := read("netfilter/nf_conntrack_count", measure.HostConntrackEntries)
	limit := read("netfilter/nf_conntrack_max", measure.HostConntrackLimit)
	// Without the module, nothing is tracked and nothing can fill up.
	if !errors.Is(entries, fs.ErrNotExist) {
		err = errors.Join(err, entries, limit)
	}
	text, missing := readSmall(filepath.Join(root, "sys/net/ipv4/ip_local_port_range"), memory[:])
	if _, scan := fmt.Sscan(string(text), &low, &high); missing != nil || scan != nil ||
		low > high {
		return 0, 0, errors.Join(err, errors.New("the range of local ports cannot be read"))
	}
	into[measure.HostTCPPorts] = float64(high-low) + 1
	return low, high, err
}
