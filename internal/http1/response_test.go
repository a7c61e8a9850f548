package http1_test

import (
	"testing"

	"plimsoll/internal/head"
	"plimsoll/internal/http1"
)

func TestResponseHeads(t *testing.T) {
	for _, c := range []struct {
		name, in  string
		framing   http1.Framing
		length    int64
		keepAlive bool
	}{
		{"length", lines("HTTP/1.1 200 OK", "Content-Length: 5"), http1.Length, 5, true},
		{"length 0", lines("HTTP/1.1 200 OK", "Content-Length: 0"), http1.None, 0, true},
		{"chunked", lines("HTTP/1.1 200 OK", "Transfer-Encoding: chunked"), http1.Chunked, head.Unknown, true},
		{"neither", lines("HTTP/1.1 200 OK", "X: y"), http1.ToEOF, head.Unknown, false},
		{"no fields at all", "HTTP/1.1 200 OK\r\n\r\n", http1.ToEOF, head.Unknown, false},
		{"no reason", lines("HTTP/1.1 200 ", "Content-Length: 5"), http1.Length, 5, true},
		{"no reason and no space", lines("HTTP/1.1 200", "Content-Length: 5"), http1.Length, 5, true},
		{"reason of any text", lines("HTTP/1.1 404 nicht da: \xe4\t!", "Content-Length: 5"), http1.Length, 5, true},
		{"close", lines("HTTP/1.1 200 OK", "Content-Length: 5", "Connection: close"), http1.Length, 5, false},
		{"HTTP/1.0", lines("HTTP/1.0 200 OK", "Content-Length: 5"), http1.Length, 5, false},
		{"HTTP/1.0 with keep-alive", lines("HTTP/1.0 200 OK", "Content-Length: 5", "Connection: keep-alive"), http1.Length, 5, true},
		{"100", "HTTP/1.1 100 Continue\r\n\r\n", http1.None, 0, true},
		{"103 with fields", lines("HTTP/1.1 103 Early Hints", "Link: </a>"), http1.None, 0, true},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", http1.None, 0, true},
		{"204 with length 0", lines("HTTP/1.1 204 No Content", "Content-Length: 0"), http1.None, 0, true},
		{"undrained bodies: 204 that announces a body", lines("HTTP/1.1 204 No Content", "Content-Length: 5"), http1.None, 0, false},
		{"undrained bodies: 204 that announces chunks", lines("HTTP/1.1 204 No Content",
			"Transfer-Encoding: chunked"), http1.None, 0, false},
		{"304 with a length", lines("HTTP/1.1 304 Not Modified", "Content-Length: 5"), http1.None, 0, true},
		{"101", lines("HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: websocket"), http1.None, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, r := responseInAnySplit(t, c.in+"HTTP/1.1", &usualLimits, false)
			if got.n != len(c.in) || r.Framing != c.framing || r.Length != c.length || r.KeepAlive != c.keepAlive {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestResponsesToHEADHaveNoBody(t *testing.T) {
	for _, field := range []string{"Content-Length: 5", "Transfer-Encoding: chunked", "X: y"} {
		in := lines("HTTP/1.1 200 OK", field)
		got, r := responseInAnySplit(t, in, &usualLimits, true)
		if got.n != len(in) || r.Framing != http1.None || r.Length != 0 || !r.KeepAlive || r.Fields.Len() != 1 {
			t.Errorf("%s: got %+v", field, got)
		}
	}
}

func TestUpgradeOfAResponse(t *testing.T) {
	_, r := responseInAnySplit(t, lines("HTTP/1.1 101 Switching Protocols", "Connection: Upgrade",
		"Upgrade: websocket"), &usualLimits, false)
	if r.Status != 101 || string(r.Upgrade) != "websocket" {
		t.Errorf("status %d, upgrade %q", r.Status, r.Upgrade)
	}
}

func TestRefusedResponses(t *testing.T) {
	ok := func(fields ...string) string { return lines(append([]string{"HTTP/1.1 200 OK"}, fields...)...) }
	for _, c := range []struct {
		name, in string
		want     http1.Error
	}{
		{"TE/CL smuggling: both", ok("Content-Length: 5", "Transfer-Encoding: chunked"), http1.LengthAndCoding},
		{"TE/CL smuggling: HTTP/1.0", lines("HTTP/1.0 200 OK", "Transfer-Encoding: chunked"), http1.LengthAndCoding},
		{"TE/CL smuggling: gzip", ok("Transfer-Encoding: gzip, chunked"), http1.UnknownCoding},
		{"TE/CL smuggling: two lengths", ok("Content-Length: 5", "Content-Length: 5"), http1.BadContentLength},
		{"response splitting, bad upstreams: 1xx with a length", lines("HTTP/1.1 103 Early Hints",
			"Content-Length: 5"), http1.BadContentLength},
		{"response splitting, bad upstreams: 1xx with chunks", lines("HTTP/1.1 103 Early Hints",
			"Transfer-Encoding: chunked"), http1.LengthAndCoding},
		{"response splitting, bad upstreams: bare LF", "HTTP/1.1 200 OK\nX: y\n\n", http1.BareLF},
		{"response splitting, bad upstreams: bare CR", ok("X: a\rSet-Cookie: b"), http1.BareCR},
		{"response splitting, bad upstreams: CR in the reason", lines("HTTP/1.1 200 O\rK"), http1.BareCR},
		{"response splitting, bad upstreams: folded", ok("X: a", " b"), http1.ObsFold},
		{"response splitting, bad upstreams: space before the colon", ok("X : a"), http1.BadFieldName},
		{"response splitting, bad upstreams: NUL", ok("X: \x00"), http1.BadFieldValue},
		{"status line: control in the reason", lines("HTTP/1.1 200 O\x01K"), http1.BadLine},
		{"status line: empty", "\r\n" + ok(), http1.BadLine},
		{"status line: short", lines("HTTP/1.1"), http1.BadLine},
		{"status line: no version", lines("200 OK hello"), http1.BadLine},
		{"status line: HTTP/2", lines("HTTP/2.0 200 OK"), http1.BadVersion},
		{"status line: two digits", lines("HTTP/1.1 20"), http1.BadStatus},
		{"status line: four digits", lines("HTTP/1.1 2000 OK"), http1.BadStatus},
		{"status line: 099", lines("HTTP/1.1 099 OK"), http1.BadStatus},
		{"status line: 600", lines("HTTP/1.1 600 OK"), http1.BadStatus},
		{"status line: letters", lines("HTTP/1.1 2x0 OK"), http1.BadStatus},
		{"status line: plus", lines("HTTP/1.1 +20 OK"), http1.BadStatus},
		{"status line: two spaces", lines("HTTP/1.1  200 OK"), http1.BadStatus},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _ := responseInAnySplit(t, c.in, &usualLimits, false); got.err != c.want {
				t.Errorf("got error %v, want %v: %s", got.err, c.want, got.text)
			}
		})
	}
}

func TestEveryErrorHasAReasonOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for e := range http1.Error(http1.Errors) {
		if text := e.Error(); text == "" || seen[text] {
			t.Errorf("error %d is called %q", e, text)
		}
		seen[e.Error()] = true
		if s := e.Status(); s < 400 || s > 599 {
			t.Errorf("%v is answered with %d", e, s)
		}
	}
}
