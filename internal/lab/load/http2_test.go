package load_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/pace"
)

func TestHTTP2IsSpokenWithTLSAndWithout(t *testing.T) {
	var wrong atomic.Int64
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.UserAgent() != "plimsoll" || r.URL.Path != "/" {
			wrong.Add(1)
		}
		io.WriteString(w, "ok")
	}
	plain := serve2(t, 0, handler)
	encrypted, ca := secure2(t, handler)
	for _, url := range []string{plain, encrypted} {
		for name, arrivals := range map[string]func(int, int) pace.Schedule{"open": every(200, ms), "closed": nil} {
			t.Run(name+" "+url[:5], func(t *testing.T) {
				o := get(t, url)
				if url == encrypted {
					o.Target = target(t, url, load.TLSOptions{CA: ca})
				}
				o.Loops, o.Streams, o.Arrivals = 2, 5, arrivals
				if arrivals == nil {
					o.Duration = 200 * time.Millisecond
				}
				totals, _ := run(t, o)
				if totals.Ended.Failed() != 0 || totals.ConnectionsMade != 4 || totals.Streams != 5 || totals.Peak > 20 {
					t.Errorf("%v %v, %d connections, %d streams, %d at once", totals.Ended,
						totals.Examples, totals.ConnectionsMade, totals.Streams, totals.Peak)
				}
				if arrivals != nil && totals.Ended[measure.OK] != 200 {
					t.Errorf("%v", totals.Ended)
				}
			})
		}
	}
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d requests were not what was asked for", n)
	}
}

// gate counts the requests at a server, and releases them once there are enough.
type gate struct {
	mu           sync.Mutex
	inside, most int
	full         chan struct{}
	when         int
}

func (g *gate) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	g.mu.Lock()
	g.inside++
	if g.most = max(g.most, g.inside); g.most == g.when && g.inside == g.when {
		select {
		case <-g.full:
		default:
			close(g.full)
		}
	}
	g.mu.Unlock()
	<-g.full
	io.WriteString(w, "ok")
	g.mu.Lock()
	g.inside--
	g.mu.Unlock()
}

func TestAClosedLoopHasSoManyRequestsAtOnceAsThereAreStreams(t *testing.T) {
	for _, c := range []struct{ asked, allowed, streams int }{{5, 0, 5}, {5, 3, 3}} {
		g := &gate{full: make(chan struct{}), when: 2 * c.streams}
		o := over2(get(t, serve2(t, c.allowed, g.ServeHTTP)), c.asked)
		o.Connections, o.Duration = 2, 100*time.Millisecond
		totals, _ := run(t, o)
		g.mu.Lock() // handlers may not have returned yet
		defer g.mu.Unlock()
		if totals.Peak != 2*c.streams || totals.Streams != c.streams || totals.Ended.Failed() != 0 || g.most != totals.Peak {
			t.Errorf("%+v: %d at once, at the server %d, %d streams: %v %v", c, totals.Peak, g.most,
				totals.Streams, totals.Ended, totals.Examples)
		}
	}
}

func TestAnArrivalWithoutAFreeStreamWaitsAndItsTimeRuns(t *testing.T) {
	release := make(chan struct{})
	var once sync.Once
	url := serve2(t, 2, func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { time.AfterFunc(100*time.Millisecond, func() { close(release) }) })
		<-release
		io.WriteString(w, "ok")
	})
	o := over2(get(t, url), 10)
	o.Arrivals = every(10, ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 10})
	if least := totals.Response.Quantile(0); least < 85*ms {
		t.Errorf("an arrival waited %d ns for its answer; the streams were busy for 100 ms, and the last was due after 9", least)
	}
	if totals.Lag.Count() != 2 || totals.Peak != 2 {
		t.Errorf("two arrivals found a free stream, and %d send lags were counted; %d in flight", totals.Lag.Count(), totals.Peak)
	}
	// Two of the requests waited for the server, and a busy machine may delay the answers to two
	// others.
	if slow := totals.Service.Over(90 * ms); slow > 6 {
		t.Errorf("%v service times over 90 ms: the wait for a stream is not a service", slow)
	}
}

