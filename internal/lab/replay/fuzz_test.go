package replay_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/internal/lab/replay"
)

// Whatever a log holds, what is made of it is exactly one request of a safe method, as net/http
// reads it too.
func FuzzALogGivesValidRequests(f *testing.F) {
	f.Add(requestLine("08:00:00", "GET /a?b=c HTTP/1.1"), "combined", false)
	f.Add(requestLine("08:00:00", `GET http://a.test/\x22 HTTP/1.1`), "", true)
	f.Add(
		`{"ts":1763625600.5,"method":"GET","path":"/a","query":"b","host":"a.test","user_agent":"x\u00e9"}`,
		"json",
		true,
	)
	f.Add(
		`{"ts":1763625600.5,"request":{"method":"GET","uri":"/a","headers":{"User-Agent":["x"]}}}`,
		"json",
		false,
	)
	f.Add(
		`{"log":{"entries":[{"startedDateTime":"2026-11-20T08:00:00Z","request":{"method":"GET","url":"https://a.test/a"}}]}}`,
		"har",
		true,
	)
	f.Add("1763625600.5 GET /a a.test 200 agent",
		"$msec $request_method $request_uri $http_host $status $http_user_agent", true)
	f.Fuzz(func(t *testing.T, text, format string, keepHost bool) {
		l, err := replay.OpenReader(strings.NewReader(text), replay.Options{
			Format:   format,
			KeepHost: keepHost,
		})
		if err != nil {
			return
		}
		s, err := l.Start(t.Context(), 1, "shop.test")
		if err != nil {
			return
		}
		defer s.Close()
		for _, a := range drain(t, s, 1)[0] {
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(a.request)))
			if err != nil {
				t.Fatalf("%q: %v", a.request, err)
			}
			if r.Method != "GET" && r.Method != "HEAD" && r.Method != "OPTIONS" {
				t.Errorf("%q is of no safe method", a.request)
			}
			if !keepHost && r.Host != "shop.test" {
				t.Errorf("%q is for another host", a.request)
			}
			// A HAR may give a body; nothing else does, so the request ends with its head.
			if r.ContentLength == 0 && !strings.HasSuffix(a.request, "\r\n\r\n") ||
				strings.Count(a.request, "\r\n\r\n") != 1 && r.ContentLength == 0 {
				t.Errorf("%q has something behind its head", a.request)
			}
			for name := range r.Header {
				if name != "User-Agent" && name != "Content-Type" && name != "Content-Length" {
					t.Errorf("%q has the field %s", a.request, name)
				}
			}
			if a.due < 0 {
				t.Errorf("due at %v", a.due)
			}
		}
	})
}

// What the scanner finds in a JSON object is what encoding/json finds.
func FuzzAJSONLineIsReadAsEncodingJSONReadsIt(f *testing.F) {
	f.Add([]byte(`{"a":"b","host":"x\u00e9\n\"","c":[1,{"host":"no"}]}`), "host")
	f.Add([]byte(`{"host":1.5e3 , "x" : {"}":"\\"} }`), "host")
	f.Add([]byte(`{}`), "host")
	f.Fuzz(func(t *testing.T, line []byte, name string) {
		var want map[string]json.RawMessage
		if strings.ContainsAny(name, ".\\\"") || !json.Valid(line) ||
			json.Unmarshal(line, &want) != nil || want == nil ||
			strings.Contains(string(line), `\u`) {
			return
		}
		for key := range want {
			if strings.ContainsAny(key, ".\\\"\ufffd") {
				return // keys with escapes are not found, and a dot leads into an object
			}
		}
		value, found, err := replay.JSONValue(line, name)
		if err != nil {
			if name == "" {
				return
			}
			t.Fatalf("%s: %v", line, err)
		}
		raw, there := want[name]
		if !there {
			if found {
				t.Errorf("%s: found %q under %q", line, value, name)
			}
			return
		}
		switch raw = bytes.TrimSpace(raw); {
		case raw[0] == '"':
			var text string
			if json.Unmarshal(raw, &text); !found ||
				strings.ToValidUTF8(string(value), "\ufffd") !=
					strings.ToValidUTF8(text, "\ufffd") && !strings.Contains(text, "\ufffd") {
				t.Errorf("%s: %q under %q, want %q", line, value, name, text)
			}
		case raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9':
			if !found || !bytes.Equal(value, raw) {
				t.Errorf("%s: %q under %q, want %s", line, value, name, raw)
			}
		}
	})
}

func TestTimesAreReadAsPackageTimeReadsThem(t *testing.T) {
	layouts := []string{
		"02/Jan/2006:15:04:05 -0700", time.RFC3339, time.RFC3339Nano,
		"2006-01-02T15:04:05.000Z07:00", "2006-01-02 15:04:05.000000-0700",
	}
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(86_400, 7_000_000_000).Draw(t, "seconds"),
			rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		at = at.In(time.FixedZone("", 60*rapid.IntRange(-14*60, 14*60).Draw(t, "minutes east")))
		layout := rapid.SampledFrom(layouts).Draw(t, "layout")
		text := at.Format(layout)
		want, err := time.Parse(layout, text)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, ok := replay.ParseStamp(text); !ok || got != want.UnixNano() {
			t.Errorf("%s is %d, %v, want %d", text, got, ok, want.UnixNano())
		}
	})
}

func TestNumbersAreTimesInTheUnitTheyCanOnlyBe(t *testing.T) {
	const ns = 1_763_625_600_123_456_789
	cases := map[string][2]int64{
		"1763625600": {ns - 123_456_789, 1e9}, "1763625600.123": {ns - 456_789, 1e6}, "1763625600.1234567891": {ns, 1},
		"1763625600123": {ns - 456_789, 1e6}, "1763625600123456": {ns - 789, 1e3}, "1763625600123456789": {ns, 1},
	}
	for text, want := range cases {
		if at, unit, ok := replay.ParseStamp(text); !ok || at != want[0] || unit != want[1] {
			t.Errorf("%s is %d in units of %d, %v", text, at, unit, ok)
		}
	}
	for _, text := range []string{
		"", ".", "1.", ".5", "-1", "1e9", "1763625600123.5", "9999999999999999999", "99999999999",
		"31/Feb/2026:08:00:00 +0000",
		"20/Nov/2026:24:00:00 +0000", "20/Nov/2026:08:00:00", "20/nov/2026:08:00:00 +0000",
		"2026-11-20", "2026-11-20T08:00:00+25:00", "2026-11-20T08:00:00.Z",
	} {
		if at, _, ok := replay.ParseStamp(text); ok {
			t.Errorf("%q is %d", text, at)
		}
	}
}
