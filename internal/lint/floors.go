package lint

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// floors is the house: a room uses the floors below its own, and no room of its own floor. A room
// is its folder's path under the module; one that ends in "/" stands for the rooms in it. Tests
// obey too, but for the few that tie rooms together and live on the top floor.
var floors = []struct {
	level int
	rooms []string
}{
	{0, []string{
		"internal/head", "internal/hist", "internal/reactor", "internal/invariant", "internal/cidr",
		"internal/freeport", "internal/hash", "internal/breaker", "internal/concurrency",
		"internal/crash", "internal/demo", "internal/lint", "internal/admission", "internal/hpack",
		"internal/websocket", "internal/grpc", "internal/plainfile", "web",
	}},
	{1, []string{
		"internal/http1", "internal/http2", "internal/http3", "internal/quicio", "internal/tlsio",
		"internal/cache", "internal/redis",
	}},
	{2, []string{"internal/exchange", "internal/exchange/exchangetest", "internal/telemetry"}},
	{3, []string{"internal/policy/", "internal/upstream", "internal/route", "internal/config"}},
	{4, []string{"internal/proxy", "internal/loadline"}},
	{5, []string{"internal/gateway"}},
	{6, []string{"internal/admin"}},
	{7, []string{"cmd/", "bench/", "examples/", "docs/", "internal/sim", "internal/top"}},
}

// labFloors is the lab's own staircase, inside it: a room uses the rooms below its own step. What
// the lab takes of the rest of the house is floors 0 and 1, and config.
var labFloors = [][]string{
	{"measure", "pace", "stats", "heap", "format", "disk"},
	{"slo", "queue", "load", "profile", "symbols"},
	{"model", "scenario", "replay", "probe", "scrape", "stacks", "reference", "wrkcheck"},
	{"record", "runner", "doctor", "kernel", "profiler", "refserver"},
	{"survey", "diagnose", "experiment", "plan"},
	{"harness", "report"},
	{"text", "remote"},
	{"document"},
}

// labFloor is the step of a lab's room, -1 when the lab has no such room.
func labFloor(dir string) int {
	for level, rooms := range labFloors {
		if slices.Contains(rooms, path.Base(room(dir))) {
			return level
		}
	}
	return -1
}

// anywhere may be used by every room, whatever its floor: checks that a build tag turns on, and no
// state.
const anywhere = "internal/invariant"

// estimator is the one room of the gateway's that uses rooms of the lab: numbers, which know
// neither sockets nor clocks nor files. It estimates from passing traffic what a survey finds, by
// the same model.
const estimator = "internal/loadline"

var numbers = []string{"measure", "stats", "slo", "queue", "model"}

// floor finds the level of a folder; ok is false when the house has no such room.
func floor(dir string) (level int, ok bool) {
	for _, f := range floors {
		for _, room := range f.rooms {
			if dir == room || strings.HasSuffix(room, "/") && strings.HasPrefix(dir+"/", room) ||
				strings.HasPrefix(dir, room+"/") {
				return f.level, true
			}
		}
	}
	return 0, false
}

// room is the part of a folder's path that names its room: internal/policy/limit/x is in
// internal/policy/limit.
func room(dir string) string {
	parts := strings.Split(dir, "/")
	n := 2
	if strings.HasPrefix(dir, "internal/policy/") || strings.HasPrefix(dir, "internal/lab/") {
		n = 3
	}
	return path.Join(parts[:min(n, len(parts))]...)
}

// lab says whether a folder is the lab's, which stands on floors 0 and 1 and on config.
func lab(dir string) bool { return strings.HasPrefix(dir, "internal/lab/") || dir == "internal/lab" }

func imports(f *file, module string) []string {
	var broken []string
	report := func(format string, args ...any) {
		broken = append(broken, f.path+": "+fmt.Sprintf(format, args...))
	}
	from := f.dir()
	own, known := floor(from)
	if !known && !lab(from) && from != "." {
		report("the house has no room %s: add it to floors in internal/lint, on the lowest floor "+
			"that fits", from)
		return broken
	}
	for _, spec := range f.tree.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			report("an import that cannot be read: %s", spec.Path.Value)
			continue
		}
		to, ours := strings.CutPrefix(name, module+"/")
		if !ours || room(to) == room(from) {
			continue
		}
		if why := forbidden(from, to, own); why != "" {
			report("%s may not import %s: %s", room(from), room(to), why)
		}
	}
	return broken
}

// forbidden says why a room may not use another; it is empty when it may.
func forbidden(from, to string, own int) string {
	if room(to) == anywhere {
		return ""
	}
	if lab(from) {
		if lab(to) {
			return forbiddenInLab(from, to)
		}
		if level, known := floor(to); known && level <= 1 || room(to) == "internal/config" {
			return ""
		}
		return "the lab stands on floors 0 and 1 and on config, and knows nothing of the gateway"
	}
	if lab(to) {
		if own == 7 || room(from) == estimator && slices.Contains(numbers, path.Base(room(to))) {
			return ""
		}
		return "the gateway knows nothing of the lab"
	}
	level, known := floor(to)
	switch {
	case !known:
		return "the house has no such room"
	case level > own:
		return fmt.Sprintf("it is on floor %d, above floor %d", level, own)
	case level == own && own < 7:
		return fmt.Sprintf("both are on floor %d", own)
	}
	return ""
}

// forbiddenInLab says why a room of the lab may not use another one; it is empty when it may.
func forbiddenInLab(from, to string) string {
	a, b := labFloor(from), labFloor(to)
	switch {
	case a < 0 || b < 0:
		return "the lab has no such room: add it to labFloors in internal/lint, on the lowest step that fits"
	case b >= a:
		return fmt.Sprintf("in the lab it is on step %d, and the other on step %d", a, b)
	}
	return ""
}
