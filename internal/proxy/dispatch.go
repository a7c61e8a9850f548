package proxy

import (
	"slices"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// startUpstream begins the proxying of an exchange whose policies have let it go on.
func (f *flow) startUpstream() {
	u := &f.view.Upstreams[f.Upstream]
	f.UpstreamName = u.Name()
	if f.Mirror != exchange.NoUpstream {
		f.flags |= mirrored
	}
	f.view.locals[f.Upstream].Request(f.w.loop.Now())
	if f.call != nil {
		f.startCall()
	}
	if !f.sendEarlyHints() {
		return
	}
	if f.mustHold() {
		f.holdBody()
		return
	}
	f.attempt()
}

// attempt picks a target and goes to it.
func (f *flow) attempt() {
	u, local, now := &f.view.Upstreams[f.Upstream], f.view.locals[f.Upstream], f.w.loop.Now()
	if f.tooLate(now) {
		f.fail(504, exchange.DeadlinePassed)
		return
	}
	var key uint64
	if u.Key != nil {
		key = u.Key(&f.Exchange)
	}
	m, _ := local.Pick(now, key, f.tried[:f.tries])
	if m != nil && !f.beginTry(m, now) {
		m = f.pickAnother(m, key)
	}
	switch {
	case m == nil:
		f.fail(503, exchange.NoTarget)
	case f.member == nil:
		f.refusedByBreaker(m, now)
	default:
		f.connect()
	}
}

// pickAnother begins a try at another target than refused, whose breaker let none through, and is
// that target. Where f.member is nil afterwards, it is one whose breaker refused like those before.
func (f *flow) pickAnother(refused *upstream.Member, key uint64) (m *upstream.Member) {
	local, now := f.view.locals[f.Upstream], f.w.loop.Now()
	avoid := append(f.w.avoid[:0], f.tried[:f.tries]...)
	for m = refused; len(avoid) < cap(avoid) && !slices.Contains(avoid, m); {
		avoid = append(avoid, m)
		if m, _ = local.Pick(now, key, avoid); m == nil || f.beginTry(m, now) {
			break
		}
	}
	clear(avoid) // or targets that are gone would be kept
	return m
}

// refusedByBreaker answers an exchange that no target's breaker lets through, or the last that was
// asked.
func (f *flow) refusedByBreaker(m *upstream.Member, now int64) {
	f.shed(exchange.BreakerOpen, int((m.RetryAfter(now)+999_999_999)/1e9))
}

// beginTry makes m the target of a try, if its breaker lets it through.
func (f *flow) beginTry(m *upstream.Member, now int64) bool {
	ticket, ok := m.Admit(now)
	if !ok {
		return false
	}
	f.tried[f.tries] = m
	f.tries++
	f.Attempts, f.member, f.ticket = f.tries, m, ticket
	m.Begin(now)
	return true
}

// staleAfter is how long a connection may have been idle until the socket itself is asked whether
// the peer has closed it. The loop would have been told, but perhaps not in this turn; and a
// request that may not be repeated, or has met a stale connection already, is worth the call
// always.
const staleAfter = int64(1e9)

// fit says whether a connection may be used that carries nothing, or is shared.
func (f *flow) fit(s *upstreamConn, now int64) bool {
	switch {
	case s.shared(): // it is looked after
		return true
	case now-s.idleSince <= staleAfter && f.idempotent() && !f.is(freeRetry) || s.conn.Alive():
		return true
	}
	return s.http2 != nil && s.http2.lives()
}

// connect finds a connection to the picked target: an idle one, a new one, or a place in the queue.
// A request that has met a stale connection gets a new one where it can: the others of the pool may
// be as old.
func (f *flow) connect() {
	pool, now := &f.member.Pool, f.w.loop.Now()
	fresh := f.is(freeRetry)
	switch f.view.Upstreams[f.Upstream].Protocol {
	case upstream.HTTP2:
		fresh = false // they are looked after
	case upstream.Negotiated:
		fresh = fresh || f.req.Upgrade != nil // HTTP/2 has no upgrades
	}
	if fresh && pool.Open(now) {
		f.dial()
		return
	}
	for {
		conn, ok := pool.Get(now)
		if !ok {
			break
		}
		s := conn.(*upstreamConn)
		if !f.fit(s, now) {
			s.member = f.member // another loop's may have been the last to use it
			s.close()
			continue
		}
		f.use(s)
		return
	}
	if pool.Open(now) {
		f.dial()
		return
	}
	f.endTry(upstream.Cancelled, 0)
	f.tries--
	f.Attempts = f.tries
	u := &f.view.Upstreams[f.Upstream]
	f.wait.Client, f.wait.Class, f.wait.Patience = f.clientKey(), f.class(), 0
	longest := u.PendingTimeout
	if u.Limited {
		f.wait.Patience = f.view.Classes[f.Class].Patience
		if f.due != 0 {
			left := f.due - now // what a try is let have that may show quicker answers is the half of it
			left = max(left-f.view.locals[f.Upstream].Quickest(now), left/2)
			f.wait.Patience = max(1, min(f.wait.Patience, left))
		}
		longest = min(longest, f.view.Classes[f.Class].Patience)
	}
	if why := f.view.locals[f.Upstream].Wait(&f.wait, now); why != upstream.None {
		f.Refused(now, why)
		return
	}
	f.stage = stageWaiting
	f.beginWait()
	f.w.loop.SetTimer(&f.timer, f, f.tryDeadline(longest))
}

// Ready implements upstream.Waiting: there is an idle connection or, when c is nil, the permission
// to open one.
func (f *flow) Ready(now int64, m *upstream.Member, c upstream.Conn) {
	f.w.loop.StopTimer(&f.timer)
	if c != nil {
		c.(*upstreamConn).member = m // it may come from another loop, and stay on this one idle
	}
	late := f.overdue(now)
	if late || !f.beginTry(m, now) { // its breaker has opened while the request waited
		switch {
		case c == nil:
			m.Closed(now)
		case c.(*upstreamConn).shared():
			m.Free(now)
		default:
			m.Put(c, now)
		}
		f.stage = stagePolicies
		if late {
			f.fail(504, exchange.DeadlinePassed)
		} else {
			f.refusedByBreaker(m, now)
		}
		return
	}
	if c == nil {
		f.dial()
		return
	}
	s := c.(*upstreamConn)
	if !f.fit(s, now) {
		s.shut()
		f.dial() // in its place in the pool's count
		return
	}
	f.use(s)
}

// Refused implements upstream.Waiting: there will be no connection.
func (f *flow) Refused(_ int64, why upstream.Unavailable) {
	f.stage = stagePolicies
	if why == upstream.AllDown || why == upstream.AllOut || why == upstream.NoTargets ||
		why == upstream.Closed {
		f.fail(503, exchange.NoTarget)
		return
	}
	if f.view.Upstreams[f.Upstream].Limited {
		f.shed(exchange.Overloaded, 0)
		return
	}
	f.fail(503, exchange.PoolFull)
}

// class is the exchange's in the queue. A copy goes behind everything.
func (f *flow) class() uint8 {
	if f.is(isMirror) {
		return upstream.Classes - 1
	}
	return f.Class
}

// use sends the request on a connection that is idle or was just made.
func (f *flow) use(s *upstreamConn) {
	f.endWait(f.w.loop.Now())
	s.upstream, s.member = &f.view.Upstreams[f.Upstream], f.member // it may be older than the config
	if s.http2 != nil {
		s.http2.assign(f)
		return
	}
	s.flow, f.up, f.Target = f, s, s.target
	if s.requests++; s.requests > 1 {
		s.stats().Reused++
	}
	if f.is(isMirror) {
		f.sendCopy()
		return
	}
	f.sendRequest()
}

// dial opens a connection to the picked target, for which the pool has given its permission.
func (f *flow) dial() {
	u := &f.view.Upstreams[f.Upstream]
	address := f.member.Target().Address()
	s := &upstreamConn{w: f.w, member: f.member, upstream: u, target: address.String()}
	if u.Protocol == upstream.HTTP2 {
		s.startHTTP2().assign(f)
	} else {
		s.flow, s.upgrades, f.up, f.Target = f, f.req.Upgrade != nil, s, s.target
		f.stage, f.sentAt = stageConnecting, f.w.loop.Now()
		f.beginWait()
	}
	if err := s.conn.Dial(f.w.loop, reactor.Address{IP: address.TCP, Path: address.Path}, s); err != nil {
		// Ours, so not counted against the target, and no other target would do better.
		if reactor.OutOfResources(err) {
			f.w.complainOfDials(err)
			f.fail(503, exchange.PoolFull)
			return
		}
		s.stats().ConnectFailures++
		f.upstreamFailed(upstream.ConnectFailed, exchange.ConnectFailed)
		return
	}
	f.w.loop.SetTimer(&f.timer, f, f.tryDeadline(u.ConnectTimeout))
}

// connectExpired gives a connection up that takes too long to make, TLS included.
func (f *flow) connectExpired(now int64) {
	if f.overdue(now) && !f.triedEnough(now) {
		f.fail(504, exchange.DeadlinePassed)
		return
	}
	f.up.on().stats().ConnectFailures++
	reason := exchange.ConnectFailed
	if now >= f.deadline {
		reason = exchange.UpstreamTimeout
	}
	f.upstreamFailed(upstream.Timeout, reason)
}

// tryDeadline is when the present try is given up: after so many nanoseconds, and never after the
// exchange's own deadline.
func (f *flow) tryDeadline(after int64) int64 { return min(f.deadline, f.w.loop.Now()+after) }

// batchBytes is the longest message that goes out with the loop's batch: copying a longer one would
// cost more than the batch saves.
const batchBytes = 4 << 10

// beginWait notes that there is no connection to the service yet: one is being made, or the pool's
// bound is reached. A wait goes on over tries that get none.
func (f *flow) beginWait() {
	if f.waitFrom == 0 {
		f.waitFrom = f.w.loop.Now()
	}
}

// endWait counts what was waited. A slow connect is the service's doing, and must not pass for
// slowness of the gateway.
func (f *flow) endWait(now int64) {
	if f.waitFrom != 0 {
		f.waited += max(0, now-f.waitFrom)
		f.waitFrom = 0
	}
}

// noteSent takes down how long the gateway itself had the request, up to the first try's sending.
func (f *flow) noteSent() {
	if f.up != nil && f.headUp == 0 && f.is(wroteRequest) {
		f.headUp = max(1, f.up.on().conn.Sent()-f.Start-f.waited-f.paused)
	}
}

// hopByHop are the fields that are never forwarded as they came: those of the connection, and those
// that frame the body, which the gateway writes itself.
const hopByHop = http1.HopByHop | 1<<head.ContentLength | 1<<head.Expect

// sendRequest sends the request's head, with as much of the body as is there.
func (f *flow) sendRequest() {
	w, s := f.w, f.up
	if f.overdue(w.loop.Now()) { // since the connection was asked for
		f.fail(504, exchange.DeadlinePassed)
		return
	}
	f.stage, f.sentAt = stageSent, w.loop.Now()
	f.flags &^= wroteRequest | expecting | bodyOnItsWay | bodyBehind | sentSlowly | heldSent
	if f.req.Length != 0 {
		f.flags |= bodyOnItsWay
		f.bodyAcked, _ = s.took() // what went before has been answered
	}
	if f.call != nil {
		f.passTimeout()
	}
	if !s.sendRequest(f) {
		return
	}
	f.met = f.member.Sent() + 1
	f.awaitAnswer(f.deadline)
	if !f.is(requestSent) {
		f.flags |= sentSlowly
		if !f.is(expecting) {
			f.armBodyTimer()
		}
		f.pumpRequest()
	} else if f.is(mirrored) {
		f.sendMirror()
	}
	if f.up == s && s.on().conn.MayRead() {
		s.readOn()
	}
}

var (
	hostColon     = []byte("Host: ")
	crlf          = []byte("\r\n")
	chunkedLine   = []byte("Transfer-Encoding: chunked\r\n")
	contentLength = []byte("Content-Length: ")
)

// appendRequestHead is the head as the upstream gets it: the path to forward, every field that
// belongs to the message, and framing of our own making.
func (f *flow) appendRequestHead(out []byte) []byte {
	out = append(out, f.req.Method...)
	out = append(out, ' ')
	out = append(out, f.Forward...)
	if f.req.Query != nil {
		out = append(append(out, '?'), f.req.Query...)
	}
	out = append(out, " HTTP/1.1\r\n"...)
	if !f.req.Fields.Has(head.Host) {
		out = append(append(append(out, hostColon...), f.member.Target().Address().Authority()...), crlf...)
	}
	f.trimRequest()
	out = f.appendVia(http1.AppendFields(out, &f.req.Fields, hopByHop), f.version)
	out = f.appendDeadline(out)
	switch {
	case f.req.Length == head.Unknown:
		out = append(out, chunkedLine...)
	case f.req.Length > 0:
		out = appendLength(out, f.req.Length)
	default:
		// A length of 0 says that a body was thought of, which POST without one does not.
		if f.req.Fields.Has(head.ContentLength) {
			out = appendLength(out, 0)
		}
	}
	return append(f.appendRequestConnection(out), crlf...)
}

var upgradeName = []byte("Upgrade")

func appendLength(out []byte, n int64) []byte {
	out = append(out, contentLength...)
	return append(appendInt(out, n), crlf...)
}

// appendInt appends a non-negative number in decimal.
func appendInt(out []byte, n int64) []byte {
	var digits [20]byte
	i := len(digits)
	for {
		i--
		digits[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return append(out, digits[i:]...)
		}
	}
}

// idempotent says whether the method allows the request to be sent again when its fate is unknown
// (RFC 9110, section 9.2.2).
func (f *flow) idempotent() bool {
	switch string(f.req.Method) {
	case "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE":
		return true
	}
	return false
}

// upstreamFailed ends the present try, and tries again or gives up.
func (f *flow) upstreamFailed(o upstream.Outcome, reason exchange.Reason) {
	now := f.w.loop.Now()
	stale := o == upstream.Reset && (f.stale() || f.is(notBegun))
	// The service has given up when the deadline was over that it was told, before the timer of this
	// loop was due.
	late := f.overdue(now) && o == upstream.Reset
	f.noteSent()
	f.dropUpstream()
	if stale || late && !f.triedEnough(now) {
		f.endTry(upstream.Cancelled, 0)
	} else {
		f.endTry(o, 0)
	}
	if late {
		o, reason = upstream.Timeout, exchange.DeadlinePassed
	}
	switch {
	case f.is(isMirror):
		f.endMirror()
	case f.stage.responseBegun():
		f.cut(reason)
	case f.mayRetry(o, stale):
		f.retry(stale)
	default:
		f.fail(failureStatus(o), reason)
	}
}

// stale says that a connection which broke had been used before and brought no byte of the
// response: the keep-alive race, in which the target closed it while the request was on its way.
// That says nothing of the target's health, so it costs neither an attempt nor the budget. A second
// such failure of one exchange does.
func (f *flow) stale() bool {
	return f.stage == stageSent && f.up.unanswered() && !f.is(freeRetry)
}

func failureStatus(o upstream.Outcome) int {
	if o == upstream.Timeout {
		return 504
	}
	return 502
}

// endTry tells the target how the try went. latency is in nanoseconds, for successes.
func (f *flow) endTry(o upstream.Outcome, latency int64) {
	if f.member != nil {
		f.leaveTarget(o)
		f.member.End(f.w.loop.Now(), o, latency)
		f.member.Settle(f.w.loop.Now(), f.ticket, o, latency)
		f.member = nil
	}
}

// leaveTarget says, once for each try that was sent, that it is no longer at its target. How long it
// took counts only where the target had the whole request from the start.
func (f *flow) leaveTarget(o upstream.Outcome) {
	if f.met == 0 {
		return
	}
	took := f.w.loop.Now() - f.sentAt
	if f.is(sentSlowly) {
		took = -1
	}
	f.member.Answered(f.met-1, o, took)
	f.met = 0
}

// mayRetry decides whether a failed try is repeated. What a target that ends its connection has not
// begun goes to another, whatever was configured: nothing has failed. Two rules come before any
// configuration: nothing is sent twice that could be carried out twice, and what is gone of a body
// cannot be sent again.
func (f *flow) mayRetry(o upstream.Outcome, stale bool) bool {
	if f.is(bodyStreamed) || f.is(wroteRequest) && !f.idempotent() || f.w.loop.Now() >= f.deadline {
		return false
	}
	notYet := f.is(notBegun)
	f.flags &^= notBegun
	if int(f.tries) >= len(f.tried) {
		return false
	}
	if notYet {
		return true
	}
	if stale {
		f.flags |= freeRetry
		return true
	}
	kind := retryKind(o)
	if f.stage == stageConnecting {
		kind = RetryConnect // whether it was refused or took too long
	}
	return f.view.Upstreams[f.Upstream].RetryOn&kind != 0 && f.triesLeft() && f.spendRetry()
}

// triesLeft says whether the configured tries are not used up. The free retry is none of them.
func (f *flow) triesLeft() bool {
	used := f.tries
	if f.is(freeRetry) {
		used--
	}
	return used <= f.view.Upstreams[f.Upstream].Attempts && int(f.tries) < len(f.tried)
}

func (f *flow) spendRetry() bool {
	if !f.view.locals[f.Upstream].Retry(f.w.loop.Now()) {
		f.w.shard.Upstream(f.view.Upstreams[f.Upstream].Stat).RetriesRefused++
		return false
	}
	return true
}

func retryKind(o upstream.Outcome) RetryOn {
	switch o {
	case upstream.ConnectFailed:
		return RetryConnect
	case upstream.Reset:
		return RetryReset
	case upstream.Timeout:
		return RetryTimeout
	}
	return 0
}

// retryStatus decides whether a response's status is tried again instead of passed on.
func (f *flow) retryStatus(status int) bool {
	var kind RetryOn
	switch status {
	case 502:
		kind = Retry502
	case 503:
		kind = Retry503
	case 504:
		kind = Retry504
	}
	return f.view.Upstreams[f.Upstream].RetryOn&kind != 0 && f.triesLeft() && !f.is(bodyStreamed) &&
		f.idempotent() &&
		f.w.loop.Now() < f.deadline && f.spendRetry()
}

// retry goes to the next target with the request as it was. The body, as far as it has been used,
// is still held, or in the client's buffer. free says that the try costs nothing of the budget.
func (f *flow) retry(free bool) {
	if !free {
		f.view.locals[f.Upstream].Retried(f.w.loop.Now())
	}
	f.res.Reset()
	f.interims, f.interimBytes = 0, 0
	f.stage = stagePolicies
	if f.call != nil {
		f.call.up = f.call.marked
	}
	if f.req.Length != 0 && !f.is(isMirror) {
		f.bodyIn, f.mark = f.heldIn, 0
		f.flags &^= requestSent | bodyWhole
		if f.stream.rewind() {
			f.flags |= bodyWhole
		}
	}
	f.attempt()
}

// dropUpstream gives up what is under way upstream.
func (f *flow) dropUpstream() {
	if s := f.up; s != nil {
		f.up = nil
		s.drop()
	}
	f.dropResponse()
}
