package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// received is a received frame.
type received struct {
	kind, flags byte
	stream      uint32
	payload     []byte
	length      int // including padding
}

func (f *received) has(flag byte) bool { return f.flags&flag != 0 }

// notHTTP2 begins the answer of a listener that does not offer HTTP/2, or has stopped waiting for
// the client's first bytes.
var notHTTP2 = []byte("HTTP/1.1 ")

// take reads what has arrived.
func (h *http2Conn) take(p []byte) {
	c := h.c
	h.held = append(h.held, p...)
	if !h.greeted && bytes.HasPrefix(h.held, notHTTP2) {
		if c.w.scenario.Quiet {
			c.w.violate("%s is answered in HTTP/1.1: %q", c.name, h.held)
		}
		c.finish("is answered in HTTP/1.1", c.Close)
		return
	}
	for !c.done && len(h.held) >= 9 {
		b := h.held
		n := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
		f := received{
			kind: b[3], flags: b[4], stream: binary.BigEndian.Uint32(b[5:]), length: n,
		}
		if n > usualFrame {
			c.w.violate("%s gets a frame of %d bytes", c.name, n)
			return
		}
		if len(b) < 9+n {
			break
		}
		f.payload, h.held = b[9:9+n:9+n], b[9+n:]
		if err := h.received(&f); err != nil {
			c.w.violate("%s, frame %d with flags %#x of stream %d: %v", c.name, f.kind, f.flags, f.stream,
				err)
			return
		}
	}
	if !c.done {
		h.compose()
	}
}

// received handles one frame.
func (h *http2Conn) received(f *received) error {
	switch {
	case !h.greeted && (f.kind != frameSettings || f.has(flagAck)):
		return errors.New("the gateway does not begin with SETTINGS")
	case h.blockOf != nil && (f.kind != frameContinuation || f.stream != h.blockOf.id):
		return errors.New("it comes in the middle of a field block")
	}
	switch f.kind {
	case frameSettings:
		return h.tookSettings(f)
	case framePing:
		return h.tookPing(f)
	case frameGoAway:
		return h.tookGoAway(f)
	case frameWindow:
		return h.tookWindow(f)
	case frameData, frameHeaders, frameContinuation, frameReset:
	default:
		return errors.New("no gateway sends such a frame")
	}
	st := h.stream(f.stream)
	if st == nil {
		return errors.New("the stream has not begun")
	}
	if st.known && !(st.odd && f.kind == frameReset) {
		return errors.New("the stream was reset before, and the gateway knows")
	}
	if st.given && !(f.kind == frameReset && (st.odd || h.hostile || h.ended > 16)) {
		return errors.New("the gateway has reset the stream before")
	}
	switch f.kind {
	case frameData:
		return h.tookData(st, f)
	case frameReset:
		return h.tookReset(st, f)
	}
	return h.tookFields(st, f)
}

func (h *http2Conn) tookSettings(f *received) error {
	if f.stream != 0 || len(f.payload)%6 != 0 {
		return errors.New("SETTINGS are malformed")
	}
	if f.has(flagAck) {
		if h.hostile { // acknowledgements during a flood are not tracked
			return nil
		}
		if len(h.settings) == 0 || !h.settings[0].sent || len(f.payload) > 0 {
			return errors.New("it acknowledges SETTINGS that were not sent")
		}
		ch := h.settings[0]
		h.settings = h.settings[1:]
		if ch.by < 0 {
			h.shift(ch)
		}
		return nil
	}
	h.greeted = true
	for p := f.payload; len(p) > 0; p = p[6:] {
		value := int64(binary.BigEndian.Uint32(p[2:]))
		h.connects = h.connects || binary.BigEndian.Uint16(p) == 8 && value == 1
		if binary.BigEndian.Uint16(p) != 4 {
			continue
		}
		for _, st := range h.streams {
			st.send += value - h.theirs
		}
		h.theirs = value
	}
	h.answerWith(frameSettings, nil)
	return nil
}

// answerWith acknowledges a frame, if the client still sends anything.
func (h *http2Conn) answerWith(kind byte, payload []byte) {
	if !h.c.stuck && !h.doomed {
		h.frame(kind, flagAck, 0, payload)
	}
}

