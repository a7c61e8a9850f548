package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/internal/policy/tunnels"
	"plimsoll/internal/telemetry"
)

func TestMessagesOfWebSocketsAreCountedAndLogged(t *testing.T) {
	overBoth(t, func(t *testing.T, dial func(*instance) *peer) {
		path := filepath.Join(t.TempDir(), "log")
		s := newSockets(t, dial, "", "access_log: {path: "+path+"}\n")
		client, service := s.open()
		up := masked(0x81, "one") + masked(0x01, "t") + masked(0x89, "?") + masked(0x80, "wo")
		client.send(up)
		service.expect(up)
		down := unmasked(0x82, strings.Repeat("x", 70000)) + unmasked(0x8a, "?")
		service.send(down)
		client.expect(down)
		eventually(t, "the messages are counted while it is open", func() bool {
			c := s.counts()
			return c.In == 2 && c.Out == 1 && c.Opened == 1 && c.Open() == 1
		})
		client.send(masked(0x88, closeFrame(1000)))
		service.expectClose(1000)
		service.send(unmasked(0x88, closeFrame(1000)))
		client.expectClose(1000)
		service.Close()
		client.expectEnd()
		client.Close()
		s.expectClosed(telemetry.ByClient)
		var line map[string]any
		if err := json.Unmarshal([]byte(lines(t, path, 1)[0]), &line); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(line["messages_in"], line["messages_out"], line["close_code"]) + " " + fmt.Sprint(line["closed_by"])
		if got != "2 1 1000 client" {
			t.Errorf("the access log says %s", got)
		}
	})
}

func TestASilentClientIsSentAPingWhoseAnswerTheServiceDoesNotGet(t *testing.T) {
	overBoth(t, func(t *testing.T, dial func(*instance) *peer) {
		s := newSockets(t, dial, ", websocket: {ping_interval: 20ms}", "")
		client, service := s.open()
		first, payload := client.expectFrame()
		if first != 0x89 || len(payload) != 8 {
			t.Fatalf("got the frame %x %q, want a ping", first, payload)
		}
		pong := masked(0x8a, payload)
		for n := 1; n < len(pong); n += 4 { // however it is split
			client.send(masked(0x82, "a") + pong[:n])
			service.expect(masked(0x82, "a"))
			client.send(pong[n:] + masked(0x01, "b"))
			client.send(pong + masked(0x80, "c") + pong)
			service.expect(masked(0x01, "b") + masked(0x80, "c"))
		}
		for _, other := range []string{"", "x", payload[:7], payload[:7] + "x", payload + "x"} {
			frame := masked(0x8a, other)
			client.send(frame[:len(frame)-1])
			client.send(frame[len(frame)-1:])
			service.expect(frame)
		}
		client.Close()
		service.Close()
	})
}

func TestAClientThatDoesNotAnswerAPingIsClosed(t *testing.T) {
	overBoth(t, func(t *testing.T, dial func(*instance) *peer) {
		s := newSockets(t, dial, ", websocket: {ping_interval: 10ms, close_grace: 10ms}", "")
		client, service := s.open()
		if first, _ := client.expectFrame(); first != 0x89 {
			t.Errorf("the first frame is %x", first)
		}
		client.expectClose(1001)
		service.expectClose(1001)
		client.expectEnd()
		s.expectClosed(telemetry.ByNoPong)
		client.Close()
	})
}

func TestTimeLimitsOfAWebSocketCloseIt(t *testing.T) {
	for by, route := range map[telemetry.Closer]string{
		// A client that a busy machine lets answer a ping too late is closed for that.
		telemetry.ByIdle:     ", tunnel_timeout: 1500ms, websocket: {ping_interval: 400ms}",
		telemetry.ByLifetime: ", websocket: {lifetime: 20ms, close_grace: 10m}",
	} {
		t.Run(by.String(), func(t *testing.T) {
			overBoth(t, func(t *testing.T, dial func(*instance) *peer) {
				s := newSockets(t, dial, route, "")
				client, service := s.open()
				for { // pings and their answers are not what keeps it open
					first, payload := client.expectFrame()
					if first == 0x88 {
						break
					}
					client.send(masked(0x8a, payload))
				}
				service.expectClose(1001)
				service.send(unmasked(0x88, closeFrame(1001)))
				client.send(masked(0x88, closeFrame(1001)))
				client.expectEnd() // although the grace time is not over
				s.expectClosed(by)
				client.Close()
			})
		})
	}
}

