package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// talker is one side of a WebSocket. It keeps everything it sends, so that the other side can
// compare what arrives: each frame must be the other side's next one, byte for byte, or one that a
// gateway may insert between two of them.
type talker struct {
	w    *world
	name string
	plan TalkPlan
	rng  *rand.Rand
	peer *talker // the other side; nil while a client does not know which service has it

	client bool
	by     *client        // the client of the WebSocket, on its side
	http2  bool           // it can distinguish an orderly end from another
	send   func(p []byte) // sends bytes
	finish func()         // ends its own direction after them
	abort  func()         // ends both directions at once
	alive  func() bool    // whether its connection still exists

	said     []byte
	words    []word
	messages int // number of messages sent
	done     bool
	spoilt   bool // its connection has sent something else instead
	swollen  bool // it has sent a message that is too long
	broke    bool // it has sent bytes that are not frames
	closing  bool // it has sent its close frame
	ended    bool // it has ended its own direction, in order
	gone     bool // it neither sends nor receives any more

	held      []byte // received bytes of an incomplete frame
	heard     int    // number of the other side's words received
	raw       int    // received bytes of a word that is not a frame
	length    int    // of the message that is arriving
	told      bool   // a close frame has arrived
	shown     bool   // it was the gateway's
	peerEnded bool   // the other direction has ended
	moved     int64  // when it last sent a word, or had received one completely
	began     int64
	unreset   bool // its connection cannot be reset; it just ends
}

// word is a frame that a side has sent, or what it sent instead of frames.
type word struct {
	from, to int
	opcode   byte
	raw      bool // not frames
	pong     bool // the answer to a gateway's ping, which goes no further
}

// Opcodes of frames (RFC 6455, section 5.2).
const (
	wordMore  = 0x0
	wordText  = 0x1
	wordBytes = 0x2
	wordNone  = 0x3 // not defined by the protocol
	wordClose = 0x8
	wordPing  = 0x9
	wordPong  = 0xa

	wordFinal  = 0x80
	wordMasked = 0x80
)

// newTalker makes the client's side of a WebSocket.
func (c *client) newTalker(q *request) *talker {
	return &talker{
		w: c.w, name: fmt.Sprintf("%s (%s)", c.name, q.token), plan: q.WebSocket.Client, client: true,
		by:    c,
		rng:   c.w.scenario.stream(ofTalkers, hashOf(q.token)),
		alive: func() bool { return !c.done && !c.stuck },
	}
}

// start begins to talk.
func (t *talker) start() {
	t.began = t.w.kernel.Clock()
	t.moved = t.began
	if t.client {
		t.watch()
	}
	t.talk()
}

// talk sends the messages one by one.
func (t *talker) talk() {
	if t.done || t.mayNot() {
		return
	}
	if t.messages == t.plan.Messages {
		t.done = true
		t.conclude()
		return
	}
	t.messages++
	t.message(t.rng.IntN(1 + t.rng.IntN(1+t.plan.Longest)))
	t.w.kernel.After(between(t.rng, 0, t.plan.Pause), t.talk)
}

// mayNot reports whether nothing more may be sent.
func (t *talker) mayNot() bool { return t.closing || t.ended || t.broke || t.gone || !t.alive() }

// message sends a message in one or more frames, with others between them.
func (t *talker) message(size int) {
	pieces := 1
	if t.rng.IntN(3) == 0 {
		pieces += t.rng.IntN(4)
	}
	opcode := byte(wordText + t.rng.IntN(2))
	for i := range pieces {
		n := size
		first := opcode
		if i < pieces-1 {
			n = t.rng.IntN(1 + size)
		} else {
			first |= wordFinal
		}
		size -= n
		t.frame(first, noiseOf(t.name).bytes(len(t.said), n))
		opcode = wordMore
		if t.rng.IntN(8) == 0 {
			t.frame(wordFinal|byte(wordPing+t.rng.IntN(2)), make([]byte, t.rng.IntN(126)))
		}
	}
}

// conclude does what the plan has after the messages.
func (t *talker) conclude() {
	switch t.plan.Finale {
	case "ends":
		t.end()
	case "resets":
		t.gone = true
		t.abort()
	case "breaks":
		t.broke = true
		t.say(word{raw: true}, append([]byte{wordFinal | wordNone, 0},
			noiseOf(t.name).bytes(0, t.rng.IntN(3000))...))
		t.w.kernel.After(between(t.rng, 0, t.plan.Pause), t.end)
	case "stays":
	case "swells":
		if most := t.w.scenario.WebSockets.MaxMessage; t.client && most > 0 {
			t.swollen = true
			t.message(most + 1 + t.rng.IntN(1000))
			break
		}
		t.sayClose(nil)
	default:
		t.sayClose(binary.BigEndian.AppendUint16(nil, 1000))
	}
}

