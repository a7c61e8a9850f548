package http2_test

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	oracle "golang.org/x/net/http2"

	"plimsoll/internal/http2"
)

func TestFramesAreWrittenAsXNetWritesThem(t *testing.T) {
	var want bytes.Buffer
	w := oracle.NewFramer(&want, nil)
	eight := [8]byte{1, 2, 3, 4, 5, 6, 7, 8}
	for _, err := range []error{
		w.WriteSettings(),
		w.WriteSettings(oracle.Setting{ID: oracle.SettingMaxFrameSize, Val: 1 << 20}, oracle.Setting{ID: 0x99, Val: 1<<32 - 1}),
		w.WriteSettingsAck(),
		w.WriteData(1, false, []byte("data")),
		w.WriteData(1<<31-1, true, nil),
		w.WriteHeaders(oracle.HeadersFrameParam{StreamID: 3, BlockFragment: []byte("block"), EndStream: true, EndHeaders: true}),
		w.WriteRSTStream(3, oracle.ErrCodeCancel),
		w.WriteGoAway(5, oracle.ErrCodeEnhanceYourCalm, []byte("calm")),
		w.WriteWindowUpdate(0, 1<<31-1),
		w.WritePing(false, eight),
		w.WritePing(true, eight),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var got []byte
	got = http2.AppendSettings(got)
	got = http2.AppendSettings(got, http2.Setting{ID: http2.MaxFrameSize, Value: 1 << 20}, http2.Setting{ID: 0x99, Value: 1<<32 - 1})
	got = http2.AppendSettingsAck(got)
	got = append(http2.AppendDataHeader(got, 1, 4, false), "data"...)
	got = http2.AppendDataHeader(got, 1<<31-1, 0, true)
	got = http2.AppendHeaders(got, 3, []byte("block"), true, minFrame)
	got = http2.AppendRST(got, 3, http2.Cancel)
	got = http2.AppendGoAway(got, 5, http2.EnhanceYourCalm, "calm")
	got = http2.AppendWindowUpdate(got, 0, 1<<31-1)
	got = http2.AppendPing(got, false, eight)
	got = http2.AppendPing(got, true, eight)
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("we write %x\nx/net  %x", got, want.Bytes())
	}
}

func TestLongBlocksBecomeContinuations(t *testing.T) {
	for n := range 60 {
		for maxFrame := uint32(1); maxFrame < 20; maxFrame++ {
			block := []byte(strings.Repeat("0123456789", 6)[:n])
			out := http2.AppendHeaders([]byte("before"), 7, block, true, maxFrame)
			framer := oracle.NewFramer(io.Discard, bytes.NewReader(out[len("before"):]))
			var got []byte
			ended := false
			for !ended {
				f, err := framer.ReadFrame()
				if err != nil {
					t.Fatal(n, maxFrame, err)
				}
				if f.Header().Length > maxFrame || f.Header().StreamID != 7 || f.Header().Length == 0 && n > 0 {
					t.Fatalf("%d bytes in frames of %d: %v", n, maxFrame, f)
				}
				switch f := f.(type) {
				case *oracle.HeadersFrame:
					got, ended = append(got, f.HeaderBlockFragment()...), f.HeadersEnded()
					if !f.StreamEnded() {
						t.Fatal("the stream goes on")
					}
				case *oracle.ContinuationFrame:
					got, ended = append(got, f.HeaderBlockFragment()...), f.HeadersEnded()
				}
			}
			if _, err := framer.ReadFrame(); err != io.EOF || !bytes.Equal(got, block) || !bytes.HasPrefix(out, []byte("before")) {
				t.Fatalf("%d bytes in frames of %d: %q, then %v", n, maxFrame, got, err)
			}
		}
	}
}

func TestWhatFramesSay(t *testing.T) {
	var frames []http2.Frame
	in := http2.AppendSettings(nil)
	in = http2.AppendRST(in, 3, http2.RefusedStream)
	in = http2.AppendGoAway(in, 5, http2.EnhanceYourCalm, "calm")
	in = http2.AppendWindowUpdate(in, 7, 1<<31-1)
	in = append(in, raw(http2.PriorityUpdate, 0, 0, "\x80\x00\x00\x09u=1,i")...)
	var r http2.Reader
	r.Reset(true, minFrame)
	in = slices.Concat([]byte(http2.Preface), in)
	for len(in) > 0 {
		f, n, err := r.Next(in)
		if n == 0 {
			t.Fatal(err)
		}
		frames, in = append(frames, f), in[n:]
	}
	if f := frames[1]; f.Code() != http2.RefusedStream || f.Stream != 3 {
		t.Errorf("%+v", f)
	}
	if f := frames[2]; f.Code() != http2.EnhanceYourCalm || f.LastStream() != 5 || string(f.Debug()) != "calm" {
		t.Errorf("%+v", f)
	}
	if f := frames[3]; f.Increment() != 1<<31-1 {
		t.Errorf("%+v", f)
	}
	if stream, p := frames[4].Prioritised(); stream != 9 || p != (http2.Priority{Urgency: 1, Incremental: true}) {
		t.Errorf("stream %d, %+v", stream, p)
	}
}
