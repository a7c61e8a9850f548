package sim

import (
	"encoding/binary"
	"strconv"
	"time"

	"golang.org/x/net/http2/hpack"
)

// step is a part of an answer. do returns true when it is done. Otherwise it is called again when
// the gateway's windows open.
type step struct {
	wait time.Duration
	do   func() bool
}

// frame composes a frame.
func (h *http2ServiceConn) frame(kind, flags byte, stream uint32, payload []byte) {
	if !h.doomed {
		h.out = appendFrame(h.out, kind, flags, stream, payload)
		h.frames++
	}
}

// slowPieces is how many pieces of a connection are sent one by one.
const slowPieces = 60

// flush sends what was composed.
func (h *http2ServiceConn) flush() {
	c := h.c
	if h.sending || c.over || !h.settled || h.gentle && h.doomed {
		return
	}
	n := len(h.out)
	if h.plan.Pieces > 0 && h.steps < slowPieces && n > 0 {
		h.steps++
		n = min(n, 1+h.rng.IntN(h.plan.Pieces))
	}
	if n > 0 {
		c.Write(h.out[:n:n])
		h.out = h.out[n:]
	}
	switch {
	case len(h.out) > 0:
		h.sending = true
		c.s.w.kernel.After(between(h.rng, 0, 5*time.Millisecond), func() {
			h.sending = false
			h.flush()
		})
	case h.ends && h.gentle:
		h.doomed = true // it sends nothing more and waits for the gateway's end
		c.CloseWrite()
	case h.ends:
		c.close()
	}
}

// say queues the steps of an answer, which run one after another.
func (st *servedStream) say(steps ...step) {
	st.steps = append(st.steps, steps...)
	st.next()
}

func (st *servedStream) next() {
	if len(st.steps) > 0 {
		st.s.w.kernel.After(st.steps[0].wait, st.run)
	}
}

func (st *servedStream) run() {
	h := st.h
	if h.c.over || h.doomed || st.given || st.reset || st.above || len(st.steps) == 0 {
		return
	}
	now := st.steps[0]
	st.steps = st.steps[1:]
	if st.waiting = !now.do(); st.waiting {
		st.steps = append([]step{now}, st.steps...)
	} else {
		st.next()
		h.beside()
	}
	h.flush()
}

// resume is called when the gateway's windows have opened.
func (st *servedStream) resume() {
	if st.waiting {
		st.waiting = false
		st.run()
	}
}

// look checks whether the stream is over.
func (st *servedStream) look() {
	if h := st.h; !st.over && (st.given || st.reset || st.above || st.ended && st.said) {
		st.over = true
		h.open--
		h.endIfDone()
	}
}

// watch checks whether the gateway keeps a stream that its client no longer needs. A copy has no
// client.
func (st *servedStream) watch() {
	w, h := st.s.w, st.h
	q := st.asks()
	if q.Path == "/copy/" || h.plan.Wait > time.Second || st.s.plan.Sip > 0 {
		return
	}
	w.kernel.After(time.Second, func() {
		now := w.kernel.Clock()
		switch {
		case st.over || h.c.over || h.doomed || h.c.late || h.c.GivenUp():
			return
		case !q.answered && !q.by.done:
		case st.missed == 0:
			st.missed = now
		case time.Duration(now-st.missed) > w.letGo() && !st.odd:
			w.violate("%s: nobody needs %s any more, and stream %d is not reset", h.c.name, st.token, st.id)
			return
		}
		st.watch()
	})
}

// letGo is how long the gateway may keep a try that nobody needs any more. A client that has left
// may have left more to read than the gateway accepts.
func (w *world) letGo() time.Duration {
	g := w.longest()
	return slowBodies + g.Timeout + g.Stream + 3*g.Send + w.slack()
}

// expected may answer an Expect.
func (st *servedStream) expected() {
	switch st.rng.IntN(4) {
	case 0: // it does not know Expect
	case 1:
		st.answer()
	default:
		st.head(100, false)
		st.h.flush()
	}
}

// answer decides how to answer the request.
func (st *servedStream) answer() {
	r := st.rng
	st.began = true
	wait := between(r, 0, st.s.plan.Slow)
	if r.Float64() < st.s.plan.Vices {
		st.asks().vicious = true
		v := http2Vices[r.IntN(len(http2Vices))]
		st.s.w.trace("%s is to get %s", st.token, v.name)
		v.apply(st, wait)
		return
	}
	status, size := st.draws()
	st.respond(wait, status, size)
}

