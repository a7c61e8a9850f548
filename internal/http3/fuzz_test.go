package http3_test

import (
	"strings"
	"testing"

	"plimsoll/internal/http3"
)

// However a stream is cut into pieces, it means the same.
func FuzzReader(f *testing.F) {
	f.Add([]byte(frame(http3.Headers, "HEAD")+frame(http3.Data, "data")+frame(http3.Headers, "TAIL")), uint8(3))
	f.Add([]byte(frame(0x21, "grease")+frame(http3.Headers, "")+"\x00\x80"), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8) {
		var whole, cut http3.Reader
		whole.Reset(1000)
		cut.Reset(1000)
		a, why := parts(&whole, string(stream), len(stream)+1)
		b, why2 := parts(&cut, string(stream), int(piece)+1)
		if strings.Join(a, "|") != strings.Join(b, "|") || why != why2 {
			t.Errorf("whole it is %q, %v; in pieces %q, %v", a, why, b, why2)
		}
	})
}

// The same holds for unidirectional streams, and what is taken of them is bounded.
func FuzzUni(f *testing.F) {
	f.Add([]byte("\x00"+frame(http3.Settings, "\x06\x01")+frame(http3.GoAway, "\x04")), uint8(2), true)
	f.Add([]byte("\x03\x7f\x80\x01"), uint8(1), false)
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8, server bool) {
		a, why := uni(server, string(stream), len(stream)+1)
		b, why2 := uni(server, string(stream), int(piece)+1)
		if a != b || why != why2 {
			t.Errorf("whole it is %q, %v; in pieces %q, %v", a, why, b, why2)
		}
	})
}

// Field sections are decoded as quic-go's decoder does it, within the limits.
func FuzzFields(f *testing.F) {
	var e http3.Encoder
	e.Begin()
	e.Field([]byte(":path"), []byte("/x"))
	e.Field([]byte("accept"), []byte("*/*"))
	f.Add(e.AppendSection(nil)[2:])
	f.Fuzz(func(t *testing.T, section []byte) {
		fields, why := http3.DecodeFields(section, 5000, 50)
		size := 0
		for i, field := range fields {
			if i < len(fields)-1 {
				size += len(field.Name) + len(field.Value) + 32
			}
		}
		if size > 5000 || len(fields) > 51 {
			t.Errorf("%d fields with %d bytes before the last", len(fields), size)
		}
		if why == http3.OK && len(fields) <= 50 && size < 4000 {
			want := decoded(section)
			for i, field := range fields {
				if got := string(field.Name) + ": " + string(field.Value); got != want[i] {
					t.Errorf("field %d is %q, want %q", i, got, want[i])
				}
			}
		}
	})
}
