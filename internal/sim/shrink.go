package sim

import (
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// shorter searches for a shorter scenario that fails in the same way, within a time budget. try
// plays one and returns its failure. It removes clients, acts, requests and services, and then
// oddities of the kernel and of the clients, as long as anything can be removed.
func shorter(
	s Scenario, failure error, budget time.Duration, try func(Scenario) error,
) (Scenario, error) {
	k := &shrinker{
		best: s, failure: failure, kind: kind(failure), until: time.Now().Add(budget), try: try,
	}
	for before := -1; before != k.kept && !k.over(); {
		before = k.kept
		k.takeAway()
		for _, simpler := range simplifications {
			k.consider(simpler)
		}
		for i := range k.best.Services {
			for _, better := range nicer {
				k.consider(func(s *Scenario) {
					s.Services = slices.Clone(s.Services)
					better(&s.Services[i])
				})
			}
		}
		k.simplifyClients()
	}
	return k.best, k.failure
}

// takeAway removes actors, acts and requests.
func (k *shrinker) takeAway() {
	k.parts(func(s *Scenario) int { return len(s.Clients) }, func(s *Scenario, from, to int) {
		s.Clients = without(s.Clients, from, to)
	})
	k.parts(func(s *Scenario) int { return len(s.Acts) }, func(s *Scenario, from, to int) {
		s.Acts = without(s.Acts, from, to)
	})
	k.parts(func(s *Scenario) int { return len(s.Services) }, func(s *Scenario, from, to int) {
		if to-from < len(s.Services) {
			s.Services = without(s.Services, from, to)
		}
	})
	for i := range k.best.Clients {
		requests := func(s *Scenario) int { return len(s.Clients[i].Requests) }
		k.parts(requests, func(s *Scenario, from, to int) {
			s.Clients = slices.Clone(s.Clients)
			s.Clients[i].Requests = without(s.Clients[i].Requests, from, to)
		})
	}
}

// simplifyClients simplifies the remaining clients and their requests.
func (k *shrinker) simplifyClients() {
	for i := range k.best.Clients {
		for _, simpler := range plainer {
			k.consider(func(s *Scenario) {
				s.Clients = slices.Clone(s.Clients)
				simpler(&s.Clients[i])
			})
		}
		for j := range k.best.Clients[i].Requests {
			for _, simpler := range easier {
				k.consider(func(s *Scenario) {
					s.Clients = slices.Clone(s.Clients)
					requests := slices.Clone(s.Clients[i].Requests)
					simpler(&requests[j])
					s.Clients[i].Requests = requests
				})
			}
		}
	}
}

// kind is a failure without what differs between two failures of the same kind: numbers, names and
// memory addresses. A panic's kind includes where it was raised.
func kind(failure error) string {
	text, _, _ := strings.Cut(failure.Error(), "\n")
	if what, stack, panicked := strings.Cut(text, callMark); panicked {
		first, _, _ := strings.Cut(stack, callMark)
		return varying.ReplaceAllString(what, "#") + callMark + first
	}
	return varying.ReplaceAllString(text, "#")
}

// callMark precedes each call that led to a panic, the last one first.
const callMark = " <- "

// calls returns the calls of a stack that belong to the gateway, not to the simulation.
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

var varying = regexp.MustCompile(`(the )?connection( \d+)? (to|at) [^ ,]+(, )?|c\d+r\d+\w*|` +
	`[A-Z]{3,7} /\S*|"[^"]*"|-?\d[\d.:]*[a-zµ]*`)

type shrinker struct {
	best    Scenario
	failure error
	kind    string
	until   time.Time
	kept    int // number of steps that shortened it
	try     func(Scenario) error
}

func (k *shrinker) over() bool { return time.Now().After(k.until) }

// consider accepts a change if the scenario still fails in the same way with it.
func (k *shrinker) consider(change func(*Scenario)) bool {
	s := k.best
	change(&s)
	if reflect.DeepEqual(s, k.best) {
		return false
	}
	// Removing something shifts the kernel's other draws, so the failure may require other draws to
	// occur.
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

// parts removes as many of some parts as it can: first halves, then ever smaller pieces.
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
