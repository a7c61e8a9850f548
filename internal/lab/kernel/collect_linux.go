package kernel

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/symbols"
)

// Markers between the addresses of a stack. Each says which context the following addresses belong
// to.
const (
	contextKernel = ^uint64(127) // PERF_CONTEXT_KERNEL, -128
	contextUser   = ^uint64(511) // PERF_CONTEXT_USER, -512
	contextMost   = ^uint64(4094)
	// contextCopied is our own marker, for return addresses found in a copy of the stack.
	contextCopied = ^uint64(4000)
)

// collector counts the target's stacks by their addresses. It must not be used concurrently.
type collector struct {
	target  *target
	whole   bool // records are from all processes
	members map[int]uint64
	asked   map[int]bool // processes that were looked up and are not the target's
	counts  map[string]int64
	lost    uint64 // samples for which the kernel had no room, or that exceed a limit
	// compilers are the processes whose stacks are copied; see Sampler.compilers.
	compilers map[int]*symbols.Process
	key       []byte
}

func newCollector(t *target, whole bool, compilers map[int]*symbols.Process) *collector {
	c := &collector{target: t, whole: whole, counts: map[string]int64{}, asked: map[int]bool{},
		compilers: compilers}
	c.members, _ = t.members()
	return c
}

// take handles a record. It ignores everything but samples of the target and counts of lost
// samples.
func (c *collector) take(record []byte) {
	const header = 8
	switch binary.NativeEndian.Uint32(record) {
	case unix.PERF_RECORD_LOST:
		if len(record) >= header+16 {
			c.lost += binary.NativeEndian.Uint64(record[header+8:])
		}
	case unix.PERF_RECORD_SAMPLE:
		if len(record) < header+16 {
			return
		}
		body := record[header:]
		pid, n := int(binary.NativeEndian.Uint32(body)), binary.NativeEndian.Uint64(body[8:])
		if n > uint64(len(body)-16)/8 || c.whole && !c.ours(pid) {
			return
		}
		c.count(pid, body[16:16+8*n], body[16+8*n:])
	}
}

// count counts a stack. The key is the process and the addresses as the kernel reports them.
func (c *collector) count(pid int, chain, rest []byte) {
	if len(chain) == 0 {
		return // in neither user code nor visible kernel code
	}
	c.key = binary.NativeEndian.AppendUint64(c.key[:0], uint64(pid))
	c.key = append(c.key, chain...)
	if p := c.compilers[pid]; p != nil {
		c.scan(p, rest)
	}
	if _, ok := c.counts[string(c.key)]; !ok && len(c.counts) == mostStacks {
		c.lost++
		return
	}
	c.counts[string(c.key)]++
}

// scan adds the return addresses into compiled code that a copy of the stack contains. The copy is
// preceded by its length, and followed by the length of the part in use.
func (c *collector) scan(p *symbols.Process, rest []byte) {
	if len(rest) < 8 {
		return
	}
	size := binary.NativeEndian.Uint64(rest)
	if size == 0 || size > uint64(len(rest)-16) {
		return
	}
	used := min(size, binary.NativeEndian.Uint64(rest[8+size:]))
	c.key = binary.NativeEndian.AppendUint64(c.key, contextCopied)
	for at := uint64(8); at+8 <= 8+used; at += 8 {
		if word := binary.NativeEndian.Uint64(rest[at:]); p.InTrampolines(word) {
			c.key = binary.NativeEndian.AppendUint64(c.key, word)
		}
	}
}

// ours reports whether a process is the target's. An unknown process may have started since the
// last lookup, so all processes are read again, once for each number.
func (c *collector) ours(pid int) bool {
	if _, ok := c.members[pid]; ok {
		return true
	}
	if c.asked[pid] || pid == 0 {
		return false
	}
	if members, err := c.target.members(); err == nil {
		for one, start := range members {
			c.members[one] = start
		}
	}
	_, ok := c.members[pid]
	if !ok && len(c.asked) < 10*maxProcesses {
		c.asked[pid] = true
	}
	return ok
}

// chain splits a key of counts into the process, the kernel and user addresses, leaf first, and the
// addresses from a copy of the stack.
func chain(key string) (pid int, kernel, user, copied []uint64) {
	raw := []byte(key)
	pid = int(binary.NativeEndian.Uint64(raw))
	side := &user
	for at := 8; at+8 <= len(raw); at += 8 {
		switch pc := binary.NativeEndian.Uint64(raw[at:]); {
		case pc == contextKernel:
			side = &kernel
		case pc == contextUser:
			side = &user
		case pc == contextCopied:
			side = &copied
		case pc >= contextMost:
			// another context, such as a guest's; its addresses are not used
			side = new([]uint64)
		default:
			*side = append(*side, pc)
		}
	}
	return pid, kernel, user, copied
}
