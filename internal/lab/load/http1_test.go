package load_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
)

// reader is a script that keeps what it is shown.
type reader struct {
	method string
	to     load.Target
	body   bool
	mu     sync.Mutex
	seen   []string
}

func (r *reader) Names() []string                       { return []string{"read"} }
func (r *reader) Requests() float64                     { return 1 }
func (r *reader) Player(_, _ int, _ uint64) load.Player { return r }
func (r *reader) Begin() load.Session                   { return r }
func (r *reader) End()                                  {}
func (r *reader) Request(b []byte) ([]byte, load.Request) {
	request, _ := load.Prepare(r.to, r.method, nil, nil)
	return append(b, request...), load.Request{Head: r.method == "HEAD", Body: r.body}
}

func (r *reader) Answer(a *load.Answer) load.AnswerVerdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	mark := ""
	if f := a.Fields.Find([]byte("X-Mark")); f != nil {
		mark = string(f.Value)
	}
	body := string(a.Body)
	if len(body) > 100 {
		body = fmt.Sprintf("%d bytes", len(body))
	}
	r.seen = append(r.seen, fmt.Sprintf("%d %s %s %v", a.Status, mark, body, a.Cut))
	return load.AnswerVerdict{}
}

// answers are complete answers, and what a script that asks for bodies sees of them.
var answers = []struct{ name, method, wire, seen string }{
	{"length", "GET", "HTTP/1.1 200 OK\r\nX-Mark: a\r\nContent-Length: 5\r\n\r\nhello", "200 a hello false"},
	{"empty", "GET", "HTTP/1.1 204 No Content\r\nX-Mark: b\r\n\r\n", "204 b  false"},
	{"chunked", "GET", "HTTP/1.1 200 OK\r\nX-Mark: c\r\nTransfer-Encoding: " +
		"chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nT: 1\r\n\r\n", "200 c hello false"},
	{"until the end", "GET", "HTTP/1.0 200 OK\r\nX-Mark: d\r\n\r\nhello", "200 d hello false"},
	{"after 1xx", "GET", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 " +
		"Continue\r\n\r\nHTTP/1.1 404 No\r\nX-Mark: e\r\nContent-Length: 2\r\n\r\nno",
		"404 e no false"},
	{"head", "HEAD", "HTTP/1.1 200 OK\r\nX-Mark: f\r\nContent-Length: 500\r\n\r\n", "200 f  false"},
	{"close", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nX-Mark: g\r\nContent-Length: 5\r\n\r\nhello", "200 g hello false"},
	{"many reads", "GET", "HTTP/1.1 200 OK\r\nX-Mark: h\r\nContent-Length: 300000\r\n\r\n" +
		strings.Repeat("x", 300000), "200 h 300000 bytes false"},
	{"too much to keep", "GET", "HTTP/1.1 200 OK\r\nX-Mark: i\r\nContent-Length: 1500000\r\n\r\n" +
		strings.Repeat("x", 1500000), "200 i 1048576 bytes true"},
}

func TestAnswersOfEveryFramingAreReadWhole(t *testing.T) {
	for _, a := range answers {
		for _, piece := range []int{1 << 30, 1, 7} {
			if piece < 1<<30 && len(a.wire) > 1000 {
				continue
			}
			t.Run(fmt.Sprint(a.name, " in pieces of ", piece), func(t *testing.T) { readOne(t, a.method, a.wire, a.seen, piece) })
		}
	}
}

func readOne(t *testing.T, method, wire, seen string, piece int) {
	closes := strings.HasPrefix(wire, "HTTP/1.0")
	s := serve(t, func(_ int64, _ *http.Request, c net.Conn) bool {
		c.(*net.TCPConn).SetNoDelay(true)
		for p := range slices.Chunk([]byte(wire), piece) {
			if _, err := c.Write(p); err != nil {
				return false
			}
		}
		return !closes
	})
	for _, body := range []bool{true, false} {
		o := get(t, s.url())
		script := &reader{method: method, to: o.Target, body: body}
		o.Script, o.Connections, o.Arrivals = script, 1, every(3, ms)
		totals, _ := run(t, o)
		want(t, totals, map[measure.Kind]uint64{measure.OK: 3})
		expect := seen
		if !body {
			parts := strings.SplitN(seen, " ", 3)
			expect = parts[0] + " " + parts[1] + "  false"
		}
		if !slices.Equal(script.seen, []string{expect, expect, expect}) {
			t.Errorf("the script saw %q, want three times %q", script.seen, expect)
		}
		if uint64(3*len(wire)) != totals.BytesIn {
			t.Errorf("%d bytes came, %d were counted", 3*len(wire), totals.BytesIn)
		}
	}
}

func TestEachFailureIsCountedAsWhatItIs(t *testing.T) {
	cases := []struct {
		name, wire string
		close      bool
		kind       measure.Kind
		example    string
	}{
		{"status", "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", false, measure.BadStatus, "status 503 Service Unavailable"},
		{"no HTTP", "SSH-2.0-OpenSSH\x1b[2J\r\n", false, measure.BadHTTP, "SSH-2.0"},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", false, measure.BadHTTP, "length"},
		{"upgrade", "HTTP/1.1 101 Switching Protocols\r\n\r\n", false, measure.BadHTTP, "upgrade"},
		{"1xx without end", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 40), false, measure.BadHTTP, "1xx"},
		{"surplus", okAnswer + "more", false, measure.BadHTTP, "more"},
		{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false, measure.BadHTTP, "framed"},
		{"head too large", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 70000) + "\r\n\r\n", false, measure.BadHTTP, "head_too_large"},
		{"no answer", "", true, measure.ConnectionLost, "before an answer"},
		{"half a head", "HTTP/1.1 200 OK\r\nCont", true, measure.ConnectionLost, "in the middle"},
		{"half a body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", true, measure.ConnectionLost, "in the middle"},
		{"half a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", true, measure.ConnectionLost, "in the middle"},
		{"silence", "", false, measure.Timeout, "timeout"},
		{"half and silence", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", false, measure.Timeout, "timeout"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, func(_ int64, _ *http.Request, conn net.Conn) bool {
				io.WriteString(conn, c.wire)
				return !c.close
			})
			o := get(t, s.url())
			o.Arrivals = every(8, ms)
			if c.kind == measure.Timeout {
				o.Connections, o.Timeout = 8, 50*time.Millisecond
			}
			totals, _ := run(t, o)
			want(t, totals, map[measure.Kind]uint64{c.kind: 8})
			example := totals.Examples[c.kind.String()]
			contains(t, example, c.example)
			if len(example) > 200 || strings.ContainsFunc(example, func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("the example is too long or not printable: %q", example)
			}
		})
	}
}