func (h *http2Conn) tookPing(f *received) error {
	switch {
	case f.stream != 0 || len(f.payload) != 8:
		return errors.New("PING is malformed")
	case !f.has(flagAck):
		h.answerWith(framePing, f.payload)
		return nil
	case h.hostile: // acknowledgements during a flood are not tracked
		return nil
	case len(h.pings) == 0 || !h.pings[0].sent || string(h.pings[0].data[:]) != string(f.payload):
		return errors.New("it acknowledges a PING that was not sent")
	}
	done := h.pings[0].done
	h.pings = h.pings[1:]
	done()
	return nil
}

func (h *http2Conn) tookWindow(f *received) error {
	if len(f.payload) != 4 {
		return errors.New("WINDOW_UPDATE is malformed")
	}
	by := int64(binary.BigEndian.Uint32(f.payload))
	window := &h.send
	if f.stream != 0 {
		st := h.stream(f.stream)
		switch {
		case st == nil:
			return errors.New("the stream has not begun")
		case st.given || st.known:
			return errors.New("the stream is over")
		}
		window = &st.send
	}
	if *window += by; by == 0 || *window > math.MaxInt32 {
		return fmt.Errorf("a window grows by %d to %d", by, *window)
	}
	return nil
}

// tookGoAway handles GOAWAY: nothing was done for streams above the last one.
func (h *http2Conn) tookGoAway(f *received) error {
	c := h.c
	if f.stream != 0 || len(f.payload) < 8 {
		return errors.New("GOAWAY is malformed")
	}
	last, code := binary.BigEndian.Uint32(f.payload), binary.BigEndian.Uint32(f.payload[4:])
	c.w.trace("%s is told to leave: code %d, last stream %d, %s", c.name, code, last, f.payload[8:])
	late := code == settingsTimeout && !c.w.scenario.Quiet
	switch {
	case last > h.lastServed:
		return fmt.Errorf("the last stream was %d, and is %d now", h.lastServed, last)
	case code != noError && !h.hostile && !late:
		return fmt.Errorf("a client that keeps to the rules is told to leave: %d %q", code,
			f.payload[8:])
	}
	h.lastServed = last
	h.leaving, h.warned = true, true
	for _, st := range h.streams {
		if st.id <= last {
			continue
		}
		if st.final || st.q.arrivals > 0 {
			return fmt.Errorf("%s was dealt with, and is above the last stream %d", st.q.token, last)
		}
		h.close(st)
	}
	return nil
}

func (h *http2Conn) tookReset(st *http2Stream, f *received) error {
	c := h.c
	if len(f.payload) != 4 {
		return errors.New("RST_STREAM is malformed")
	}
	code := binary.BigEndian.Uint32(f.payload)
	c.w.trace("%s: %s is reset with code %d", c.name, st.q.token, code)
	st.given = true
	if err := st.hearEnd(true); err != nil {
		return err
	}
	honest := !st.odd && !h.hostile && st.q.Spoiled == 0 && !st.reset
	blame := code == protocolError || code == flowError || code == frameSizeError ||
		code == streamClosed && h.ended < 32
	needless := st.whole && st.answered && code != noError
	switch {
	case honest && (blame || needless):
		return fmt.Errorf("%s is reset with code %d, although its client keeps to the rules",
			st.q.token, code)
	case honest && c.w.scenario.Quiet && !st.answered && !c.w.ending && !c.holdsUp():
		return fmt.Errorf("%s is reset with code %d, although nobody misbehaves", st.q.token, code)
	}
	h.close(st)
	return nil
}

// tookData handles a part of an answer's body. It must fit in both windows.
func (h *http2Conn) tookData(st *http2Stream, f *received) error {
	n := int64(f.length)
	if n > 0 && (n > h.receive || n > st.receive && !st.reset) {
		return fmt.Errorf("%d bytes come, the windows of stream and connection are %d and %d", n,
			st.receive, h.receive)
	}
	h.receive -= n
	st.receive -= n
	h.unopened += f.length
	st.unopened += f.length
	h.openLater()
	p := f.payload
	if f.has(flagPadded) {
		if len(p) == 0 || int(p[0]) >= len(p) {
			return errors.New("the padding is longer than the frame")
		}
		p = p[1 : len(p)-int(p[0])]
	}
	switch {
	case st.reset:
		return nil
	case st.answered:
		return errors.New("the gateway has ended the stream before")
	case !st.final:
		return errors.New("a body comes before its head")
	}
	if st.total += len(p); len(p) > 0 && st.hears() {
		if err := st.talk.hear(p); err != nil {
			return err
		}
	} else if len(p) > 0 {
		if st.bodiless() {
			return fmt.Errorf("the answer to %s has a body", st.q.token)
		}
		if err := st.goesOn(p); err != nil {
			return err
		}
	}
	if st.cut >= 0 && st.total >= st.cut && !f.has(flagEnd) {
		h.resetStream(st)
		return nil
	}
	if f.has(flagEnd) {
		return h.tookEnd(st, nil)
	}
	return nil
}