func TestWhatEndsAWebSocketFromOutsideClosesBothSides(t *testing.T) {
	for name, end := range map[string]struct {
		by   telemetry.Closer
		does func(s *sockets)
	}{
		"a drain": {telemetry.ByDrain, func(s *sockets) { s.stop() }},
		"a reload that drops the route": {telemetry.ByRemoval, func(s *sockets) {
			s.mustReload(strings.Replace(s.yaml(""), "name: chat", "name: other", 1))
		}},
		"a reload that drops the listener": {telemetry.ByRemoval, func(s *sockets) {
			s.mustReload(strings.Replace(s.yaml(""), "127.0.0.1:0", freeAddress(s.t), 1))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			overBoth(t, func(t *testing.T, dial func(*instance) *peer) {
				s := newSockets(t, dial, ", websocket: {close_grace: 10m}", "drain: {timeout: 1h}\n")
				client, service := s.open()
				client.send(masked(0x01, "half a message") + masked(0x80, "and a frame")[:9])
				service.expect(masked(0x01, "half a message") + masked(0x80, "and a frame")[:9])
				end.does(s)
				client.expectClose(1001)
				client.send(masked(0x80, "and a frame")[9:] + masked(0x82, "too late") + masked(0x88, closeFrame(1001)))
				service.expect(masked(0x80, "and a frame")[9:])
				service.expectClose(1001)
				service.send(unmasked(0x82, "too late") + unmasked(0x88, closeFrame(1001)))
				client.expectEnd()
				if name != "a drain" {
					s.expectClosed(end.by)
				}
				client.Close()
			})
		})
	}
}

// mustReload is reload that must go well. The sockets' routes stay those of yaml otherwise.
func (s *sockets) mustReload(yaml string) {
	s.t.Helper()
	if err := s.reload(yaml); err != nil {
		s.t.Fatal(err)
	}
}

func TestAReloadThatKeepsTheRouteLeavesItsWebSockets(t *testing.T) {
	overBoth(t, func(t *testing.T, dial func(*instance) *peer) {
		s := newSockets(t, dial, "", "")
		client, service := s.open()
		for n := range 3 {
			s.mustReload(strings.Replace(s.yaml(fmt.Sprintf(", timeout: %ds", 5+n)), "here", fmt.Sprint("here", n), 1))
			client.send(masked(0x81, "up"))
			service.expect(masked(0x81, "up"))
			service.send(unmasked(0x81, "down"))
			client.expect(unmasked(0x81, "down"))
		}
		client.Close()
	})
}

func TestAWebSocketThatBeginsInADrainIsClosed(t *testing.T) {
	overBoth(t, func(t *testing.T, dial func(*instance) *peer) {
		asked, answer := make(chan *serviceConn), make(chan struct{})
		service := newService(t, func(c *serviceConn, _ int) {
			if c.head() != "" {
				asked <- c
				<-answer
				c.write(switched)
				c.drain()
			}
		})
		g := serve(t, withH2(oneUpstream(service.address())))
		client := dial(g)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			client.send(askUpgrade)
		}()
		<-asked
		g.stop()
		eventually(t, "the drain begins", func() bool { return g.State() == Draining })
		for i, w := range g.workers {
			g.call(g.loops[i], func() { _ = w.Handshakes() }) // they know of it
		}
		close(answer)
		<-sent
		client.skipHead()
		client.expectClose(1001)
		client.send(masked(0x88, closeFrame(1001)))
		client.Close()
	})
}

func TestOneWebSocketTooManyIsRefused(t *testing.T) {
	overBoth(t, func(t *testing.T, dial func(*instance) *peer) {
		s := newSockets(t, dial, ", websocket: {max: 1}", "")
		client, service := s.open()
		p := s.dial(s.instance)
		p.send(askUpgrade)
		if line, err := p.r.ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 503 ") {
			t.Errorf("one too many got %q %v", line, err)
		}
		p.Close()
		if n := s.snapshot().Reasons[tunnels.Full]; n != 1 {
			t.Errorf("%d refusals are counted", n)
		}
		client.Close()
		service.Close()
		eventually(t, "its place is free", func() bool {
			p := s.dial(s.instance)
			defer p.Close()
			p.send(askUpgrade)
			line, _ := p.r.ReadString('\n')
			return strings.HasPrefix(line, "HTTP/1.1 101 ")
		})
	})
}