func TestFieldsThatRepeatAreSentOnce(t *testing.T) {
	url := serve2(t, 0, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Long") != strings.Repeat("x", 500) || r.Header.Get("Connection") != "" || r.Header.Get("Te") != "trailers" ||
			r.URL.Path != "/path" || r.URL.RawQuery != "q=1" {
			w.WriteHeader(400)
		}
	})
	o := get(t, url+"path?q=1")
	fields := []string{"X-Long: " + strings.Repeat("x", 500), "Connection: keep-alive", "TE: gzip"}
	request, err := load.Prepare(o.Target, "GET", fields, nil)
	if err != nil {
		t.Fatal(err)
	}
	o = over2(o, 10)
	o.Script, o.Arrivals = load.Static("get", request, false), every(500, ms/10)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 500})
	// The header of a frame, five table references, and the 9 letters of the path.
	if each := float64(totals.BytesOut) / 500; each > 35 {
		t.Errorf("a request of some 600 bytes takes %.0f", each)
	}
}

// answers2 are what a server does, and what a script that asks for bodies sees of it.
var answers2 = []struct {
	name, method string
	answer       func(p *peer, id uint32)
	seen         string
}{
	{"length", "GET", func(p *peer, id uint32) {
		p.headers(id, false, ":status", "200", "x-mark", "a", "content-length", "5")
		p.WriteData(id, true, []byte("hello"))
	}, "200 a hello false"},
	{"empty", "GET", func(p *peer, id uint32) { p.headers(id, true, ":status", "204", "x-mark", "b") }, "204 b  false"},
	{"pieces", "GET", func(p *peer, id uint32) {
		p.headers(id, false, ":status", "200", "x-mark", "c")
		p.WriteDataPadded(id, false, []byte("hel"), make([]byte, 40))
		p.WritePing(false, [8]byte{1})
		p.WriteDataPadded(id, false, []byte("lo"), nil)
		p.WriteData(id, true, nil)
	}, "200 c hello false"},
	{"after 1xx", "GET", func(p *peer, id uint32) {
		p.headers(id, false, ":status", "103", "link", "x")
		p.headers(id, false, ":status", "100")
		p.headers(id, false, ":status", "404", "x-mark", "e")
		p.WriteData(id, true, []byte("no"))
	}, "404 e no false"},
	{"head", "HEAD", func(p *peer, id uint32) {
		p.headers(id, true, ":status", "200", "x-mark", "f", "content-length", "500")
	}, "200 f  false"},
	{"trailers", "GET", func(p *peer, id uint32) {
		p.headers(id, false, ":status", "200", "x-mark", "g")
		p.WriteData(id, false, []byte("hello"))
		p.headers(id, true, "grpc-status", "0")
	}, "200 g hello false"},
	{"many reads", "GET", func(p *peer, id uint32) { p.long(id, "h", 300000) }, "200 h 300000 bytes false"},
	{"too much to keep", "GET", func(p *peer, id uint32) { p.long(id, "i", 1500000) }, "200 i 1048576 bytes true"},
	{"a head in pieces", "GET", func(p *peer, id uint32) {
		b := block(":status", "200", "x-mark", "j")
		p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b[:1]})
		p.WriteContinuation(id, false, b[1:4])
		p.WriteContinuation(id, true, b[4:])
		p.WriteData(id, true, []byte("hello"))
	}, "200 j hello false"},
	{"what is not known", "GET", func(p *peer, id uint32) {
		p.WriteRawFrame(0xbe, 0, id+100, []byte("what"))
		p.WriteRawFrame(0xbe, 0, 0, nil)
		p.headers(id, false, ":status", "200", "x-mark", "k")
		p.WriteRawFrame(0xbe, 0xff, id, make([]byte, 10000))
		p.WriteData(id, true, []byte("hello"))
		p.WriteRSTStream(id, http2.ErrCodeNo)
		p.WriteWindowUpdate(id, 5)
	}, "200 k hello false"},
}

// long sends an answer of n bytes.
func (p *peer) long(id uint32, mark string, n int) {
	p.headers(id, false, ":status", "200", "x-mark", mark)
	for ; n > 0; n -= 10000 {
		p.WriteData(id, n <= 10000, make([]byte, min(n, 10000)))
	}
}

