package limit

import "sync/atomic"

// A table holds the states of a fixed number of values, however many values are asked for. A place
// goes to another value only when its state is idle, so nobody gets a limit back by making other
// values come. A value that finds no place shares a bucket with others.
//
// A value's place is in one of two sets of eight, selected by two halves of its hash, or in one set
// of the reserve. Both halves are compared. Reading takes no lock and writes nothing.
//
// To give a value a place, a loop
//
//  1. takes the place: one compare-and-swap from exactly the idle word that it read;
//  2. writes the hash and proposes the place, then looks at all the other places of the value;
//  3. withdraws if it finds the value there, or a proposal for it in an earlier place, which it
//     then helps to complete; it ends proposals in later places;
//  4. gives the place its first state, usually fresh; that fails if another loop has ended the
//     proposal; then it looks again.
//
// If two loops propose the same value, at least one sees the other, because both write before they
// read, and both agree which gives way. So a value has one place, nobody waits for anybody, and a
// loop that is stopped midway only leaves a place unused.
type table struct {
	sets    []set
	mask    uint64
	reserve uint64          // sets at the end for values that keep coming: see cell
	cells   []cell          // empty without a reserve
	logs    []atomic.Uint64 // the rings of all places, in order; empty if the algorithm keeps none
	ring    int
}

const ways = 8

// set is three cache lines: a search reads the first, and one word of each of the other two.
type set struct {
	hash  [ways]atomic.Uint64
	check [ways]atomic.Uint64
	state [ways]atomic.Uint64
}

// tries bounds how often a value looks for a place while others change its sets. After that, the
// table counts as full.
const tries = 64

// newTable makes room for at least the given number of values.
func newTable(values, ring int) *table {
	sets := 2
	for sets*ways < values {
		sets *= 2
	}
	t := &table{sets: make([]set, sets), mask: uint64(sets - 1), ring: ring}
	t.logs = make([]atomic.Uint64, sets*ways*ring)
	return t
}

// places is how many values the table has room for.
func (t *table) places() int { return len(t.sets) * ways }

// place is where a value's state is.
type place struct {
	state  *atomic.Uint64
	set    *set // nil for a place that is never given to another value
	way    int
	h, g   uint64 // the value's hash
	ring   []atomic.Uint64
	params *atomic.Pointer[params]
	cost   int64  // of the request; 0 for the limit's cost
	shared *table // set if values without a place in this table share the place
}

// own reports whether the place still belongs to the value. w is its state, read before.
func (p *place) own(w uint64) bool {
	return p.set == nil || counts(w) && p.set.hash[p.way].Load() == p.h && p.set.check[p.way].Load() == p.g
}

// of returns the indexes of a value's sets. The last one is in the reserve.
func (t *table) of(h, g uint64) (of [3]uint64) {
	of[0], of[1] = h&t.mask, g&t.mask
	if of[0] == of[1] {
		of[1] ^= 1
	}
	if t.reserve > 0 {
		of[2] = t.mask + 1 + h>>40&(t.reserve-1)
	}
	return of
}

// perValue is the number of places where a value can be.
func (t *table) perValue() int {
	if t.reserve == 0 {
		return 2 * ways
	}
	return 3 * ways
}

// at fills p with the n-th of the value's places.
func (t *table) at(p *place, h, g uint64, n int) {
	index := t.of(h, g)[n/ways]
	n %= ways
	s := &t.sets[index]
	p.state, p.set, p.way, p.h, p.g, p.shared = &s.state[n], s, n, h, g, nil
	if t.ring > 0 {
		first := (int(index)*ways + n) * t.ring
		p.ring = t.logs[first : first+t.ring : first+t.ring]
	}
}

// find fills p with the value's place, if it has one.
func (t *table) find(p *place, h, g uint64) bool {
	of := t.of(h, g)
	for half := range t.perValue() / ways {
		s := &t.sets[of[half]]
		for n := range ways {
			if s.hash[n].Load() != h {
				continue
			}
			w := s.state[n].Load() // before the hash: see place.own
			if counts(w) && s.hash[n].Load() == h && s.check[n].Load() == g {
				t.at(p, h, g, half*ways+n)
				return true
			}
		}
	}
	return false
}

