package proxy

import (
	"bytes"
	"unsafe"

	"plimsoll/internal/admission"
	"plimsoll/internal/breaker"
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/invariant"
	"plimsoll/internal/policy/forwarded"
	"plimsoll/internal/reactor"
	"plimsoll/internal/route"
	"plimsoll/internal/telemetry"
	"plimsoll/internal/upstream"
)

// flow is an exchange in the data plane: the Exchange that policies see, the parsers of the two
// messages, and the state of the exchange. Flows are reused; the one used last is taken first.
//
// Its stages:
//
//	reading → policies ─┬─────────────────────────→ streaming (an answer of the gateway's own) → over
//	             ↑      └→ holding → waiting → connecting → sent ─┬→ streaming → sending → over
//	             └─ retry ──────────────┴──────────┴──────────┘   └→ tunnel → over
//
// The stage holding is skipped if the body came with the head, or is not held; waiting and
// connecting are skipped if there is an idle connection. Any stage but sending may fail into over.
// In policies and in sent a policy may hold the exchange: that is the flag held, and not a stage.
// In sending there is nothing upstream left to give up, and only Run ends the exchange, in the same
// turn: if the client goes, or a timer fires, that is dealt with after Run.
//
// The request's body is independent of the stage: it may still be arriving in any stage before
// over.
type flow struct {
	exchange.Exchange // Begin and Finish reset it
	life

	w     *Worker
	match route.Match    // Match fills it; only Params points to it
	req   http1.Request  // reset separately, because it keeps its memory
	res   http1.Response // likewise
	timer reactor.Timer
	pace  reactor.Timer // when the pace of the request's body is judged
	wait  upstream.Waiter
	next  *flow // in the free list
}

// life holds what belongs to one use of a flow, from newFlow to freeFlow. A single assignment
// resets it. So a field that must survive does not belong here, and neither does a large one,
// because every exchange pays for resetting it.
type life struct {
	view         *view
	route        *Route
	stream       stream           // nil for a mirror's copy
	origin       *origin          // likewise
	up           upstreamStream   // the upstream connection in use, or its stream
	member       *upstream.Member // the target in use, between Begin and End
	ticket       breaker.Ticket   // of the target's breaker, for this try
	tried        [maxTries]*upstream.Member
	call         *call           // the state of a gRPC call; nil for other exchanges
	heldBody     *reactor.Buffer // the part of the body that is held; see hold.go
	heldResponse *reactor.Buffer // a response that a policy holds; see holdResponse
	copy         *reactor.Buffer // the copy of a mirrored request
	rest         []byte          // the part of Body that the client has not been given yet
	webSocket    *webSocket      // for a tunnel of WebSocket; else nil

	copyIndex   int    // of a mirror, in the worker's copies
	downOptions []byte // the response's Connection field, once written: see trimResponse

	stage   stage
	at      uint8   // the next policy of the phase that is under way
	asked   uint8   // policies that saw the request
	tries   uint8   // upstream tries begun
	version version // of the client's protocol
	// answeredIn is the version that the response came in.
	answeredIn version
	flags      flowFlags

	deadline int64 // the end of the route's timeout; bytes of a streamed body postpone it
	due      int64 // the trusted peer's deadline, which nothing postpones; 0 for none
	// when the route's timeout began to count: at the first policy, when bytes of the body last
	// moved, or when a client that did not take its answer was last looked at
	timeoutFrom int64
	sentAt      int64 // when the request's head was sent; before that, when the dial began
	// one more than the number of other tries of this loop that this one found at its target; 0
	// while this one is not there
	met int
	// when the wait for a held body or an upstream connection began; 0 if the exchange does not
	// wait
	waitFrom    int64
	pausedAt    int64 // when the present hold of a policy began
	upstreamEnd int64 // when the response's head came
	lastRead    int64 // when the response's last bytes came
	headBytes   int64 // of the request
	bodyIn      int64 // bytes of the request's body, received
	heldIn      int64 // bodyIn, when the holding ended
	copied      int64 // bytes of the body in the mirror's copy
	headOut     int64 // bytes of the response's head
	bodyOut     int64 // bytes of the response, head and framing included, given to the client
	mark        int64 // bodyIn when judgeBody last looked
	bodyAcked   int64 // bytes that the upstream had acknowledged when it was last looked at
	answerBy    int64 // when the response's head must have come, as far as is known

	// Durations in nanoseconds. headUp is the time from the arrival of the request's head until it
	// was sent on, and headDown the same for the response. Both are the gateway's own time. So
	// headUp leaves out waited, the time of waiting for the client or the service, and both leave
	// out the time for which policies held the exchange: paused, of which pausedDown in the
	// response phase.
	headUp, headDown, waited, paused, pausedDown int64

	unflushed    int // bytes of content that the encoder was given since its last flush
	interims     int // interim responses of the present try
	interimBytes int // bytes of their heads
}

