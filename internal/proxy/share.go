package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/hash"
	"plimsoll/internal/upstream"
)

// A pool that is full is shared between client addresses. Those whose requests wait take turns
// (upstream/waiter.go). An address that has more than its share of the connections, while requests
// of another wait that has less, loses those whose exchanges only wait for their clients, be it for
// the rest of a request's body or for the client to take its response. Exchanges that wait for the
// service are left alone, so a busy address loses nothing to a slow service. Each loop looks at its
// own connections once a second, and shares those; it costs next to nothing while nobody waits.

// reclaimAfter is how long an exchange has had its connection, in nanoseconds, before that may be
// taken from it.
const reclaimAfter = int64(1e9)

// clientKey is a hash of the address that a request counts under. It has a seed of the process's
// own: else a client with many addresses could choose one that shares another's turn.
func (f *flow) clientKey() uint64 {
	a := addressKey(f.Client).As16()
	return hash.Bytes(f.w.shared.Seed, a[:])
}

// shareFull reclaims connections of the upstreams for which requests wait, be it on other loops:
// all share their bound.
func (w *Worker) shareFull(now int64) {
	for i := range w.view.Upstreams {
		u := w.view.Upstreams[i].Upstream
		if waiting := u.WaitingTurns(); waiting != 0 {
			w.reclaim(u, waiting, now)
		}
	}
}

// reclaim ends exchanges of this loop that wait for their clients, while the client's address has
// more connections to u than its share and another waits for one that has less. Those that wait and
// have none on this loop count as one address more.
func (w *Worker) reclaim(u *upstream.Upstream, waiting uint64, now int64) {
	connections, total, have := make(map[uint64]int), 0, uint64(0)
	var holders []*clientConn
	for c := w.clients.next; c != &w.clients; c = c.next {
		if f := c.flow; f != nil && f.holds(u) {
			key := f.clientKey()
			connections[key]++
			total++
			have |= upstream.TurnOf(key)
			holders = append(holders, c)
		}
	}
	addresses := len(connections)
	if waiting&^have != 0 {
		addresses++
	}
	share := max(1, total/max(1, addresses))
	for key, n := range connections {
		if n >= share {
			waiting &^= upstream.TurnOf(key) // it has what is its own
		}
	}
	if waiting == 0 {
		return
	}
	for _, c := range holders { // ending one may end others: what became free may be granted at once
		f := c.flow
		if f == nil || !f.holds(u) || now-f.sentAt < reclaimAfter || !f.waitsForClient() {
			continue
		}
		if key := f.clientKey(); connections[key] > share {
			connections[key]--
			w.shard.Upstream(f.view.Upstreams[f.Upstream].Stat).Reclaimed++
			f.giveBack()
		}
	}
}

// holds says that the exchange has a connection to u.
func (f *flow) holds(u *upstream.Upstream) bool {
	return f.upstreamConn != nil && f.Upstream != exchange.NoUpstream && f.view.Upstreams[f.Upstream].Upstream == u
}

// waitsForClient says that only the client keeps the exchange from going on.
func (f *flow) waitsForClient() bool {
	switch f.stage {
	case stageSent:
		return !f.is(requestSent|held|expecting) && !f.upstreamConn.conn.Congested() && !f.client.pending()
	case stageStreaming:
		return f.client.conn.Congested()
	}
	return false
}

// giveBack ends an exchange that waits for its client, because others wait for its connection.
func (f *flow) giveBack() {
	if f.stage == stageStreaming {
		c := f.client
		f.endSlow()
		c.cutOff(f.w.loop.Now())
		return
	}
	f.flags |= closeClient
	f.dropServer()
	f.endTry(upstream.Cancelled, 0)
	f.fail(503, exchange.PoolFull)
}
