package gateway

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
)

// memory is how many bytes the process has of the system, and how many it may have: by GOMEMLIMIT or
// its control group, the less of both; 0 where neither limits it.
func (g *Gateway) memory() (used, limit uint64) {
	if g.simulated() {
		return 0, 0
	}
	s := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(s)
	used = s[0].Value.Uint64() - s[1].Value.Uint64()
	limit = math.MaxInt64
	if own := debug.SetMemoryLimit(-1); own > 0 {
		limit = uint64(own)
	}
	if limit = min(limit, groupLimit("/")); limit == math.MaxInt64 {
		return used, 0
	}
	return used, limit
}

// groupLimit is the limit of the control group (version 2) that the process is in, or of those
// around it, of a machine whose files are under root.
func groupLimit(root string) uint64 {
	text, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return math.MaxInt64
	}
	limit := uint64(math.MaxInt64)
	for line := range strings.Lines(string(text)) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		for group = path.Clean("/" + group); ; group = path.Dir(group) {
			limit = min(limit, groupMaximum(path.Join(root, "sys/fs/cgroup", group)))
			if group == "/" {
				break
			}
		}
	}
	return limit
}

func groupMaximum(group string) uint64 {
	text, err := os.ReadFile(group + "/memory.max")
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64) // "max" is none
	if err != nil {
		return math.MaxInt64
	}
	return min(n, math.MaxInt64)
}
