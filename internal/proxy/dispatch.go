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

// attempt picks a target and begins a try there.
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

// pickAnother begins a try at a target other than refused, whose breaker did not let the try
// through, and returns that target. If every breaker refuses, f.member stays nil, and pickAnother
// returns the target that it asked last, or nil if there is none.
func (f *flow) pickAnother(refused *upstream.Member, key uint64) (m *upstream.Member) {
	local, now := f.view.locals[f.Upstream], f.w.loop.Now()
	avoid := append(f.w.avoid[:0], f.tried[:f.tries]...)
	for m = refused; len(avoid) < cap(avoid) && !slices.Contains(avoid, m); {
		avoid = append(avoid, m)
		if m, _ = local.Pick(now, key, avoid); m == nil || f.beginTry(m, now) {
			break
		}
	}
	clear(avoid) // or it would keep targets that are gone in memory
	return m
}

// refusedByBreaker answers an exchange that no target's breaker lets through. m is the target that
// was asked last.
func (f *flow) refusedByBreaker(m *upstream.Member, now int64) {
	f.shed(exchange.BreakerOpen, int((m.RetryAfter(now)+999_999_999)/1e9))
}

// beginTry makes m the target of a try, and reports whether its breaker lets the try through.
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

// staleAfter is for how many nanoseconds a connection may have been idle before the socket itself
// is asked whether the peer has closed it. The loop learns of that too, but perhaps only in a later
// turn. A request that may not be repeated, or has met a stale connection already, is always worth
// that system call.
const staleAfter = int64(1e9)

// fit reports whether an idle or shared connection may be used.
func (f *flow) fit(s *upstreamConn, now int64) bool {
	switch {
	case s.shared(): // PINGs check it
		return true
	case now-s.idleSince <= staleAfter && f.idempotent() && !f.is(freeRetry) || s.conn.Alive():
		return true
	}
	return s.http2 != nil && s.http2.lives()
}

