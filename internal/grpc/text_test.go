package grpc_test

import (
	"bytes"
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	"plimsoll/internal/grpc"
)

func TestTextDecoder(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "AAAA": "\x00\x00\x00", "aGVsbG8=": "hello", "aA==": "h", "aA==aGVsbG8=aGk=": "hhellohi",
		"////": "\xff\xff\xff",
		"a":    "!", "aG": "!", "aGV": "!", "aA=": "!", "aA==a": "!", "====": "!", "a===": "!", "aA=A": "!", "=AAA": "!",
		"aB==": "!", "aGl=": "!", "aGVs\r\n": "!", " AAA": "!", "AAA ": "!", "-_-_": "!", "AAA\x00": "!", "A\xffAA": "!",
	} {
		for cut := range len(text) + 1 {
			var d grpc.TextDecoder
			out, err := d.Append(nil, []byte(text[:cut]))
			if err == nil {
				out, err = d.Append(out, []byte(text[cut:]))
			}
			if err == nil {
				err = d.End()
			}
			if bad := want == "!"; (err != nil) != bad || !bad && string(out) != want {
				t.Errorf("%q, cut at %d: got %q %v, want %q", text, cut, out, err, want)
			}
		}
	}
}

func TestATextDecoderStaysFailed(t *testing.T) {
	var d grpc.TextDecoder
	out, err := d.Append(nil, []byte("aGVs!AAA"))
	if string(out) != "hel" || err != grpc.ErrText {
		t.Errorf("got %q %v", out, err)
	}
	if out, err := d.Append(nil, []byte("AAAA")); len(out) != 0 || err != grpc.ErrText {
		t.Errorf("afterwards: %q %v", out, err)
	}
	if err := d.End(); err != grpc.ErrText {
		t.Errorf("at the end: %v", err)
	}
}

// parts decodes a row of padded parts as encoding/base64 does each of them.
func parts(text string) (out []byte, ok bool) {
	if len(text)%4 != 0 || strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	for len(text) > 0 {
		end := len(text)
		if pad := strings.IndexByte(text, '='); pad >= 0 {
			end = pad/4*4 + 4
		}
		part, err := base64.StdEncoding.Strict().DecodeString(text[:end])
		if err != nil {
			return nil, false
		}
		out, text = append(out, part...), text[end:]
	}
	return out, true
}

// FuzzTextDecoder compares random portions with encoding/base64.
func FuzzTextDecoder(f *testing.F) {
	for _, seed := range []string{"aGVsbG8=", "aA==aGVsbG8=aGk=", "aB==", "AAA"} {
		f.Add(seed, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		draws := rand.New(rand.NewPCG(seed, 1))
		var d grpc.TextDecoder
		var out []byte
		var err error
		for rest := text; len(rest) > 0 && err == nil; {
			n := 1 + draws.IntN(min(len(rest), 1+draws.IntN(16)))
			before := len(out)
			if out, err = d.Append(out, []byte(rest[:n])); len(out)-before > (n+3)/4*3 {
				t.Fatalf("%d characters gave %d bytes", n, len(out)-before)
			}
			rest = rest[n:]
		}
		if err == nil {
			err = d.End()
		}
		want, ok := parts(text)
		if (err == nil) != ok || ok && !bytes.Equal(out, want) {
			t.Errorf("%q: got %q %v, want %q %v", text, out, err, want, ok)
		}
	})
}

// FuzzTextEncoder encodes random portions, with random flushes, and decodes them as the oracle
// does.
func FuzzTextEncoder(f *testing.F) {
	f.Add([]byte("hello, world"), uint64(1))
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		draws := rand.New(rand.NewPCG(seed, 1))
		var e grpc.TextEncoder
		var out []byte
		for rest := body; len(rest) > 0; {
			n := 1 + draws.IntN(min(len(rest), 1+draws.IntN(16)))
			before := len(out)
			out = e.Append(out, rest[:n])
			if len(out)-before > (n+2)/3*4 {
				t.Fatalf("%d bytes gave %d characters", n, len(out)-before)
			}
			rest = rest[n:]
			if draws.IntN(4) != 0 {
				continue
			}
			out = e.Flush(out)
			if sofar, ok := parts(string(out)); !ok || !bytes.Equal(sofar, body[:len(body)-len(rest)]) {
				t.Fatalf("flushed, %q of %q is %q", sofar, body, out)
			}
		}
		out = e.Flush(out)
		if back, ok := parts(string(out)); !ok || !bytes.Equal(back, body) {
			t.Errorf("%q is written %q", body, out)
		}
	})
}

func BenchmarkText(b *testing.B) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1024)
	encoded := base64.StdEncoding.AppendEncode(nil, body)
	out := make([]byte, 0, 2*len(body))
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			var d grpc.TextDecoder
			d.Append(out, encoded)
		}
	})
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			var e grpc.TextEncoder
			e.Append(out, body)
		}
	})
}