func TestAMessageThatIsTooLongClosesTheWebSocket(t *testing.T) {
	overBoth(t, func(t *testing.T, dial func(*instance) *peer) {
		fits := masked(0x82, strings.Repeat("x", 1000)) + masked(0x01, strings.Repeat("y", 600)) +
			masked(0x89, "ping") + masked(0x80, strings.Repeat("z", 400))
		begins := masked(0x02, strings.Repeat("y", 600)) + masked(0x89, "ping")
		long := masked(0x80, strings.Repeat("z", 401))
		for name, pieces := range map[string][]string{
			"whole":     {fits + begins + long},
			"alone":     {fits + begins, long},
			"in pieces": strings.Split(fits+begins+long[:5]+"|"+long[5:6]+"|"+long[6:20], "|"),
		} {
			s := newSockets(t, dial, ", websocket: {max_message: 1000B, close_grace: 10m}", "")
			client, service := s.open()
			for n, piece := range pieces {
				client.send(piece)
				if n == 0 {
					service.expect(fits + begins)
				}
			}
			service.expectClose(1009)
			service.send(unmasked(0x81, "on its way") + unmasked(0x88, closeFrame(1009)))
			client.expect(unmasked(0x81, "on its way"))
			client.expectClose(1009)
			rest := masked(0x88, closeFrame(1009))
			if name == "in pieces" {
				rest = long[20:] + rest
			}
			client.send(rest)
			client.expectEnd()
			s.expectClosed(telemetry.ByTooBig)
			client.Close()
			service.expectEnd()
		}
	})
}

func TestBytesThatAreNotFrames(t *testing.T) {
	overBoth(t, func(t *testing.T, dial func(*instance) *peer) {
		bad := masked(0x81, "fine") + unmasked(0x81, "not masked")
		s := newSockets(t, dial, ", websocket: {ping_interval: 1h}", "")
		client, service := s.open()
		client.send(bad + "whatever")
		service.expect(bad + "whatever")
		service.send("anything at all")
		client.expect("anything at all")
		client.Close()
		service.Close()
		s.expectClosed(telemetry.ByNobody)
		if c := s.counts(); c.Unframed != 1 || c.In != 1 {
			t.Errorf("%+v", c)
		}

		s = newSockets(t, dial, ", websocket: {max_message: 1MB, close_grace: 0s}", "")
		client, service = s.open()
		client.send(bad[:len(masked(0x81, "fine"))+1])
		service.expect(masked(0x81, "fine"))
		client.send(bad[len(masked(0x81, "fine"))+1:])
		service.expectClose(1002)
		client.expectClose(1002) // the gateway's, as the service does not answer
		client.expectEnd()
		s.expectClosed(telemetry.ByMalformed)
		client.Close()

		s = newSockets(t, dial, ", websocket: {max_message: 1MB, close_grace: 10m}", "")
		client, service = s.open()
		client.send(bad + masked(0x81, "too late"))
		service.expect(masked(0x81, "fine"))
		service.expectClose(1002)
		service.Close() // without a close frame
		client.expectClose(1002)
		client.expectEnd()
		client.Close()
	})
}

func TestAServiceWhoseBytesAreNotFramesDoesNotFreeItsClientOfTheBound(t *testing.T) {
	overBoth(t, func(t *testing.T, dial func(*instance) *peer) {
		s := newSockets(t, dial, ", websocket: {max_message: 1000B, close_grace: 10ms}", "")
		client, service := s.open()
		fits, begins := masked(0x82, strings.Repeat("x", 1000)), masked(0x02, strings.Repeat("y", 600))
		client.send(fits + begins[:1])
		service.expect(fits)
		service.send("anything at all")
		client.expect("anything at all")
		client.send(begins[1:] + masked(0x89, "ping"))
		service.expect(begins + masked(0x89, "ping"))
		client.send(masked(0x80, strings.Repeat("z", 401)))
		service.expectClose(1009)
		io.Copy(io.Discard, client.r) // to the end: a reset over HTTP/2, as no close frame can go before it
		s.expectClosed(telemetry.ByTooBig)
		if c := s.counts(); c.Unframed != 1 || c.In != 2 {
			t.Errorf("%+v", c)
		}
		client.Close()
		service.expectEnd()
	})
}

func TestWhatTheServiceSendsWithItsAnswerIsWatched(t *testing.T) {
	overBoth(t, func(t *testing.T, dial func(*instance) *peer) {
		s := &sockets{dial: dial}
		s.service = newService(t, func(c *serviceConn, _ int) {
			if c.head() != "" {
				c.write(switched + unmasked(0x81, "hello") + unmasked(0x01, "half")[:3])
				c.drain()
			}
		})
		s.instance = serveClean(t, s.yaml(", websocket: {ping_interval: 5ms, close_grace: 0s}"))
		client := s.dial(s.instance)
		client.send(askUpgrade)
		client.skipHead()
		client.expect(unmasked(0x81, "hello") + unmasked(0x01, "half")[:3])
		if c := s.counts(); c.Out != 1 {
			t.Errorf("%+v", c)
		}
		client.Close() // no ping was put into the frame; settled looks for what is left
	})
}
