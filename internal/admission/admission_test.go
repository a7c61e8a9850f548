package admission

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// loop is a processor that serves all that came during its last turn, one after the other.
type loop struct {
	r       *rand.Rand
	p       *SheddingPlan
	g       Limiter
	cost    [2]float64 // nanoseconds: of a refusal, of a request that is served
	now     float64
	turn    float64 // how long the last one took
	offered [Classes]int
	served  [Classes]int
	clients func(*rand.Rand) uint64
	byWhom  map[uint64][2]int
	worst   float64
}

// run offers a rate, split over the classes by weight, for a time.
func (l *loop) run(rate float64, weight map[uint8]float64, length time.Duration) {
	l.offered, l.served, l.byWhom, l.worst = [Classes]int{}, [Classes]int{}, map[uint64][2]int{}, 0
	for end := l.now + float64(length); l.now < end; {
		n := poisson(l.r, rate*l.turn/1e9)
		took := 20e3 // a look at nothing
		for range n {
			class, client := draw(l.r, weight), l.clients(l.r)
			l.offered[class]++
			who := l.byWhom[client]
			who[0]++
			now := int64(l.now)
			if l.g.Due(now) {
				l.g.Observe(now, int64(l.turn))
			}
			refused := l.g.Behind(l.p) && l.g.Refuse(l.p, now, class, client, 0)
			if refused {
				took += l.cost[0]
			} else {
				took += l.cost[1]
				l.served[class]++
				who[1]++
			}
			l.byWhom[client] = who
		}
		l.worst = max(l.worst, l.turn)
		l.turn = took
		l.now += took
	}
}

func poisson(r *rand.Rand, mean float64) int {
	n := 0
	for at := r.ExpFloat64(); at < mean; at += r.ExpFloat64() {
		n++
	}
	return n
}

func draw(r *rand.Rand, weight map[uint8]float64) uint8 {
	x := r.Float64()
	for class := uint8(0); class < Classes; class++ {
		if x -= weight[class]; x < 0 && weight[class] > 0 {
			return class
		}
	}
	return 2
}

func newLoop(seed uint64, classes ...int) *loop {
	o := Options{Delay: 20 * time.Millisecond}
	for _, c := range classes {
		o.Used[c] = true
	}
	return &loop{
		r: rand.New(rand.NewPCG(seed, 1)), p: NewSheddingPlan(o), cost: [2]float64{7e3, 20e3}, turn: 20e3,
		clients: func(r *rand.Rand) uint64 { return uint64(r.IntN(50)) },
	}
}

var usual = map[uint8]float64{0: .2, 1: .4, 2: .4}

func TestTheHighestClassIsServedWhenThereIsTooMuch(t *testing.T) {
	const line = 50_000.0 // a second at 20 µs each
	for seed := range uint64(5) {
		for _, times := range []float64{1.2, 1.5, 2} {
			l := newLoop(seed, 0, 1, 2)
			l.run(times*line, usual, 2*time.Second)
			l.run(times*line, usual, 4*time.Second)
			served := 0
			for _, n := range l.served {
				served += n
			}
			// What is left for serving when the rest is refused: served×20 + refused×7 µs a second.
			possible := (1e9 - times*line*l.cost[0]) / (l.cost[1] - l.cost[0])
			share := float64(served) / 4 / possible
			t.Logf("seed %d, %.1f times: P0 %.4f, P1 %.4f, P2 %.4f; %.3f of what is possible; backlog %.1f ms",
				seed, times, l.part(0), l.part(1), l.part(2), share, l.worst/1e6)
			if l.part(0) < .999 || share < .9 {
				t.Errorf("seed %d, %.1f times the line: P0 %.4f served, %.3f of what is possible",
					seed, times, l.part(0), share)
			}
			if l.part(2) > l.part(1) || l.part(1) > l.part(0) {
				t.Errorf("a lower class is served more: %.3f, %.3f, %.3f", l.part(0), l.part(1), l.part(2))
			}
		}
	}
}

func (l *loop) part(class int) float64 { return float64(l.served[class]) / float64(l.offered[class]) }

func TestNobodyIsRefusedBelowTheLine(t *testing.T) {
	for seed := range uint64(5) {
		l := newLoop(seed, 0, 1, 2)
		l.run(45_000, usual, 5*time.Second)
		if l.served != l.offered {
			t.Errorf("seed %d: of %v %v are served at nine tenths of the line", seed, l.offered, l.served)
		}
	}
}

func TestRefusalsEndWithTheOverload(t *testing.T) {
	l := newLoop(1, 0, 1, 2)
	l.run(100_000, usual, 10*time.Second)
	l.run(30_000, usual, 300*time.Millisecond)
	l.run(30_000, usual, time.Second)
	if l.served != l.offered {
		t.Errorf("of %v %v are served after the overload", l.offered, l.served)
	}
}