func TestAnswersOfHTTP2AreReadWhole(t *testing.T) {
	for _, a := range answers2 {
		for _, piece := range []int{1 << 30, 1, 7} {
			if strings.Contains(a.seen, "bytes") && piece < 1<<30 {
				continue
			}
			t.Run(fmt.Sprint(a.name, " in pieces of ", piece), func(t *testing.T) {
				readOne2(t, a.method, a.seen, func(p *peer) {
					p.c = pieces{p.c, piece}
					f := http2.NewFramer(p.c, p.c)
					f.ReadMetaHeaders = p.ReadMetaHeaders
					p.Framer = f
					for head := p.head(); head != nil; head = p.head() {
						a.answer(p, head.StreamID)
					}
				})
			})
		}
	}
}

// pieces is a connection whose writes go out in pieces of some bytes.
type pieces struct {
	net.Conn
	size int
}

func (c pieces) Write(b []byte) (int, error) {
	for p := range slices.Chunk(b, c.size) {
		if _, err := c.Conn.Write(p); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

func readOne2(t *testing.T, method, seen string, part func(p *peer)) {
	s := script(t, nil, func(_ int64, p *peer) { part(p) })
	for _, body := range []bool{true, false} {
		o := over2(get(t, s.url()), 2)
		script := &reader{method: method, to: o.Target, body: body}
		o.Script, o.Arrivals = script, every(3, ms)
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
		if totals.ConnectionsMade != 1 {
			t.Errorf("%d connections", totals.ConnectionsMade)
		}
	}
}

func TestSessionsGoOnOverHTTP2(t *testing.T) {
	url := serve2(t, 0, func(w http.ResponseWriter, r *http.Request) {
		var visit int
		if n, _ := fmt.Sscanf(r.URL.Path, "/login/%d", &visit); n == 1 {
			fmt.Fprintf(w, "t%d", visit)
			return
		}
		if n, _ := fmt.Sscanf(r.URL.Path, "/buy/t%d", &visit); n != 1 {
			w.WriteHeader(403)
		}
	})
	for _, think := range []time.Duration{0, 20 * time.Millisecond} {
		for _, perConnection := range []int{0, 1} {
			o := over2(get(t, url), 4)
			script := &shop{to: o.Target, buys: 2, think: think}
			o.Script, o.Arrivals, o.PerConnection = script, every(20, ms), perConnection
			totals, _ := run(t, o)
			want(t, totals, map[measure.Kind]uint64{measure.OK: 60})
			script.check(t, 20)
		}
	}
}

func TestConnectionsOfHTTP2AreRenewedByCountAndByTime(t *testing.T) {
	url := serve2(t, 0, func(w http.ResponseWriter, r *http.Request) {})
	o := over2(get(t, url), 4)
	o.Arrivals, o.PerConnection = every(100, ms), 7
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 100})
	if totals.ConnectionsMade < 15 || totals.ConnectionsMade > 16 {
		t.Errorf("100 requests, 7 for each connection: %d were made", totals.ConnectionsMade)
	}
	o.Arrivals, o.PerConnection, o.Lifetime = every(500, ms), 0, 10*time.Millisecond
	totals, _ = run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 500})
	if totals.ConnectionsMade < 6 || totals.Reused == 0 {
		t.Errorf("%d connections of 10 ms in half a second, %d requests used one again", totals.ConnectionsMade, totals.Reused)
	}
}

// post is a script of one request with a body.
func post(t *testing.T, o load.Options, size int) load.Script {
	t.Helper()
	body := make([]byte, size)
	for i := range body {
		body[i] = byte(i % 251)
	}
	request, err := load.Prepare(o.Target, "POST", nil, body)
	if err != nil {
		t.Fatal(err)
	}
	return load.Static("post", request, false)
}

func TestBodiesAreSentWholeWithinTheTargetsWindows(t *testing.T) {
	var wrong atomic.Int64
	url := serve2(t, 0, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) != 1_000_000 || r.ContentLength != 1_000_000 {
			wrong.Add(1)
		}
		for i, c := range body {
			if c != byte(i%251) {
				wrong.Add(1)
				break
			}
		}
	})
	o := over2(get(t, url), 5)
	o.Script, o.Arrivals = post(t, o, 1_000_000), every(20, ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 20})
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d bodies did not arrive as they are", n)
	}
}

