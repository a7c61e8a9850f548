package http2

// Budget counts a client's actions on one connection that cost the gateway work without serving a
// request. It uses leaky buckets: each action fills the bucket of its kind, time empties it, and
// useful actions, which justify it, take something out as well. A bucket that overflows gives the
// reason for a GOAWAY with ENHANCE_YOUR_CALM. The zero value is ready. A Budget is 40 bytes,
// whatever the client does.
//
// The bounds are for clients: browsers, curl, load generators and gRPC libraries stay far below
// them, for the reasons given with each. An upstream is trusted more, and may legitimately send
// what is bounded here, such as a language model's answer in pieces of three bytes: see
// TargetFrame.
type Budget struct {
	second int64  // the second up to which the buckets have been emptied
	block  uint32 // bytes of the field block under way
	levels [kinds]uint16
	frames uint8 // Continuation frames of the field block under way
}

// Kind is a kind of action that a Budget counts.
type Kind uint8

// The kinds. Budget.Frame counts all but FaultKind. For an unsolicited acknowledgement, the caller
// spends a SettingsKind or PingKind.
const (
	// ResetKind is RST_STREAM (CVE-2023-44487). A gRPC client that reaches the deadline of some
	// hundred calls resets them all at once, and one that hedges resets every second call for
	// hours. So the budget is 1000 at once, 33 a second, and one for every stream that ends
	// normally. Load generators with 100 streams reset none. nghttp2 uses the same numbers and is
	// widely used. The caller spends one more for each stream that it refuses because too many are
	// open.
	ResetKind Kind = iota
	// FaultKind is a client's error that made us reset a stream (CVE-2025-8671), or refuse a
	// request that is malformed or whose head exceeds a limit. A correct client makes none. A
	// client with a bug makes the same error in each of its requests, and should learn of it from
	// answers. So the budget is 100 at once and 5 a second.
	FaultKind
	// SettingsKind is SETTINGS. Clients send one to three. grpc-go sends one each time that it
	// doubles its window, some ten in all. So the budget is 100 at once and 1 a second.
	SettingsKind
	// PingKind is PING. Clients that keep a connection alive send one in 10 s or more. grpc-go
	// measures the path with one in each round trip while data arrives, and Go's client sends one
	// with a reset, to see whether the server still responds. So the budget is 200 at once, 10 a
	// second, one for every frame sent to the client, and one for every RST_STREAM.
	PingKind
	// PriorityKind is PRIORITY and PRIORITY_UPDATE. Old browsers build a tree of five streams and
	// move each request in it a few times; new ones correct a priority once or twice. So the budget
	// is 500 at once, 50 a second, and four for every request.
	PriorityKind
	// WindowKind is WINDOW_UPDATE. Usual clients announce half a window at a time. Simple ones
	// announce every frame, for the stream and for the connection: two for each frame sent to them.
	// Firefox adds one to each request. So the budget is 1000 at once, 100 a second, one for every
	// request, and two for every frame sent to the client.
	WindowKind
	// EmptyKind is Data, Headers and Continuation that carry nothing and end nothing
	// (CVE-2019-9518). Some clients send one before the end of a body, and never two in a row. So
	// the budget is 100 at once, 10 a second, and one for every stream that ends normally.
	EmptyKind
	// SmallKind is Data of 1 to 4 bytes that ends nothing, at nine bytes of header each. No message
	// of gRPC or WebSocket is that small; keystrokes of a terminal are, at the speed of typing. So
	// the budget is 1000 at once, 100 a second, and one for every larger frame of data.
	SmallKind
	// GoAwayKind is GOAWAY. A client that leaves sends one or two. So the budget is 10 in total.
	GoAwayKind
	// UnknownKind is frames of unknown types. Chrome can be configured to send one before each
	// frame of data, so that servers do not forget to ignore them. So the budget is 200 at once, 20
	// a second, one for every frame of data, and one for every stream that ends normally.
	UnknownKind

	// TargetEmptyKind, TargetWindowKind and TargetResetKind are frames of a target that carry no
	// content: empty Data, WINDOW_UPDATE and RST_STREAM. A service may announce each piece that it
	// reads, and refuse every request. So the bounds are far above what such a service sends, and
	// every frame that is sent to it, or that it sends with content, gives something back.
	TargetEmptyKind
	TargetWindowKind
	TargetResetKind

	kinds
)

// bounds has each kind's numbers: how many are allowed at once, how many leave the bucket per
// second, and the reason when it overflows.
var bounds = [kinds]struct {
	burst, rate uint16
	reason      Reason
}{
	ResetKind:    {1000, 33, TooManyResets},
	FaultKind:    {100, 5, TooManyFaults},
	SettingsKind: {100, 1, TooManySettings},
	PingKind:     {200, 10, TooManyPings},
	PriorityKind: {500, 50, TooManyPriorities},
	WindowKind:   {1000, 100, TooManyWindowUpdates},
	EmptyKind:    {100, 10, TooManyEmptyFrames},
	SmallKind:    {1000, 100, TooManySmallFrames},
	GoAwayKind:   {10, 0, TooManyGoAways},
	UnknownKind:  {200, 20, TooManyUnknownFrames},

	TargetEmptyKind:  {10_000, 1000, TooManyEmptyFrames},
	TargetWindowKind: {60_000, 5000, TooManyWindowUpdates},
	TargetResetKind:  {10_000, 1000, TooManyResets},
}

