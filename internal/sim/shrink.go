package sim

import (
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// shorter looks for a shorter scenario that fails in the same way, for so long. try plays one and
// returns its failure. It takes away clients, acts, requests and services, then whims of the kernel
// and of the clients, as long as any of that can go.
func shorter(
	s Scenario, failure error, budget time.Duration, try func(Scenario) error,
) (Scenario, error) {
	k := &shrinker{
		best: s, failure: failure, kind: kind(failure), until: time.Now().Add(budget), try: try,
	}
	for before := -1; before != k.kept && !k.over(); {
		before = k.kept
		k.parts(func(s *Scenario) int { return len(s.Clients) }, func(s *Scenario, from, to int) {
			s.Clients = without(s.Clients, from, to)
		})
		k.parts(func(s *Scenario) int { return len(s.Acts) }, func(s *Scenario, from, to int) {
			s.Acts = without(s.Acts, from, to)
		})
		for i := range k.best.Clients {
			k.parts(func(s *Scenario) int { return len(s.Clients[i].Requests) }, func(s *Scenario, from, to int) {
				s.Clients = append([]ClientPlan(nil), s.Clients...)
				s.Clients[i].Requests = without(s.Clients[i].Requests, from, to)
			})
		}
		for _, simpler := range simplifications {
			k.consider(simpler)
		}
		for i := range k.best.Clients {
			for _, simpler := range plainer {
				k.consider(func(s *Scenario) {
					s.Clients = append([]ClientPlan(nil), s.Clients...)
					simpler(&s.Clients[i])
				})
			}
		}
	}
	return k.best, k.failure
}

// kind is a failure without what differs between two of the same kind: numbers, names, and where in
// memory things lay. A panic's kind is where it was raised.
func kind(failure error) string {
	text, _, _ := strings.Cut(failure.Error(), "\n")
	if what, stack, panicked := strings.Cut(text, callMark); panicked {
		first, _, _ := strings.Cut(stack, callMark)
		return varying.ReplaceAllString(what, "#") + callMark + first
	}
	return varying.ReplaceAllString(text, "#")
}

// callMark stands before each call that led to a panic, the last one first.
const callMark = " <- "

// calls are the calls of a stack that are the gateway's, and not the simulation's.
func calls(stack []byte) string {
	var b strings.Builder
	lines := strings.Split(string(stack), "\n")
	for i, line := range lines {
		name, ours := strings.CutPrefix(line, "plimsoll/internal/")
		if !ours || strings.HasPrefix(name, "sim") || i+1 == len(lines) {
			continue
		}
		if at := strings.LastIndexByte(name, '('); at > 0 {
			name = name[:at]
		}
		place, _, _ := strings.Cut(filepath.Base(strings.TrimSpace(lines[i+1])), " ")
		b.WriteString(callMark + name + " (" + place + ")")
	}
	return b.String()
}

var varying = regexp.MustCompile(`(the )?connection( \d+)? (to|at) [^ ,]+(, )?|c\d+r\d+\w*|[A-Z]{3,7} /\S*|"[^"]*"|-?\d[\d.:]*[a-zµ]*`)

type shrinker struct {
	best    Scenario
	failure error
	kind    string
	until   time.Time
	kept    int // how many steps have made it shorter
	try     func(Scenario) error
}

func (k *shrinker) over() bool { return time.Now().After(k.until) }

// consider takes a change if the scenario still fails in the same way with it.
func (k *shrinker) consider(change func(*Scenario)) bool {
	s := k.best
	change(&s)
	if reflect.DeepEqual(s, k.best) {
		return false
	}
	// What is taken away moves the kernel's other draws, so the same thing may need another draw to
	// happen.
	for range 3 {
		if k.over() {
			return false
		}
		if failure := k.try(s); failure != nil && kind(failure) == k.kind {
			k.best, k.failure = s, failure
			k.kept++
			return true
		}
		s.Luck++
	}
	return false
}

// parts takes away as many of some parts as it can: first halves, then smaller and smaller pieces.
func (k *shrinker) parts(count func(*Scenario) int, remove func(s *Scenario, from, to int)) {
	for size := (count(&k.best) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < count(&k.best) && !k.over(); {
			to := min(from+size, count(&k.best))
			if !k.consider(func(s *Scenario) { remove(s, from, to) }) {
				from = to
			}
		}
	}
}

func without[T any](list []T, from, to int) []T {
	return append(append([]T(nil), list[:from]...), list[to:]...)
}

// simplifications make the world a simpler place.
var simplifications = []func(*Scenario){
	func(s *Scenario) { s.Loops = 1 },
	func(s *Scenario) { s.Kernel.Fragment = 0 },
	func(s *Scenario) { s.Kernel.ShortWrite = 0 },
	func(s *Scenario) { s.Kernel.Subset = 0 },
	func(s *Scenario) { s.Kernel.WallSteps = 0 },
	func(s *Scenario) { s.Kernel.Meanwhile = 0 },
	func(s *Scenario) { s.Kernel.Sudden = 0 },
	func(s *Scenario) { s.Kernel.Stall, s.Kernel.StallFor = 0, 0 },
	func(s *Scenario) { s.Kernel.DialFails = 0 },
	func(s *Scenario) { s.Kernel.DialRefused = 0 },
	func(s *Scenario) { s.Kernel.DialLost = 0 },
	func(s *Scenario) { s.Kernel.Descriptors = 4096 },
	func(s *Scenario) { s.Gateway.Named = false },
	func(s *Scenario) { s.Gateway.Active = false },
	func(s *Scenario) { s.Gateway.Attempts = 0 },
	func(s *Scenario) { s.Gateway.PerTry = 0 },
	func(s *Scenario) { s.Gateway.Passive = 0 },
	func(s *Scenario) {
		if len(s.Services) > 1 {
			s.Services = s.Services[:1]
		}
	},
	func(s *Scenario) {
		s.Services = append([]ServicePlan(nil), s.Services...)
		for i := range s.Services {
			s.Services[i].Slow = 0
		}
	},
}

// plainer make one client's manners simpler.
var plainer = []func(*ClientPlan){
	func(c *ClientPlan) { c.Pieces, c.Pause = 0, 0 },
	func(c *ClientPlan) { c.ReadRate, c.ReadWait = 0, 0 },
	func(c *ClientPlan) { c.Leave = -1 },
	func(c *ClientPlan) { c.LeaveAt = -1 },
	func(c *ClientPlan) { c.Pipeline = false },
	func(c *ClientPlan) { c.At = c.At.Round(100 * time.Millisecond) },
}
