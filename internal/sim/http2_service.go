package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// http2ServiceConn is the additional state of a service's connection in HTTP/2. Like http2Conn it
// has its own codec; it sees the gateway as a client.
type http2ServiceConn struct {
	c       *serviceConn
	plan    HTTP2ServicePlan
	rng     *rand.Rand
	out     []byte // composed but not sent
	blocks  bytes.Buffer
	encoder *hpack.Encoder
	decoder *hpack.Decoder
	held    []byte // received bytes of an incomplete frame

	streams  map[uint32]*servedStream
	order    []*servedStream // the same streams, in the order of their identifiers
	open     int             // number of streams that are not over
	highest  uint32
	settings []settingsChange // changes that the gateway has not acknowledged
	pings    []*ping          // not acknowledged yet
	frames   int
	noise    int // number of frames that change nothing
	steps    int // number of times that windows were opened partly

	initial  int   // its latest INITIAL_WINDOW_SIZE
	acked    int   // the latest acknowledged one
	most     int   // its latest acknowledged MAX_CONCURRENT_STREAMS; -1 for no bound
	receive  int64 // what the gateway may send on all streams together
	unopened int   // bytes received and not returned to that window
	send     int64 // what it may send itself
	theirs   int64 // the gateway's INITIAL_WINDOW_SIZE

	block     []byte
	blockOf   uint32 // the stream whose field block is incomplete; 0 for none
	blockEnds bool

	prefaced bool // the gateway's preface has arrived
	greeted  bool // the gateway's SETTINGS have arrived
	settled  bool // its own SETTINGS have been sent
	sending  bool // a send of a part of out is scheduled
	opening  bool // an opening of windows is scheduled
	leaving  bool // it has sent a GOAWAY
	limit    uint32
	left     bool // the gateway knows of the GOAWAY
	ends     bool // the connection ends when everything is sent
	gentle   bool // it ends its own direction only, so that nothing sent is lost
	hostile  bool // it has done something for which the connection may end
	doomed   bool // it has done something for which the connection must end
}

// settingsChange is a change by SETTINGS that are on their way.
type settingsChange struct {
	window  int // INITIAL_WINDOW_SIZE; -1 for no change
	by      int // growth of that size
	streams int // MAX_CONCURRENT_STREAMS; -2 for no change, -1 for no bound
}

// servedStream is a request and its answer.
type servedStream struct {
	arrival
	h        *http2ServiceConn
	id       uint32
	send     int64 // what the gateway's window allows
	receive  int64 // what the gateway may send
	unopened int
	length   int    // Content-Length; -1 for none
	steps    []step // remaining steps of the answer
	began    bool   // an answer has been chosen
	headed   bool   // the answer's head has been sent
	ended    bool   // the gateway has sent all of the request
	said     bool   // the service has sent all of the answer
	given    bool   // the gateway has reset it
	reset    bool   // the service has reset it
	known    bool   // the gateway knows of that reset
	above    bool   // it is above the last stream of GOAWAY: nothing is done for it
	odd      bool   // the service has broken a rule with it
	over     bool   // it is over, for one of these reasons
	waiting  bool   // it waits for the gateway's windows
	missed   int64  // since when it is unneeded but not reset
}

var http2Preface = []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

func newHTTP2ServiceConn(c *serviceConn) *http2ServiceConn {
	h := &http2ServiceConn{
		c: c, plan: *c.s.plan.HTTP2, rng: c.pace, streams: map[uint32]*servedStream{},
		initial: usualWindow, acked: usualWindow, most: -1,
		receive: usualWindow, send: usualWindow, theirs: usualWindow, limit: math.MaxInt32,
	}
	h.encoder = hpack.NewEncoder(&h.blocks)
	h.decoder = hpack.NewDecoder(usualTable, nil)
	return h
}

// greet schedules the service's SETTINGS.
func (h *http2ServiceConn) greet() {
	if h.plan.Mute {
		return
	}
	h.c.s.w.kernel.After(between(h.rng, 0, h.plan.Late), func() {
		if h.c.over || h.doomed {
			return
		}
		var list []byte
		ch := settingsChange{window: -1, streams: -2}
		if h.plan.Streams >= 0 {
			list, ch.streams = appendSetting(list, 3, h.plan.Streams), h.plan.Streams
		}
		if h.plan.Window != usualWindow {
			list, ch.window = appendSetting(list, 4, h.plan.Window), h.plan.Window
		}
		if h.plan.Table != usualTable {
			list = appendSetting(list, 1, h.plan.Table)
			h.decoder.SetAllowedMaxDynamicTableSize(uint32(h.plan.Table))
		}
		early := h.out
		h.out, h.settled = nil, true // SETTINGS come first
		h.sendSettings(list, ch)
		h.out = append(h.out, early...)
		if h.rng.IntN(2) == 0 {
			h.openConnection(1 << 20)
		}
		h.flush()
	})
}

