package proxy

import (
	"math"

	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

// turns shares out among the streams of an HTTP/2 connection what its peer takes, by the priorities
// of RFC 9218.
//
// It is not used while the connection's window is open and its socket takes everything: then each
// stream sends at once what it has. A stream that cannot send joins a list of streams that wait.
// When the window opens, or the socket has taken what was queued, the streams in the list are
// served in turns, until none waits or the peer takes no more:
//
//   - the lowest urgency first;
//   - within one urgency the streams that are not incremental, the oldest first, until it has
//     nothing more;
//   - then the incremental streams in rotation, one TLS record each.
//
// No stream starves. After every orderBytes that are sent by priority, one record is for the stream
// that has waited longest for its turn, whatever its priority. So each of n streams that wait gets
// at least the n-th part of an eighth.
//
// The list is not sorted, because priorities and windows change meanwhile: each turn searches it.
// It has each stream at most once, and a connection has at most maxStreams. Keeping it sorted would
// cost each stream something, and most never wait.
type turns struct {
	first, last *streamData // the streams that wait, in the order in which they began to
	serving     *streamData // the stream whose turn it is
	left        int         // how many bytes it may still send in this turn
	number      uint64      // how many turns there were
	ordered     int         // bytes that were sent by priority since the last turn by age
	sent        int64       // bytes of content sent on the connection in all
	due         bool        // streams send content only in their turns, until resume is done
	deferred    bool        // Run of turnsLater is to be called
}

const (
	// recordContent is how many bytes of content, with the header of their frame, fill a TLS
	// record.
	recordContent = recordSize - http2.HeaderSize

	// orderBytes is how many bytes are sent by priority before one record is sent by age.
	orderBytes = 7 * recordContent

	// turnContent is how many bytes a stream that is not incremental may send before a more urgent
	// one gets its turn: those of one read from its upstream.
	turnContent = reactor.ScratchSize

	// mostTurnBytes is how many bytes are sent before the loop's other connections are served. A
	// turn counts as at least leastTurn bytes.
	mostTurnBytes = 1 << 20
	leastTurn     = 4 << 10
)

// wait adds the stream to the list of those that wait. Its owner's resume is called when the peer
// takes more.
func (d *streamData) wait() {
	if d.waits {
		return
	}
	t := &d.link.turns
	d.waits, d.since = true, t.number
	d.waitBefore = t.last
	if t.last == nil {
		t.first = d
	} else {
		t.last.waitAfter = d
	}
	t.last = d
}

// unwait removes the stream from the list of those that wait.
func (d *streamData) unwait() {
	if !d.waits {
		return
	}
	t := &d.link.turns
	if d.waitBefore == nil {
		t.first = d.waitAfter
	} else {
		d.waitBefore.waitAfter = d.waitAfter
	}
	if d.waitAfter == nil {
		t.last = d.waitBefore
	} else {
		d.waitAfter.waitBefore = d.waitBefore
	}
	d.waits, d.waitBefore, d.waitAfter = false, nil, nil
}

// waiting returns how many streams wait.
func (t *turns) waiting() (n int64) {
	for d := t.first; d != nil; d = d.waitAfter {
		n++
	}
	return n
}

// space returns how many bytes of content the stream may send now.
func (d *streamData) space() int {
	l := d.link
	n := max(0, min(d.window.Available(), l.send.Available()))
	switch {
	case !l.turns.due:
		return n
	case l.turns.serving == d:
		return min(n, l.turns.left)
	}
	return 0
}

// spend takes n bytes of content, which are about to be sent, from the windows and the turn.
func (d *streamData) spend(n int) {
	l := d.link
	d.window.Take(n)
	l.send.Take(n)
	l.budget.Sent()
	d.went += int64(n)
	l.turns.sent += int64(n)
	l.turns.left -= n
}

// opened notes that the peer takes more: resume is to be called before anything else is sent.
func (l *http2Link) opened() { l.turns.due = l.turns.due || l.turns.first != nil }

// resume serves the streams that wait, as far as the peer takes what they have.
func (l *http2Link) resume() {
	t := &l.turns
	if t.serving != nil || t.first == nil {
		t.due = t.due && t.serving != nil
		return
	}
	t.due = true
	for given := 0; !l.dead && !l.broken && !l.side.backlogged(); {
		byAge := t.ordered >= orderBytes
		d, others := l.nextTurn(byAge)
		if d == nil {
			break
		}
		if given >= mostTurnBytes {
			l.resumeLater()
			return
		}
		n := l.serve(d, byAge, others)
		given += max(n, leastTurn)
		if t.ordered += n; byAge {
			t.ordered = 0
		}
	}
	t.due = false
}

// nextTurn returns the stream whose turn is next, or nil, and whether others could have it.
func (l *http2Link) nextTurn(byAge bool) (next *streamData, others bool) {
	for d := l.turns.first; d != nil; d = d.waitAfter {
		if d.headSent && (d.window.Available() == 0 || l.send.Available() == 0) {
			continue
		}
		others = others || next != nil
		if next == nil || d.precedes(next, byAge) {
			next = d
		}
	}
	return next, others
}

// precedes reports whether d has its turn before e.
func (d *streamData) precedes(e *streamData, byAge bool) bool {
	p, q := d.priority, e.priority
	switch {
	case byAge:
	case p.Urgency != q.Urgency:
		return p.Urgency < q.Urgency
	case p.Incremental != q.Incremental:
		return q.Incremental
	case !p.Incremental:
		return d.id < e.id
	}
	if d.since != e.since {
		return d.since < e.since
	}
	return d.id < e.id
}

// serve gives d its turn, and returns how many bytes of content were sent. The stream may be over
// then.
func (l *http2Link) serve(d *streamData, byAge, others bool) int {
	t := &l.turns
	switch {
	case !others:
		t.left = math.MaxInt
	case byAge || d.priority.Incremental:
		t.left = recordContent
	default:
		t.left = turnContent
	}
	if !byAge && others {
		t.left = min(t.left, orderBytes-t.ordered)
	}
	before := t.sent
	t.number++
	t.serving = d
	d.unwait()
	d.owner.resume()
	t.serving = nil
	return int(t.sent - before)
}

// turnsLater is an http2Link whose resume goes on at the end of the turn.
type turnsLater http2Link

func (l *http2Link) resumeLater() {
	if !l.turns.deferred {
		l.turns.deferred = true
		l.w.loop.Defer((*turnsLater)(l))
	}
}

// Run implements reactor.Runner.
func (r *turnsLater) Run() {
	l := (*http2Link)(r)
	l.turns.deferred = false
	l.resume()
}