func TestEveryArrivalEndsOnceUnderFailuresOfAllKinds(t *testing.T) {
	s := serve(t, func(n int64, r *http.Request, c net.Conn) bool {
		switch n % 11 {
		case 1:
			return false
		case 2:
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhal")
			return false
		case 3:
			io.WriteString(c, "nonsense\r\n\r\n")
		case 4:
			io.WriteString(c, length(100000)+strings.Repeat("x", 100000))
		case 5:
			io.WriteString(c, "HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return false
		case 6:
			io.WriteString(c, okAnswer+okAnswer)
		case 7:
			_, err := c.Read(make([]byte, 1))
			return err == nil
		case 8:
			c.(*net.TCPConn).SetLinger(0)
			return false
		default:
			return send(okAnswer)(n, r, c)
		}
		return true
	})
	for _, o := range []load.Options{
		{Connections: 16, Loops: 2, Arrivals: every(1500, ms/5), Timeout: 60 * time.Millisecond, Backlog: 100},
		{Connections: 16, Loops: 2, Duration: 300 * time.Millisecond, Timeout: 30 * time.Millisecond},
		{Connections: 3, Arrivals: every(500, ms/5), Timeout: 60 * time.Millisecond, PerConnection: 3, Backlog: 20},
	} {
		basis := get(t, s.url())
		o.Target, o.Script, o.Window = basis.Target, basis.Script, basis.Window
		kinds := []measure.Kind{measure.OK, measure.BadStatus, measure.Timeout, measure.ConnectionLost, measure.BadHTTP}
		if o.Backlog == 20 { // which has no room for everything
			kinds = append(kinds, measure.NotSent)
		}
		var ended measure.Tally
		inOneOf(t, 10, fmt.Sprint("requests end in all ways: ", kinds), func() bool {
			totals, _ := run(t, o) // audits
			ended.Add(&totals.Ended)
			return !slices.ContainsFunc(kinds, func(k measure.Kind) bool { return ended[k] == 0 })
		})
	}
}

func TestALargeRequestIsSentWhole(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	var mu sync.Mutex
	var sizes []int64
	s := serve(t, func(n int64, r *http.Request, c net.Conn) bool {
		mu.Lock()
		sizes = append(sizes, r.ContentLength)
		mu.Unlock()
		return send(okAnswer)(n, r, c)
	})
	o := get(t, s.url())
	request, err := load.Prepare(o.Target, "POST", []string{"Content-Type: text/plain"}, body)
	if err != nil {
		t.Fatal(err)
	}
	o.Script, o.Arrivals = load.Static("post", request, false), every(5, 10*ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 5})
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(sizes, slices.Repeat([]int64{1 << 20}, 5)) || totals.BytesOut != 5*uint64(len(request)) {
		t.Errorf("the server saw bodies of %v bytes; %d bytes out", sizes, totals.BytesOut)
	}
}

