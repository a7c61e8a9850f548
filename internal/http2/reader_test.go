package http2_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	oracle "golang.org/x/net/http2"

	"plimsoll/internal/http2"
)

const minFrame = 16384

// raw is a frame of any kind, right or wrong.
func raw(t http2.Type, flags http2.Flags, stream uint32, payload string) string {
	b := make([]byte, http2.HeaderSize)
	http2.PutFrameHeader(b, len(payload), t, flags, stream)
	return string(b) + payload
}

var begun = raw(http2.SettingsFrame, 0, 0, "")

func TestFramesThatTheRFCForbids(t *testing.T) {
	ten := strings.Repeat("x", 10)
	for _, c := range []struct {
		section, what, frames string
		want                  http2.Reason
		stream                uint32
	}{
		{"4.2", "too large", raw(http2.Data, 0, 1, strings.Repeat("x", minFrame+1)), http2.FrameTooLarge, 0},
		{"4.2", "too large, unknown", raw(0xee, 0, 1, strings.Repeat("x", minFrame+1)), http2.FrameTooLarge, 0},
		{"4.2", "as large as may be", raw(http2.Data, 0, 1, strings.Repeat("x", minFrame)), http2.OK, 0},
		{"4.3", "DATA in a field block", raw(http2.Headers, 0, 1, "a") + raw(http2.Data, 0, 1, ""), http2.MissingContinuation, 0},
		{"4.3", "unknown in a field block", raw(http2.Headers, 0, 1, "a") + raw(0xee, 0, 1, ""), http2.MissingContinuation, 0},
		{"4.3", "HEADERS in a field block", raw(http2.Headers, 0, 1, "a") + raw(http2.Headers, 4, 3, ""), http2.MissingContinuation, 0},
		{"5.1.1", "an even stream", raw(http2.Headers, http2.EndHeaders, 2, "a"), http2.EvenStream, 0},
		{"5.1.1", "DATA on an even stream", raw(http2.Data, 0, 4, "a"), http2.EvenStream, 0},
		{"5.1.1", "RST_STREAM on an even stream", raw(http2.RSTStream, 0, 4, "aaaa"), http2.EvenStream, 0},
		{"6.1", "stream 0", raw(http2.Data, 0, 0, "a"), http2.StreamZero, 0},
		{"6.1", "padding as long as the payload", raw(http2.Data, http2.Padded, 1, "\x01"), http2.BadPadding, 0},
		{"6.1", "padding that just fits", raw(http2.Data, http2.Padded, 1, "\x01p"), http2.OK, 0},
		{"6.1", "no length of padding", raw(http2.Data, http2.Padded, 1, ""), http2.BadFrameSize, 0},
		{"6.2", "stream 0", raw(http2.Headers, http2.EndHeaders, 0, "a"), http2.StreamZero, 0},
		{"6.2", "too much padding", raw(http2.Headers, http2.EndHeaders|http2.Padded, 1, "\x02a"), http2.BadPadding, 0},
		{"6.2", "no room for a priority", raw(http2.Headers, http2.EndHeaders|http2.HasPriority, 1, "aaaa"), http2.BadFrameSize, 0},
		{"6.2", "too much padding after a priority", raw(http2.Headers, 0x2c, 1, "\x01aaaaa"), http2.BadPadding, 0},
		{"6.2", "depends on itself", raw(http2.Headers, http2.EndHeaders|http2.HasPriority, 1,
			"\x80\x00\x00\x01a"), http2.SelfDependency, 1},
		{"6.3", "stream 0", raw(http2.PriorityFrame, 0, 0, "aaaaa"), http2.StreamZero, 0},
		{"6.3", "wrong size", raw(http2.PriorityFrame, 0, 3, "aaaa"), http2.BadFrameSize, 3},
		{"6.3", "depends on itself", raw(http2.PriorityFrame, 0, 3, "\x00\x00\x00\x03a"), http2.SelfDependency, 3},
		{"6.3", "an idle stream of any number", raw(http2.PriorityFrame, 0, 8, "\x00\x00\x00\x03a"), http2.OK, 0},
		{"6.4", "stream 0", raw(http2.RSTStream, 0, 0, "aaaa"), http2.StreamZero, 0},
		{"6.4", "wrong size", raw(http2.RSTStream, 0, 1, "aaa"), http2.BadFrameSize, 0},
		{"6.5", "acknowledgement with a payload", raw(http2.SettingsFrame, http2.Ack, 0, "aaaaaa"), http2.BadFrameSize, 0},
		{"6.5", "stream", raw(http2.SettingsFrame, 0, 1, ""), http2.NotStreamZero, 0},
		{"6.5", "not a multiple of six", raw(http2.SettingsFrame, 0, 0, "aaaaa"), http2.BadFrameSize, 0},
		{"6.6", "push", raw(http2.PushPromise, http2.EndHeaders, 1, "\x00\x00\x00\x02a"), http2.Pushed, 0},
		{"6.7", "stream", raw(http2.Ping, 0, 1, "aaaaaaaa"), http2.NotStreamZero, 0},
		{"6.7", "wrong size", raw(http2.Ping, 0, 0, "aaaaaaa"), http2.BadFrameSize, 0},
		{"6.7", "too long", raw(http2.Ping, 0, 0, "aaaaaaaaa"), http2.BadFrameSize, 0},
		{"6.8", "stream", raw(http2.GoAway, 0, 1, "aaaaaaaa"), http2.NotStreamZero, 0},
		{"6.8", "too short", raw(http2.GoAway, 0, 0, "aaaaaaa"), http2.BadFrameSize, 0},
		{"6.9", "wrong size", raw(http2.WindowUpdate, 0, 0, "aaa"), http2.BadFrameSize, 0},
		{"6.9", "by 0, of the connection", raw(http2.WindowUpdate, 0, 0, "\x80\x00\x00\x00"), http2.ZeroIncrement, 0},
		{"6.9", "by 0, of a stream", raw(http2.WindowUpdate, 0, 1, "\x00\x00\x00\x00"), http2.ZeroIncrement, 1},
		{"6.10", "nothing to continue", raw(http2.Continuation, 0, 1, "a"), http2.UnexpectedContinuation, 0},
		{"6.10", "nothing any more", raw(http2.Headers, http2.EndHeaders, 1, "a") +
			raw(http2.Continuation, 0, 1, "a"), http2.UnexpectedContinuation, 0},
		{"6.10", "another stream", raw(http2.Headers, 0, 1, "a") + raw(http2.Continuation, 0, 3, "a"), http2.MissingContinuation, 0},
		{"6.10", "stream 0", raw(http2.Continuation, 0, 0, "a"), http2.UnexpectedContinuation, 0},
		{"9218, 7.1", "stream", raw(http2.PriorityUpdate, 0, 1, "\x00\x00\x00\x01u=1"), http2.NotStreamZero, 0},
		{"9218, 7.1", "of no stream", raw(http2.PriorityUpdate, 0, 0, "\x80\x00\x00\x00u=1"), http2.StreamZero, 0},
		{"9218, 7.1", "too short", raw(http2.PriorityUpdate, 0, 0, "aaa"), http2.BadFrameSize, 0},
		{"5.5", "unknown types and flags", raw(0xee, 0xff, 7, ten) + raw(0x0a, 0, 0, "") +
			raw(http2.Ping, 0xfe, 0, "aaaaaaaa"), http2.OK, 0},
	} {
		in := []byte(http2.Preface + begun + c.frames)
		got := read(t, in, true, minFrame, len(in))
		last := got.errors[len(got.errors)-1]
		if last != (http2.Error{Reason: c.want, Stream: c.stream}) {
			t.Errorf("%s, %s: %v of stream %d", c.section, c.what, last, last.Stream)
		}
		if len(in) < 200 {
			sameInPieces(t, got, in, true, minFrame)
		}
		compare(t, got, in[len(http2.Preface):], minFrame)
	}
}

