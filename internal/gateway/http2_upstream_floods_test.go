package gateway

import (
	"testing"

	"golang.org/x/net/http2"

	codec "plimsoll/internal/http2"
)

// A service that floods its connection loses that alone, and a request to another service on the same
// loop notices nothing.
func TestHazardServicesThatFlood(t *testing.T) {
	t.Parallel()
	// The gateway forgives some frames a second, so a slow machine has to send more of them: as many
	// as it takes until the connection is closed, and most at the most.
	const most = 10_000_000
	endless := func(frame func(f *http2.Framer, id uint32) error) func(*http2.Framer, uint32) {
		return func(f *http2.Framer, id uint32) {
			for range most {
				if frame(f, id) != nil {
					return
				}
			}
		}
	}
	for name, flood := range map[string]struct {
		why    codec.Reason
		frames func(f *http2.Framer, id uint32)
	}{
		"PING": {codec.TooManyPings, endless(func(f *http2.Framer, _ uint32) error {
			return f.WritePing(false, [8]byte{})
		})},
		"SETTINGS": {codec.TooManySettings, endless(func(f *http2.Framer, _ uint32) error {
			return f.WriteSettings()
		})},
		"CONTINUATION": {codec.TooManyContinuations, func(f *http2.Framer, id uint32) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte("\x88")})
			for range 20 {
				f.WriteContinuation(id, false, []byte("\x00\x01x\x01y"))
			}
		}},
		"empty DATA": {codec.TooManyEmptyFrames, func(f *http2.Framer, id uint32) {
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte("\x88"), EndHeaders: true})
			for range most {
				if f.WriteData(id, false, nil) != nil {
					return
				}
			}
		}},
		"WINDOW_UPDATE": {codec.TooManyWindowUpdates, endless(func(f *http2.Framer, id uint32) error {
			return f.WriteWindowUpdate(id, 1)
		})},
		"RST_STREAM": {codec.TooManyResets, endless(func(f *http2.Framer, id uint32) error {
			return f.WriteRSTStream(id, http2.ErrCodeInternal)
		})},
		"unknown frames": {codec.TooManyUnknownFrames, endless(func(f *http2.Framer, _ uint32) error {
			return f.WriteRawFrame(0xbe, 0, 0, nil)
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newH2Service(t, nil, func(s *h2Service) {
				s.asked = func(a *h2Asked) {
					if a.path != "/bad" {
						a.ok("ok")
						return
					}
					a.c.do(func(f *http2.Framer) { flood.frames(f, a.id) })
				}
			})
			g := serveClean(t, withBeside(t, `
loops: 1
listeners: [{address: "127.0.0.1:0", http2: true}]
upstreams: {s: {protocol: h2c, targets: ["`+s.address()+`"], retry: {attempts: 0}, health: {passive: {disabled: true}}}}
routes: [{match: /, upstream: s}]
`))
			b := g.beside()
			c := g.h2()
			bad := c.ask("GET", "/bad")
			c.wait("the end of the flooded request", func() bool { return bad.ended || bad.reset })
			eventually(t, "the flood to be counted", func() bool {
				return g.snapshot().UpstreamFaults2[flood.why] == 1
			})
			c.ask("GET", "/").expect(200, "ok")
			if n := s.connections(); n != 2 {
				t.Errorf("%d connections to the service, want one more after the flood", n)
			}
			b.unharmed()
			c.leave()
		})
	}
}
