package http1_test

import (
	"strings"
	"testing"

	"plimsoll/internal/http1"
)

func TestAnUpgradeIsAskedForWithoutH2C(t *testing.T) {
	for value, want := range map[string]string{
		"websocket": "websocket", "h2c, websocket": "websocket", "a/1 ,H2,b/2,, h2C": "a/1, b/2", "h2c": "", "": "", " , ": "",
	} {
		protocol, _ := http1.NextProtocol([]byte(value))
		if (protocol == nil) != (want == "") {
			t.Errorf("%q: the first protocol is %q", value, protocol)
		}
		if got := string(http1.AppendUpgrade(nil, []byte(value))); got != "Upgrade: "+want+"\r\n" {
			t.Errorf("%q: got %q", value, got)
		}
	}
}

func TestASwitchIsToWhatWasAskedFor(t *testing.T) {
	for _, c := range []struct {
		asked, answered string
		want            bool
	}{
		{"websocket", "WebSocket", true},
		{"a/1, b", "b,,A/1", true},
		{"a/1", "a/2", false},
		{"a/1", "a", false},
		{"a, h2c", "h2c", false},
		{"a", "a, b", false},
		{"a", "", false},
		{"a", " ,", false},
		{"", "a", false},
		{"a", "a,a,a,a,a,a,a,a,a", false},
	} {
		if got := http1.Switches([]byte(c.asked), []byte(c.answered)); got != c.want {
			t.Errorf("from %q to %q: %v, want %v", c.asked, c.answered, got, c.want)
		}
	}
}

func TestTrailerNamesAreTrimmedInPlaceAndWithoutAllocation(t *testing.T) {
	gone := func(name []byte) bool { return string(name) == "gone" }
	for value, want := range map[string]string{
		"A":                     "Trailer: A\r\n",
		"A, B":                  "Trailer: A, B\r\n",
		"gone":                  "",
		"":                      "",
		",":                     "",
		"gone,A":                "Trailer: A\r\n",
		"A,gone":                "Trailer: A\r\n",
		"A,gone,B , gone , C":   "Trailer: A,B,C\r\n",
		"Host, A b, X_Y, Age,A": "Trailer: A\r\n",
	} {
		l := fields(t, "Before: 1\r\nTrailer: "+value+"\r\nAfter: 2\r\n")
		for range 2 { // a retried request's are trimmed again
			http1.TrimTrailer(l, gone)
			got := string(http1.AppendFields(nil, l, 0))
			if got != "Before: 1\r\n"+want+"After: 2\r\n" {
				t.Errorf("%q: got %q, want %q", value, got, want)
			}
		}
	}
	many := strings.Repeat("A,", 40)
	l := fields(t, "Trailer: "+many+"\r\nTrailer: "+many+"\r\nTrailer: B\r\n")
	http1.TrimTrailer(l, gone)
	left := string(http1.AppendFields(nil, l, 0))
	if n := strings.Count(left, "A"); n != 64 || strings.Contains(left, "B") {
		t.Errorf("%d of 80 names and %q stay, want 64 and no B", n, left)
	}
	l = fields(t, "Trailer: A, gone, B\r\n")
	value, line := l.At(0).Value, string(l.At(0).Value)
	if n := testing.AllocsPerRun(100, func() {
		copy(value, line)
		l.At(0).Value = value
		http1.TrimTrailer(l, gone)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A head and its trailers lose the same names to Connection, however much it names.
func TestConnectionTakesTheSameFromTrailers(t *testing.T) {
	const rest = "X-One: 1\r\nX-Two: 2\r\nServer: s\r\n"
	for _, connection := range []string{
		"", "Connection: close, X-One\r\n", "Connection: x-two\r\nConnection: X-ONE\r\n", "Connection: Server,,\r\n",
		"Connection: " + strings.Repeat("x,", 63) + "X-One\r\n", "Connection: " + strings.Repeat("x,", 64) + "X-One\r\n",
		strings.Repeat("Connection: close\r\n", 8), strings.Repeat("Connection: close\r\n", 9),
	} {
		l, trailers := fields(t, connection+rest), fields(t, rest)
		options := http1.AppendOptions(nil, l)
		http1.StripConnection(l)
		http1.StripNamed(trailers, options)
		want := string(http1.AppendFields(nil, l, http1.HopByHop))
		if got := string(http1.AppendFields(nil, trailers, 0)); got != want {
			t.Errorf("%.40q: the trailers left are %q, the fields %q", connection, got, want)
		}
		for _, name := range []string{"X-One", "X-Two", "Server"} {
			gone := trailers.Find([]byte(name)) == nil
			if got := http1.Named(options, []byte(name)); got != gone && name != "Server" {
				t.Errorf("%.40q: Named(%s) is %v, want %v", connection, name, got, gone)
			}
		}
	}
}