// sendSettings sends SETTINGS. The gateway may use what they allow from now on, and must respect
// what they forbid once it has acknowledged them.
func (h *http2ServiceConn) sendSettings(list []byte, ch settingsChange) {
	if ch.window >= 0 {
		ch.by = ch.window - h.initial
		h.initial = ch.window
		for _, st := range h.order {
			st.receive += int64(max(0, ch.by))
			st.unopened += max(0, -ch.by)
		}
	}
	h.settings = append(h.settings, ch)
	h.frame(frameSettings, 0, 0, list)
}

// take reads what has arrived.
func (h *http2ServiceConn) take(p []byte) error {
	h.held = append(h.held, p...)
	if !h.prefaced {
		if len(h.held) < len(http2Preface) {
			return nil
		}
		if !bytes.HasPrefix(h.held, http2Preface) {
			return fmt.Errorf("the preface is %q", h.held[:len(http2Preface)])
		}
		h.prefaced, h.held = true, h.held[len(http2Preface):]
	}
	for !h.c.over && len(h.held) >= 9 {
		b := h.held
		n := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
		f := received{kind: b[3], flags: b[4], stream: binary.BigEndian.Uint32(b[5:]), length: n}
		if n > usualFrame {
			return fmt.Errorf("a frame has %d bytes", n)
		}
		if len(b) < 9+n {
			break
		}
		f.payload, h.held = b[9:9+n:9+n], b[9+n:]
		if h.doomed {
			continue
		}
		if err := h.received(&f); err != nil {
			return fmt.Errorf("frame %d with flags %#x of stream %d: %w", f.kind, f.flags, f.stream, err)
		}
	}
	h.flush()
	return nil
}

// received handles one frame.
func (h *http2ServiceConn) received(f *received) error {
	switch {
	case !h.greeted && (f.kind != frameSettings || f.has(flagAck)):
		return errors.New("the gateway does not begin with SETTINGS")
	case h.blockOf != 0 && (f.kind != frameContinuation || f.stream != h.blockOf):
		return errors.New("it comes in the middle of a field block")
	}
	switch f.kind {
	case frameSettings:
		return h.tookSettings(f)
	case framePing:
		return h.tookPing(f)
	case frameGoAway:
		return h.tookGoAway(f)
	case frameHeaders, frameContinuation:
		return h.tookFields(f)
	case frameWindow:
		return h.tookWindow(f)
	case frameData, frameReset:
	default:
		return errors.New("no gateway sends such a frame")
	}
	st := h.streams[f.stream]
	if err := st.mayGet(f); err != nil {
		return err
	}
	if f.kind == frameReset {
		return h.tookReset(st, f)
	}
	return h.tookData(st, f)
}

// mayGet checks whether such a frame may arrive on the stream. The stream is nil if it has not
// begun.
func (st *servedStream) mayGet(f *received) error {
	switch {
	case st == nil:
		return errors.New("the stream has not begun")
	case f.kind == frameReset && (st.odd || st.h.hostile): // one for each violation
	case st.known:
		return errors.New("the service has reset the stream before, and the gateway knows")
	case st.given:
		return errors.New("the gateway has reset the stream before")
	case st.ended && (f.kind == frameData || f.kind == frameHeaders):
		return errors.New("the gateway has ended the stream before")
	}
	return nil
}

func (h *http2ServiceConn) tookSettings(f *received) error {
	if f.stream != 0 || len(f.payload)%6 != 0 {
		return errors.New("SETTINGS are malformed")
	}
	if f.has(flagAck) {
		if h.hostile { // acknowledgements during a flood are not tracked
			return nil
		}
		if len(h.settings) == 0 || len(f.payload) > 0 {
			return errors.New("it acknowledges SETTINGS that were not sent")
		}
		h.acknowledged(h.settings[0])
		h.settings = h.settings[1:]
		return nil
	}
	h.greeted = true
	for p := f.payload; len(p) > 0; p = p[6:] {
		value := int64(binary.BigEndian.Uint32(p[2:]))
		switch binary.BigEndian.Uint16(p) {
		case 1:
			h.encoder.SetMaxDynamicTableSizeLimit(uint32(value))
		case 2:
			if value != 0 {
				return errors.New("the gateway takes pushes")
			}
		case 4:
			for _, st := range h.order {
				st.send += value - h.theirs
			}
			h.theirs = value
		}
	}
	h.frame(frameSettings, flagAck, 0, nil)
	return nil
}