// maxTries is the first try, the five retries that a config may allow, and the free one.
const maxTries = 7

// maxSpare is how many unused flows a loop keeps for their next use, about 5 KB each. Further ones,
// left by a flood of requests, go to the garbage collector.
const maxSpare = 2048

type stage uint8

const (
	stageReading  stage = iota // the head is not complete
	stagePolicies              // the chain's request phase is under way, or held
	stageHolding               // the body is received before a target is picked
	stageWaiting               // for a free connection
	stageConnecting
	stageSent      // the head was sent to the upstream, and its answer is awaited
	stageStreaming // the response's head is with the client
	stageTunnel
	stageSending // the response's last bytes are in the loop's batch
	stageOver
	stages
)

// Only the predicates below rely on the order of the stages.

// beforeTry reports whether no target is in use yet. It relies on stageConnecting being the first
// stage of a try.
func (s stage) beforeTry() bool { return s < stageConnecting }

// headSent reports whether the stage comes after the sending of the request's head. It is also true
// for answers of the gateway's own, for which nothing was sent: it does not say whether there is an
// upstream. It relies on stageSent being the first stage after the head was sent.
func (s stage) headSent() bool { return s >= stageSent }

// responseBegun reports whether the response is on its way to the client, so that no other answer
// is possible. It relies on stageStreaming being the first such stage, and on streamBody, which
// steps back to stageSent if the head was not sent after all.
func (s stage) responseBegun() bool { return s >= stageStreaming }

// readsResponse reports whether more of a response is awaited from the upstream, head or body.
func (s stage) readsResponse() bool { return s == stageSent || s == stageStreaming }

type flowFlags uint32

const (
	held         flowFlags = 1 << iota // a policy will resume
	inResponse                         // it was held in the response phase
	requestSent                        // the whole request was sent to the upstream, its body too
	bodyStreamed                       // parts of the body are gone and cannot be sent again
	wroteRequest                       // bytes of the present try went into the upstream's socket
	freeRetry                          // the free retry after a stale connection has been used
	expecting                          // the upstream decides whether the body comes: see expect.go
	continued                          // the client needs no 100: it got one, or sends already
	toHEAD                             // the request's method is HEAD
	closeClient                        // the client's connection ends with this exchange
	answered                           // the response is the gateway's own answer
	mirrored                           // a copy is being made, or was sent
	isMirror                           // this is the copy: there is no client
	downEnded                          // a tunnel's upstream sends no more
	bodyHeld                           // the body was held, as far as it may be
	bodyOnItsWay                       // the upstream may not have acknowledged the body
	bodyBehind                         // when last looked at, it had not acknowledged all of it
	endless                            // the response is a stream of events: see objective.go
	sentSlowly                         // the whole request was not sent at once
	bodyWhole                          // the request's body has come whole
	expects                            // the client waits for 100 before it sends the body
	notBegun                           // the target has said that it has not begun the request
	heldSent                           // the part of the body that is held was sent to the upstream
	earlyData                          // the request came before the handshake was complete
	isFetch                            // the request is the gateway's own: see fetch.go
)

func (f *flow) is(flag flowFlags) bool { return f.flags&flag != 0 }

// version is a version of HTTP.
type version uint8

const (
	http10 version = iota
	http11
	http20
	http30
)

// newFlow takes a flow for a stream on which the first bytes of a request have come.
func (w *Worker) newFlow(st stream, o *origin) *flow {
	f := w.takeFlow()
	f.stream, f.origin, f.view = st, o, w.view
	f.view.flows++
	return f
}

