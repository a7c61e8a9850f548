package grpc_test

import (
	"net/url"
	"strings"
	"testing"

	"plimsoll/internal/grpc"
)

func TestMessages(t *testing.T) {
	for text, value := range map[string]string{
		"": "", "plain text ~!": "plain text ~!", "100 %": "100 %25", "%41": "%2541",
		"\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n": "%09%0Atest with whitespace%0D%0Aand Unicode BMP %E2%98%BA and non-BMP %F0%9F%98%88%09%0A",
		"\x00\x7f\xff": "%00%7F%FF",
	} {
		if got := grpc.AppendMessage([]byte("x"), []byte(text)); string(got) != "x"+value {
			t.Errorf("%q is written %q, want %q behind x", text, got, value)
		}
		if got := grpc.AppendDecodedMessage(nil, []byte(value)); string(got) != text {
			t.Errorf("%q is read as %q, want %q", value, got, text)
		}
	}
}

func TestMessagesThatAreNotEncoded(t *testing.T) {
	for value, want := range map[string]string{
		"%": "%", "%4": "%4", "%g1": "%g1", "%1g": "%1g", "%%41": "%A", "100%": "100%", "%4%41": "%4A",
		"%e2%98%ba": "☺", "☺": "☺",
	} {
		if got := grpc.AppendDecodedMessage(nil, []byte(value)); string(got) != want {
			t.Errorf("%q is read as %q, want %q", value, got, want)
		}
	}
}

// FuzzMessages compares with net/url, whose encoding is the same for a path where it encodes, and
// which encodes more.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{"", "a % b", "\x00\xff☺", "%41%zz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value := string(grpc.AppendMessage(nil, []byte(text)))
		for i, c := range []byte(value) {
			if c < ' ' || c > '~' {
				t.Fatalf("%q is written %q: byte %d may not stand in a field", text, value, i)
			}
		}
		if back := grpc.AppendDecodedMessage(nil, []byte(value)); string(back) != text {
			t.Fatalf("%q is written %q and read as %q", text, value, back)
		}
		if back, err := url.PathUnescape(value); err != nil || back != text {
			t.Fatalf("%q is written %q, which net/url reads as %q (%v)", text, value, back, err)
		}
		got := string(grpc.AppendDecodedMessage(nil, []byte(text)))
		if want, err := url.PathUnescape(text); err == nil && got != want {
			t.Fatalf("%q is read as %q, and by net/url as %q", text, got, want)
		} else if err != nil && strings.Count(got, "%") == 0 {
			t.Fatalf("%q, which is malformed, is read as %q", text, got)
		}
	})
}