// acknowledged is called when the gateway respects a change from now on.
func (h *http2ServiceConn) acknowledged(ch settingsChange) {
	if ch.streams > -2 {
		h.most = ch.streams
	}
	if ch.window < 0 {
		return
	}
	h.acked = ch.window
	for _, st := range h.order {
		st.receive += int64(min(0, ch.by))
	}
}

// mayBegin returns how many streams the gateway may have open, and the window of a new one.
func (h *http2ServiceConn) mayBegin() (streams int, window int64) {
	streams, window = h.most, int64(h.acked)
	for _, ch := range h.settings {
		if ch.streams == -1 || ch.streams >= 0 && streams >= 0 && ch.streams > streams {
			streams = ch.streams
		}
		window += int64(max(0, ch.by))
	}
	return streams, window
}

func (h *http2ServiceConn) tookPing(f *received) error {
	switch {
	case f.stream != 0 || len(f.payload) != 8:
		return errors.New("PING is malformed")
	case !f.has(flagAck):
		h.frame(framePing, flagAck, 0, f.payload)
		return nil
	case h.hostile: // acknowledgements during a flood are not tracked
		return nil
	case len(h.pings) == 0 || string(h.pings[0].data[:]) != string(f.payload):
		return errors.New("it acknowledges a PING that was not sent")
	}
	done := h.pings[0].done
	h.pings = h.pings[1:]
	done()
	return nil
}

func (h *http2ServiceConn) tookGoAway(f *received) error {
	if f.stream != 0 || len(f.payload) < 8 {
		return errors.New("GOAWAY is malformed")
	}
	code := binary.BigEndian.Uint32(f.payload[4:])
	h.c.s.w.trace("%s is told to leave: code %d, %s", h.c.name, code, f.payload[8:])
	if useless := h.plan.Streams == 0 && code == refusedStream; code != noError && !h.hostile && !useless {
		return fmt.Errorf("a service that keeps to the rules is told to leave: %d %q", code, f.payload[8:])
	}
	return nil
}

func (h *http2ServiceConn) tookWindow(f *received) error {
	if len(f.payload) != 4 {
		return errors.New("WINDOW_UPDATE is malformed")
	}
	by := int64(binary.BigEndian.Uint32(f.payload))
	window := &h.send
	st := h.streams[f.stream]
	if f.stream != 0 {
		if err := st.mayGet(f); err != nil {
			return err
		}
		window = &st.send
	}
	if *window += by; by == 0 || *window > math.MaxInt32 {
		return fmt.Errorf("a window grows by %d to %d", by, *window)
	}
	for _, st := range h.order {
		st.resume()
	}
	return nil
}

// tookData handles a part of a request's body. It must fit in both windows.
func (h *http2ServiceConn) tookData(st *servedStream, f *received) error {
	n := int64(f.length)
	if n > 0 && (n > h.receive || n > st.receive) {
		return fmt.Errorf("%d bytes of content, the windows allow %d and %d", n, st.receive, h.receive)
	}
	h.receive -= n
	st.receive -= n
	h.unopened += f.length
	st.unopened += f.length
	h.openLater()
	if f.has(flagPadded) {
		return errors.New("the gateway pads no content")
	}
	if st.over || h.hostile {
		return nil
	}
	if err := st.goesOn(f.payload); err != nil {
		return err
	}
	if f.has(flagEnd) {
		return h.tookEnd(st, nil)
	}
	return nil
}

// tookEnd handles the end of a request.
func (h *http2ServiceConn) tookEnd(st *servedStream, trailers map[string]string) error {
	if st.length >= 0 && st.length != st.got {
		return fmt.Errorf("%s has %d bytes, and Content-Length is %d", st.token, st.got, st.length)
	}
	st.ended = true
	if err := st.isOver(trailers); err != nil {
		return err
	}
	if !st.began {
		st.answer()
	}
	st.look()
	return nil
}

func (h *http2ServiceConn) tookReset(st *servedStream, f *received) error {
	if len(f.payload) != 4 {
		return errors.New("RST_STREAM is malformed")
	}
	code := binary.BigEndian.Uint32(f.payload)
	h.c.s.w.trace("%s: %s is reset with code %d", h.c.name, st.token, code)
	if !st.odd && !h.hostile && code != cancelled && code != noError {
		return fmt.Errorf("%s is reset with code %d, although its service keeps to the rules", st.token,
			code)
	}
	st.given = true
	st.look()
	return nil
}