const (
	// maxContinuations bounds the Continuation frames of one field block (CVE-2024-27316). Clients
	// fill frames of 16 KB or more, so the largest head that a listener accepts needs only a few.
	maxContinuations = 16
	// small is the length of data below which a frame is small.
	small = 5
	// settingsUnit is how many bytes of SETTINGS count as one more frame: 16 parameters, twice as
	// many as exist.
	settingsUnit = 16 * settingSize
	second       = 1_000_000_000
)

// Spend counts one action. now is in nanoseconds of a monotonic clock. A result other than OK ends
// the connection.
func (b *Budget) Spend(k Kind, now int64) Reason { return b.spend(k, 1, now) }

func (b *Budget) spend(k Kind, n int, now int64) Reason {
	if at := now / second; at != b.second {
		b.leak(at)
	}
	level := int(b.levels[k]) + n
	if level > int(bounds[k].burst) {
		return bounds[k].reason
	}
	b.levels[k] = uint16(level)
	return OK
}

// leak empties all buckets according to the time passed. It counts whole seconds of the clock. A
// burst that crosses the boundary of a second gains one second's leak, which is a small part of the
// burst.
func (b *Budget) leak(at int64) {
	passed := min(at-b.second, 1<<16)
	b.second = at
	for k := range b.levels {
		b.levels[k] -= uint16(min(int64(b.levels[k]), passed*int64(bounds[k].rate)))
	}
}

func (b *Budget) give(k Kind, n uint16) { b.levels[k] -= min(b.levels[k], n) }

// Completed records that a stream ended normally: its request and its response were complete.
func (b *Budget) Completed() {
	b.give(ResetKind, 1)
	b.give(EmptyKind, 1)
	b.give(UnknownKind, 1)
}

// Sent records that Headers, or Data that is not empty, was sent to the peer.
func (b *Budget) Sent() {
	b.give(PingKind, 1)
	b.give(WindowKind, 2)
	b.give(TargetWindowKind, 64)
	b.give(TargetResetKind, 1)
}

// TargetFrame is Frame for frames from a target.
func (b *Budget) TargetFrame(f *Frame, maxBlock int, now int64) Reason {
	switch {
	case !f.First:
		return OK
	case f.Type == Data:
		if f.Length == f.Overhead && !f.Has(EndStream) {
			return b.Spend(TargetEmptyKind, now)
		}
		b.give(TargetEmptyKind, 1)
		return OK
	case f.Type == WindowUpdate:
		return b.Spend(TargetWindowKind, now)
	case f.Type == RSTStream:
		return b.Spend(TargetResetKind, now)
	case f.Type == Headers:
		b.give(TargetEmptyKind, 4)
	}
	return b.Frame(f, maxBlock, now)
}

// Frame counts a received frame of any type. If a frame comes in parts, only the first part counts.
// maxBlock is the most bytes of one encoded field block. now and the result are as in Spend.
func (b *Budget) Frame(f *Frame, maxBlock int, now int64) Reason {
	if !f.First {
		return OK
	}
	switch f.Type {
	case Data:
		return b.data(f, now)
	case Headers:
		b.block, b.frames = 0, 0
		b.give(PriorityKind, 4)
		b.give(WindowKind, 1)
		return b.fragment(f, maxBlock, now)
	case Continuation:
		if b.frames++; b.frames > maxContinuations {
			return TooManyContinuations
		}
		return b.fragment(f, maxBlock, now)
	case RSTStream:
		b.give(PingKind, 1)
		return b.Spend(ResetKind, now)
	case SettingsFrame:
		if f.Has(Ack) {
			return OK
		}
		return b.spend(SettingsKind, 1+f.Length/settingsUnit, now)
	case Ping:
		if f.Has(Ack) {
			return OK
		}
		return b.Spend(PingKind, now)
	case PriorityFrame, PriorityUpdate:
		return b.Spend(PriorityKind, now)
	case WindowUpdate:
		return b.Spend(WindowKind, now)
	case GoAway:
		return b.Spend(GoAwayKind, now)
	}
	return b.Spend(UnknownKind, now)
}

func (b *Budget) data(f *Frame, now int64) Reason {
	switch n := f.Length - f.Overhead; {
	case f.Has(EndStream):
		return OK
	case n == 0:
		return b.Spend(EmptyKind, now)
	case n < small:
		b.give(UnknownKind, 1)
		return b.Spend(SmallKind, now)
	}
	b.give(UnknownKind, 1)
	b.give(SmallKind, 1)
	return OK
}

func (b *Budget) fragment(f *Frame, maxBlock int, now int64) Reason {
	b.block += uint32(len(f.Payload))
	switch {
	case int(b.block) > maxBlock:
		return BlockTooLarge
	case len(f.Payload) == 0 && !f.Has(EndHeaders):
		return b.Spend(EmptyKind, now)
	}
	return OK
}
