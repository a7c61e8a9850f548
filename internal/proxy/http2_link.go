package proxy

import (
	"plimsoll/internal/hpack"
	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

// http2Link is the part of an HTTP/2 connection that is the same whether its peer is a client or a
// target: the frames of both directions, the windows, header compression and the open streams (RFC
// 9113). Its http2Side does what differs.
//
// Frames are gathered in out and written once, after the loop's batch of requests to upstreams. So
// what many streams send in one turn takes one TLS record and one system call.
type http2Link struct {
	w       *Worker
	side    http2Side
	reader  http2.Reader
	decoder hpack.Decoder
	encoder hpack.Encoder
	peer    http2.Settings
	budget  http2.Budget
	send    http2.SendWindow // of the connection
	intake  intake
	turns   turns // the order of the streams that wait until they may send

	in    *reactor.Buffer // bytes read and not yet used; nil while there are none
	out   *reactor.Buffer // frames for the peer; nil while there are none
	block *reactor.Buffer // a field block that is not complete; nil while there is none

	// The frame that is being dealt with. It is a field because a local variable of the method
	// frames would be allocated: it is passed through an interface.
	current http2.Frame

	streams    [streamBuckets]*streamData // by identifier, chained
	first      *streamData                // all streams, oldest first
	newest     *streamData
	open       int          // how many streams are open
	last       uint32       // the highest stream that was begun
	blockOf    uint32       // the stream of block
	blockEnds  bool         // END_STREAM came with the HEADERS that block begins with
	blockFault http2.Reason // why its stream is reset once the block is decoded, or OK
	blockMost  int          // how many bytes a field block may have as encoded
	heads      int          // requests begun in this burst
	bursts     int          // bursts in the turn whose number is turn
	turn       uint64

	trusted  bool // the peer is a target: it has a looser budget of useless frames
	broken   bool // a write failed: the connection ends at the end of the turn
	greeted  bool // the peer's SETTINGS have come
	dead     bool // nothing more is sent or read; the connection ends with its last stream
	reading  bool // readOn is under way
	flushing bool // Run is to be called at the end of the batch
	spoke    bool // fields or content have come; mayAsk reads and clears it
}

// http2Side is the part of an HTTP/2 connection that depends on whether its peer is a client or a
// target. Only the connection's loop may call its methods.
type http2Side interface {
	read(p []byte) (int, error)
	// write writes frames. If the link is flushing it may gather them until push. It deals with a
	// failure at the end of the turn, because the caller may be in the middle of a stream that the
	// failure would end.
	write(p []byte)
	push()            // nothing more is written in this batch
	backlogged() bool // the peer does not take what it is sent, so nothing is read until it does
	later()           // has readOn called at the end of the turn
	settled(bool)     // SETTINGS have come; the argument says whether they are the first
	awaitBlock(bool)  // true: an incomplete field block begins; false: it has ended
	fieldBlock([]byte)
	frame(*http2.Frame)                       // RST_STREAM, GOAWAY or PRIORITY_UPDATE
	stray(*http2.Frame, *streamData)          // data for a stream that takes none
	resetFor(stream uint32, why http2.Reason) // ends a stream because of a fault of the peer
	fail(why http2.Reason)                    // ends the connection because of one
	lost()                                    // the peer has gone, or the connection broke
}

const (
	streamBuckets = 16

	// headsPerTurn is how many requests of one connection begin in a burst before other connections
	// are served. burstsPerTurn is how many bursts a turn may have: one when bytes come, and one
	// that was put off to the end of the turn. Reading again because the peer takes what it is sent
	// does not add a further burst.
	headsPerTurn, burstsPerTurn = 32, 2
)

// init makes the link ready. server says that the peer is a client; early holds bytes that have
// come already, nil for none.
func (l *http2Link) init(w *Worker, side http2Side, server bool, early *reactor.Buffer) {
	l.w, l.side, l.in, l.trusted = w, side, early, !server
	l.peer, l.send = http2.InitialSettings(), http2.ConnectionWindow
	l.reader.Reset(server, http2.InitialSettings().MaxFrameSize)
	l.decoder.Init(hpack.Initial)
	l.encoder.Init(0, false)
}

// readOn reads frames until there are none, the peer does not take what it is sent, or it is the
// turn of others. It shares out the windows that the frames open only at the end, because a frame
// behind them may change a priority.
func (l *http2Link) readOn() {
	if l.broken {
		l.side.lost()
		return
	}
	if l.reading { // the call comes from dealing with a frame
		return
	}
	l.reading = true
	l.readBurst()
	l.reading = false
	if l.turns.due && !l.turns.deferred {
		l.resume()
	}
}

func (l *http2Link) readBurst() {
	l.heads = 0
	if turn := l.w.loop.Turn(); turn != l.turn {
		l.bursts, l.turn = 0, turn
	}
	if l.bursts++; l.bursts > burstsPerTurn && !l.trusted {
		l.side.later()
		return
	}
	for reads := 0; !l.dead; reads++ {
		// If a client is congested when the turn begins, what was read waits too: 64 KB can contain
		// thousands of requests, whose answers would be queued. In the turn in which it becomes
		// congested requests still begin: one of them may be more urgent than what fills the queue.
		if l.in != nil && (l.trusted || reads > 0 || !l.side.backlogged()) && !l.frames() {
			return
		}
		if l.side.backlogged() { // Drained goes on
			if l.in != nil {
				l.shrink()
			}
			return
		}
		if reads == burst {
			l.side.later()
			return
		}
		if err := l.receiveBytes(); err != nil {
			if !pause(err) {
				l.side.lost()
			}
			return
		}
	}
}

// receiveBytes reads once. The buffer has room for the largest frame.
func (l *http2Link) receiveBytes() error {
	loop := l.w.loop
	if l.in == nil {
		// Not the loop's scratch memory: dealing with a frame may read into that.
		l.in = loop.GetBuffer(reactor.ScratchSize)
	} else if len(l.in.Room()) < reactor.ScratchSize/2 {
		larger := loop.GetBuffer(reactor.ScratchSize)
		larger.End = copy(larger.Bytes, l.in.Data())
		loop.PutBuffer(l.in)
		l.in = larger
	}
	n, err := l.side.read(l.in.Room())
	l.in.End += n
	if err != nil {
		l.shrink()
	}
	return err
}

// shrink gives back the large buffer for reading, and keeps the beginning of a frame, if there is
// one, in a smaller buffer.
func (l *http2Link) shrink() {
	loop := l.w.loop
	left := l.in.Data()
	// Otherwise these would keep the memory of a buffer that is given back.
	l.current.Payload = nil
	l.decoder.Begin(nil)
	switch {
	case len(left) == 0:
		loop.PutBuffer(l.in)
		l.in = nil
	case len(l.in.Bytes) > 2*len(left):
		small := loop.GetBuffer(len(left))
		small.End = copy(small.Bytes, left)
		loop.PutBuffer(l.in)
		l.in = small
	}
}

// frames deals with the frames that were read. It returns false if the connection is over, or goes
// on at the end of the turn.
func (l *http2Link) frames() bool {
	for len(l.in.Data()) > 0 {
		if l.heads >= headsPerTurn {
			l.side.later()
			return false
		}
		f := &l.current
		var n int
		var bad http2.Error
		*f, n, bad = l.reader.Next(l.in.Data())
		if bad.Failed() && bad.Stream == 0 {
			l.side.fail(bad.Reason)
			return false
		}
		if n == 0 {
			break
		}
		l.in.Start += n
		if why := l.spend(f); why != http2.OK {
			l.side.fail(why)
			return false
		}
		switch {
		case !bad.Failed():
			l.frame(f)
		case f.Type == http2.Headers:
			// The field block that it begins must be decoded: later blocks depend on it.
			l.blockFault = bad.Reason
			l.fields(f)
		case f.Type != http2.WindowUpdate || l.mustHaveBegun(f.Stream):
			l.side.resetFor(bad.Stream, bad.Reason)
		}
		if l.dead {
			return false
		}
	}
	return true
}

// spend counts the frames of the peer that serve no purpose. A target may send more of them than a
// client: for example the answer of a model in pieces of three bytes, with a window update for
// each.
func (l *http2Link) spend(f *http2.Frame) http2.Reason {
	if l.trusted {
		return l.budget.TargetFrame(f, l.blockMost, l.w.loop.Now())
	}
	return l.budget.Frame(f, l.blockMost, l.w.loop.Now())
}

// frame deals with one frame.
func (l *http2Link) frame(f *http2.Frame) {
	switch f.Type {
	case http2.Data:
		l.spoke = true
		l.data(f)
	case http2.Headers, http2.Continuation:
		l.spoke = true
		l.fields(f)
	case http2.SettingsFrame:
		l.settings(f)
	case http2.Ping:
		if f.Has(http2.Ack) {
			l.answered(f)
		} else {
			l.wrote(http2.AppendPing(l.room(32), true, [8]byte(f.Payload)))
		}
	case http2.WindowUpdate:
		l.windowUpdate(f)
	case http2.RSTStream, http2.GoAway, http2.PriorityUpdate:
		l.side.frame(f)
	}
	// Other frames, such as PRIORITY, change nothing.
}

// settings deals with the peer's SETTINGS.
func (l *http2Link) settings(f *http2.Frame) {
	if f.Has(http2.Ack) {
		return
	}
	change, bad := l.peer.Apply(f.Payload, l.trusted)
	if bad != http2.OK {
		l.side.fail(bad)
		return
	}
	if change.Has(http2.HeaderTableSize) {
		l.encoder.Resize(change.TableSize)
		l.encoder.Resize(l.peer.HeaderTableSize)
	}
	l.wrote(http2.AppendSettingsAck(l.room(32)))
	if change.Window != 0 {
		for d := l.first; d != nil; d = d.after {
			if bad := d.window.Shift(change.Window); bad != http2.OK {
				l.side.fail(bad)
				return
			}
		}
	}
	first := !l.greeted
	l.greeted = true
	l.side.settled(first)
	if change.Window != 0 {
		l.opened()
	}
}

// windowUpdate deals with a WINDOW_UPDATE.
func (l *http2Link) windowUpdate(f *http2.Frame) {
	if f.Stream == 0 {
		if bad := l.send.Add(f.Increment()); bad != http2.OK {
			l.side.fail(bad)
			return
		}
		l.opened()
		return
	}
	d := l.find(f.Stream)
	if d == nil {
		l.mustHaveBegun(f.Stream)
		return
	}
	if bad := d.window.Add(f.Increment()); bad != http2.OK {
		l.side.resetFor(f.Stream, bad)
		return
	}
	d.credit += int64(f.Increment())
	if d.waits {
		l.opened()
	}
}

// mustHaveBegun reports whether the stream id has begun, and ends the connection if it has not: no
// frame may come for such a stream (RFC 9113, section 5.1).
func (l *http2Link) mustHaveBegun(id uint32) bool {
	if id <= l.last {
		return true
	}
	l.side.fail(http2.IdleStream)
	return false
}

// identifiers appends the identifiers of all streams. The caller must look up each one again,
// because ending one stream may end others: it may give up a place at an upstream.
func (l *http2Link) identifiers(ids []uint32) []uint32 {
	for d := l.first; d != nil; d = d.after {
		ids = append(ids, d.id)
	}
	return ids
}

// fields deals with a HEADERS or CONTINUATION frame.
func (l *http2Link) fields(f *http2.Frame) {
	loop := l.w.loop
	if f.Type == http2.Headers {
		l.blockOf, l.blockEnds = f.Stream, f.Has(http2.EndStream)
		if f.Has(http2.EndHeaders) {
			l.side.fieldBlock(f.Payload)
			return
		}
		l.block = loop.GetBuffer(max(firstRead, len(f.Payload)))
		l.side.awaitBlock(true)
	}
	if len(l.block.Room()) < len(f.Payload) {
		need := len(l.block.Data()) + len(f.Payload)
		if need > reactor.ScratchSize {
			l.side.fail(http2.BlockTooLarge)
			return
		}
		larger := loop.GetBuffer(need)
		larger.End = copy(larger.Bytes, l.block.Data())
		loop.PutBuffer(l.block)
		l.block = larger
	}
	l.block.End += copy(l.block.Room(), f.Payload)
	if !f.Has(http2.EndHeaders) {
		return
	}
	block := l.block
	l.block = nil
	l.side.awaitBlock(false)
	l.side.fieldBlock(block.Data())
	loop.PutBuffer(block)
}

// discardBlock decodes a block only for its effect on later ones. It returns false if the
// connection is over.
func (l *http2Link) discardBlock(block []byte) bool {
	l.decoder.Begin(block)
	var field hpack.Field
	for {
		_, ok, err := l.decoder.Next(&field, l.w.fieldBytes()[:0])
		if err != nil {
			l.side.fail(http2.BadBlock)
			return false
		}
		if !ok {
			return true
		}
	}
}

// fieldBytes returns the memory for the fields of a block while it is decoded.
func (w *Worker) fieldBytes() []byte {
	if w.fields == nil {
		w.fields = make([]byte, reactor.ScratchSize)
	}
	return w.fields
}

// release gives back the buffers of the connection.
func (l *http2Link) release() {
	for _, b := range [...]**reactor.Buffer{&l.in, &l.out, &l.block} {
		if *b != nil {
			l.w.loop.PutBuffer(*b)
			*b = nil
		}
	}
}