// tookFields handles a field block, or a part of one.
func (h *http2Conn) tookFields(st *http2Stream, f *received) error {
	p := f.payload
	if f.kind == frameHeaders {
		h.block, h.blockEnds = nil, f.has(flagEnd)
		if f.has(flagPadded) || f.has(flagPriority) {
			return errors.New("the gateway pads no heads")
		}
	} else if h.blockOf == nil {
		return errors.New("there is no field block to continue")
	}
	h.block, h.blockOf = append(h.block, p...), st
	if !f.has(flagEndHead) {
		return nil
	}
	h.blockOf = nil
	fields, err := h.decoder.DecodeFull(h.block)
	if err != nil {
		return err
	}
	switch {
	case st.reset:
		return nil
	case st.answered:
		return errors.New("the gateway has ended the stream before")
	}
	m, err := messageOf(fields, st.final)
	switch {
	case err != nil:
		return err
	case st.final && !h.blockEnds:
		return errors.New("trailers do not end the stream")
	case st.final:
		return h.tookEnd(st, m.fields)
	}
	return h.tookHead(st, m)
}

// forConnections are fields that no HTTP/2 message may have.
const forConnections = " connection transfer-encoding keep-alive upgrade proxy-connection te "

// messageOf makes a head or trailers from fields.
func messageOf(list []hpack.HeaderField, trailers bool) (*messageHead, error) {
	m := &messageHead{fields: map[string]string{}}
	for i, f := range list {
		switch {
		case f.Name == ":status" && i == 0 && !trailers && len(f.Value) == 3:
			m.words = []string{"HTTP/2", f.Value}
			m.first = "HTTP/2 " + f.Value
			continue
		case f.Name == "" || f.Name[0] == ':' || f.Name != strings.ToLower(f.Name) ||
			strings.Contains(forConnections, " "+f.Name+" ") ||
			strings.ContainsAny(f.Value, "\r\n\x00"):
			return nil, fmt.Errorf("there is a field %q: %q", f.Name, f.Value)
		}
		if old, twice := m.fields[f.Name]; twice {
			f.Value = old + ", " + f.Value
		}
		m.fields[f.Name] = f.Value
	}
	if !trailers && m.words == nil {
		return nil, errors.New("an answer has no status")
	}
	return m, nil
}

// tookHead handles the head of an answer, possibly an interim one.
func (h *http2Conn) tookHead(st *http2Stream, m *messageHead) error {
	switch status := m.status(); {
	case st.id > h.lastServed:
		return fmt.Errorf("%s is answered, and is above the last stream %d", st.q.token, h.lastServed)
	case m.value("x-evil") != "":
		return fmt.Errorf("what a service said unasked is the answer to %s", st.q.token)
	case status == 101 || status < 200 && h.blockEnds:
		return fmt.Errorf("%s is answered %d", st.q.token, status)
	case status < 200:
		st.waits = st.waits && status != 100
		return nil
	}
	if err := st.startsWith(st.q, m); err != nil {
		return err
	}
	st.final, st.length = true, m.number("content-length")
	if st.talk != nil {
		h.beginTalk(st, m)
	}
	switch {
	case h.blockEnds:
		return h.tookEnd(st, nil)
	case st.cut == 0:
		h.resetStream(st)
	}
	return nil
}

// tookEnd handles the end of an answer.
func (h *http2Conn) tookEnd(st *http2Stream, trailers map[string]string) error {
	st.answered = true
	if st.hears() {
		return h.tookTalkEnd(st)
	}
	if st.length >= 0 && st.length != st.total && !st.bodiless() {
		return fmt.Errorf("the answer to %s has %d bytes, and Content-Length is %d", st.q.token,
			st.total, st.length)
	}
	if err := st.isOver(trailers); err != nil {
		return err
	}
	h.c.answeredOrNot(st.q)
	switch {
	case st.whole:
		h.close(st)
	case !st.said && h.c.rng.IntN(2) == 0: // the rest of the request is not needed
		h.resetStream(st)
	}
	return nil
}