func TestASingleLongTurnRefusesNobodyOfTheHighestClass(t *testing.T) {
	l := newLoop(1, 0, 1, 2)
	l.run(10_000, usual, time.Second)
	l.turn = 60e6
	l.run(10_000, usual, time.Second)
	if l.part(0) < 1 {
		t.Errorf("%.4f of P0 are served around a turn of 60 ms", l.part(0))
	}
}

func TestAClientThatAsksMoreIsRefusedMore(t *testing.T) {
	l := newLoop(1, 0, 1)
	l.clients = func(r *rand.Rand) uint64 { // one asks for as much as all twenty others
		if r.IntN(2) == 0 {
			return 100
		}
		return uint64(r.IntN(20))
	}
	l.run(75_000, map[uint8]float64{1: 1}, 10*time.Second)
	heavy := float64(l.byWhom[100][1]) / float64(l.byWhom[100][0])
	var asked, served int
	for c := range uint64(20) {
		asked, served = asked+l.byWhom[c][0], served+l.byWhom[c][1]
	}
	others := float64(served) / float64(asked)
	t.Logf("of the one %.3f are served, of the others %.3f", heavy, others)
	if others < 2*heavy || others < .7 {
		t.Errorf("of the one %.3f are served, of the others %.3f", heavy, others)
	}
}

func TestRampsKeepTheOrderOfTheClasses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		o := Options{Delay: time.Duration(1 + r.IntN(1e9))}
		for c := range o.Used {
			o.Used[c] = r.IntN(3) == 0
		}
		p := NewSheddingPlan(o)
		backlog := r.Int64N(6 * int64(o.Delay))
		for c := uint8(1); c < Classes; c++ {
			if p.share(c, backlog) < p.share(c-1, backlog) {
				t.Fatalf("%+v: at a backlog of %d less of P%d is refused than of P%d", o, backlog, c, c-1)
			}
		}
		if p.share(0, 4*int64(o.Delay)) > 0 {
			t.Fatalf("%+v: the highest class is refused at four times the delay", o)
		}
		if p.share(0, 10*int64(o.Delay)+400) != 1 {
			t.Fatalf("%+v: the highest class has no bound", o)
		}
	}
}

func TestRefuseDoesNotAllocate(t *testing.T) {
	l := newLoop(1, 0, 1, 2)
	l.run(100_000, usual, time.Second)
	now := int64(l.now)
	if n := testing.AllocsPerRun(1000, func() {
		now += 1e6
		l.g.Observe(now, 15e6)
		if l.g.Behind(l.p) {
			l.g.Refuse(l.p, now, 2, uint64(now), 0)
		}
	}); n > 0 {
		t.Errorf("%v allocations a request", n)
	}
}

// refuse has a request of a class refused that has waited for far too long.
func refuse(t *testing.T, g *Limiter, p *SheddingPlan, now int64, class uint8) {
	t.Helper()
	if !g.Refuse(p, now, class, 1, int64(time.Minute)) {
		t.Fatalf("a request of class %d that has waited for a minute is admitted", class)
	}
}

func TestARefusalHoldsTheLowerClassesForASecond(t *testing.T) {
	p := NewSheddingPlan(Options{Delay: time.Millisecond, Used: [Classes]bool{0: true, 2: true, 5: true, 7: true}})
	const ms = int64(time.Millisecond)
	var g Limiter
	holds := func(now int64) (held []uint8) {
		for class := range uint8(Classes) {
			if g.Holds(p, now, class) {
				held = append(held, class)
			}
		}
		return held
	}
	for _, step := range []struct {
		at     int64
		refuse int // a class, or none
		held   []uint8
	}{
		{0, -1, nil},
		{1 * ms, 5, []uint8{6, 7, 8, 9}},
		{500 * ms, 2, []uint8{3, 4, 5, 6, 7, 8, 9}},
		{1000 * ms, 5, []uint8{3, 4, 5, 6, 7, 8, 9}}, // which does not make it longer
		{1500 * ms, -1, []uint8{3, 4, 5, 6, 7, 8, 9}},
		{1501 * ms, -1, nil},
		{1502 * ms, 7, nil},
		{1503 * ms, 1, []uint8{3, 4, 5, 6, 7, 8, 9}}, // 1 is not used, and counts as 2
	} {
		if step.refuse >= 0 {
			refuse(t, &g, p, step.at, uint8(step.refuse))
		}
		if held := holds(step.at); !slices.Equal(held, step.held) {
			t.Errorf("at %d ms the classes %d are held, want %d", step.at/ms, held, step.held)
		}
	}
	p.Shadow = true
	if held := holds(1504 * ms); held != nil {
		t.Errorf("in shadow mode the classes %d are held", held)
	}
}
