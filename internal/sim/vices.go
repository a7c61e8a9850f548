package sim

import (
	"fmt"
	"strings"
	"time"

	"plimsoll/internal/reactor"
)

// vices are the ways in which services misbehave.
var vices = []func(c *serviceConn, wait time.Duration){
	func(c *serviceConn, wait time.Duration) { c.say(part{wait, nil, c.close}) }, // no answer
	func(c *serviceConn, wait time.Duration) { c.say(part{wait, nil, c.reset}) },
	func(c *serviceConn, wait time.Duration) {
		c.say(part{wait, []byte("HTTP/1.1 200 OK\r\nContent-Le"), c.close})
	},
	func(c *serviceConn, wait time.Duration) { c.stay(part{wait, []byte("what?\r\n\r\n"), nil}) },
	func(c *serviceConn, wait time.Duration) { c.sending = true }, // it never answers
	func(c *serviceConn, wait time.Duration) {
		c.respond(wait+time.Duration(c.rng.IntN(4))*time.Second, 200, 10, false)
	},
	func(c *serviceConn, wait time.Duration) {
		c.stay(part{wait, []byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), nil})
	},
	func(c *serviceConn, wait time.Duration) { // a part of a body
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Token: %s\r\nX-Size: 100000\r\n", c.token)
		sent := noiseOf(c.token+"down").bytes(0, c.rng.IntN(99_000))
		then := []func(){c.close, c.reset, nil}[c.rng.IntN(3)]
		if c.rng.IntN(2) == 0 {
			c.stay(part{wait, fmt.Appendf(nil, "%sContent-Length: 100000\r\n\r\n%s", head, sent), then})
			return
		}
		c.stay(part{wait, fmt.Appendf(nil, "%sTransfer-Encoding: chunked\r\n\r\n186a0\r\n%s", head, sent), then})
	},
	func(c *serviceConn, wait time.Duration) { // a bad chunk
		c.stay(part{wait, fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nX-Token: %s\r\nX-Size: 10\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n%s\r\nzz\r\n", c.token,
			noiseOf(c.token+"down").bytes(0, 5)), nil})
	},
	func(c *serviceConn, wait time.Duration) { // more than was asked for, so that it arrives with the answer
		if c.head.words[0] == "HEAD" {
			c.respond(wait, 200, 10, false)
			return
		}
		c.Whole()
		c.stay(part{wait, fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nX-Token: %s\r\nX-Size: 3\r\nContent-Length: 3\r\n\r\n%sHTTP/1.1 200 OK\r\nX-Evil: yes\r\nContent-Length: 4\r\n\r\nevil",
			c.token, noiseOf(c.token+"down").bytes(0, 3)), nil})
	},
	func(c *serviceConn, wait time.Duration) { // the keep-alive race
		c.respond(wait, 200, c.rng.IntN(1000), false)
		c.s.w.kernel.After(wait+between(c.rng, 0, 20*time.Millisecond), func() {
			if c.head == nil && !c.sending && !c.tunnel {
				c.close()
			}
		})
	},
	func(c *serviceConn, wait time.Duration) { c.respond(wait, 503, 10, false) },
	func(c *serviceConn, wait time.Duration) { c.respond(wait, 503, 10, true) },
	func(c *serviceConn, wait time.Duration) { // it answers and does not read on
		c.late = true
		c.respond(wait, 413, 10, c.rng.IntN(2) == 0)
	},
	func(c *serviceConn, wait time.Duration) { c.late = true; c.sending = true },
	func(c *serviceConn, wait time.Duration) { // a flood of interim answers
		n := 1 + c.rng.IntN(5000)
		c.stay(part{wait, []byte(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", n)), nil})
	},
	func(c *serviceConn, wait time.Duration) { // a tunnel that nobody asked for
		c.stay(part{wait, []byte("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"), nil})
	},
	func(c *serviceConn, wait time.Duration) { c.respond(wait, 200, 3_000_000, false) },
	func(c *serviceConn, wait time.Duration) { // a long head
		long := strings.Repeat("x", 1+c.rng.IntN(80_000))
		c.say(part{wait, fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nX-Token: %s\r\nX-Size: 0\r\nX-Long: %s\r\nContent-Length: 0\r\n\r\n", c.token, long), nil})
	},
	func(c *serviceConn, wait time.Duration) { // 100 that nobody asked for
		c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
		c.respond(wait, 200, 10, false)
	},
	func(c *serviceConn, wait time.Duration) { // it refuses a body of which it reads nothing
		c.late = true
		c.respond(0, 503, 10, false)
	},
	func(c *serviceConn, wait time.Duration) { // an older protocol
		body := noiseOf(c.token+"down").bytes(0, c.rng.IntN(10_000))
		if c.head.words[0] == "HEAD" {
			body = nil
		}
		c.say(part{wait, fmt.Appendf(nil, "HTTP/1.0 200 OK\r\nX-Token: %s\r\nX-Size: %d\r\n\r\n%s", c.token, len(body), body), c.close})
	},
	func(c *serviceConn, wait time.Duration) { // more than was asked for, behind what fills a read
		if c.head.words[0] == "HEAD" {
			c.respond(wait, 200, 10, false)
			return
		}
		c.Whole()
		read := reactor.ScratchSize - c.rng.IntN(2)*4<<10
		head := fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Token: %s\r\nX-Size: 50000\r\nX-Pad: \r\nContent-Length: 50000\r\n\r\n", c.token)
		head = strings.Replace(head, "X-Pad: ", "X-Pad: "+strings.Repeat("x", read-50_000-len(head)), 1)
		c.stay(part{wait, fmt.Appendf(nil, "%s%sHTTP/1.1 200 OK\r\nX-Evil: yes\r\nContent-Length: 4\r\n\r\nevil", head, noiseOf(c.token+"down").bytes(0, 50_000)), nil})
	},
	func(c *serviceConn, wait time.Duration) { // it has enough, but takes what is still on its way
		c.say(part{wait, []byte("HTTP/1.1 413 Too Large\r\nX-Token: " + c.token + "\r\nX-Size: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), c.CloseWrite})
	},
}

// stay says something after which the connection is of no more use, and stays on it. To a HEAD that
// may be an answer and something behind it: in one piece, because no gateway can know of what has
// not arrived yet.
func (c *serviceConn) stay(p part) {
	if c.head.words[0] == "HEAD" {
		c.Whole()
	}
	then := p.then
	p.then = func() {
		if then != nil {
			then()
		}
	}
	c.say(p, part{wait: time.Hour})
}
