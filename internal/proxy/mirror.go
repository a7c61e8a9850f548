package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/http1"
	"plimsoll/internal/reactor"
	"plimsoll/internal/upstream"
)

// A mirrored request is copied while it is sent. Once the whole original was sent, the copy becomes
// a flow of its own: one without a client, which is never retried, and whose response is read and
// discarded. The original does not wait for it.

// maxMirrors bounds the copies on one loop, including those that wait for the rest of a slow
// client's body, because each holds a large buffer. Further ones are dropped and counted.
const maxMirrors = 256

// copyHead begins the copy of a request.
func (f *flow) copyHead(message []byte) {
	f.dropCopy()
	switch {
	case f.w.mirrors >= maxMirrors:
		f.w.shard.MirrorsDropped++
		f.flags &^= mirrored
		return
	case f.req.Length > f.MirrorBody ||
		int64(len(message)+maxChunkFrame)+max(0, f.req.Length) > reactor.ScratchSize:
		f.w.shard.MirrorsTooLong++
		f.flags &^= mirrored
		return
	}
	f.w.mirrors++
	f.copy = f.w.loop.GetBuffer(reactor.ScratchSize)
	f.copy.End = copy(f.copy.Bytes, message)
	f.copied = 0
}

// copyBody adds to the copy what the upstream gets of the body.
func (f *flow) copyBody(data []byte) {
	if f.copied += int64(len(data)); f.copied > f.MirrorBody || len(data)+maxChunkFrame > len(f.copy.Room()) {
		f.w.shard.MirrorsTooLong++
		f.dropCopy()
		f.flags &^= mirrored
		return
	}
	if f.req.Length == head.Unknown {
		if len(data) > 0 {
			f.copy.End = len(http1.AppendChunk(f.copy.Data(), data))
		}
		return
	}
	f.copy.End += copy(f.copy.Room(), data)
}

// maxChunkFrame is room for a chunk's size line and end, and for the last chunk.
const maxChunkFrame = 32

// dropCopy gives back the memory of the copy. A copy that has become a flow of its own stays
// counted until that flow ends.
func (f *flow) dropCopy() {
	if f.copy == nil {
		return
	}
	f.w.loop.PutBuffer(f.copy)
	f.copy = nil
	if !f.is(isMirror) {
		f.w.mirrors--
	}
}

// sendMirror sends the copy to the mirror's upstream.
func (f *flow) sendMirror() {
	f.flags &^= mirrored
	kept := f.copy
	f.copy = nil
	if f.req.Length == head.Unknown {
		kept.End = len(http1.AppendLastChunk(kept.Data(), nil))
	}
	w := f.w
	w.shard.MirrorsSent++
	m := w.newFlow(nil, nil)
	m.copyIndex = len(w.copies)
	w.copies = append(w.copies, m)
	m.Exchange.Begin(w)
	w.view.flows--
	f.view.flows++
	m.view, m.route, m.copy, m.Class = f.view, f.route, kept, f.Class
	m.Start, m.Client, m.Peer = w.loop.Now(), f.Client, f.Peer
	m.deadline = m.Start + f.route.Timeout
	m.flags = isMirror | requestSent | bodyWhole | f.flags&toHEAD
	m.Upstream = f.Mirror
	m.stage = stagePolicies
	m.startUpstream()
}

// sendCopy is sendRequest for a mirror's copy.
func (f *flow) sendCopy() {
	f.stage, f.sentAt = stageSent, f.w.loop.Now()
	s := f.up
	err := s.sendCopy(f, f.copy.Data())
	f.dropCopy()
	if err != nil {
		f.upstreamFailed(upstream.Reset, exchange.UpstreamReset)
		return
	}
	f.met = f.member.Sent() + 1
	f.answerBy = f.deadline
	f.setAnswerTimer()
	s.readOn()
}

// mirrorHead begins to discard the response to a copy.
func (f *flow) mirrorHead() {
	f.stage = stageStreaming
	if f.res.Status == 101 {
		f.upstreamFailed(upstream.BadResponse, exchange.UpstreamBad)
		return
	}
	f.mirrorBody()
}

// mirrorBody discards what has come of the response to a copy, and ends the copy once it is whole.
func (f *flow) mirrorBody() {
	if !f.up.whole() {
		f.w.loop.SetTimer(&f.timer, f, min(f.deadline, f.w.loop.Now()+f.route.StreamTimeout))
		return
	}
	f.endTry(outcomeOf(f.res.Status), f.upstreamEnd-f.sentAt)
	f.finishUpstream()
	f.endMirror()
}

// endMirror ends a copy. Its result counts only for its upstream.
func (f *flow) endMirror() {
	f.leaveAll()
	f.dropCopy()
	f.stage = stageOver
	w := f.w
	w.mirrors--
	last := w.copies[len(w.copies)-1]
	w.copies[f.copyIndex], last.copyIndex = last, f.copyIndex
	w.copies[len(w.copies)-1] = nil
	w.copies = w.copies[:len(w.copies)-1]
	w.freeFlow(f)
}