// takeFlow takes a flow that is not in use.
func (w *Worker) takeFlow() *flow {
	f := w.flows
	if f == nil {
		f = &flow{w: w}
		f.Request, f.Response = &f.req.Request, &f.res.Response
		f.wait.Owner = f
	} else {
		w.flows, f.next = f.next, nil
		w.spare--
		w.leastSpare = min(w.leastSpare, w.spare)
	}
	return f
}

// dropSpareFlows leaves half of the flows that were not used since its last call to the garbage
// collector: packing exchanges that wait leaves many.
func (w *Worker) dropSpareFlows() {
	for range w.leastSpare / 2 {
		f := w.flows
		w.flows, f.next = f.next, nil
		w.spare--
		w.forgetFlow(f)
	}
	w.leastSpare = w.spare
}

// freeFlow makes the flow ready for its next use.
func (w *Worker) freeFlow(f *flow) {
	if invariant.On && (f.stage != stageOver && f.stage != stageReading || f.up != nil || f.member != nil) {
		panic("proxy: an exchange was freed in stage " + stageText[f.stage] +
			", or with a part of its upstream")
	}
	f.Finish()
	f.freeCall()
	f.req.Reset()
	f.res.Reset()
	w.loop.StopTimer(&f.timer)
	w.loop.StopTimer(&f.pace)
	f.dropCopy()
	f.dropHeld()
	f.dropResponse()
	if f.view.flows--; f.view.flows == 0 && f.view != w.view {
		w.retireViews()
	}
	f.life = life{}
	w.keepFlow(f)
}

// keepFlow keeps a flow for its next use.
func (w *Worker) keepFlow(f *flow) {
	if w.spare >= maxSpare {
		w.forgetFlow(f)
	} else {
		f.next, w.flows = w.flows, f
		w.spare++
	}
}

// forgetFlow leaves a flow to the garbage collector. It releases the timers first, because even a
// stopped timer is still in its slot.
func (w *Worker) forgetFlow(f *flow) {
	w.loop.ReleaseTimer(&f.timer)
	w.loop.ReleaseTimer(&f.pace)
}

// flowOf returns the flow that embeds x as its first field.
func (w *Worker) flowOf(x *exchange.Exchange) *flow { return (*flow)(unsafe.Pointer(x)) }

// begin is called when the request's head is complete. bytes is its length. whole says that the
// body has come as well.
func (f *flow) begin(bytes int, whole bool) {
	w := f.w
	now := w.loop.Now()
	f.Exchange.Begin(w)
	f.stage, f.headBytes = stagePolicies, int64(bytes)
	f.identify(now)
	forwarded.DropClaims(&f.Exchange, f.view.Claims)
	if f.is(earlyData) { // it may be a replay (RFC 8470, section 5.1)
		f.req.Fields.Set(earlyDataName, earlyDataValue)
	}
	if f.req.Host != nil && !f.req.Fields.Has(head.Host) { // HTTP/1.0 may name it in the target alone
		f.req.Fields.Add(hostName, f.req.Host)
	}
	f.req.Scheme = schemeHTTP
	if f.TLS != nil {
		f.req.Scheme = schemeHTTPS
	}
	if string(f.req.Method) == "HEAD" {
		f.flags |= toHEAD
	}
	f.WebSocket = f.req.Upgrade != nil && isWebSocket(f.req.Upgrade)
	if whole {
		f.flags |= bodyWhole | requestSent
	}
	f.stream.mark()
	f.beginCall()
	if !f.findRoute() {
		return
	}
	if f.takeClaims(now) {
		f.runRequest()
	}
}

// refuse answers a request whose head is refused, or never was complete. It looks up no route.
func (f *flow) refuse(status int, reason exchange.Reason) {
	if string(f.req.Method) == "HEAD" {
		f.flags |= toHEAD
	}
	f.Exchange.Begin(f.w)
	f.identify(f.w.loop.Now())
	f.route = &noRoute
	f.fail(status, reason)
}