func TestAWindowThatOpensByAByteAtATimeIsFilledAsItOpens(t *testing.T) {
	settings := []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 0}}
	s := script(t, settings, func(_ int64, p *peer) {
		got, opened := map[uint32]int{}, uint32(0)
		for f := p.next(); f != nil; f = p.next() {
			switch f := f.(type) {
			case *http2.MetaHeadersFrame:
				p.WriteWindowUpdate(f.StreamID, 1)
				opened++
				if opened == 3 { // a window below zero, and up again
					p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3})
				}
			case *http2.DataFrame:
				if got[f.StreamID] += len(f.Data()); f.StreamEnded() {
					if got[f.StreamID] != 30 {
						t.Errorf("stream %d had %d bytes of 30", f.StreamID, got[f.StreamID])
					}
					p.ok(f.StreamID)
				} else {
					p.WriteWindowUpdate(f.StreamID, 1)
				}
			}
		}
	})
	o := over2(get(t, s.url()), 3)
	o.Script, o.Arrivals = post(t, o, 30), every(6, ms)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 6})
}

func TestATimeOutResetsItsStreamAndNoOther(t *testing.T) {
	var resets atomic.Int64
	arrivals, more := letting(29, 30) // one after the first has timed out
	s := script(t, nil, func(_ int64, p *peer) {
		for f := p.next(); f != nil; f = p.next() {
			switch f := f.(type) {
			case *http2.MetaHeadersFrame:
				if f.StreamID == 1 {
					p.headers(1, false, ":status", "200", "x-first", "1") // and no more
				} else {
					p.ok(f.StreamID)
				}
			case *http2.RSTStreamFrame:
				if f.StreamID == 1 && f.ErrCode == http2.ErrCodeCancel {
					resets.Add(1)
				}
				p.WriteData(1, true, []byte("too late"))
				more()
			case *http2.PingFrame:
				p.WritePing(true, f.Data)
			}
		}
	})
	o := over2(get(t, s.url()), 2)
	o.Arrivals, o.Timeout = arrivals, 4*time.Second // longer than the machine stalls
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 29, measure.Timeout: 1})
	if totals.ConnectionsMade != 1 || resets.Load() != 1 {
		t.Errorf("%d connections, the stream was reset %d times", totals.ConnectionsMade, resets.Load())
	}
}

func TestAConnectionThatIsDeadIsMadeAgain(t *testing.T) {
	going := &until{}
	s := script(t, nil, func(n int64, p *peer) {
		if n == 1 {
			io.Copy(io.Discard, p.c) // and not a word
			return
		}
		for head := p.head(); head != nil; head = p.head() {
			p.ok(head.StreamID)
			going.over.CompareAndSwap(false, n > 100 || head.StreamID > 100)
		}
	})
	o := over2(get(t, s.url()), 2)
	o.Arrivals, o.Timeout = going.arrivals, 500*time.Millisecond
	totals, _ := run(t, o)
	if totals.ConnectionsMade < 2 || totals.Ended[measure.OK] == 0 || totals.Ended[measure.Timeout] < 2 {
		t.Errorf("%d connections: %v", totals.ConnectionsMade, totals.Ended)
	}
}

func TestCancellingCutsOffStreams(t *testing.T) {
	for name, arrivals := range map[string]func(int, int) pace.Schedule{"closed": nil, "open": every(1_000_000, ms)} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := script(t, nil, func(_ int64, p *peer) {
				for range 4 {
					p.head()
				}
				cancel()
				p.drain()
			})
			o := over2(get(t, s.url()), 4)
			o.Arrivals = arrivals
			totals, _, err := runIn(ctx, t, o)
			if err != nil {
				t.Fatal(err)
			}
			if n := totals.Ended[measure.Unfinished]; n < 4 || n != totals.Due {
				t.Errorf("%v", totals.Ended)
			}
		})
	}
}

func TestAnIdentifierWhoseSlotIsTakenIsLeftOut(t *testing.T) {
	s := script(t, nil, func(_ int64, p *peer) {
		last := uint32(0)
		for head := p.head(); head != nil; head = p.head() {
			if head.StreamID <= last {
				t.Errorf("stream %d after %d", head.StreamID, last)
			}
			if last = head.StreamID; last > 1 {
				p.ok(last)
			}
			if last > 200 {
				p.ok(1)
				p.serveAll()
				return
			}
		}
	})
	o := over2(get(t, s.url()), 3)
	o.Arrivals = every(200, ms/10)
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 200})
}