// end ends its own direction.
func (t *talker) end() {
	if t.ended || t.gone || !t.alive() {
		return
	}
	t.ended = true
	t.finish()
}

func (t *talker) sayClose(payload []byte) {
	if t.mayNot() {
		return
	}
	t.frame(wordFinal|wordClose, payload)
	t.closing = true
	if t.told || t.peerEnded {
		t.end()
	}
}

// frame sends a frame.
func (t *talker) frame(first byte, payload []byte) {
	t.say(word{opcode: first &^ wordFinal}, appendWord(nil, first, payload, t.key()))
}

// key is the masking key of the frame; nil for a service, whose frames are not masked.
func (t *talker) key() []byte {
	if !t.client {
		return nil
	}
	return binary.BigEndian.AppendUint32(nil, t.rng.Uint32())
}

// say sends a word.
func (t *talker) say(w word, text []byte) {
	t.moved = t.w.kernel.Clock()
	w.from = len(t.said)
	t.said = append(t.said, text...)
	w.to = len(t.said)
	t.words = append(t.words, w)
	t.send(t.said[w.from:w.to:w.to])
}

// appendWord appends a frame.
func appendWord(to []byte, first byte, payload, key []byte) []byte {
	mask := byte(0)
	if key != nil {
		mask = wordMasked
	}
	switch n := len(payload); {
	case n < 126:
		to = append(to, first, mask|byte(n))
	case n < 1<<16:
		to = binary.BigEndian.AppendUint16(append(to, first, mask|126), uint16(n))
	default:
		to = binary.BigEndian.AppendUint64(append(to, first, mask|127), uint64(n))
	}
	to = append(to, key...)
	from := len(to)
	to = append(to, payload...)
	if key != nil {
		unmask(to[from:], key)
	}
	return to
}

func unmask(payload, key []byte) {
	for i := range payload {
		payload[i] ^= key[i%4]
	}
}

// takeWord parses a frame at the beginning of p. Its length is 0 while it is incomplete.
func takeWord(p []byte) (first byte, payload []byte, length int) {
	if len(p) < 2 {
		return 0, nil, 0
	}
	at, n := 2, int(p[1]&^wordMasked)
	switch {
	case n == 126 && len(p) >= 4:
		at, n = 4, int(binary.BigEndian.Uint16(p[2:]))
	case n == 127 && len(p) >= 10:
		at, n = 10, int(binary.BigEndian.Uint64(p[2:]))
	case n > 125:
		return 0, nil, 0
	}
	if p[1]&wordMasked != 0 {
		at += 4
	}
	if n < 0 || len(p) < at+n {
		return 0, nil, 0
	}
	payload = bytes.Clone(p[at : at+n])
	if p[1]&wordMasked != 0 {
		unmask(payload, p[at-4:at])
	}
	return p[0], payload, at + n
}

// hear takes received bytes.
func (t *talker) hear(p []byte) error {
	if t.gone || t.peer.spoilt {
		return nil
	}
	t.held = append(t.held, p...)
	for len(t.held) > 0 {
		n, err := t.hearWord()
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		t.held = t.held[n:]
	}
	return nil
}

// next is the other side's next word.
func (t *talker) next() (w word, ok bool) {
	for t.heard < len(t.peer.words) && t.peer.words[t.heard].pong {
		t.heard++
	}
	if t.heard == len(t.peer.words) {
		return word{}, false
	}
	return t.peer.words[t.heard], true
}

// hearWord takes one word and returns its length; 0 while it is incomplete.
func (t *talker) hearWord() (int, error) {
	w, ok := t.next()
	if t.told {
		return 0, fmt.Errorf("%s hears %d bytes behind the close frame", t.name, len(t.held))
	}
	text := t.peer.said[w.from:w.to]
	if w.raw {
		n := min(len(t.held), len(text)-t.raw)
		if bytes.Equal(t.held[:n], text[t.raw:t.raw+n]) {
			if t.raw += n; t.raw == len(text) {
				t.heard, t.raw = t.heard+1, 0
			}
			return n, nil
		}
		if t.raw > 0 {
			return 0, fmt.Errorf("%s hears what was not said, at byte %d of %d that are not frames",
				t.name, t.raw, len(text))
		}
	}
	first, payload, n := takeWord(t.held)
	switch {
	case n == 0:
		return 0, nil
	case !ok || w.raw || !bytes.Equal(t.held[:n], text):
		return n, t.hearGateway(first, payload, t.held[1]&wordMasked != 0)
	}
	t.heard++
	t.moved = t.w.kernel.Clock()
	switch w.opcode {
	case wordText, wordBytes, wordMore:
		t.length += len(payload)
		most := t.w.scenario.WebSockets.MaxMessage
		if most > 0 && t.length > most && !t.client {
			return 0, fmt.Errorf("%s hears a message of %d bytes", t.name, t.length)
		}
		if first&wordFinal != 0 {
			t.length = 0
		}
	case wordClose:
		t.isTold(payload)
	case wordPing:
		if !t.plan.Mute && !t.mayNot() {
			t.frame(wordFinal|wordPong, payload)
		}
	}
	return n, nil
}