func TestAConnectionBeginsAsItMust(t *testing.T) {
	ack := raw(http2.SettingsFrame, http2.Ack, 0, "")
	for _, c := range []struct {
		in     string
		server bool
		want   http2.Reason
	}{
		{http2.Preface + begun, true, http2.OK},
		{begun, false, http2.OK},
		{"GET / HTTP/1.1\r\n", true, http2.BadPreface},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r ", true, http2.BadPreface},
		{"X", true, http2.BadPreface},
		{begun, true, http2.BadPreface},
		{http2.Preface + ack, true, http2.NoSettings},
		{http2.Preface + raw(http2.Ping, 0, 0, "aaaaaaaa"), true, http2.NoSettings},
		{http2.Preface + raw(0xee, 0, 0, "aaaaaaaa"), true, http2.NoSettings},
		{raw(http2.GoAway, 0, 0, "aaaaaaaa"), false, http2.NoSettings},
		{"HTTP/1.1 400 Bad Request\r\n", false, http2.FrameTooLarge},
		{begun + raw(http2.PriorityUpdate, 0, 0, "\x00\x00\x00\x01u=1"), false, http2.ClientOnly},
		{begun + raw(http2.PushPromise, 0, 1, "\x00\x00\x00\x02"), false, http2.Pushed},
	} {
		in := []byte(c.in)
		got := read(t, in, c.server, minFrame, len(in))
		if last := got.errors[len(got.errors)-1]; last.Reason != c.want {
			t.Errorf("%q: %v", c.in, last)
		}
		sameInPieces(t, got, in, c.server, minFrame)
	}
}