// head sends the head of an answer, and its end if there is no body.
func (st *servedStream) head(status int, ends bool, fields ...string) {
	list := []hpack.HeaderField{{Name: ":status", Value: strconv.Itoa(status)}}
	if status >= 200 {
		list = append(list, hpack.HeaderField{Name: "x-token", Value: st.token})
		st.headed = true
	}
	for i := 0; i < len(fields); i += 2 {
		list = append(list, hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	st.fields(list, ends)
}

// fields sends a field block in one or more frames.
func (st *servedStream) fields(list []hpack.HeaderField, ends bool) {
	h := st.h
	if h.rng.IntN(20) == 0 {
		h.encoder.SetMaxDynamicTableSize(uint32(h.rng.IntN(usualTable + 1)))
	}
	h.blocks.Reset()
	for _, f := range list {
		f.Sensitive = h.rng.IntN(8) == 0
		h.encoder.WriteField(f)
	}
	block := h.blocks.Bytes()
	flags := byte(0)
	if ends {
		flags = flagEnd
	}
	var before, pad []byte
	if h.plan.Padded && h.rng.IntN(2) == 0 {
		pad = make([]byte, h.rng.IntN(256))
		flags |= flagPadded
		before = []byte{byte(len(pad))}
	}
	if h.rng.IntN(8) == 0 {
		flags |= flagPriority
		before = append(before, append(number(0), byte(h.rng.IntN(256)))...)
	}
	n := min(len(block), usualFrame-len(before)-len(pad))
	if h.rng.IntN(4) == 0 {
		n = h.rng.IntN(n + 1)
	}
	kind := byte(frameHeaders)
	payload := append(append(before, block[:n]...), pad...)
	for block = block[n:]; ; {
		if len(block) == 0 {
			h.frame(kind, flags|flagEndHead, st.id, payload)
			break
		}
		h.frame(kind, flags, st.id, payload)
		n := min(len(block), usualFrame)
		if len(block) < 1000 {
			n = 1 + h.rng.IntN(n)
		}
		kind, flags, payload, block = frameContinuation, 0, block[:n], block[n:]
	}
	if ends {
		st.isSaid()
	}
}

// isSaid records that the whole answer has been composed.
func (st *servedStream) isSaid() {
	st.said = true
	st.arrival.isSaid()
	st.look()
}

// content sends a part of the body, as far as the gateway's windows allow.
func (st *servedStream) content(data []byte, ends bool) func() bool {
	h := st.h
	return func() bool {
		for len(data) > 0 {
			room := int(min(st.send, h.send, usualFrame))
			n := min(len(data), 1+h.rng.IntN(h.plan.Frame), room)
			if n <= 0 {
				return false
			}
			last := ends && n == len(data) && h.rng.IntN(4) > 0
			st.data(data[:n], last)
			if data = data[n:]; last {
				return true
			}
			if h.rng.IntN(10) == 0 {
				st.data(nil, false)
			}
		}
		if ends {
			st.data(nil, true)
		}
		return true
	}
}

// data sends content that fits in the windows.
func (st *servedStream) data(content []byte, ends bool) {
	h := st.h
	flags := byte(0)
	if ends {
		flags = flagEnd
	}
	room := int(min(st.send, h.send, usualFrame)) - len(content) - 1
	if h.plan.Padded && room >= 0 {
		pad := h.rng.IntN(1 + min(room, 255))
		content = append(append([]byte{byte(pad)}, content...), make([]byte, pad)...)
		flags |= flagPadded
	}
	st.send -= int64(len(content))
	h.send -= int64(len(content))
	h.frame(frameData, flags, st.id, content)
	if ends {
		st.isSaid()
	}
}

// respond sends a good answer.
func (st *servedStream) respond(wait time.Duration, status, size int) {
	r := st.rng
	if r.IntN(12) == 0 {
		for range 1 + r.IntN(3) {
			st.steps = append(st.steps, step{between(r, 0, time.Millisecond), func() bool {
				st.head(103, false, "link", "</x>")
				return true
			}})
		}
	}
	fields := []string{"x-size", strconv.Itoa(size)}
	bodiless := st.toHEAD() || status == 204 || status == 304
	if kind := r.IntN(2); kind == 0 && !bodiless || status == 200 && st.toHEAD() {
		fields = append(fields, "content-length", strconv.Itoa(size))
	}
	tail := !bodiless && r.IntN(4) == 0
	if tail {
		fields = append(fields, "x-ends", "tail")
	}
	ends := (bodiless || size == 0 && !tail) && r.IntN(4) > 0
	st.steps = append(st.steps, step{wait, func() bool {
		st.head(status, ends, fields...)
		return true
	}})
	if bodiless {
		size = 0
	}
	if !ends {
		st.body(noiseOf(st.token+"down").bytes(0, size), !tail)
	}
	if tail {
		st.steps = append(st.steps, step{0, func() bool {
			st.fields([]hpack.HeaderField{{Name: "x-tail", Value: st.token}}, true)
			return true
		}})
	}
	st.next()
}

// body adds the steps of a body.
func (st *servedStream) body(text []byte, ends bool) {
	pause := between(st.rng, 0, st.s.plan.Slow)
	pieces := 1 + st.rng.IntN(5)
	for i := range pieces {
		from, to := i*len(text)/pieces, (i+1)*len(text)/pieces
		st.steps = append(st.steps, step{
			between(st.rng, 0, pause), st.content(text[from:to], ends && i == pieces-1),
		})
	}
}

// resetWith resets the stream. The PING after it shows when the gateway must know of the reset.
func (st *servedStream) resetWith(code int) {
	if st.over || st.h.doomed {
		return
	}
	h := st.h
	h.c.s.w.trace("%s resets %s with code %d", h.c.name, st.token, code)
	st.reset, st.steps = true, nil
	h.frame(frameReset, 0, st.id, number(code))
	h.pingThen(func() { st.known = true })
	st.look()
	h.flush()
}

// refuse resets the stream with the message that nothing was done for it.
func (st *servedStream) refuse() {
	if !st.over {
		st.asks().excused++
		st.resetWith(refusedStream)
	}
}

// pingThen sends a PING and calls then at its acknowledgement.
func (h *http2ServiceConn) pingThen(then func()) {
	p := &ping{done: then}
	binary.BigEndian.PutUint64(p.data[:], h.rng.Uint64())
	h.pings = append(h.pings, p)
	h.frame(framePing, 0, 0, p.data[:])
}

// openLater schedules an opening of windows.
func (h *http2ServiceConn) openLater() {
	if h.opening || h.unopened == 0 && !h.anyUnopened() {
		return
	}
	h.opening = true
	h.c.s.w.kernel.After(between(h.rng, 0, h.plan.Wait), func() {
		h.opening = false
		if !h.c.over && !h.doomed {
			h.openWindows()
			h.flush()
		}
	})
}

func (st *servedStream) takesMore() bool { return !st.over && !st.ended && st.unopened > 0 }

func (h *http2ServiceConn) anyUnopened() bool {
	for _, st := range h.order {
		if st.takesMore() {
			return true
		}
	}
	return false
}

// openWindows opens windows by the bytes read, or at first by a part of them.
func (h *http2ServiceConn) openWindows() {
	part := func(n int) int {
		if h.plan.Step > 0 && h.steps < slowPieces {
			h.steps++
			n = min(n, 1+h.rng.IntN(h.plan.Step))
		}
		return n
	}
	if h.unopened > 0 {
		n := part(h.unopened)
		h.unopened -= n
		h.openConnection(n)
	}
	for _, st := range h.order {
		if st.takesMore() {
			n := part(st.unopened)
			st.unopened -= n
			st.receive += int64(n)
			h.frame(frameWindow, 0, st.id, number(n))
			st.asks().moved = h.c.s.w.kernel.Clock() // the gateway sees that it reads
		}
	}
	h.openLater()
}

func (h *http2ServiceConn) openConnection(n int) {
	h.receive += int64(n)
	h.frame(frameWindow, 0, 0, number(n))
}

// beside occasionally sends frames that belong to no answer.
func (h *http2ServiceConn) beside() {
	r := h.rng
	if h.c.over || h.doomed || !h.settled {
		return
	}
	if h.noise < mostNoise && r.Float64() < h.plan.Fuss {
		h.noise++
		h.fuss()
	}
	if h.noise < mostNoise && r.Float64() < h.plan.Resize {
		h.noise += mostNoise / 10
		h.resize()
	}
	if h.plan.GoAway > 0 && len(h.order) >= h.plan.GoAway && !h.leaving {
		h.leave()
	}
	if r.Float64() < h.plan.Upsets && len(h.order) > 0 {
		h.upset()
	}
	h.flush()
}

// fuss sends a frame that changes nothing.
func (h *http2ServiceConn) fuss() {
	id := h.highest
	switch h.rng.IntN(4) {
	case 0:
		h.pingThen(func() {})
	case 1:
		h.frame(framePriority, 0, 1+2*uint32(h.rng.IntN(20)), append(number(0), byte(h.rng.IntN(256))))
	case 2:
		h.frame(byte(0x20+h.rng.IntN(100)), byte(h.rng.IntN(256)), id, make([]byte, h.rng.IntN(300)))
	case 3: // an unknown setting
		h.sendSettings(appendSetting(nil, uint16(0x20+h.rng.IntN(100)), h.rng.IntN(1000)),
			settingsChange{window: -1, streams: -2})
	}
}

// resize changes its windows and its limit of streams. A limit of 0 lasts only for a while.
func (h *http2ServiceConn) resize() {
	r := h.rng
	ch := settingsChange{window: -1, streams: -2}
	var list []byte
	if r.IntN(2) == 0 {
		ch.window = r.IntN(1 + r.IntN(1<<18))
		list = appendSetting(list, 4, ch.window)
	}
	if r.IntN(2) == 0 {
		ch.streams = 1 + r.IntN(1+r.IntN(20))
		if h.plan.None && r.IntN(2) == 0 {
			ch.streams = 0
			h.c.s.w.kernel.After(between(r, 0, 300*time.Millisecond), func() {
				if !h.c.over && !h.doomed {
					more := 1 + r.IntN(20)
					h.sendSettings(appendSetting(nil, 3, more), settingsChange{window: -1, streams: more})
					h.flush()
				}
			})
		}
		list = appendSetting(list, 3, ch.streams)
	}
	if r.IntN(3) == 0 {
		size := r.IntN(1 << 14)
		h.decoder.SetAllowedMaxDynamicTableSize(uint32(max(size, h.plan.Table, usualTable)))
		list = appendSetting(list, 1, size)
	}
	h.sendSettings(list, ch)
	h.openLater()
}

// leave announces the end of the connection. Usually it sends a warning first and, once the gateway
// must know it, the last stream that it serves. A rough one sends the latter at once and omits some
// streams.
func (h *http2ServiceConn) leave() {
	h.leaving = true
	if h.plan.Rough {
		h.leaveRoughly()
		return
	}
	h.goAway(h.limit, noError)
	h.pingThen(func() {
		h.left, h.limit = true, h.highest
		h.goAway(h.limit, noError)
		h.endIfDone()
	})
}

func (h *http2ServiceConn) goAway(last uint32, code int) {
	h.c.s.w.trace("%s leaves: last stream %d, code %d", h.c.name, last, code)
	h.frame(frameGoAway, 0, 0, append(append(number(int(last)), number(code)...), "bye"...))
}

// leaveRoughly says that it did nothing for the streams above a drawn one. That is untrue if it has
// begun to answer one of them.
func (h *http2ServiceConn) leaveRoughly() {
	r, quiet := h.rng, h.c.s.w.scenario.Quiet
	least := uint32(0)
	for _, st := range h.order {
		if st.began && (quiet || r.IntN(8) > 0) {
			least = st.id
		}
	}
	codes := []int{noError, noError, 2, 11, protocolError}
	if quiet {
		codes = codes[:1]
	}
	h.limit = []uint32{
		least, h.highest, h.highest + 2*uint32(r.IntN(100)), least + uint32(r.IntN(int(h.highest-least)+1)),
	}[r.IntN(4)]
	h.goAway(h.limit, codes[r.IntN(len(codes))])
	for _, st := range h.order {
		if st.id > h.limit && !st.over {
			q := st.asks()
			q.excused++
			q.vicious = q.vicious || st.began
			st.above, st.steps = true, nil
			st.look()
		}
	}
	h.pingThen(func() {
		h.left = true
		h.endIfDone()
	})
	switch r.IntN(4) {
	case 0:
		h.ends = !quiet
	case 1:
		if quiet {
			break
		}
		h.c.s.w.kernel.After(between(r, 0, 300*time.Millisecond), h.c.close)
	}
}

// endIfDone ends a connection that it has left, when everything it serves is over.
func (h *http2ServiceConn) endIfDone() {
	if h.left && h.open == 0 && h.limit%4 == 1 {
		h.ends, h.gentle = true, true
		h.flush()
	}
}

// upset breaks a rule of the connection. After half a frame, the bytes would count as that frame's
// content.
func (h *http2ServiceConn) upset() {
	if h.ends {
		return
	}
	u := http2Upsets[h.rng.IntN(len(http2Upsets))]
	h.c.s.w.trace("%s does what it may not: %s", h.c.name, u.name)
	h.hostile, h.c.s.w.brokenHTTP2 = true, true
	for _, st := range h.order {
		st.odd, st.asks().vicious = true, true
	}
	u.do(h, h.order[len(h.order)-1])
	h.doomed = u.harm == ofConnection
	h.flush()
	if !h.doomed {
		return
	}
	h.mustEnd(u.name)
}

// refusedStream is the code of a stream for which nothing was done (RFC 9113, section 8.7).
const refusedStream = 7