// isTold answers a close frame.
func (t *talker) isTold(payload []byte) {
	t.told = true
	switch {
	case t.plan.Mute:
	case t.closing:
		t.end()
	default:
		t.sayClose(payload)
	}
}

// hearGateway takes a frame that the other side has not sent.
func (t *talker) hearGateway(first byte, payload []byte, masked bool) error {
	p := t.w.scenario.WebSockets
	switch {
	case masked == t.client:
	case first == wordFinal|wordPong && len(payload) == 8 && t.broke && p.Ping > 0:
		return nil // the answer to a ping was on its way when the gateway stopped following frames
	case first == wordFinal|wordPing && t.client && len(payload) == 8 && p.Ping > 0:
		t.w.trace("%s is sent a ping", t.name)
		if !t.plan.Mute && !t.mayNot() {
			t.say(word{pong: true, opcode: wordPong}, appendWord(nil, wordFinal|wordPong, payload, t.key()))
		}
		return nil
	case first == wordFinal|wordClose && len(payload) >= 2:
		t.shown = true
		code, reason := binary.BigEndian.Uint16(payload), string(payload[2:])
		t.w.trace("%s is told to close: %d %s", t.name, code, reason)
		if !t.mayBeTold(code, reason) {
			return fmt.Errorf("%s is told to close: %d %q", t.name, code, reason)
		}
		t.isTold(payload)
		return nil
	}
	return fmt.Errorf("%s hears a frame that begins with %#x and has %d bytes, which is not word "+
		"%d of %d of the other side, and no gateway's", t.name, first, len(payload), t.heard,
		len(t.peer.words))
}

// mayBeTold reports whether a gateway has reason to close the WebSocket in this way.
func (t *talker) mayBeTold(code uint16, reason string) bool {
	w, p := t.w, t.w.scenario.WebSockets
	client := t
	if !t.client {
		client = t.peer
	}
	began := t.began // a client that reads slowly begins later than its service
	if t.peer != nil && t.peer.began > 0 {
		began = min(began, t.peer.began)
	}
	open := time.Duration(w.kernel.Clock() - began)
	switch {
	case client.spoilt:
		return true
	case code == 1009:
		return client.swollen
	case code == 1002:
		return client.broke && p.MaxMessage > 0
	case code != 1001:
	case strings.Contains(reason, "stops"):
		return w.ending || w.upgraded != nil
	case strings.Contains(reason, "no longer"):
		return w.replaced && !w.scenario.Quiet
	case strings.Contains(reason, "idle"):
		return !w.scenario.Quiet
	case strings.Contains(reason, "long enough"): // the clocks of loops stand still during a turn
		return p.Lifetime > 0 && open+w.slack() >= p.Lifetime
	case strings.Contains(reason, "ping"):
		return p.Ping > 0 && !w.scenario.Quiet
	}
	return false
}

// hearEnd takes the end of the other direction. An orderly end must come only after everything that
// the other side has sent.
func (t *talker) hearEnd(reset bool) error {
	if t.gone || t.peerEnded {
		return nil
	}
	t.peerEnded = true
	if t.peer == nil {
		t.gone = true
		return nil
	}
	_, more := t.next()
	whole := t.told || t.peer.ended && !more && len(t.held) == 0
	switch {
	case t.told && len(t.held) > 0:
		return fmt.Errorf("%s hears %d bytes behind the close frame", t.name, len(t.held))
	case !reset && !whole && t.client && t.strict():
		return fmt.Errorf("%s hears an orderly end without a close frame, after %d of %d words", t.name,
			t.heard, len(t.peer.words))
	case t.w.scenario.Quiet && !whole && !t.w.ending && t.peer.alive():
		return fmt.Errorf("%s hears the end after %d of %d words, although nobody misbehaves", t.name,
			t.heard, len(t.peer.words))
	case reset:
		t.gone = true
	case t.closing:
		t.end()
	}
	return nil
}

// strict reports whether the end must be orderly only if the other side's was. To a gateway, the
// end of a Unix socket is always orderly.
func (t *talker) strict() bool { return t.http2 && !(t.peer.unreset && t.peer.gone) }
