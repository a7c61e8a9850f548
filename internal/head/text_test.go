package head_test

import (
	"bytes"
	"strings"
	"testing"

	"plimsoll/internal/head"
)

// A text of any length is judged as its bytes are, wherever in a word of eight the odd one stands.
func TestTextsAreWhatTheirBytesAre(t *testing.T) {
	for _, kind := range []struct {
		name  string
		whole func([]byte) bool
		class head.Class
		usual byte
		bytes string // ASCII of the class, but for letters and digits
	}{
		{"text", head.IsText, head.TextByte, 'a', "\t !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"},
		{"target", head.IsTarget, head.TargetByte, 'a', "!\"$%&'()*+,-./:;<=>?@[\\]^_`{|}~"},
		{"token", head.IsToken, head.TokenByte, 'a', "!#$%&'*+-.^_`|~"},
		{"lower token", head.IsLowerToken, head.LowerByte, 'a', "!#$%&'*+-.^_`|~"},
	} {
		for c := range 256 {
			letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' && kind.name != "lower token"
			want := letter || '0' <= c && c <= '9' || strings.IndexByte(kind.bytes, byte(c)) >= 0 ||
				c >= 0x80 && kind.name == "text"
			if got := head.Is(byte(c), kind.class); got != want {
				t.Errorf("%#x is of a %s: %v", c, kind.name, got)
			}
			for n := 1; n <= 17; n++ {
				b := bytes.Repeat([]byte{kind.usual}, n)
				b[n-1] = byte(c)
				if kind.whole(b) != want {
					t.Errorf("%q is a %s: %v", b, kind.name, !want)
				}
			}
		}
	}
	if head.IsToken(nil) || head.IsLowerToken(nil) || !head.IsText(nil) {
		t.Error("the empty text is a token, or is none")
	}
}

func TestContentLengthIsDigitsThatFitIntoAnInt64(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "007": 7, "9223372036854775807": 1<<63 - 1,
		"": -1, "9223372036854775808": -1, "+1": -1, "-1": -1, "1 ": -1, "1,1": -1, "0x1": -1, "१": -1,
	} {
		if n, ok := head.ParseLength([]byte(text)); ok != (want >= 0) || ok && n != want {
			t.Errorf("%q is %d, %v", text, n, ok)
		}
	}
}

func TestHostsAreMadeLowerCaseOrRefused(t *testing.T) {
	for host, want := range map[string]string{
		"A.Example": "a.example", "a:443": "a:443", "[::FFFF]:1": "[::ffff]:1", "a_b.": "a_b.", "127.0.0.1:65535": "127.0.0.1:65535",
		"": "", ".a": "", "a..b": "", "u@a": "", "a:": "", "a:0": "", "a:65536": "", "a:01": "",
		"[::1": "", "[a]": "", "a%41": "", "a b": "", "a:1:2": "",
	} {
		b := []byte(host)
		if ok := head.CanonicalHost(b); ok != (want != "") || ok && string(b) != want {
			t.Errorf("%q becomes %q, %v", host, b, ok)
		}
	}
	if got := string(head.WithoutPort([]byte("a:443"), ":443")); got != "a" {
		t.Errorf("a:443 without :443 is %q", got)
	}
	if got := string(head.WithoutPort([]byte("a:8443"), ":443")); got != "a:8443" {
		t.Errorf("a:8443 without :443 is %q", got)
	}
}

func TestTrailersAreNothingThatBelongsIntoAHead(t *testing.T) {
	for name, want := range map[string]bool{
		"grpc-status": true, "x-checksum": true, "Server-Timing": true,
		"Content-Length": false, "content-type": false, "X-Forwarded-Foo": false, "x_checksum": false, "If-Match": false, "age": false,
	} {
		if got := head.MayTrail([]byte(name), head.Lookup([]byte(name))); got != want {
			t.Errorf("%s may trail: %v", name, got)
		}
	}
}
