package proxy

import (
	"io"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

// A fetch is an exchange that a policy has begun (exchange.Exchange.Fetch). It has no client, and
// its response goes to the policy's sink. It is a flow like any other, with its own kind of stream.
// So retries, breakers, concurrency limits and deadlines apply to it as to a client's request. It
// is neither counted nor logged; the requests that wait for it are.

// maxFetches bounds the fetches of one loop.
const maxFetches = 8192

// fetchStream is the stream of a fetch: see stream.
type fetchStream struct {
	w      *Worker
	flow   *flow
	sink   exchange.Sink
	origin origin // a copy of that of the client's request for which it was begun
	index  int    // in the worker's fetches; -1 once it is over
	begun  bool   // start was called, after the policy that began it has returned
	full   bool   // the sink takes nothing until it wakes the exchange
	whole  bool   // the response has come whole
}

// Fetch implements exchange.Engine.
func (w *Worker) Fetch(x *exchange.Exchange, req *head.Request, sink exchange.Sink) bool {
	if len(w.fetches) >= maxFetches || w.closed {
		return false
	}
	f := w.flowOf(x)
	st := &fetchStream{w: w, sink: sink, origin: *f.origin, index: len(w.fetches)}
	f.origin.fresh = false // the fetch is judged instead of the client's request
	m := w.newFlow(st, &st.origin)
	st.flow = m
	w.fetches = append(w.fetches, st)
	m.view.flows--
	f.view.flows++
	m.view, m.route = f.view, f.route
	m.Exchange.Begin(w)
	m.copyRequest(f, req)
	m.Peer, m.PeerText, m.Client, m.PeerTrusted = f.Peer, f.PeerText, f.Client, f.PeerTrusted
	m.TLS, m.Listener, m.Route, m.Class, m.Upstream = f.TLS, f.Listener, f.Route, f.Class, f.Upstream
	m.version, m.stage, m.Start = http11, stagePolicies, w.loop.Now()
	m.flags = isFetch | requestSent | bodyWhole | continued
	m.at = uint8(f.route.Chain.FetchRequest)
	m.asked = m.at
	m.deadline = m.Start + f.route.Timeout
	m.timeoutFrom = m.Start
	w.loop.SetTimer(&m.timer, m, m.deadline)
	st.later() // the policy that began it is still on the stack
	return true
}

// copyRequest copies the head of a fetch into memory that belongs to the fetch.
func (m *flow) copyRequest(f *flow, req *head.Request) {
	kept := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		own := m.Alloc(len(b))
		copy(own, b)
		return own
	}
	to := &m.req.Request
	to.Method, to.Scheme, to.Host = kept(req.Method), kept(req.Scheme), kept(req.Host)
	to.Target, to.Path, to.Query = kept(req.Target), kept(req.Path), kept(req.Query)
	m.Forward = kept(f.Forward)
	if f.Params != nil {
		m.match.Copy(&f.match, to.Path)
		m.Params = &m.match
	}
	m.ID = kept(f.ID)
	for i := range req.Fields.Len() {
		field := req.Fields.At(i)
		to.Fields.Append(head.Field{Name: kept(field.Name), Value: kept(field.Value), ID: field.ID})
	}
}

// start is called at the end of the turn that began the fetch. The sink may hold it, or answer.
func (st *fetchStream) start() {
	st.begun = true
	f := st.flow
	if sink, ok := st.sink.(exchange.BeginningSink); ok {
		switch sink.FetchBegin(&f.Exchange) {
		case exchange.Answered:
			f.sendAnswer()
			return
		case exchange.Held:
			f.pause(held)
			return
		}
	}
	f.runRequest()
}

// over ends the stream and tells the sink.
func (st *fetchStream) over(f *flow) {
	w := st.w
	last := w.fetches[len(w.fetches)-1]
	w.fetches[st.index], last.index = last, st.index
	w.fetches[len(w.fetches)-1] = nil
	w.fetches = w.fetches[:len(w.fetches)-1]
	st.index = -1
	st.sink.FetchEnd(&f.Exchange, st.whole)
	w.freeFlow(f)
}

// later implements stream.
func (st *fetchStream) later() {
	f := st.flow
	life := f.Life()
	st.w.loop.Post(func() {
		switch {
		case f.Life() != life:
		case !st.begun:
			st.start()
		default:
			f.bodyReadable()
		}
	})
}

// stalledShare divides a route's stream timeout: after that part of it a sink is told that it holds
// up its fetch. Time is left then for the exchanges that wait for more, and are cut off at the end
// of the timeout.
const stalledShare = 8

// stalled is called when the sink may have been full for long. It tells the sink if it still is.
func (st *fetchStream) stalled(now int64) {
	if st.full {
		st.sink.FetchStalled()
		st.w.loop.SetTimer(&st.flow.pace, st.flow, now+st.flow.route.StreamTimeout/stalledShare)
	}
}

// send implements stream. An answer of the gateway's own, which takes the place of a response that
// did not come, is not sent: the sink is told at the end of the fetch.
func (st *fetchStream) send(f *flow, buf []byte, from, to int, parts parts) error {
	if f.is(answered) {
		return nil
	}
	if parts&withHead != 0 {
		st.sink.FetchHead(&f.Exchange)
	}
	if to > from {
		f.bodyOut += int64(to - from)
		full, err := st.sink.FetchBody(buf[from:to])
		if err != nil {
			return err
		}
		if st.full = full; full {
			st.w.loop.SetTimer(&f.pace, f, st.w.loop.Now()+f.route.StreamTimeout/stalledShare)
		}
	}
	if st.whole = parts&withEnd != 0; st.whole {
		if sink, ok := st.sink.(exchange.TrailingSink); ok {
			if l := f.responseTrailers(); l != nil {
				sink.FetchTrailers(l)
			}
		}
	}
	return nil
}

// The rest of stream: a fetch has no body, and no interim responses reach it.

func (st *fetchStream) buffered() int                            { return 0 }
func (st *fetchStream) nextBody(int) ([]byte, error)             { return nil, io.EOF }
func (st *fetchStream) mark()                                    {}
func (st *fetchStream) rewind() bool                             { return true }
func (st *fetchStream) trailers() *head.List                     { return nil }
func (st *fetchStream) skip() bool                               { return true }
func (st *fetchStream) pending() bool                            { return false }
func (st *fetchStream) appendInterim(_ *flow, out []byte) []byte { return out }
func (st *fetchStream) sendInterim([]byte) error                 { return nil }
func (st *fetchStream) sendContinue() error                      { return nil }
func (st *fetchStream) congested() bool                          { return st.full }
func (st *fetchStream) space() int                               { return st.w.loop.Piece() }
func (st *fetchStream) sent() (int64, bool)                      { return st.w.loop.Now(), true }
func (st *fetchStream) startTunnel()                             {}
func (st *fetchStream) finish(f *flow, _ bool)                   { st.over(f) }
func (st *fetchStream) reset(f *flow)                            { st.whole = false; st.over(f) }
func (st *fetchStream) cut(f *flow)                              { st.reset(f) }

// Wake implements exchange.Engine.
func (w *Worker) Wake(x *exchange.Exchange, life uint64) {
	w.loop.Post(func() {
		if x.Life() == life {
			w.flowOf(x).woken()
		}
	})
}
