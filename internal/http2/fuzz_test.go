package http2_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"plimsoll/internal/head"
	"plimsoll/internal/http2"
)

// The oracle is net/http: a request that we accept, written as HTTP/1.1, must be the same request
// to it, with nothing behind it. Fields are separated by \x1e, a name and its value by \x1f.
func FuzzRequestHead(f *testing.F) {
	for _, s := range []string{
		get, get + "|cookie: a|cookie: b|cookie: ", get + "|content-length: 5", get +
			"|host: A.Example:443", get + "|te: trailers|trailer: x",
		":method: OPTIONS|:scheme: http|:path: *|:authority: [::1]:80",
		":method: POST|:scheme: http|:path: /a HTTP/1.1\r\nx: y|:authority: a",
		":method: CONNECT|:protocol: websocket|:scheme: https|:authority: a|:path: /chat",
		get + "|x_forwarded_for: 1|transfer_encoding: chunked|x: a\r\n\r\nGET / HTTP/1.1",
	} {
		var b []byte
		for i, field := range cut(s) {
			if i > 0 {
				b = append(b, 0x1e)
			}
			b = append(append(append(b, field[0]...), 0x1f), field[1]...)
		}
		f.Add(b, true)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, in []byte, endStream bool) {
		var fields [][2][]byte
		for field := range bytes.SplitSeq(in, []byte{0x1e}) {
			name, value, _ := bytes.Cut(field, []byte{0x1f})
			fields = append(fields, [2][]byte{name, value})
		}
		r, reason := readRequest(&http2.Limits{Path: 100, Head: 4000, Fields: 20}, fields, endStream, true)
		if reason == http2.OK {
			compareRequest(t, &r)
		}
	})
}

func compareRequest(t *testing.T, r *request) {
	t.Helper()
	if r.Protocol != nil {
		r.Method = []byte("GET") // as an upgrade is asked for in HTTP/1.1
	}
	text := r.text()
	source := bufio.NewReader(strings.NewReader(text))
	want, err := http.ReadRequest(source)
	var escape url.EscapeError
	if errors.As(err, &escape) || err != nil && strings.HasPrefix(err.Error(), "bad trailer key") {
		return // judged by others: the path by its canonicalisation, Trailer by who forwards trailers
	}
	if err != nil {
		t.Fatalf("we accept %q\nnet/http says %v", text, err)
	}
	if rest, _ := io.ReadAll(source); int64(len(rest)) > 0 {
		t.Fatalf("net/http finds %q behind %q", rest, text)
	}
	if want.Method != string(r.Method) || want.RequestURI != string(r.Target) || want.Host != string(r.Host) {
		t.Errorf("net/http: %q %q %q; we: %q %q %q", want.Method, want.RequestURI, want.Host, r.Method, r.Target, r.Host)
	}
	if string(r.Target) != "*" && want.URL.RawQuery != string(r.Query) {
		t.Errorf("net/http: query %q; we: %q", want.URL.RawQuery, r.Query)
	}
	if r.Fields.Has(head.ContentLength) && want.ContentLength != max(r.Length, 0) || len(want.TransferEncoding) > 0 || want.Close {
		t.Errorf("net/http: length %d, coding %v, close %v; we: %q", want.ContentLength, want.TransferEncoding, want.Close, text)
	}
	got := http.Header{}
	for i := range r.Fields.Len() {
		f := r.Fields.At(i)
		if f.ID != head.Lookup(f.Name) {
			t.Errorf("the ID of %q is %d", f.Name, f.ID)
		}
		if f.ID != head.Alias && f.ID != head.Host {
			got.Add(string(f.Name), string(f.Value))
		}
	}
	if got["Cache-Control"] == nil && got["Pragma"] != nil {
		delete(want.Header, "Cache-Control") // net/http makes one of Pragma
	}
	for name, values := range want.Header {
		if strings.Join(values, "\x00") != strings.Join(got[name], "\x00") {
			t.Errorf("net/http: %s: %q; we: %q", name, values, got[name])
		}
	}
	if len(want.Header) != len(got) {
		t.Errorf("net/http: %v; we: %v", want.Header, got)
	}
}

// The model of settings is a list of pairs, of which the last of each kind counts.
func FuzzSettings(f *testing.F) {
	f.Add(http2.AppendSettings(nil, http2.Setting{ID: http2.HeaderTableSize, Value: 1},
		http2.Setting{ID: http2.HeaderTableSize, Value: 9})[9:], false)
	f.Add(http2.AppendSettings(nil, http2.Setting{ID: http2.EnablePush, Value: 1}, http2.Setting{ID: 0x99, Value: 1 << 31})[9:], true)
	f.Add(http2.AppendSettings(nil, http2.Setting{ID: http2.InitialWindowSize, Value: 1 << 31},
		http2.Setting{ID: http2.MaxFrameSize, Value: 1})[9:], true)
	f.Add(http2.AppendSettings(nil, http2.Setting{ID: 8, Value: 1}, http2.Setting{ID: 8, Value: 0},
		http2.Setting{ID: 9, Value: 1})[9:], true)
	f.Fuzz(func(t *testing.T, in []byte, fromServer bool) {
		in = in[:len(in)/6*6]
		s := http2.InitialSettings()
		c, reason := s.Apply(in, fromServer)
		last, least, bad := map[uint16]uint32{}, uint32(1<<32-1), http2.OK
		for p := in; len(p) > 0 && bad == http2.OK; p = p[6:] {
			id, v := binary.BigEndian.Uint16(p), binary.BigEndian.Uint32(p[2:])
			switch {
			case id == 4 && v >= 1<<31:
				bad = http2.BadWindow
			case id == 2 && (v > 1 || v == 1 && fromServer), id == 5 &&
				(v < 1<<14 || v >= 1<<24), id == 8 && v > 1, id == 9 && v > 1, id == 8 && v == 0 &&
				last[8] == 1:
				bad = http2.BadSetting
			case id == 1:
				least = min(least, v)
			}
			last[id] = v
		}
		if reason != bad {
			t.Fatalf("%x: %v, want %v", in, reason, bad)
		}
		if reason != http2.OK {
			return
		}
		want := http2.InitialSettings()
		for id, v := range last {
			switch id {
			case 1:
				want.HeaderTableSize = v
			case 2:
				want.EnablePush = v == 1
			case 3:
				want.MaxConcurrentStreams = v
			case 4:
				want.InitialWindowSize = v
			case 5:
				want.MaxFrameSize = v
			case 6:
				want.MaxHeaderListSize = v
			case 8:
				want.ConnectProtocol = v == 1
			case 9:
				want.NoPriorities = v == 1
			}
		}
		if s != want || int64(c.Window) != int64(want.InitialWindowSize)-65535 || c.Has(http2.HeaderTableSize) && c.TableSize != least {
			t.Fatalf("%x: %+v, %+v; want %+v", in, s, c, want)
		}
		for id := range http2.SettingID(16) {
			_, there := last[uint16(id)]
			if c.Has(id) != (there && id >= 1 && id <= 9 && id != 7) {
				t.Errorf("%x: setting %d is named: %v", in, id, c.Has(id))
			}
		}
	})
}
