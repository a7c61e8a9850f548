package proxy

import (
	"plimsoll/internal/cidr"
	"plimsoll/internal/exchange"
	"plimsoll/internal/hash"
	"plimsoll/internal/upstream"
)

// A full pool is shared between client addresses. Those whose requests wait are served in rotation
// (upstream/waiter.go). If an address has more than its share of the connections, while a request
// of an address with less than its share waits, it loses connections. It loses those whose
// exchanges only wait for their client, either for the rest of a request's body or for the client
// to take what it is sent. Exchanges that wait for the service keep their connections, so a busy
// address loses none because of a slow service. Each loop looks at its own connections once a
// second, and shares those. It costs next to nothing while no request waits.

// reclaimAfter is for how many nanoseconds an exchange has a connection before it may lose it.
const reclaimAfter = int64(1e9)

// clientKey returns a hash of the client address to which a request is counted. The seed is
// different in each process. Otherwise a client with many addresses could choose one that shares a
// bucket with that of another client.
func (f *flow) clientKey() uint64 {
	a := cidr.Client(f.Client).As16()
	return hash.Bytes(f.w.shared.Seed, a[:])
}

// sharing lists the holders of this loop's connections to an upstream for which requests wait.
type sharing struct {
	local       *upstream.Local
	connections map[uint64]int // by the client's key
	total       int
	holders     []holder
}

// shareFull reclaims connections to the upstreams for which requests wait, on this loop or on
// others: all loops share the bound. An upstream that a reload has replaced may still have waiting
// requests.
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

// holder is an exchange, with the number of the life in which it was found.
type holder struct {
	*flow
	inLife uint64
}

// reclaim ends exchanges of this loop that wait for their clients, if the client's address has more
// connections than its share and a request of an address with less waits. It ends at most as many
// as requests wait. All addresses that wait and have no connection on this loop count together as
// one more address.
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

// holds returns the upstream's view to which the exchange's connection belongs, or nil for none.
func (f *flow) holds() *upstream.Local {
	if f.up == nil || f.Upstream == exchange.NoUpstream {
		return nil
	}
	return f.view.locals[f.Upstream]
}

// waitsForClient reports whether only the client keeps the exchange from going on.
func (f *flow) waitsForClient() bool {
	switch f.stage {
	case stageSent:
		if f.is(held) {
			return false
		}
		if f.stream.congested() && f.up.pending() {
			return true // the answer has come, but is not read until the client takes more
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
