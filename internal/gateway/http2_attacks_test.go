package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	codec "plimsoll/internal/http2"
)

// beside is a client that behaves, a library's, which asks one request after the other on the loop
// that is attacked. None may fail.
type beside struct {
	t    *testing.T
	stop context.CancelFunc
	over sync.WaitGroup
	done atomic.Int64
	err  error
}

// framedTransport is Go's own client of HTTP/2 with prior knowledge.
func framedTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: protocols}
}

func (i *instance) beside() *beside {
	ctx, stop := context.WithCancel(context.Background())
	b := &beside{t: i.t, stop: stop}
	transport := framedTransport()
	client := &http.Client{Transport: transport, Timeout: patience}
	url := i.url("/beside")
	b.over.Go(func() {
		defer transport.CloseIdleConnections()
		// Without pauses it would take the processor from other tests while an attack waits.
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			status, body, err := fetch(client, "POST", url)
			if err != nil || status != 200 || body != "POST " {
				b.err = fmt.Errorf("answer %d is %d %q: %w", b.done.Load()+1, status, body, err)
				return
			}
			b.done.Add(1)
		}
	})
	i.t.Cleanup(func() { stop(); b.over.Wait() })
	return b
}

// unharmed waits for some more answers, and ends the client.
func (b *beside) unharmed() {
	b.t.Helper()
	from, ended := b.done.Load(), make(chan struct{})
	go func() { b.over.Wait(); close(ended) }()
	eventually(b.t, "answers for the client beside", func() bool {
		select {
		case <-ended:
			return true
		default:
			return b.done.Load() >= from+5
		}
	})
	b.stop()
	<-ended
	if b.err != nil {
		b.t.Errorf("the client beside: %v", b.err)
	}
}

// attacked is a gateway on one loop. Its service answers requests for /beside, and no others; as
// few as four of those are under way at once.
func attacked(t *testing.T, limits string) *instance {
	t.Helper()
	hold := newService(t, func(c *serviceConn, _ int) { c.drain() })
	s := newService(t, replying(echo))
	return serveClean(t, withH2(strings.Replace(`
loops: 1
listeners: [{address: "127.0.0.1:0"}]
upstreams:
  s: {targets: ["`+s.address()+`"]}
  hold: {targets: ["`+hold.address()+`"], pool: {max_connections: 4, max_pending: 1000, pending_timeout: 60s}}
routes: [{match: /, upstream: hold}, {match: /beside, upstream: s}, {match: /echo, upstream: s}]
`, `"127.0.0.1:0"`, `"127.0.0.1:0", limits: {`+limits+`}`, 1)))
}

// withBeside adds the route that beside asks, and its service.
func withBeside(t *testing.T, yaml string) string {
	s := newService(t, replying(echo))
	yaml = strings.Replace(yaml, "upstreams: {", "upstreams: {beside: {targets: [\""+s.address()+"\"]}, ", 1)
	return strings.Replace(yaml, "routes: [", "routes: [{match: /beside, upstream: beside}, ", 1)
}

// flood is an attack by frames that cost the gateway and bring nobody anything.
type flood struct {
	name string
	why  codec.Reason
	// frames sends some of them. st is a request whose body has not come.
	frames func(c *h2, st *h2stream)
}

// expectCalm has each flood go on until the gateway says ENHANCE_YOUR_CALM, once.
func expectCalm(t *testing.T, all []flood) {
	t.Helper()
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			g := attacked(t, "")
			b := g.beside()
			c := g.h2()
			st := c.open("POST", "/")
			c.served()
			a.frames(c, st)
			last := c.expectGoAway(http2.ErrCodeEnhanceYourCalm)
			if last.debug != a.why.Error() {
				t.Errorf("GOAWAY says %q, want %v", last.debug, a.why)
			}
			b.unharmed()
			if n := g.refusedH2(a.why); n != 1 {
				t.Errorf("%d refusals are counted for %v, want 1", n, a.why)
			}
			c.leave()
		})
	}
}

// times sends frames so often.
func times(n int, frame func(f *http2.Framer, i int)) func(*h2, *h2stream) {
	return func(c *h2, _ *h2stream) {
		c.send(func(f *http2.Framer) {
			for i := range n {
				frame(f, i)
			}
		})
	}
}

// onStream is times for frames of the open stream.
func onStream(n int, frame func(f *http2.Framer, id uint32)) func(*h2, *h2stream) {
	return func(c *h2, st *h2stream) {
		c.send(func(f *http2.Framer) {
			for range n {
				frame(f, st.id)
			}
		})
	}
}

