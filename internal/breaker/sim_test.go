//go:build !race

package breaker_test

import (
	"bufio"
	"container/heap"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "plimsoll/internal/breaker"
)

const (
	simTimeout     = int64(2 * time.Second)
	simConnections = 400
)

// spell is a stretch of a trace in which the service is the same.
type spell struct {
	from, until int64
	rate        float64 // calls a second that clients make
	p50, p99    float64 // of the latency without queueing, ns; it is log-normal
	errors      float64
	capacity    float64 // calls a second that the service can serve; 0 is any number
	bad         bool    // the truth: whether a breaker should be open
}

type trace struct {
	name   string
	spells []spell
}

func readTraces(t *testing.T, set string) []trace {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata/traces", set, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces in the set %s: %v", set, err)
	}
	var traces []trace
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		tr := trace{name: strings.TrimSuffix(filepath.Base(name), ".txt")}
		at := int64(0)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "#") {
				continue
			}
			s, err := readSpell(lines.Text(), at)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			at = s.until
			tr.spells = append(tr.spells, s)
		}
		f.Close()
		traces = append(traces, tr)
	}
	return traces
}

func readSpell(line string, from int64) (spell, error) {
	f := strings.Fields(line)
	if len(f) != 7 {
		return spell{}, fmt.Errorf("%q has %d columns, want 7", line, len(f))
	}
	var durations [3]float64
	for i, text := range []string{f[0], f[2], f[3]} {
		d, err := time.ParseDuration(text)
		if err != nil {
			return spell{}, err
		}
		durations[i] = float64(d)
	}
	var numbers [3]float64
	for i, text := range []string{f[1], f[4], f[5]} {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return spell{}, err
		}
		numbers[i] = x
	}
	return spell{from, from + int64(durations[0]), numbers[0], durations[1], durations[2],
		numbers[1], numbers[2], f[6] == "bad"}, nil
}

// flying is a call under way.
type flying struct {
	at      int64
	ticket  Ticket
	outcome Outcome
	latency int64
}

type flights []flying

func (f flights) Len() int           { return len(f) }
func (f flights) Less(i, j int) bool { return f[i].at < f[j].at }
func (f flights) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)        { *f = append(*f, x.(flying)) }
func (f *flights) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	*f = (*f)[:last]
	return x
}

// play runs a trace against a breaker. What befalls a call depends on its number and the load, and
// not on what was decided of others, so all modes see the same calls.
func play(tr trace, b *Breaker, seed uint64) (s score) {
	var under flights
	land := func(now int64) {
		for len(under) > 0 && under[0].at <= now {
			saturation := min(1, float64(len(under))/simConnections)
			c := heap.Pop(&under).(flying)
			b.Done(c.at, c.ticket, c.outcome, c.latency, saturation)
		}
	}
	free := int64(0) // when the service has served what it was given
	n := uint64(0)
	source := rand.NewPCG(seed, n)
	luck := rand.New(source)
	for _, sp := range tr.spells {
		sigma := math.Log(sp.p99/sp.p50) / 2.326
		for now := sp.from; ; n++ {
			source.Seed(seed, n)
			now += int64(luck.ExpFloat64() * 1e9 / sp.rate)
			if now >= sp.until {
				break
			}
			land(now)
			latency := int64(sp.p50 * math.Exp(sigma*luck.NormFloat64()))
			outcome := Success
			if luck.Float64() < sp.errors {
				outcome = Failure
			}
			ticket := b.Allow(now, luck.Uint64())
			s.asked(sp.bad, ticket.Kind != Refused)
			if ticket.Kind == Refused {
				continue
			}
			if sp.capacity > 0 {
				free = max(free, now) + int64(1e9/sp.capacity)
				latency += free - now
			}
			if latency > simTimeout {
				latency, outcome = simTimeout, Failure
			}
			heap.Push(&under, flying{now + latency, ticket, outcome, latency})
		}
		land(sp.until)
	}
	return s
}

func seedOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// score is what a mode did with traces.
type score struct {
	spells, found  int
	wrong          int // openings of a closed breaker while the service was good
	stuck          int // bad spells after which it was not closed before the next, or the end
	toOpen         []int64
	toRecover      []int64
	good, refused  int // calls while the service was good, and those of them that were refused
	bad, forwarded int // calls while it was bad, and those that were let through
}

func (s *score) asked(bad, admitted bool) {
	switch {
	case bad:
		s.bad++
		if admitted {
			s.forwarded++
		}
	default:
		s.good++
		if !admitted {
			s.refused++
		}
	}
}

// grace is how long after a bad spell an opening is still owed to it: its calls are under way.
const grace = int64(3 * time.Second)

// judge compares transitions with the truth.
func (s *score) judge(tr trace, transitions []Transition) {
	var bad []spell
	for _, sp := range tr.spells {
		switch {
		case !sp.bad:
		case len(bad) > 0 && bad[len(bad)-1].until == sp.from:
			bad[len(bad)-1].until = sp.until
		default:
			bad = append(bad, sp)
		}
	}
	for _, t := range transitions {
		if t.From != Closed {
			continue
		}
		owed := false
		for _, sp := range bad {
			owed = owed || sp.from <= t.At && t.At < sp.until+grace
		}
		if !owed {
			s.wrong++
		}
	}
	for i, sp := range bad {
		s.spells++
		next := int64(math.MaxInt64)
		if i+1 < len(bad) {
			next = bad[i+1].from
		}
		before, after := Closed, Closed // the states when the spell begins and when it ends
		opened, closed := int64(-1), int64(-1)
		for _, t := range transitions {
			if t.At < sp.from {
				before = t.To
			}
			if t.At < sp.until {
				after = t.To
			}
			if t.To == Open && sp.from <= t.At && t.At < sp.until+grace && opened < 0 {
				opened = t.At
			}
			if t.To == Closed && sp.until <= t.At && t.At < next && closed < 0 {
				closed = t.At
			}
		}
		if before == Open {
			opened = sp.from // still, from the spell before
		}
		if opened < 0 {
			continue
		}
		s.found++
		s.toOpen = append(s.toOpen, opened-sp.from)
		switch {
		case after == Closed && opened < sp.until: // it closed during the spell, which found shows not
		case closed < 0:
			s.stuck++
		default:
			s.toRecover = append(s.toRecover, closed-sp.until)
		}
	}
}
