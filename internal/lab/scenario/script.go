package scenario

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
)

// script is the compiled scenario. It is immutable and shared by the loops.
type script struct {
	entries []*session
	sources []*source
	names   []string
	weight  float64 // of all entries
	mean    float64 // requests per arrival
}

// session is one compiled entry of the mix, shared by all its visits.
type session struct {
	index  int
	name   string
	weight float64
	below  float64 // sum of the weights up to and including its own
	steps  []step
	// sources are the sources it uses; slots are the values in its requests.
	sources []int
	slots   []slot
}

// slot is a value of a visit: a column of a source's row or a number. If source is -1, the value
// was taken from an answer.
type slot struct {
	source, column int
}

// step is one request of a session, and the handling of its answer.
type step struct {
	name  string
	whole []byte // the whole request, if it has no values
	head  pieces // otherwise; if body is not nil, up to the value of Content-Length
	body  pieces
	about load.Request
	check check
	takes []take
	think time.Duration
	// random says that think is the mean of an exponential distribution.
	random bool
}

// weigh computes the sums, once all entries are known.
func (s *script) weigh() {
	requests := 0.0
	for i, e := range s.entries {
		s.weight += e.weight
		requests += e.weight * float64(len(e.steps))
		e.index, e.below = i, s.weight
	}
	if s.weight > 0 {
		s.mean = requests / s.weight
	}
}

// Names are the names of the requests: an entry's name, or "entry/step" for a sequence.
func (s *script) Names() []string { return s.names }

// Requests is the number of requests per arrival if all succeed; a failed one ends its sequence.
func (s *script) Requests() float64 { return s.mean }

// Player makes the requests of one loop. See load.Script.
func (s *script) Player(loop, loops int, seed uint64) load.Player {
	// The name separates this stream of random numbers from others with the same seed.
	key := [32]byte{16: 's', 'c', 'e', 'n', 'e'}
	binary.LittleEndian.PutUint64(key[:], seed)
	binary.LittleEndian.PutUint64(key[8:], uint64(loop))
	p := &player{script: s, loop: loop, loops: loops, rng: rand.New(rand.NewChaCha8(key))}
	p.drawn = make([]uint64, len(s.sources))
	p.free = make([][]*visit, len(s.entries))
	return p
}

// player belongs to one loop. It reuses finished visits, so that it allocates nothing once the
// number of simultaneous visits has reached its peak.
type player struct {
	*script
	loop, loops int
	rng         *rand.Rand
	drawn       []uint64 // how often each source was used
	free        [][]*visit
	scan        scan
	body        []byte
	why         map[int]string // texts about statuses, by request and status
}

// Begin starts the visit of the next arrival. See load.Player.
func (p *player) Begin() load.Session {
	e := p.choose()
	var v *visit
	if free := p.free[e.index]; len(free) > 0 {
		v = free[len(free)-1]
		p.free[e.index] = free[:len(free)-1]
	} else {
		v = &visit{
			player:  p,
			session: e,
			values:  make([][]byte, len(e.slots)),
			rows:    make([]uint64, len(p.sources)),
		}
	}
	v.begin()
	return v
}

func (p *player) choose() *session {
	if len(p.entries) == 1 {
		return p.entries[0]
	}
	at := p.rng.Float64() * p.weight
	// A mix has few entries, and usually the frequent ones come first.
	for _, e := range p.entries {
		if at < e.below {
			return e
		}
	}
	return p.entries[len(p.entries)-1]
}

// statusWhy is the text about a bad status, made when it first occurs.
func (p *player) statusWhy(st *step, status int) string {
	key := st.about.Name<<10 | status&1023
	why, ok := p.why[key]
	if !ok {
		if p.why == nil {
			p.why = map[int]string{}
		}
		why = fmt.Sprintf("%s: status %d, wanted %s", st.name, status, st.check.want)
		p.why[key] = why
	}
	return why
}

// visit is the sequence of requests of one arrival.
type visit struct {
	*player
	*session
	at     int      // the step
	values [][]byte // by slot; file cells belong to the source, other values to the visit
	rows   []uint64 // drawn for this visit, by source
}

// begin draws a row or number from each source. All requests of a visit use the same ones.
func (v *visit) begin() {
	v.at = 0
	for _, i := range v.session.sources {
		v.rows[i] = v.script.sources[i].draw(v.drawn[i], v.loop, v.loops, v.rng)
		v.drawn[i]++
	}
	for i, sl := range v.slots {
		if sl.source < 0 {
			continue
		}
		s := v.script.sources[sl.source]
		if s.columns == nil {
			v.values[i] = s.appendNumber(v.values[i][:0], v.rows[sl.source])
		} else {
			v.values[i] = s.cell(v.rows[sl.source], sl.column)
		}
	}
}

// Request appends the visit's next request. See load.Session.
func (v *visit) Request(dst []byte) ([]byte, load.Request) {
	st := &v.steps[v.at]
	switch {
	case st.whole != nil:
		dst = append(dst, st.whole...)
	case st.body == nil:
		dst = v.render(dst, st.head)
	default:
		v.body = v.render(v.body[:0], st.body)
		dst = v.render(dst, st.head)
		dst = strconv.AppendInt(dst, int64(len(v.body)), 10)
		dst = append(dst, "\r\n\r\n"...)
		dst = append(dst, v.body...)
	}
	return dst, st.about
}

func (v *visit) render(dst []byte, p pieces) []byte {
	for i := range p {
		if x := &p[i]; x.slot < 0 {
			dst = append(dst, x.text...)
		} else {
			dst = x.form.append(dst, v.values[x.slot])
		}
	}
	return dst
}

// Answer judges the answer to the last request from Request. See load.Session.
func (v *visit) Answer(a *load.Answer) load.AnswerVerdict {
	st := &v.steps[v.at]
	if !st.check.status(a.Status) {
		return failed(measure.BadStatus, v.statusWhy(st, a.Status))
	}
	if why := st.check.judge(a, &v.scan); why != "" {
		return failed(measure.BadAnswer, why)
	}
	for i := range st.takes {
		t := &st.takes[i]
		taken, why := t.from(a, &v.scan, v.values[t.slot][:0])
		if why != "" {
			return failed(measure.BadAnswer, why)
		}
		v.values[t.slot] = taken
	}
	v.at++
	if v.at == len(v.steps) {
		return load.AnswerVerdict{Kind: measure.OK}
	}
	think := st.think
	if st.random {
		think = time.Duration(float64(think) * v.rng.ExpFloat64())
	}
	return load.AnswerVerdict{Kind: measure.OK, More: true, Think: think}
}

// End returns the visit to its player. See load.Session.
func (v *visit) End() {
	free := &v.free[v.index]
	*free = append(*free, v)
}