// requests sends n requests, each followed by what frames says.
func requests(n int, end bool, frames func(f *http2.Framer, id uint32)) func(*h2, *h2stream) {
	return func(c *h2, _ *h2stream) {
		for range n {
			st := c.stream(0)
			block := c.encode(c.request("GET", "/")...)
			c.send(func(f *http2.Framer) {
				f.WriteHeaders(http2.HeadersFrameParam{StreamID: st.id, BlockFragment: block, EndStream: end,
					EndHeaders: true})
				frames(f, st.id)
			})
		}
	}
}

func TestHazardRapidReset(t *testing.T) {
	expectCalm(t, []flood{
		{"CVE-2023-44487", codec.TooManyResets, requests(1200, true,
			func(f *http2.Framer, id uint32) { f.WriteRSTStream(id, http2.ErrCodeCancel) })},
		{"of one stream that is over", codec.TooManyResets, onStream(1200,
			func(f *http2.Framer, id uint32) { f.WriteRSTStream(id, http2.ErrCodeCancel) })},
	})
}

// A client may reset what it does not need any more: a browser that leaves a page does.
func TestAClientThatResetsSomeStreamsIsServedOn(t *testing.T) {
	g := attacked(t, "")
	c := g.h2()
	for range 5 {
		requests(100, true, func(f *http2.Framer, id uint32) {
			f.WriteRSTStream(id,
				http2.ErrCodeCancel)
		})(c, nil)
		c.ask("GET", "/echo").expect(200, "GET ")
	}
	if n := g.snapshot().HTTP2Resets; n != 500 {
		t.Errorf("%d resets are counted, want 500", n)
	}
	if n := g.waiting("hold"); n != 0 {
		t.Errorf("%d requests of streams that were reset still wait", n)
	}
}

func TestHazardMadeYouReset(t *testing.T) {
	const n = 150
	expectCalm(t, []flood{
		{"CVE-2025-8671, by windows that overflow", codec.TooManyFaults,
			requests(n, true, func(f *http2.Framer, id uint32) {
				f.WriteWindowUpdate(id, 1<<31-1)
			})},
		{"by increments of zero", codec.TooManyFaults, requests(n, true,
			func(f *http2.Framer, id uint32) { f.WriteWindowUpdate(id, 0) })},
		{"by data behind the end", codec.TooManyFaults, requests(n, true,
			func(f *http2.Framer, id uint32) { f.WriteData(id, true, []byte("x")) })},
		{"by fields behind the end", codec.TooManyFaults, func(c *h2, _ *h2stream) {
			for range n {
				c.ask("GET", "/").headers(c.encode("x", "y"), true)
			}
		}},
		{"by priorities of a wrong size", codec.TooManyFaults,
			requests(n, true, func(f *http2.Framer, id uint32) {
				f.WriteRawFrame(http2.FramePriority, 0, id, []byte("1234"))
			})},
		{"by priorities that depend on themselves", codec.TooManyFaults,
			requests(n, true, func(f *http2.Framer, id uint32) {
				f.WritePriority(id, http2.PriorityParam{StreamDep: id})
			})},
		{"by wrong lengths", codec.TooManyFaults, func(c *h2, _ *h2stream) {
			for range n {
				c.open("POST", "/", "content-length", "9").data("x", true)
			}
		}},
		{"by malformed requests", codec.TooManyFaults, func(c *h2, _ *h2stream) {
			for range n {
				c.ask("GET", "/", "X", "y")
			}
		}},
		{"by more streams than are allowed", codec.TooManyFaults,
			requests(128+n, true, func(*http2.Framer, uint32) {})},
	})
}