// identify sets when the request began and which peer and client it is from.
func (f *flow) identify(now int64) {
	if invariant.Sequential {
		f.w.beginnings.count(f)
	}
	o := f.origin
	if o.peerText == nil {
		o.peerText = forwarded.AppendPeer(nil, o.peer.Addr())
		o.trusted = o.listener.Trust != nil && o.listener.Trust.Contains(o.peer.Addr())
	}
	f.Start, f.Peer, f.PeerText, f.Client, f.TLS, f.Listener = now, o.peer, o.peerText, o.peer.Addr(),
		o.tlsInfo, o.listener.Name
	if trust := o.listener.Trust; trust != nil {
		f.PeerTrusted = o.trusted
		forwarded.ResolveClient(&f.Exchange, trust)
	}
}

var (
	schemeHTTP  = []byte("http")
	schemeHTTPS = []byte("https")
	hostName    = []byte("Host")
)

// findRoute sets the canonical path and the route, or answers.
func (f *flow) findRoute() bool {
	path, query, bad := route.Canonical(nil, f.req.Target)
	f.route = &noRoute
	if bad != route.OK {
		f.refusePath(bad.Status())
		return false
	}
	f.req.Path, f.req.Query, f.Forward = path, query, path
	if string(path) == "*" { // this asks the server as a whole (RFC 9110, section 9.3.7)
		f.Answer(204, exchange.ServerOptions, nil)
		f.sendAnswer()
		return false
	}
	method := f.req.Method
	if asked := f.preflight(); asked != nil {
		// A preflight belongs to the route of the request that it asks about (Fetch standard, section
		// 4.8).
		f.req.Method = asked
	}
	index, result := f.view.Table.Match(&f.req.Request, f.req.Host, path, &f.match)
	f.req.Method = method
	switch result {
	case route.Found:
		r := &f.view.Routes[index]
		if r.PathAsSent {
			f.Forward, _, _ = bytes.Cut(f.req.Target, questionMark)
			if route.HasDots(f.Forward) { // for a service that does not resolve them it is another path
				f.refusePath(400)
				return false
			}
		}
		f.route = r
		f.Route, f.Class, f.Params, f.Upstream = r.Name, r.Class, &f.match, r.Upstream
		return true
	case route.MethodNotAllowed:
		f.failMethod()
	default:
		f.fail(404, exchange.NoRoute)
	}
	return false
}

// refusePath answers a request whose path is malformed. As after every malformed request, the
// connection is closed, because what follows cannot be trusted either.
func (f *flow) refusePath(status int) {
	f.flags |= closeClient
	f.fail(status, exchange.BadPath)
}

// preflight returns the method that a CORS preflight asks about, nil for any other request.
func (f *flow) preflight() []byte {
	if len(f.req.Method) != len("OPTIONS") || string(f.req.Method) != "OPTIONS" ||
		!f.req.Fields.Has(head.Origin) {
		return nil
	}
	if asked := f.req.Fields.Find(askedMethod); asked != nil {
		return asked.Value
	}
	return nil
}

var questionMark = []byte("?")

var askedMethod = []byte("Access-Control-Request-Method")

// noRouteTime bounds, in nanoseconds, an exchange whose answer a policy holds.
const noRouteTime = int64(10e9)

// noRoute is the route of exchanges that have none.
var noRoute = Route{Upstream: exchange.NoUpstream, Timeout: noRouteTime, StreamTimeout: noRouteTime, Stat: 0}

// runRequest runs the rest of the chain's request phase, then the action.
func (f *flow) runRequest() {
	for chain := f.route.Chain.Request; int(f.at) < len(chain); {
		policy := chain[f.at]
		f.at++
		f.asked = f.at
		switch policy.OnRequest(&f.Exchange) {
		case exchange.Answered:
			f.origin.judge(f.Response.Status < 400)
			f.sendAnswer()
			return
		case exchange.Held:
			f.pause(held)
			return
		}
	}
	if f.Upstream == exchange.NoUpstream {
		f.fail(500, exchange.RouteAnswer)
		return
	}
	if a := f.view.Admission; a != nil && f.notAdmitted(a) {
		f.shed(exchange.InstanceOverloaded, 1)
		return
	}
	f.startUpstream()
}

