package proxy

import (
	"plimsoll/internal/cidr"
	"plimsoll/internal/exchange"
	"plimsoll/internal/hash"
	"plimsoll/internal/upstream"
)

// A pool that is full is shared between client addresses. Those whose requests wait are served in
// rotation (upstream/waiter.go). An address that has more than its share of the connections, while
// requests of another wait that has less, loses those whose exchanges only wait for their clients,
// be it for the rest of a request's body or for the client to take what it is sent. Exchanges that
// wait for the service are left alone, so a busy address loses nothing to a slow service. Each loop
// looks at its own connections once a second, and shares those; it costs next to nothing while
// nobody waits.

// reclaimAfter is how long an exchange has had its connection, in nanoseconds, before that may be
// taken from it.
const reclaimAfter = int64(1e9)

// clientKey is a hash of the address that a request counts under. It has a seed of the process's
// own: else a client with many addresses could choose one that shares another's bucket.
func (f *flow) clientKey() uint64 {
	a := cidr.Client(f.Client).As16()
	return hash.Bytes(f.w.shared.Seed, a[:])
}

// sharing is who has the connections of this loop to an upstream for which requests wait.
type sharing struct {
	local       *upstream.Local
	connections map[uint64]int // by the client's key
	total       int
	holders     []holder
}

// shareFull reclaims connections of the upstreams for which requests wait, be it on other loops:
// all share their bound. An upstream that a reload has replaced still has its own waiting requests.
func (w *Worker) shareFull(now int64) {
	var full []*sharing
	add := func(l *upstream.Local) {
		if l.Upstream().Waiting() > 0 {
			full = append(full, &sharing{local: l, connections: make(map[uint64]int)})
		}
	}
	for _, l := range w.view.locals {
		add(l)
	}
	for _, r := range w.retiring {
		add(r.local)
	}
	if full == nil {
		return
	}
	w.findHolders(full)
	for _, s := range full {
		w.reclaim(s, now)
	}
}

// findHolders goes once through the loop's clients, for all upstreams together.
func (w *Worker) findHolders(full []*sharing) {
	byLocal := make(map[*upstream.Local]*sharing, len(full))
	for _, s := range full {
		byLocal[s.local] = s
	}
	note := func(f *flow) {
		if s := byLocal[f.holds()]; s != nil {
			s.connections[f.clientKey()]++
			s.total++
			s.holders = append(s.holders, holder{f, f.Life()})
		}
	}
	for h := w.http3.next; h != &w.http3; h = h.next {
		for st := h.first; st != nil; st = st.after {
			if st.flow != nil {
				note(st.flow)
			}
		}
	}
	for c := w.clients.next; c != &w.clients; c = c.next {
		switch {
		case c.flow != nil:
			note(c.flow)
		case c.state == clientHTTP2:
			for d := c.http2.first; d != nil; d = d.after {
				if st := d.client(); st.flow != nil {
					note(st.flow)
				}
			}
		}
	}
}

// holder is an exchange in the life that was found.
type holder struct {
	*flow
	inLife uint64
}

// reclaim ends exchanges of this loop that wait for their clients, while the client's address has
// more connections than its share and another waits for one that has less. It ends at most as many
// as requests wait. All addresses that wait and have no connection on this loop together count as
// one more address to share with.
func (w *Worker) reclaim(s *sharing, now int64) {
	addresses := len(s.connections)
	if s.local.AnyWaits(func(client uint64) bool { return s.connections[client] == 0 }) {
		addresses++
	}
	share := max(1, s.total/max(1, addresses))
	if !s.local.AnyWaits(func(client uint64) bool { return s.connections[client] < share }) {
		return
	}
	most := s.local.Upstream().Waiting()
	for _, f := range s.holders { // ending one may end others: what became free may be granted at once
		if most == 0 {
			return
		}
		if f.Life() != f.inLife || f.holds() != s.local || now-f.sentAt < reclaimAfter ||
			!f.waitsForClient() {
			continue
		}
		if key := f.clientKey(); s.connections[key] > share {
			s.connections[key]--
			most--
			w.shard.Upstream(f.view.Upstreams[f.Upstream].Stat).Reclaimed++
			f.giveBack()
		}
	}
}

// holds is the pool that the exchange has a connection of, or nil.
func (f *flow) holds() *upstream.Local {
	if f.up == nil || f.Upstream == exchange.NoUpstream {
		return nil
	}
	return f.view.locals[f.Upstream]
}

// waitsForClient says that only the client keeps the exchange from going on.
func (f *flow) waitsForClient() bool {
	switch f.stage {
	case stageSent:
		if f.is(held) {
			return false
		}
		if f.stream.congested() && f.up.pending() {
			return true // the answer is there, and is not read before the client takes what it has
		}
		return !f.is(requestSent|expecting) && !f.up.full() && !f.stream.pending()
	case stageStreaming:
		return f.stream.congested()
	}
	return false
}

// giveBack ends an exchange that waits for its client, because others wait for its connection.
func (f *flow) giveBack() {
	if f.stage == stageStreaming {
		f.endSlow()
		f.stream.cut(f)
		return
	}
	f.flags |= closeClient
	f.fail(503, exchange.PoolFull)
}