func TestHazardFloods(t *testing.T) {
	expectCalm(t, []flood{
		{"SETTINGS", codec.TooManySettings, times(300, func(f *http2.Framer,
			_ int) {
			f.WriteSettings()
		})},
		{"SETTINGS that are long", codec.TooManySettings, times(5, func(f *http2.Framer, _ int) {
			f.WriteRawFrame(http2.FrameSettings, 0, 0, []byte(strings.Repeat("\x00\xff\x00\x00\x00\x00",
				2700)))
		})},
		{"SETTINGS of windows", codec.TooManySettings, times(300, func(f *http2.Framer, i int) {
			f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)})
		})},
		{"PING (CVE-2019-9512)", codec.TooManyPings, times(2000,
			func(f *http2.Framer, _ int) { f.WritePing(false, [8]byte{}) })},
		{"PRIORITY (CVE-2019-9513)", codec.TooManyPriorities, times(2000, func(f *http2.Framer, i int) {
			f.WritePriority(uint32(2*i+1), http2.PriorityParam{StreamDep: 0, Weight: uint8(i)})
		})},
		{"PRIORITY_UPDATE", codec.TooManyPriorities, times(2000, func(f *http2.Framer, _ int) {
			f.WriteRawFrame(0x10, 0, 0, []byte("\x00\x00\x00\x01u=1"))
		})},
		{"WINDOW_UPDATE", codec.TooManyWindowUpdates, times(3000,
			func(f *http2.Framer, _ int) { f.WriteWindowUpdate(0, 1) })},
		{"WINDOW_UPDATE of a stream", codec.TooManyWindowUpdates,
			onStream(3000, func(f *http2.Framer, id uint32) { f.WriteWindowUpdate(id, 1) })},
		{"empty DATA (CVE-2019-9518)", codec.TooManyEmptyFrames,
			onStream(300, func(f *http2.Framer, id uint32) { f.WriteData(id, false, nil) })},
		{"padding alone", codec.TooManyEmptyFrames, onStream(300, func(f *http2.Framer, id uint32) {
			f.WriteDataPadded(id, false, nil, make([]byte, 200))
		})},
		{"DATA of one byte", codec.TooManySmallFrames, onStream(2500,
			func(f *http2.Framer, id uint32) { f.WriteData(id, false, []byte("x")) })},
		{"unknown frames", codec.TooManyUnknownFrames, times(700,
			func(f *http2.Framer, _ int) { f.WriteRawFrame(0xbe, 0, 0, []byte("x")) })},
		{"unknown frames that are long", codec.TooManyUnknownFrames,
			onStream(700, func(f *http2.Framer, id uint32) {
				f.WriteRawFrame(0xbe, 0xff, id, make([]byte, 10_000))
			})},
		{"GOAWAY", codec.TooManyGoAways, times(30, func(f *http2.Framer,
			_ int) {
			f.WriteGoAway(0, 0, nil)
		})},
	})
}

func TestHazardContinuationFlood(t *testing.T) {
	begin := func(f *http2.Framer, id uint32, fragment []byte) {
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: fragment, EndStream: true})
	}
	expectCalm(t, []flood{
		{"CVE-2024-27316", codec.TooManyContinuations, func(c *h2, _ *h2stream) {
			c.send(func(f *http2.Framer) {
				begin(f, 3, []byte("\x82"))
				for range 10_000 {
					f.WriteContinuation(3, false, []byte("\x00\x01x\x01y"))
				}
			})
		}},
		{"of nothing", codec.TooManyContinuations, func(c *h2, _ *h2stream) {
			c.send(func(f *http2.Framer) {
				begin(f, 3, nil)
				for range 1000 {
					f.WriteContinuation(3, false, nil)
				}
			})
		}},
		{"16 MB of fields", codec.BlockTooLarge, func(c *h2, _ *h2stream) {
			one := []byte(strings.Repeat("\x00\x01x\x01y", 3000))
			c.send(func(f *http2.Framer) {
				begin(f, 3, one)
				for range 16 << 20 / len(one) {
					f.WriteContinuation(3, false, one)
				}
			})
		}},
	})
}

// A head that stands for more than a megabyte is answered, but not for ever.
func TestHazardAFloodOfHeaderCompressionBombs(t *testing.T) {
	head := "\x82\x86\x04\x05/echo\x01\x01a\x40\x01x\x7f\xb1\x1d" + strings.Repeat("y", 127+0x31+0x1d<<7)
	expectCalm(t, []flood{{"bombs", codec.TooManyFaults, func(c *h2, _ *h2stream) {
		for range 120 {
			c.stream(0).headers([]byte(head+strings.Repeat("\xbe", 300)), true)
		}
	}}})
}

func TestHazardHeaderCompressionBomb(t *testing.T) {
	g := attacked(t, "")
	b := g.beside()
	c := g.h2()
	// One field of almost 4 KB enters the table, and then a byte stands for each further one of it.
	head := "\x82\x86\x04\x05/echo\x01\x01a"
	entry := "\x40\x01x\x7f\xb1\x1d" + strings.Repeat("y", 127+0x31+0x1d<<7)
	for range 20 {
		st := c.stream(0)
		st.headers([]byte(head+entry+strings.Repeat("\xbe", 30_000)), true)
		if status, _ := st.answer(); status != 431 {
			t.Fatalf("a head of 120 MB got %d", status)
		}
	}
	b.unharmed()
	g.expectRefusedH2(codec.HeadTooLarge, 20)
	if n := g.buffered(); n > 1<<20 {
		t.Errorf("%d bytes of buffers are in use", n)
	}
	c.leave()
}
