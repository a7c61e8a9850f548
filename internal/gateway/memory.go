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

// memory returns how many bytes the process has from the system, and its limit: the smaller of
// GOMEMLIMIT and the limit of its control group; 0 if there is neither.
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

// groupLimit is the smallest memory limit of the process's control group (version 2) and the groups
// that contain it. root is the root directory of the machine's files.
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