func TestPartsOfData(t *testing.T) {
	var r http2.Reader
	r.Reset(false, minFrame)
	in := []byte(begun + raw(http2.Data, http2.Padded|http2.EndStream, 1, "\x03abcdefppp") + raw(http2.Data, 0, 1, ""))
	_, n, _ := r.Next(in)
	in = in[n:]
	if _, n, _ := r.Next(in[:10]); n != 0 {
		t.Errorf("a part without data uses %d bytes", n)
	}
	for _, want := range []struct {
		shown, used, overhead int
		data                  string
		first, last           bool
	}{
		{12, 12, 4, "ab", true, false}, {3, 3, 0, "cde", false, false}, {3, 3, 0, "f", false,
			false}, {0, 0, 0, "", false, false}, {4, 1, 0, "", false, true},
		{9, 9, 0, "", true, true},
	} {
		f, n, err := r.Next(in[:want.shown])
		if err.Failed() || n != want.used {
			t.Fatalf("%+v: %d bytes used, %v", want, n, err)
		}
		if in = in[n:]; n == 0 {
			continue
		}
		if string(f.Payload) != want.data || f.Overhead != want.overhead || f.First != want.first || f.Last != want.last {
			t.Errorf("%+v: %+v", want, f)
		}
		if ends := f.Ends(); ends != (f.Last && f.Length == 10) {
			t.Errorf("%+v ends the stream: %v", want, ends)
		}
	}
}