// connect finds a connection to the picked target, an idle or a new one, or else queues the
// request. A request that has met a stale connection gets a new one if possible: the others in the
// pool may be as old.
func (f *flow) connect() {
	pool, now := &f.member.Pool, f.w.loop.Now()
	fresh := f.is(freeRetry)
	switch f.view.Upstreams[f.Upstream].Protocol {
	case upstream.HTTP2:
		fresh = false // PINGs check busy ones, and fit idle ones
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
			s.member = f.member // a member of another loop may have used it last
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
			// Leave time for the quickest answer, but allow a wait of at least half of what is
			// left: the answer may be quicker.
			left := f.due - now
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

// Ready implements upstream.Waiting: c is an idle connection, or nil if the flow may open one.
func (f *flow) Ready(now int64, m *upstream.Member, c upstream.Conn) {
	f.w.loop.StopTimer(&f.timer)
	if c != nil {
		c.(*upstreamConn).member = m // it may come from another loop, and become idle on this one
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
		f.dial() // the new connection is counted in place of the old one
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

// class returns the class of the exchange in the queue. A mirror's copy comes last of all.
func (f *flow) class() uint8 {
	if f.is(isMirror) {
		return upstream.Classes - 1
	}
	return f.Class
}

// use sends the request on a connection that is idle or was just made.
func (f *flow) use(s *upstreamConn) {
	f.endWait(f.w.loop.Now())
	s.upstream, s.member = &f.view.Upstreams[f.Upstream], f.member // s may be older than the config
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
		// The fault is ours: it does not count against the target, and no other would do better.
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

// connectExpired gives up a connection that takes too long to make, the TLS handshake included.
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

// tryDeadline returns when the present try is given up: after nanoseconds from now, but no later
// than the exchange's own deadline.
func (f *flow) tryDeadline(after int64) int64 { return min(f.deadline, f.w.loop.Now()+after) }

// batchBytes is the length of the longest message that is sent with the loop's batch: copying a
// longer one would cost more than the batch saves.
const batchBytes = 4 << 10

// beginWait notes that the exchange waits for a connection: one is being made, or the pool's bound
// is reached. A wait goes on over tries that get no connection.
func (f *flow) beginWait() {
	if f.waitFrom == 0 {
		f.waitFrom = f.w.loop.Now()
	}
}

// endWait adds the time of the wait to waited. The service is responsible for a slow connect, which
// must not be counted as the gateway's own time.
func (f *flow) endWait(now int64) {
	if f.waitFrom != 0 {
		f.waited += max(0, now-f.waitFrom)
		f.waitFrom = 0
	}
}

// noteSent sets headUp: how long the gateway itself had the request until the first try was sent.
func (f *flow) noteSent() {
	if f.up != nil && f.headUp == 0 && f.is(wroteRequest) {
		f.headUp = max(1, f.up.on().conn.Sent()-f.Start-f.waited-f.paused)
	}
}

// hopByHop are the fields that are never forwarded as received: those of the connection, and those
// that frame the body, which the gateway writes itself.
const hopByHop = http1.HopByHop | 1<<head.ContentLength | 1<<head.Expect

// sendRequest sends the request's head, with as much of the body as has come.
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
		f.bodyAcked, _ = s.took() // acknowledged bytes of earlier requests do not count
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

// appendRequestHead appends the head that is sent to the upstream: the path to forward, every field
// that belongs to the message, and the gateway's own framing.
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
		// A length of 0 tells an empty body from none, so it is sent only if the client sent it.
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

// idempotent reports whether the method allows the request to be sent again when it is not known
// whether it was carried out (RFC 9110, section 9.2.2).
func (f *flow) idempotent() bool {
	switch string(f.req.Method) {
	case "GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE":
		return true
	}
	return false
}

// upstreamFailed ends the present try, and retries or gives up.
func (f *flow) upstreamFailed(o upstream.Outcome, reason exchange.Reason) {
	now := f.w.loop.Now()
	stale := o == upstream.Reset && (f.stale() || f.is(notBegun))
	// The service has broken off because the deadline that it was told is over; this loop's timer
	// is only about to fire.
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

// stale reports whether the connection that broke had been used before and brought no byte of the
// response: the target closed it while the request was on its way. That says nothing about the
// target's health, so it costs neither an attempt nor anything of the budget. A second such failure
// of an exchange does.
func (f *flow) stale() bool {
	return f.stage == stageSent && f.up.unanswered() && !f.is(freeRetry)
}

func failureStatus(o upstream.Outcome) int {
	if o == upstream.Timeout {
		return 504
	}
	return 502
}

// endTry tells the target how the try ended. latency is in nanoseconds, and counts for successes.
func (f *flow) endTry(o upstream.Outcome, latency int64) {
	if f.member != nil {
		f.leaveTarget(o)
		f.member.End(f.w.loop.Now(), o, latency)
		f.member.Settle(f.w.loop.Now(), f.ticket, o, latency)
		f.member = nil
	}
}

// leaveTarget notes, once for each try that was sent, that it is no longer at its target. The time
// that it took counts only if the target had the whole request from the start.
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

// mayRetry reports whether a failed try is to be repeated. Two rules come before any configuration:
// a request that could be carried out twice is not sent twice, and neither is one of whose body a
// part is no longer held. A request that a target has not begun, because it ends its connection, is
// retried whatever was configured: nothing has failed.
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
		kind = RetryConnect // whether the connect was refused or took too long
	}
	return f.view.Upstreams[f.Upstream].RetryOn&kind != 0 && f.triesLeft() && f.spendRetry()
}

// triesLeft reports whether there are configured tries left. The free retry is not one of them.
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

// retryStatus reports whether to retry a request because of its response's status, instead of
// passing the response on.
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

// retry sends the request, as it was, to the next target. The part of the body that has been sent
// is still held, or in the client's buffer. free says that the try does not count against the
// budget.
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

// dropUpstream gives up the try that is under way at the upstream, and its response.
func (f *flow) dropUpstream() {
	if s := f.up; s != nil {
		f.up = nil
		s.drop()
	}
	f.dropResponse()
}
