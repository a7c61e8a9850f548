//go:build !race

package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	"plimsoll/internal/http2"
	"plimsoll/internal/reactor"
)

// uploader is a client of HTTP/2 in a bed: it sends as much as its windows allow, and never more.
type uploader struct {
	*sock
	b       *bed
	t       *testing.T
	read    int // bytes of out that were read
	window  int
	streams map[uint32]int // windows; those that were reset are left out
	resets  map[uint32]http2.Code
	pings   [][8]byte
	sent    int
}

const piece = 16 << 10

// uploads connects an uploader, with streams 1, 3 and so on whose bodies follow.
func (b *bed) uploads(t *testing.T, streams int) *uploader {
	t.Helper()
	text := greeting
	u := &uploader{
		b: b, t: t, window: http2.ConnectionWindow, streams: map[uint32]int{},
		resets: map[uint32]http2.Code{},
	}
	for i := range streams {
		id := uint32(2*i + 1)
		u.streams[id] = -1
		text += string(http2.AppendHeaders(nil, id, askBlock("POST"), false, 1<<14))
	}
	u.sock = b.client(saying(silence, text))
	u.turns()
	return u
}

// turns has the loop come to rest, and takes what the gateway sent.
func (u *uploader) turns() {
	u.t.Helper()
	for range 4 {
		u.b.tell(u.sock)
		u.b.turn()
	}
	var r http2.Reader
	r.Reset(false, 1<<14)
	for in := u.out[u.read:]; len(in) > 0; {
		if u.read > 0 { // a reader requires SETTINGS first
			r.Next([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00"))
		}
		f, n, err := r.Next(in)
		if err.Failed() || n == 0 {
			u.t.Fatalf("no frame: %v, %q", err, in)
		}
		in = in[n:]
		u.read += n
		u.take(&f)
	}
}

func (u *uploader) take(f *http2.Frame) {
	switch {
	case f.Type == http2.SettingsFrame && !f.Has(http2.Ack):
		s := http2.InitialSettings()
		s.Apply(f.Payload, true)
		for id := range u.streams {
			u.streams[id] = int(s.InitialWindowSize)
		}
	case f.Type == http2.WindowUpdate && f.Stream == 0:
		u.window += int(f.Increment())
	case f.Type == http2.WindowUpdate:
		if _, open := u.streams[f.Stream]; open {
			u.streams[f.Stream] += int(f.Increment())
		}
	case f.Type == http2.Ping && !f.Has(http2.Ack):
		u.pings = append(u.pings, [8]byte(f.Payload))
	case f.Type == http2.RSTStream:
		u.resets[f.Stream] = f.Code()
		delete(u.streams, f.Stream)
	case f.Type == http2.GoAway:
		u.t.Fatalf("GOAWAY with %v: %s", f.Code(), f.Debug())
	}
}

// says sends frames.
func (u *uploader) says(text string) {
	u.t.Helper()
	u.in = saying(silence, text)
	u.turns()
}

// data sends n bytes on a stream, or as many as its windows allow, and returns how many.
func (u *uploader) data(id uint32, n int) int {
	u.t.Helper()
	all := 0
	for n > 0 {
		m := min(n, piece, u.window, u.streams[id])
		if m <= 0 {
			break
		}
		u.window -= m
		u.streams[id] -= m
		u.says(string(http2.AppendDataHeader(nil, id, m, false)) + string(make([]byte, m)))
		n, all = n-m, all+m
	}
	u.sent += all
	return all
}

// pong acknowledges the PINGs, a while after.
func (u *uploader) pong(after int64) {
	u.t.Helper()
	u.b.now += after
	list := u.pings
	u.pings = nil
	var out []byte
	for _, mark := range list {
		out = http2.AppendPing(out, true, mark)
	}
	if len(out) > 0 { // nothing would be the connection's end
		u.says(string(out))
	}
}

// flows is a bed whose target takes what it is sent, until target.stuck is set. Streams get their
// own connections to it.
func flows(t *testing.T) *bed { return framed(newBed(t, nil)) }

// A stream whose content goes on gets a larger window when much of it is under way in a round trip;
// one beside it that does not flow keeps what it has.
func TestAStreamThatFlowsGetsWhatThePathNeeds(t *testing.T) {
	b := flows(t)
	u := b.uploads(t, 2)
	largest := 0
	for range 40 {
		for range 8 { // a round trip, in which the window is used up
			u.data(1, 1<<20)
		}
		u.pong(50e6)
		largest = max(largest, u.streams[1])
		if u.streams[1] > 1<<20 || u.window > 4<<20 {
			t.Fatalf("the windows are %d and %d", u.streams[1], u.window)
		}
	}
	if largest < 1<<19 {
		t.Errorf("the largest window is %d", largest)
	}
	if u.streams[3] != 64<<10 {
		t.Errorf("the window of the stream that does not flow is %d", u.streams[3])
	}
	u.b.now += 11e9 // it is idle
	for range 200 {
		u.data(1, 64<<10)
	}
	if u.streams[1] > 64<<10 || u.window > 256<<10 {
		t.Errorf("after a pause the windows are %d and %d", u.streams[1], u.window)
	}
}

// Content that nobody takes is not a reason for a larger window, and none to ask for the path.
func TestAStreamThatNobodyReadsGetsNoLargerWindow(t *testing.T) {
	b := framed(newBed(t, nil))
	u := b.uploads(t, 60)
	for _, s := range b.dialed {
		s.stuck = true
	}
	for id := range u.streams {
		u.data(id, 1<<20)
	}
	for len(u.pings) > 0 { // the reactor has queued some for each target, which went on
		u.pong(50e6)
	}
	for _, s := range b.dialed {
		b.drains(s)
	}
	for range 10 {
		u.turns()
	}
	if n := len(u.pings); n > 0 {
		t.Errorf("%d PINGs for what waited", n)
	}
	for id, left := range u.streams {
		if left < 32<<10 || left > 64<<10 {
			t.Fatalf("stream %d has a window of %d", id, left)
		}
	}
}

// HAZARDS: what one waits for holds up another. Uploads that nobody reads leave the connection's
// window to those that flow.
func TestHazardUploadsThatNobodyReadsHoldUpTheOthers(t *testing.T) {
	b := flows(t)
	u := b.uploads(t, 40)
	flowing := uint32(79)
	for i, s := range b.dialed {
		s.stuck = i != len(b.dialed)-1
	}
	if len(b.dialed) != 40 {
		t.Fatalf("%d connections to the target", len(b.dialed))
	}
	for id := uint32(1); id < flowing; id += 2 {
		u.data(id, 1<<20)
	}
	if u.streams[1] != 0 {
		t.Fatalf("a stream that nobody reads has a window of %d", u.streams[1])
	}
	if u.sent < 39*64<<10 || u.window < 128<<10 {
		t.Fatalf("after %d bytes that nobody reads the connection's window is %d", u.sent, u.window)
	}
	before := u.sent
	for range 100 {
		u.data(flowing, 1<<20)
		u.pong(1e6)
	}
	if n := u.sent - before; n < 10<<20 {
		t.Errorf("only %d bytes of the upload that flows", n)
	}
}

// heldBy is how many bytes buffers have.
func heldBy(out [len(reactor.Sizes)]int) (n int) {
	for class, k := range out {
		n += k * reactor.Sizes[class]
	}
	return n
}

// A loop that holds too much resets the streams of those that hold most, with a code and a counter,
// and nobody's who is within his share.
func TestALoopThatHoldsTooMuchResetsTheStreamsThatHoldMost(t *testing.T) {
	b := flows(t)
	small := b.uploads(t, 1)
	small.data(1, 256<<10)
	for _, s := range b.dialed {
		s.stuck = true
	}
	for range 16 {
		small.data(1, 64<<10)
	}
	var all []*uploader
	shed := b.acceptor.Worker.Shard()
	most := 0
	for i := range 40 {
		from := len(b.dialed)
		u := b.uploads(t, 64)
		for _, s := range b.dialed[from:] {
			s.stuck = true
		}
		all = append(all, u)
		for id := uint32(1); id < 128; id += 2 {
			u.data(id, 1<<20)
			most = max(most, heldBy(b.loop.BuffersOut()))
		}
		if shed.HTTP2Shed > 0 && i > 30 {
			break
		}
	}
	if shed.HTTP2Shed == 0 {
		t.Fatalf("no stream was reset, with %d MB of buffers", most>>20)
	}
	reset := uint64(0)
	for _, u := range all {
		u.turns()
		for id, code := range u.resets {
			reset++
			if code != http2.EnhanceYourCalm {
				t.Fatalf("stream %d was reset with %v", id, code)
			}
		}
	}
	small.turns()
	if held := heldBy(b.loop.BuffersOut()); held < 40<<20 {
		t.Errorf("only %d MB are left", held>>20)
	}
	if len(small.resets) > 0 || reset != shed.HTTP2Shed {
		t.Errorf("%d streams were reset, of them %d within their share; %d are counted", reset,
			len(small.resets), shed.HTTP2Shed)
	}
}

// Whatever streams flow or stop, a client gets no more than the bounds allow, what it sends within
// its windows is not a fault, and when all are taken it has its windows back.
func TestWindowsUnderRandomStreams(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 11))
			b := flows(t)
			u := b.uploads(t, 1+random.IntN(30))
			ids := uint32(2*len(u.streams) - 1)
			for range 300 {
				switch random.IntN(6) {
				case 0:
					b.dialed[random.IntN(len(b.dialed))].stuck = true
				case 1:
					if s := b.dialed[random.IntN(len(b.dialed))]; s.stuck {
						b.drains(s)
						u.turns()
					}
				case 2:
					u.pong(random.Int64N(1e8))
				case 3:
					if random.IntN(30) == 0 {
						id := uint32(random.Uint32N(ids/2+1)*2 + 1)
						if _, open := u.streams[id]; open {
							delete(u.streams, id)
							u.says(string(http2.AppendRST(nil, id, http2.Cancel)))
						}
					}
				default:
					id := uint32(random.Uint32N(ids/2+1)*2 + 1)
					if _, open := u.streams[id]; open {
						u.data(id, 1+random.IntN(1<<random.IntN(21)))
					}
				}
				if u.window < 0 || u.window > 4<<20 {
					t.Fatalf("the connection's window is %d", u.window)
				}
				for id, left := range u.streams {
					if left > 1<<20 {
						t.Fatalf("the window of stream %d is %d", id, left)
					}
				}
			}
			for range 3 {
				for _, s := range b.dialed {
					b.drains(s)
				}
				u.turns()
			}
			if u.window < 100<<10 {
				t.Errorf("nothing is held, and the connection's window is %d", u.window)
			}
			for id, left := range u.streams {
				if left < 32<<10 {
					t.Errorf("nothing is held, and the window of stream %d is %d", id, left)
				}
			}
			if len(u.resets) > 0 {
				t.Errorf("streams were reset: %v", u.resets)
			}
			u.in = func([]byte) (int, syscall.Errno) { return 0, 0 }
			b.tell(u.sock)
			b.turn()
			held := b.loop.BuffersOut()
			if held[len(held)-1] > 0 {
				t.Errorf("the client has gone, and buffers are out: %v", held)
			}
		})
	}
}