// notAdmitted reports whether to refuse the exchange because the loop has more to do than it can.
// It is called after the policies: an answer of theirs costs no more than a refusal.
func (f *flow) notAdmitted(a *admission.SheddingPlan) bool {
	w, o := f.w, f.origin
	now := w.loop.Now()
	o.highest = min(o.highest, f.Class)
	if w.limiter.Due(now) {
		w.limiter.Observe(now, w.loop.Backlog())
	}
	waited := w.lines.waited(o, f.Class)
	refused := (waited != 0 || w.limiter.Behind(a)) &&
		w.limiter.Refuse(a, now, f.Class, f.clientKey(), waited)
	if invariant.Sequential {
		w.order.Note(a, now, f.Class, refused, waited > w.limiter.Backlog())
	}
	o.judge(!refused)
	if !refused {
		return false
	}
	w.shard.NotAdmitted[f.Class%telemetry.Classes]++
	return !a.Shadow
}

// pause leaves the exchange to a policy, until the policy resumes it or its hold expires.
func (f *flow) pause(flags flowFlags) {
	if invariant.On {
		f.w.holds++
	}
	f.flags |= flags
	f.pausedAt = f.w.loop.Now()
	deadline, _, _ := f.HoldEnd(f.deadline)
	f.w.loop.SetTimer(&f.timer, f, deadline)
	if !f.is(inResponse) {
		f.sendEarlyHints()
	}
}

// endPause ends a hold and adds its time to paused.
func (f *flow) endPause() {
	time := f.w.loop.Now() - f.pausedAt
	f.paused += time
	if f.is(inResponse) {
		f.pausedDown += time
	}
	f.flags &^= held
	if invariant.On {
		f.w.holds--
	}
}

// resume goes on after a policy held the exchange.
func (f *flow) resume(then func(*exchange.Exchange) exchange.PolicyVerdict) {
	if !f.is(held) {
		return
	}
	f.endPause()
	f.w.loop.SetTimer(&f.timer, f, f.deadline) // the hold may have had an earlier deadline
	verdict := then(&f.Exchange)
	switch {
	case verdict == exchange.Held:
		f.pause(held)
	case verdict == exchange.Answered && f.is(inResponse) && !f.is(answered):
		f.flags &^= inResponse
		f.replaceResponse()
	case verdict == exchange.Answered && !f.is(answered):
		f.sendAnswer()
	case f.is(inResponse):
		f.flags &^= inResponse
		f.runResponse()
	default:
		f.runRequest()
	}
}

// unhold takes back an exchange that a policy holds. It ends the exchange's life, so that a late
// Resume finds another one and does nothing.
func (f *flow) unhold() {
	if f.is(held) {
		f.endPause()
		f.flags &^= inResponse
		f.Finish()
	}
}

// Expire implements reactor.Expirer.
func (f *flow) Expire(t *reactor.Timer, now int64) {
	if t == &f.pace {
		if st, fetching := f.stream.(*fetchStream); fetching {
			st.stalled(now)
		} else {
			f.judgeBody()
		}
		return
	}
	if f.is(held) {
		if then := f.PauseEnd(now); then != nil {
			f.resume(then)
			return
		}
		f.unhold()
		if f.is(answered) {
			f.writeAnswer() // without asking policies: an answer is not held twice
		} else {
			_, status, reason := f.HoldEnd(f.deadline)
			if f.overdue(now) {
				status, reason = 504, exchange.DeadlinePassed
			}
			f.fail(status, reason)
		}
		return
	}
	if f.overdue(now) && f.stage.beforeTry() {
		if f.stage == stageWaiting {
			f.wait.Remove()
			f.stage = stagePolicies
		}
		f.fail(504, exchange.DeadlinePassed)
		return
	}
	switch f.stage {
	case stagePolicies:
		f.fail(504, exchange.UpstreamTimeout)
	case stageHolding:
		f.fail(408, exchange.BodyTimeout)
	case stageWaiting:
		f.wait.Remove()
		f.Refused(now, upstream.WaitedTooLong)
	case stageConnecting:
		f.connectExpired(now)
	case stageSent:
		f.answerExpired(now)
	case stageStreaming, stageTunnel:
		if f.webSocket != nil {
			f.webSocket.expire(now)
			return
		}
		f.streamExpired(now)
	}
}
