package accesslog

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"
)

// noon is 2026-03-01 12:00:00.123456789 UTC.
const noon = 1772366400123456789

// browserRecord is what a browser's request looks like.
func browserRecord() *Record {
	return &Record{
		Time: noon, Client: netip.MustParseAddr("203.0.113.7"), Listener: "0.0.0.0:8443", TLS: "1.3",
		Method: []byte("GET"), Host: []byte("shop.example.com"), Path: []byte("/api/v1/items/42"), Query: []byte("lang=de&currency=EUR"),
		Protocol: "HTTP/1.1", Status: 200, BytesIn: 0, BytesOut: 1270, Total: 1_234_567, Upstream: 1_200_000, Gateway: 34_567,
		Route: "items", UpstreamName: "shop", Target: "127.0.0.1:9001", Class: 1, Attempts: 1,
		ID:        []byte("0190e1f4c3d27f00a1b2c3d4e5f60718"),
		UserAgent: []byte("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
		Referer:   []byte("https://shop.example.com/items"),
	}
}

func jsonLine(r *Record) string { return string(newJSON().Append(nil, r)) }

func combinedLine(r *Record) string { return string(newCombined(time.UTC).Append(nil, r)) }

func TestJSONLineOfABrowsersRequest(t *testing.T) {
	want := `{"time":"2026-03-01T12:00:00.123456Z","client":"203.0.113.7","method":"GET","host":"shop.example.com",` +
		`"path":"/api/v1/items/42","query":"lang=de&currency=EUR","protocol":"HTTP/1.1","status":200,"bytes_in":0,"bytes_out":1270,` +
		`"duration":0.001234,"upstream_duration":0.001200,"gateway_duration":0.000034,"route":"items","upstream":"shop",` +
		`"target":"127.0.0.1:9001","class":"P1","attempts":1,"request_id":"0190e1f4c3d27f00a1b2c3d4e5f60718",` +
		`"user_agent":"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",` +
		`"referer":"https://shop.example.com/items","tls":"1.3","listener":"0.0.0.0:8443"}` + "\n"
	if got := jsonLine(browserRecord()); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

func TestJSONLeavesOutWhatHasNoValue(t *testing.T) {
	want := `{"time":"1970-01-01T00:00:00.000000Z","status":0,"bytes_in":0,"bytes_out":0,"duration":0.000000,` +
		`"gateway_duration":0.000000,"class":"P0"}` + "\n"
	if got := jsonLine(&Record{}); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

func TestJSONEscapesHostileBytes(t *testing.T) {
	for in, want := range map[string]string{
		"a\"b\\c":          `a\"b\\c`,
		"\x00\x1f\x7f\n\r": `\u0000\u001f\u007f\u000a\u000d`,
		"grün 世界 🚢":        "grün 世界 🚢",
		"\x80\xc3(\xff":    `\ufffd\ufffd(\ufffd`,
		"\xed\xa0\x80":     `\ufffd\ufffd\ufffd`,
		"a\u2028b\u2029":   `a\u2028b\u2029`,
	} {
		if got := string(appendEscaped(nil, []byte(in))); got != want {
			t.Errorf("%q becomes %s, want %s", in, got, want)
		}
	}
}

func TestEveryByteIsEscapedWhereverItStands(t *testing.T) {
	for c := range 256 {
		for at := range 17 {
			in := []byte("aaaaaaaaaaaaaaaaa")
			in[at] = byte(c)
			quoted := append(appendEscaped([]byte{'"'}, in), '"')
			var got string
			if err := json.Unmarshal(quoted, &got); err != nil {
				t.Fatalf("byte %#x at %d: %v: %s", c, at, err, quoted)
			}
			if want := strings.ToValidUTF8(string(in), "\ufffd"); got != want || bytes.IndexByte(quoted, 0x7f) >= 0 {
				t.Fatalf("byte %#x at %d came back as %q", c, at, got)
			}
		}
	}
}

func TestLongValuesAreCutAtACharacterAndMarked(t *testing.T) {
	var line struct {
		Path  string `json:"path"`
		Agent string `json:"user_agent"`
	}
	r := &Record{Path: bytes.Repeat([]byte("p"), 5000), UserAgent: bytes.Repeat([]byte("世"), 400)}
	if err := json.Unmarshal([]byte(jsonLine(r)), &line); err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("p", 2048) + "…"; line.Path != want {
		t.Errorf("the path has %d bytes", len(line.Path))
	}
	if want := strings.Repeat("世", 170) + "…"; line.Agent != want {
		t.Errorf("the user agent is %q", line.Agent)
	}
}

// The lines were written by nginx 1.22 for these very requests.
func TestCombinedLinesAreThoseOfNginx(t *testing.T) {
	base := Record{Time: noon, Client: netip.MustParseAddr("127.0.0.1"), Method: []byte("GET"),
		Protocol: "HTTP/1.1", Status: 200, BytesOut: 2}
	hostile, plain, garbage, handshake, silent := base, base, base, base, base
	hostile.Path, hostile.Query = []byte("/a%20b"), []byte(`q="x\y`)
	hostile.Referer, hostile.UserAgent = []byte("http://r/\ttab"), []byte("a\"b\\c\x01\x1f\x7f\x80\xc3\xa9 ~")
	plain.Path = []byte("/")
	garbage.Method, garbage.Protocol, garbage.Status, garbage.BytesOut = []byte("garbage"), "", 400, 157
	handshake.Method, handshake.Protocol, handshake.Status, handshake.BytesOut = []byte("\x16\x03\x01"), "", 400, 157
	silent.Method, silent.Protocol, silent.Status, silent.BytesOut = nil, "", 400, 0
	for name, c := range map[string]struct {
		record Record
		want   string
	}{
		"hostile":   {hostile, `"GET /a%20b?q=\x22x\x5Cy HTTP/1.1" 200 2 "http://r/\x09tab" "a\x22b\x5Cc\x01\x1F\x7F\x80\xC3\xA9 ~"`},
		"plain":     {plain, `"GET / HTTP/1.1" 200 2 "-" "-"`},
		"garbage":   {garbage, `"garbage" 400 157 "-" "-"`},
		"handshake": {handshake, `"\x16\x03\x01" 400 157 "-" "-"`},
		"silent":    {silent, `"" 400 0 "-" "-"`},
	} {
		if got, want := combinedLine(&c.record), "127.0.0.1 - - [01/Mar/2026:12:00:00 +0000] "+c.want+"\n"; got != want {
			t.Errorf("%s: got  %swant %s", name, got, want)
		}
	}
}

func TestCombinedTimeIsLocalAndFollowsTheClockBothWays(t *testing.T) {
	e := newCombined(time.FixedZone("", -3*3600-1800))
	for _, c := range []struct {
		ns   int64
		want string
	}{
		{noon, "[01/Mar/2026:08:30:00 -0330]"},
		{noon + 1e9, "[01/Mar/2026:08:30:01 -0330]"},
		{noon - 3600e9, "[01/Mar/2026:07:30:00 -0330]"},
		{-1, "[31/Dec/1969:20:29:59 -0330]"},
	} {
		if got := string(e.Append(nil, &Record{Time: c.ns})); !strings.Contains(got, c.want) {
			t.Errorf("%d ns: %s does not hold %s", c.ns, got, c.want)
		}
	}
}

func TestLinesStayWithinTheirBound(t *testing.T) {
	worst := bytes.Repeat([]byte{0xff}, 10_000)
	text := string(worst)
	r := &Record{
		Time: 1<<63 - 1, Client: netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%eth0"), Listener: text, TLS: text,
		Method: worst, Host: worst, Path: worst, Query: worst, Protocol: text, Status: -1 << 63, BytesIn: -1 << 63, BytesOut: -1 << 63,
		Total: 1<<63 - 1, Upstream: 1<<63 - 1, Gateway: 1<<63 - 1, Route: text, UpstreamName: text, Target: text, Class: 255, Attempts: 255,
		Reason: text, ID: worst, UserAgent: worst, Referer: worst,
	}
	if r.bound() > maxLine {
		t.Errorf("the bound %d of the longest line is more than maxLine, %d", r.bound(), maxLine)
	}
	for _, line := range []string{jsonLine(r), combinedLine(r)} {
		if len(line) > r.bound() {
			t.Errorf("a line of %d bytes with a bound of %d", len(line), r.bound())
		}
	}
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	r := browserRecord()
	r.UserAgent = []byte("grün \xff \x01 世界")
	r.Host, r.Route = []byte("grün\xff"), "grün\xff"
	dst := make([]byte, 0, r.bound())
	for name, e := range map[string]encoder{"json": newJSON(), "combined": newCombined(time.Local)} {
		if n := testing.AllocsPerRun(100, func() { r.Time += 1e7; e.Append(dst, r) }); n != 0 {
			t.Errorf("%s: %g allocations", name, n)
		}
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("GET"), []byte("/a"), []byte("x=y"), []byte("Mozilla"), "route", int64(noon), 200)
	f.Add([]byte("\x16\x03"), []byte("\xff\"\\"), []byte("\u2028"), []byte("世\xed\xa0\x80"), "", int64(-1), -1)
	f.Fuzz(func(t *testing.T, method, path, query, agent []byte, text string, ns int64, status int) {
		r := &Record{Time: ns, Method: method, Path: path, Query: query, UserAgent: agent, Referer: path, ID: agent, Host: query,
			Route: text, UpstreamName: text, Reason: text, Status: status, Total: ns, Attempts: uint8(status)}
		checkJSON(t, r, path)
		checkCombined(t, r)
	})
}

// checkJSON expects a line that encoding/json reads, and the path back as it was, as far as it was
// valid and not too long.
func checkJSON(t *testing.T, r *Record, path []byte) {
	line := jsonLine(r)
	if len(line) > r.bound() || !utf8.ValidString(line) || strings.Count(line, "\n") != 1 {
		t.Fatalf("a line of %d bytes with a bound of %d, or not UTF-8, or not one line: %q", len(line), r.bound(), line)
	}
	var got struct {
		Path string `json:"path"`
	}
	decoder := json.NewDecoder(strings.NewReader(line))
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("%v: %q", err, line)
	}
	if len(path) <= maxPath && got.Path != strings.ToValidUTF8(string(path), "\ufffd") && utf8.Valid(path) {
		t.Fatalf("path %q came back as %q", path, got.Path)
	}
}

// checkCombined expects one line of printable ASCII with the format's six quotes.
func checkCombined(t *testing.T, r *Record) {
	line := combinedLine(r)
	if len(line) > r.bound() || strings.Count(line, `"`) != 6 || !strings.HasSuffix(line, "\"\n") {
		t.Fatalf("a line of %d bytes with a bound of %d, or not six quotes: %q", len(line), r.bound(), line)
	}
	for _, c := range []byte(line[:len(line)-1]) {
		if c < ' ' || c > '~' {
			t.Fatalf("byte %#x in %q", c, line)
		}
	}
}

func BenchmarkJSON(b *testing.B)     { benchmarkEncoder(b, newJSON()) }
func BenchmarkCombined(b *testing.B) { benchmarkEncoder(b, newCombined(time.Local)) }

func benchmarkEncoder(b *testing.B, e encoder) {
	r := browserRecord()
	dst := make([]byte, 0, r.bound())
	b.ReportAllocs()
	for b.Loop() {
		r.Time += 20_000
		e.Append(dst, r)
	}
}

// BenchmarkWrite is the cost to the loop of a line that is not dropped: the ring is emptied
// whenever it asks for that.
func BenchmarkWrite(b *testing.B) {
	wake := make(chan struct{}, 1)
	ring := &Ring{buffer: newRingBuffer(defaultRing), encode: newJSON(), dropped: new(atomic.Uint64), wake: wake}
	r := browserRecord()
	b.ReportAllocs()
	for b.Loop() {
		r.Time += 20_000
		ring.Write(r)
		if len(wake) > 0 {
			<-wake
			ring.buffer.release(len(ring.buffer.readable()))
			ring.buffer.release(len(ring.buffer.readable()))
		}
	}
	if n := ring.dropped.Load(); n > 0 {
		b.Errorf("%d lines were dropped", n)
	}
}
