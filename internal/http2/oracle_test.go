package http2_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	oracle "golang.org/x/net/http2"

	"plimsoll/internal/http2"
)

// shown is a frame as text: everything that its reader has to know.
func shown(t http2.Type, flags http2.Flags, stream uint32, length int, payload []byte) string {
	return fmt.Sprintf("%#x flags %#x stream %d length %d %q", t, flags, stream, length, payload)
}

// A reading is what came of reading a connection's bytes.
type reading struct {
	frames []string // Data and unknown frames in one piece
	errors []http2.Error
	used   int // up to the end of the last whole frame
}

// read shows in to a reader as far as each of ends in turn, the last of which is its length. What
// the reader leaves is shown again, at another address.
func read(t *testing.T, in []byte, server bool, maxFrame uint32, ends ...int) (got reading) {
	t.Helper()
	var r http2.Reader
	r.Reset(server, maxFrame)
	at := 0
	var data []byte
	for _, end := range ends {
		for {
			f, n, err := r.Next(slices.Clone(in[at:end]))
			if n > end-at {
				t.Fatalf("%d bytes used of %d", n, end-at)
			}
			at += n
			if n == 0 && !err.Failed() {
				break
			}
			if n == 0 {
				if err.Stream != 0 {
					t.Fatalf("a final error of a stream: %v", err)
				}
				if _, n, again := r.Next(in[at:]); n != 0 || again != err {
					t.Fatalf("after %v comes %v", err, again)
				}
				got.errors = append(got.errors, err)
				return got
			}
			if f.First {
				data = data[:0]
			} else if f.Overhead != 0 {
				t.Fatalf("overhead in a later part")
			}
			data = append(data, f.Payload...)
			if !f.Last {
				continue
			}
			got.used = at
			got.frames = append(got.frames, shown(f.Type, f.Flags, f.Stream, f.Length, data))
			got.errors = append(got.errors, err)
		}
	}
	return got
}

// sameInPieces demands the same reading of in, cut at each of these places, and byte by byte.
func sameInPieces(t *testing.T, whole reading, in []byte, server bool, maxFrame uint32, cuts ...int) {
	t.Helper()
	same := func(ends ...int) {
		t.Helper()
		got := read(t, in, server, maxFrame, ends...)
		// Parts of a frame may come before an error in what follows, so only whole frames count.
		if !slices.Equal(got.frames, whole.frames) || !slices.Equal(got.errors, whole.errors) || got.used != whole.used {
			t.Fatalf("in pieces that end at %v\n%v\nbut whole it is\n%v", ends, got, whole)
		}
	}
	for _, at := range cuts {
		same(at, len(in))
	}
	single := make([]int, len(in))
	for i := range single {
		single[i] = i + 1
	}
	same(single...)
}

// shownByOracle is a frame of x/net's as text.
func shownByOracle(f oracle.Frame) string {
	var payload []byte
	h := f.Header()
	word := binary.BigEndian.AppendUint32
	switch f := f.(type) {
	case *oracle.DataFrame:
		payload = f.Data()
	case *oracle.HeadersFrame:
		payload = f.HeaderBlockFragment()
	case *oracle.ContinuationFrame:
		payload = f.HeaderBlockFragment()
	case *oracle.PriorityFrame:
		depends := f.StreamDep
		if f.Exclusive {
			depends |= 1 << 31
		}
		payload = append(word(nil, depends), f.Weight)
	case *oracle.RSTStreamFrame:
		payload = word(nil, uint32(f.ErrCode))
	case *oracle.SettingsFrame:
		for i := range f.NumSettings() {
			s := f.Setting(i)
			payload = word(binary.BigEndian.AppendUint16(payload, uint16(s.ID)), s.Val)
		}
	case *oracle.PingFrame:
		payload = f.Data[:]
	case *oracle.GoAwayFrame:
		payload = append(word(word(nil, f.LastStreamID), uint32(f.ErrCode)), f.DebugData()...)
	case *oracle.WindowUpdateFrame:
		payload = word(nil, f.Increment)
	case *oracle.PriorityUpdateFrame:
		payload = append(word(nil, f.PrioritizedStreamID), f.Priority...)
	case *oracle.UnknownFrame:
		payload = f.Payload()
	}
	return shown(http2.Type(h.Type), http2.Flags(h.Flags), h.StreamID, int(h.Length), payload)
}

// stricter are the reasons for which we end a connection that x/net's framer lets live: what it
// leaves to its caller.
var stricter = []http2.Reason{http2.NoSettings, http2.EvenStream, http2.Pushed, http2.ClientOnly}

// compare demands that x/net reads the same frames from the bytes that follow the preface.
func compare(t *testing.T, got reading, after []byte, maxFrame uint32) {
	t.Helper()
	framer := oracle.NewFramer(io.Discard, bytes.NewReader(after))
	framer.SetMaxReadFrameSize(maxFrame)
	for i, frame := range got.frames {
		want, err := framer.ReadFrame()
		var ended oracle.ConnectionError
		var stream oracle.StreamError
		switch ours := got.errors[i]; {
		case errors.As(err, &stream):
			if ours.Stream != stream.StreamID || uint32(ours.Code()) != uint32(stream.Code) {
				t.Fatalf("x/net: %v; we: %v in %s", err, ours, frame)
			}
			continue
		case errors.As(err, &ended):
			// It judges settings at once, and ends the connection for a PRIORITY of a wrong size.
			if ended == oracle.ConnectionError(oracle.ErrCodeFlowControl) || ours.Reason == http2.BadFrameSize {
				return
			}
		}
		if err != nil {
			t.Fatalf("x/net: %v; we: %s", err, frame)
		}
		if theirs := masked(shownByOracle(want)); theirs != masked(frame) {
			t.Fatalf("x/net: %s\nwe:    %s", theirs, frame)
		}
	}
	if len(got.errors) == len(got.frames) {
		if f, err := framer.ReadFrame(); err == nil {
			t.Fatalf("x/net has one more: %s", shownByOracle(f))
		}
		return
	}
	last := got.errors[len(got.errors)-1]
	f, err := framer.ReadFrame()
	if err == nil && !slices.Contains(stricter, last.Reason) {
		t.Fatalf("we: %v; x/net: %s", last, shownByOracle(f))
	}
	// Of two things that are wrong with one frame, its stream and its size, x/net names the other.
	var ended oracle.ConnectionError
	errors.As(err, &ended)
	twice := last.Reason == http2.StreamZero || last.Reason == http2.NotStreamZero
	if twice && ended == oracle.ConnectionError(oracle.ErrCodeFrameSize) {
		return
	}
	if ended != 0 && uint32(ended) != uint32(last.Code()) && !slices.Contains(stricter, last.Reason) {
		t.Fatalf("we: %v, code %d; x/net: %v", last, last.Code(), err)
	}
}

// masked hides the reserved bit of a GOAWAY, a WINDOW_UPDATE and a PRIORITY_UPDATE, which we leave
// in the payload and x/net does not.
func masked(frame string) string {
	var kind, flags, stream uint32
	var length int
	var payload []byte
	if _, err := fmt.Sscanf(frame, "%v flags %v stream %d length %d %q", &kind, &flags, &stream, &length, &payload); err != nil {
		return frame
	}
	switch http2.Type(kind) {
	case http2.GoAway, http2.WindowUpdate, http2.PriorityUpdate:
		payload[0] &= 0x7f
	}
	return shown(http2.Type(kind), http2.Flags(flags), stream, length, payload)
}
