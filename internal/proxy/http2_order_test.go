//go:build !race

package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plimsoll/internal/http2"
)

// model is what the client knows of a stream: the oracle of the order.
type model struct {
	id       uint32
	left     int // of its body
	window   int
	priority http2.Priority
	passed   int // bytes that came of others since it could have sent
	overtook map[uint32]int
}

func (m *model) ready() bool { return m.left > 0 && m.window > 0 }

// before says whether the order of RFC 9218 lets m go before o. Incremental ones of one urgency are
// equals.
func (m *model) before(o *model) bool {
	p, q := m.priority, o.priority
	switch {
	case p.Urgency != q.Urgency:
		return p.Urgency < q.Urgency
	case p.Incremental != q.Incremental:
		return q.Incremental
	}
	return !p.Incremental && m.id < o.id
}

// share is the client of a test with random priorities, windows and sizes.
type share struct {
	*sharer
	seed    uint64
	rng     *rand.Rand
	streams map[uint32]*model
	ids     []uint32 // of those that may not be complete
	initial int      // the window that streams begin with
	window  int      // of the connection
	ordered int      // bytes in order since those that were out of order
	exempt  int      // bytes out of order since those that were in order
}

func (s *share) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("with seed %d: "+format, append([]any{s.seed}, args...)...)
}

// judge holds what came against the order.
func (s *share) judge() {
	s.t.Helper()
	for _, f := range s.frames {
		if f.Type == http2.RSTStream || f.Type == http2.GoAway {
			s.fail("the client got %v", f)
		}
		if n := len(f.Payload); f.Type == http2.Data && n > 0 {
			s.judgeContent(s.streams[f.Stream], n)
		}
	}
	s.frames = nil
	for _, m := range s.streams {
		if s.window > 0 && m.ready() {
			s.fail("stream %d has %d bytes and waits, with windows of %d and %d", m.id, m.left,
				m.window, s.window)
		}
	}
}

func (s *share) judgeContent(m *model, n int) {
	s.t.Helper()
	if !m.ready() || n > m.window || n > s.window {
		s.fail("%d bytes came for windows of %d and %d", n, m.window, s.window)
	}
	inOrder := true
	for _, o := range s.streams {
		if o == m || !o.ready() {
			continue
		}
		inOrder = inOrder && !o.before(m)
		if o.passed += n; o.passed > 9*record*(len(s.streams)+1) {
			s.fail("stream %d got nothing while %d bytes went to others", o.id, o.passed)
		}
		if o.priority == m.priority && m.priority.Incremental {
			if o.overtook[m.id] += n; o.overtook[m.id] > 3*record {
				s.fail("stream %d had %d bytes while %d, its equal, had none", m.id, o.overtook[m.id], o.id)
			}
		}
	}
	switch {
	case !inOrder && s.exempt == 0 && s.ordered < 7*record-1:
		s.fail("%d bytes of stream %d came out of order, after %d in order", n, m.id, s.ordered)
	case !inOrder:
		if s.exempt += n; s.exempt > record {
			s.fail("%d bytes came out of order at once", s.exempt)
		}
		s.ordered = 0
	default:
		s.ordered, s.exempt = s.ordered+n, 0
	}
	m.left -= n
	m.window -= n
	s.window -= n
	m.passed, m.overtook = 0, map[uint32]int{}
}

// The order is that of RFC 9218, but for a record in eight, whatever the client does.
func TestTheOrderOfRandomStreams(t *testing.T) {
	for seed := range uint64(200) {
		s := &share{sharer: newSharer(t), seed: seed, streams: map[uint32]*model{}}
		s.rng = rand.New(rand.NewPCG(seed, 12))
		s.initial = []int{1 << 30, 100_000, 1000}[seed%3]
		s.say(string(http2.AppendSettings(nil,
			http2.Setting{ID: http2.InitialWindowSize, Value: uint32(s.initial)})))
		for range 60 {
			s.now += int64(100 * time.Millisecond) // the budget of frames has time
			s.step()
			s.judge()
		}
	}
}

func (s *share) priority() (value string, p http2.Priority) {
	p = http2.Priority{Urgency: uint8(s.rng.IntN(4)), Incremental: s.rng.IntN(2) == 0}
	value = fmt.Sprintf("u=%d", p.Urgency)
	if p.Incremental {
		value += ", i"
	}
	return value, p
}

// one is any of the streams whose answer has not come whole, or nil.
func (s *share) one() *model {
	s.ids = slices.DeleteFunc(s.ids, func(id uint32) bool { return s.streams[id].left == 0 })
	if len(s.ids) == 0 {
		return nil
	}
	return s.streams[s.ids[s.rng.IntN(len(s.ids))]]
}

// step has the client ask for something, or say some things at once. While its windows are open a
// request is answered at once, so that nothing may come with it.
func (s *share) step() {
	if s.rng.IntN(3) == 0 {
		value, p := s.priority()
		size := 1 + s.rng.IntN(300_000)
		id, frame := s.asks(size, "priority", value)
		s.ids = append(s.ids, id)
		s.streams[id] = &model{id: id, left: size, window: s.initial, priority: p, overtook: map[uint32]int{}}
		s.say(frame)
		return
	}
	var text string
	for range 1 + s.rng.IntN(4) {
		m := s.one()
		switch what := s.rng.IntN(4); {
		case what > 1 || m == nil:
			n := 1 + s.rng.IntN(1+s.rng.IntN(400_000))
			text += opens(0, n)
			s.window += n
		case what == 1:
			var value string
			value, m.priority = s.priority()
			m.passed, m.overtook = 0, map[uint32]int{}
			text += reprioritises(m.id, value)
		default:
			n := 1 + s.rng.IntN(100_000)
			m.window += n
			text += opens(m.id, n)
		}
	}
	s.say(text)
}