// tookFields handles a part of a field block, of a request's head or of its trailers.
func (h *http2ServiceConn) tookFields(f *received) error {
	if f.kind == frameHeaders {
		h.block, h.blockOf, h.blockEnds = nil, f.stream, f.has(flagEnd)
		if f.has(flagPadded) || f.has(flagPriority) {
			return errors.New("the gateway pads no heads")
		}
	} else if h.blockOf == 0 {
		return errors.New("there is no field block to continue")
	}
	h.block = append(h.block, f.payload...)
	if !f.has(flagEndHead) {
		return nil
	}
	id := h.blockOf
	h.blockOf = 0
	fields, err := h.decoder.DecodeFull(h.block)
	if err != nil {
		return err
	}
	if st := h.streams[id]; st != nil {
		return h.tookTrailers(st, f, fields)
	}
	return h.tookHead(id, fields)
}

func (h *http2ServiceConn) tookTrailers(st *servedStream, f *received, fields []hpack.HeaderField) error {
	if err := st.mayGet(&received{kind: frameHeaders}); err != nil {
		return err
	}
	m, err := messageOf(fields, true)
	switch {
	case err != nil:
		return err
	case !h.blockEnds:
		return errors.New("trailers do not end the stream")
	case st.over || h.hostile:
		return nil
	}
	return h.tookEnd(st, m.fields)
}

// tookHead handles the head of a request.
func (h *http2ServiceConn) tookHead(id uint32, fields []hpack.HeaderField) error {
	w := h.c.s.w
	m, err := requestOf(fields)
	most, window := h.mayBegin()
	switch {
	case err != nil:
		return err
	case id&1 == 0 || id <= h.highest:
		return fmt.Errorf("a stream begins behind stream %d", h.highest)
	case !h.settled:
		return errors.New("a request comes before the service's SETTINGS")
	case h.left:
		return errors.New("a request comes after GOAWAY, of which the gateway knows")
	case most >= 0 && h.open >= most && !h.hostile:
		return fmt.Errorf("a request comes while %d are under way, the bound is %d", h.open, most)
	}
	h.highest = id
	st := &servedStream{
		h: h, id: id, arrival: arrival{s: h.c.s}, send: h.theirs, receive: window,
		unopened: max(0, usualWindow-h.initial), length: m.number("content-length"),
		above: h.leaving && id > h.limit,
	}
	h.streams[id] = st
	h.order = append(h.order, st)
	h.open++
	w.trace("%s gets %s as stream %d", h.c.name, m.first, id)
	if err := st.startsWith(m, st.above); err != nil {
		return err
	}
	if err := h.c.countRequest(); err != nil {
		return err
	}
	q := st.asks()
	q.vicious = q.vicious || h.hostile
	st.watch()
	switch {
	case st.above || h.hostile:
		st.look()
		return nil
	case h.blockEnds:
		err = h.tookEnd(st, nil)
	case st.isHasty():
		st.answer() // before it has the body
	case m.value("expect") != "":
		st.expected()
	}
	h.openLater()
	h.beside()
	return err
}

// requestOf makes a head from a request's fields.
func requestOf(list []hpack.HeaderField) (*messageHead, error) {
	pseudo := map[string]string{}
	for len(list) > 0 && strings.HasPrefix(list[0].Name, ":") {
		if _, twice := pseudo[list[0].Name]; twice {
			return nil, fmt.Errorf("%s is there twice", list[0].Name)
		}
		pseudo[list[0].Name] = list[0].Value
		list = list[1:]
	}
	target := pseudo[":path"]
	scheme := pseudo[":scheme"]
	if len(pseudo) != 4 || pseudo[":method"] == "" || !strings.HasPrefix(target, "/") ||
		scheme != "http" && scheme != "https" || pseudo[":authority"] != "shop.test" {
		return nil, fmt.Errorf("the pseudo-fields are %v", pseudo)
	}
	length := 0
	rest := make([]hpack.HeaderField, 0, len(list))
	for _, f := range list {
		switch {
		case f.Name == "te" && f.Value == "trailers":
			continue
		case f.Name == "host":
			return nil, errors.New("a Host stands beside :authority")
		case f.Name == "content-length":
			length++
		case strings.TrimSpace(f.Value) != f.Value:
			return nil, fmt.Errorf("%s is %q", f.Name, f.Value)
		}
		rest = append(rest, f)
	}
	m, err := messageOf(rest, true)
	switch {
	case err != nil:
		return nil, err
	case length > 1:
		return nil, fmt.Errorf("there are %d lengths", length)
	}
	m.words = []string{pseudo[":method"], target, "HTTP/2"}
	m.first = strings.Join(m.words, " ")
	return m, nil
}