// enter finds the value's place or gives it one. It returns false if there is none. The params tell
// which states are idle; came is how often the value has come without a place.
func (t *table) enter(p *place, h, g uint64, rules *atomic.Pointer[params], now int64, came uint64) bool {
	for range tries {
		if t.find(p, h, g) {
			return true
		}
		chosen, w := t.choose(h, g, rules, now, came)
		if chosen < 0 {
			return false
		}
		t.at(p, h, g, chosen)
		since := max(now, 0)
		if !isLive(w) && since <= payload(w) {
			since = payload(w) + 1
		}
		if !p.state.CompareAndSwap(w, taken|uint64(since)) {
			continue
		}
		p.set.hash[p.way].Store(h)
		p.set.check[p.way].Store(g)
		t.beginLog(p, rules, since)
		p.state.Store(proposed | uint64(since))
		if t.settle(h, g, chosen) {
			if p.state.CompareAndSwap(proposed|uint64(since), t.begin(h, g, rules, since)) {
				return true
			}
			continue
		}
		p.state.CompareAndSwap(proposed|uint64(since), free|uint64(since))
		t.help(h, g, rules)
	}
	return false
}

// help completes the first proposal of a value, whose loop may have been stopped midway. Without
// help, all other loops would withdraw again and again.
func (t *table) help(h, g uint64, rules *atomic.Pointer[params]) {
	var p place
	for n := range t.perValue() {
		t.at(&p, h, g, n)
		w := p.state.Load()
		if !in(w, proposed) || p.set.hash[n%ways].Load() != h || p.set.check[n%ways].Load() != g {
			continue
		}
		if t.settle(h, g, n) {
			p.state.CompareAndSwap(w, t.begin(h, g, rules, payload(w)))
		}
		return
	}
}

// choose picks a place that may be taken, and returns its word. It prefers the set with more such
// places, which keeps both from filling up. The reserve is only for values that have come often
// enough for the room left in it.
func (t *table) choose(
	h, g uint64, rules *atomic.Pointer[params], now int64, came uint64,
) (chosen int, word uint64) {
	chosen = -1
	most := -1
	of := t.of(h, g)
	for half := range 2 {
		if way, w, room := t.sets[of[half]].choose(rules, now); way >= 0 && room > most {
			chosen, word, most = half*ways+way, w, room
		}
	}
	if chosen >= 0 || came < heavy || t.reserve == 0 {
		return chosen, word
	}
	way, w, room := t.sets[of[2]].choose(rules, now)
	if way < 0 || came < heavy<<(ways-room) {
		return -1, 0
	}
	return 2*ways + way, w
}

// choose picks a place of a set that may be taken, and returns its word and the number of free or
// idle places. It prefers one of those to a place whose owner has only just come.
func (s *set) choose(rules *atomic.Pointer[params], now int64) (way int, word uint64, room int) {
	var words [ways]uint64
	for n := range words {
		words[n] = s.state[n].Load()
	}
	p := rules.Load() // after the words, so at least as new as their params
	found, recent := -1, -1
	for n, w := range words {
		switch {
		case in(w, free) || isLive(w) && p.idle(w, now):
			room++
			if found < 0 {
				found = n
			}
		case in(w, fresh):
			recent = n
		}
	}
	if found < 0 {
		found = recent
	}
	if found < 0 {
		return -1, 0, 0
	}
	return found, words[found], room
}

// settle reports whether the proposal for a value in one of its places may stand.
func (t *table) settle(h, g uint64, chosen int) bool {
	var p place
	for n := range t.perValue() {
		if n == chosen {
			continue
		}
		t.at(&p, h, g, n)
		for {
			w := p.state.Load()
			if in(w, free) || in(w, taken) || p.set.hash[p.way].Load() != h ||
				p.set.check[p.way].Load() != g {
				break
			}
			if !in(w, proposed) || n < chosen {
				return false
			}
			if p.state.CompareAndSwap(w, w&^kindMask|free) {
				break
			}
		}
	}
	return true
}

// held counts the places whose states are not idle. It takes a millisecond for 65,536.
func (t *table) held(rules *atomic.Pointer[params], now int64) (n int) {
	p := rules.Load()
	for i := range t.sets {
		for way := range ways {
			w := t.sets[i].state[way].Load()
			if isLive(w) && !p.idle(w, now) {
				n++
			}
		}
	}
	return n
}