func TestAnAnswerBeforeTheWholeRequestEndsTheConnection(t *testing.T) {
	over := make(chan struct{})
	s := accept(t, func(_ int64, c net.Conn) {
		c.Read(make([]byte, 100))
		io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
		<-over // and never reads the rest
	})
	t.Cleanup(func() { close(over) })
	o := get(t, s.url())
	request, err := load.Prepare(o.Target, "POST", nil, make([]byte, 32<<20))
	if err != nil {
		t.Fatal(err)
	}
	o.Script, o.Connections, o.Arrivals = load.Static("post", request, false), 1, every(3, 50*ms)
	totals, err := load.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want(t, totals, map[measure.Kind]uint64{measure.BadStatus: 3})
	if totals.Reused != 0 {
		t.Errorf("%d requests followed one that had not been sent whole", totals.Reused)
	}
}

func TestAnswersThatEndTheirConnectionAreCounted(t *testing.T) {
	for answer, closing := range map[string]uint64{
		okAnswer: 0,
		"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok": 50,
		"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok":                      50,
	} {
		s := serve(t, func(_ int64, _ *http.Request, c net.Conn) bool {
			io.WriteString(c, answer)
			return closing == 0
		})
		o := get(t, s.url())
		o.Arrivals = every(50, ms)
		totals, _ := run(t, o)
		want(t, totals, map[measure.Kind]uint64{measure.OK: 50})
		if totals.Closing != closing {
			t.Errorf("%d of 50 end their connection after %q", totals.Closing, answer)
		}
	}
}

func TestATargetThatClosesEveryConnectionIsNotAskedWithoutEnd(t *testing.T) {
	s := accept(t, func(int64, net.Conn) {})
	o := get(t, s.url())
	o.Arrivals, o.Timeout = every(100, ms), 200*time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	totals, _, err := runIn(ctx, t, o)
	if err == nil && totals.Ended[measure.OK] != 0 {
		t.Errorf("%v", totals.Ended)
	}
	if s.dials.Load() > 2000 {
		t.Errorf("%d connections were made in 300 ms", s.dials.Load())
	}
}
