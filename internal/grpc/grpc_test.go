package grpc_test

import (
	"mime"
	"strings"
	"testing"

	"plimsoll/internal/grpc"
)

func TestKindOf(t *testing.T) {
	for text, want := range map[string]grpc.Kind{
		"": grpc.None, "application/json": grpc.None, "application/grp": grpc.None,
		"application/grpc": grpc.Native, "application/grpc+proto": grpc.Native,
		"application/grpc+json": grpc.Native, "application/grpc;charset=utf-8": grpc.Native,
		"application/grpc ; x=y": grpc.Native, "Application/GRPC+Proto": grpc.Native,
		"application/grpcx": grpc.None, "application/grpc-": grpc.None, "application/grpc/x": grpc.None,
		"application/grpc-web": grpc.Web, "application/grpc-web+proto": grpc.Web,
		"application/grpc-webx": grpc.None, "application/grpc-web-": grpc.None,
		"application/grpc-web-text": grpc.WebText, "APPLICATION/GRPC-WEB-TEXT+PROTO": grpc.WebText,
		"application/grpc-web-text;a=b": grpc.WebText, "application/grpc-web-texts": grpc.None,
		" application/grpc": grpc.None, "application/grpc,application/grpc": grpc.None,
	} {
		if got := grpc.KindOf([]byte(text)); got != want {
			t.Errorf("%q is of kind %d, want %d", text, got, want)
		}
	}
}

func TestTranslated(t *testing.T) {
	for _, c := range []struct {
		from string
		to   grpc.Kind
		want string
	}{
		{"application/grpc-web+proto", grpc.Native, "application/grpc+proto"},
		{"application/grpc-web-text", grpc.Native, "application/grpc"},
		{"application/grpc-web-text+json;a=b", grpc.Native, "application/grpc+json;a=b"},
		{"application/grpc", grpc.Web, "application/grpc-web"},
		{"Application/GRPC+Proto", grpc.WebText, "application/grpc-web-text+Proto"},
	} {
		if got := grpc.Translated([]byte("x"), []byte(c.from), c.to); string(got) != "x"+c.want {
			t.Errorf("%q as %d is %q, want %q behind x", c.from, c.to, got, c.want)
		}
	}
}

// FuzzKindOf compares with mime, which is laxer about blanks and stricter about parameters.
func FuzzKindOf(f *testing.F) {
	for _, seed := range []string{"application/grpc", "application/grpc-web+proto; a=b", "application/grpc-web-text"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := grpc.KindOf([]byte(text))
		media, _, err := mime.ParseMediaType(text)
		if err != nil || strings.TrimSpace(text) != text {
			return
		}
		name, _, _ := strings.Cut(media, "+")
		want := map[string]grpc.Kind{
			"application/grpc": grpc.Native, "application/grpc-web": grpc.Web,
			"application/grpc-web-text": grpc.WebText,
		}[name]
		if got != want {
			t.Errorf("%q is of kind %d, and its media type %q of kind %d", text, got, media, want)
		}
	})
}

func TestNothingHotAllocates(t *testing.T) {
	out := make([]byte, 0, 4096)
	text := []byte("a message with 100 % of ☺")
	var watcher grpc.Watcher
	var enc grpc.TextEncoder
	var dec grpc.TextDecoder
	frame := append([]byte{0, 0, 0, 0, 25}, text[:25]...)
	encoded := enc.Flush(enc.Append(nil, frame))
	n := testing.AllocsPerRun(100, func() {
		grpc.KindOf([]byte("application/grpc-web-text+proto"))
		grpc.Translated(out, []byte("application/grpc-web-text+proto"), grpc.Native)
		ns, _ := grpc.ParseTimeout([]byte("99999999m"))
		grpc.AppendTimeout(out, ns)
		code, _ := grpc.ParseCode([]byte("14"))
		grpc.AppendCode(out, code)
		_ = code.String()
		grpc.AppendMessage(out, text)
		grpc.AppendDecodedMessage(out, text)
		watcher.Pass(frame)
		enc.Flush(enc.Append(out, frame))
		dec.Append(out, encoded)
		grpc.EndTrailers(grpc.AppendTrailer(grpc.BeginTrailers(out), text, text), 0)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