// sequence is frames of all kinds that a client may send, written by x/net.
func sequence(t *testing.T, random *rand.Rand, count int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := oracle.NewFramer(&out, nil)
	text := func(n int) []byte {
		b := make([]byte, random.IntN(n))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(w.WriteSettings(oracle.Setting{ID: 4, Val: 1}))
	for range count {
		stream := random.Uint32()&0xffff | 1
		switch random.IntN(12) {
		case 0, 1:
			check(w.WriteData(stream, random.IntN(2) == 0, text(40)))
		case 2:
			check(w.WriteDataPadded(stream, true, text(40), make([]byte, random.IntN(20))))
		case 3:
			check(w.WriteHeaders(oracle.HeadersFrameParam{
				StreamID: stream, BlockFragment: text(40), EndHeaders: true, PadLength: uint8(random.IntN(9)),
				Priority: oracle.PriorityParam{StreamDep: stream - 1, Weight: 7, Exclusive: random.IntN(2) == 0},
			}))
		case 4:
			check(w.WriteHeaders(oracle.HeadersFrameParam{StreamID: stream, BlockFragment: text(40), EndStream: true}))
			check(w.WriteContinuation(stream, false, text(9)))
			check(w.WriteContinuation(stream, true, text(9)))
		case 5:
			check(w.WritePriority(stream, oracle.PriorityParam{StreamDep: stream + 2, Weight: 1}))
		case 6:
			check(w.WriteRSTStream(stream, oracle.ErrCodeCancel))
		case 7:
			check(w.WriteSettingsAck())
		case 8:
			check(w.WritePing(random.IntN(2) == 0, [8]byte(slices.Repeat([]byte{7}, 8))))
		case 9:
			check(w.WriteGoAway(stream, oracle.ErrCodeNo, text(20)))
		case 10:
			check(w.WriteWindowUpdate(0, 1+random.Uint32N(1<<31-1)))
			check(w.WriteWindowUpdate(stream, 1))
		case 11:
			check(w.WriteRawFrame(oracle.FrameType(0x20+random.IntN(9)), 0xff, random.Uint32()>>1, text(30)))
			check(w.WritePriorityUpdate(stream, "u=0, i"))
		}
	}
	return out.Bytes()
}

func TestReaderAgreesWithXNetHoweverTheBytesAreCut(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		in := sequence(t, random, 12)
		cuts := make([]int, len(in))
		for i := range cuts {
			cuts[i] = i
		}
		got := read(t, in, false, minFrame, len(in))
		sameInPieces(t, got, in, false, minFrame, cuts...)
		compare(t, got, in, minFrame)

		client := append([]byte(http2.Preface), in...)
		got = read(t, client, true, minFrame, len(client))
		if got.used != len(client) {
			t.Fatalf("%d of %d bytes used: %v", got.used, len(client), got.errors)
		}
		var ends []int
		for end := 0; end < len(client); ends = append(ends, end) {
			end = min(len(client), end+1+random.IntN(20))
		}
		again := read(t, client, true, minFrame, ends...)
		if !slices.Equal(got.frames, again.frames) {
			t.Fatalf("in pieces %v\nwhole %v", again.frames, got.frames)
		}
		compare(t, got, in, minFrame)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(http2.Preface+begun+raw(http2.Headers, 0x2d, 1, "\x02aaaaablockpp")), 3, true)
	f.Add([]byte(begun+raw(http2.Data, 9, 1, "\x02datapp")+raw(http2.Ping, 1, 0, "12345678")), 11, false)
	f.Add([]byte(begun+raw(http2.Headers, 0, 1, "a")+raw(http2.Continuation, 4, 1, "b")), 20, false)
	f.Add([]byte(begun+raw(http2.GoAway, 0, 0, "\x80aaaaaaab")+raw(http2.WindowUpdate, 0, 0, "\x00\x00\x00\x00")), 30, false)
	f.Add([]byte(begun+raw(http2.RSTStream, 0, 0, "aaa")), 3, true)
	f.Add([]byte(begun+raw(http2.PriorityFrame, 0, 1, "aaa")+raw(http2.SettingsFrame, 0, 0, "\x00\x04\xff\xff\xff\xff")), 30, false)
	f.Add([]byte(http2.Preface+begun+raw(http2.PriorityUpdate, 0, 0, "\x00\x00\x00\x01u=1")+raw(0x77, 0, 1, "abc")), 30, true)
	f.Fuzz(func(t *testing.T, in []byte, cut int, server bool) {
		const maxFrame = 64 // more of what matters in few bytes
		if len(in) > 500 {
			return
		}
		got := read(t, in, server, maxFrame, len(in))
		sameInPieces(t, got, in, server, maxFrame, int(uint(cut)%uint(len(in)+1)))
		after := in
		if server {
			if len(in) < len(http2.Preface) || len(got.errors) > 0 && got.errors[0].Reason == http2.BadPreface {
				return
			}
			after = in[len(http2.Preface):]
		}
		compare(t, got, after, maxFrame)
	})
}

func TestAReaderIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(http2.Reader{}); n > 100 {
		t.Errorf("%d bytes", n)
	}
}
