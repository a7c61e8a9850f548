package sim

import (
	"fmt"
	"strings"
	"time"
)

// vice is a way in which services misbehave.
type vice struct {
	name  string
	apply func(c *serviceConn, wait time.Duration)
}

// vices are all vices.
var vices = []vice{
	{"no answer", func(c *serviceConn, wait time.Duration) { c.say(part{wait, nil, c.close}) }},
	{"a reset", func(c *serviceConn, wait time.Duration) { c.say(part{wait, nil, c.reset}) }},
	{"a part of a head", func(c *serviceConn, wait time.Duration) {
		c.say(part{wait, []byte("HTTP/1.1 200 OK\r\nContent-Le"), c.close})
	}},
	{"not HTTP", func(c *serviceConn, wait time.Duration) {
		c.stay(part{wait, []byte("what?\r\n\r\n"), nil})
	}},
	{"silence", func(c *serviceConn, _ time.Duration) { c.sending = true }},
	{"a late answer", func(c *serviceConn, wait time.Duration) {
		c.respond(wait+time.Duration(c.rng.IntN(4))*time.Second, 200, 10, false)
	}},
	{"a length and chunks", func(c *serviceConn, wait time.Duration) {
		const both = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
		c.stay(part{wait, []byte(both + "0\r\n\r\n"), nil})
	}},
	{"a part of a body", partOfBody},
	{"a bad chunk", func(c *serviceConn, wait time.Duration) {
		head := c.head200(10, "Transfer-Encoding: chunked\r\n")
		c.stay(part{wait, fmt.Appendf(nil, "%s5\r\n%s\r\nzz\r\n", head, c.down(5)), nil})
	}},
	{"an answer that nobody asked for", func(c *serviceConn, wait time.Duration) {
		if c.toHEAD() {
			c.respond(wait, 200, 10, false)
			return
		}
		c.Whole() // so that it arrives with the answer
		head := c.head200(3, "Content-Length: 3\r\n")
		c.stay(part{wait, fmt.Appendf(nil, "%s%s%s", head, c.down(3), evil), nil})
	}},
	{"the end of a connection that may be used again", func(c *serviceConn, wait time.Duration) {
		c.respond(wait, 200, c.rng.IntN(1000), false)
		c.s.w.kernel.After(wait+between(c.rng, 0, 20*time.Millisecond), func() {
			if c.idle() {
				c.close()
			}
		})
	}},
	{"503", func(c *serviceConn, wait time.Duration) { c.respond(wait, 503, 10, false) }},
	{"503 and the end", func(c *serviceConn, wait time.Duration) { c.respond(wait, 503, 10, true) }},
	{"an answer, and no reading on", func(c *serviceConn, wait time.Duration) {
		c.late = true
		c.respond(wait, 413, 10, c.rng.IntN(2) == 0)
	}},
	{"silence, and no reading on", func(c *serviceConn, _ time.Duration) {
		c.late, c.sending = true, true
	}},
	{"a flood of interim answers", func(c *serviceConn, wait time.Duration) {
		c.stay(part{wait, []byte(strings.Repeat(hints, 1+c.rng.IntN(5000))), nil})
	}},
	{"a tunnel that nobody asked for", func(c *serviceConn, wait time.Duration) {
		const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n" +
			"Upgrade: websocket\r\n\r\n"
		c.stay(part{wait, []byte(switched), nil})
	}},
	{"a long answer", func(c *serviceConn, wait time.Duration) {
		c.respond(wait, 200, 3_000_000, false)
	}},
	{"a long head", func(c *serviceConn, wait time.Duration) {
		long := strings.Repeat("x", 1+c.rng.IntN(80_000))
		head := c.head200(0, "X-Long: "+long+"\r\nContent-Length: 0\r\n")
		c.say(part{wait, []byte(head), nil})
	}},
	{"100 that nobody asked for", func(c *serviceConn, wait time.Duration) {
		c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
		c.respond(wait, 200, 10, false)
	}},
	{"503 before the body", func(c *serviceConn, _ time.Duration) {
		c.late = true // it reads none of it
		c.respond(0, 503, 10, false)
	}},
	{"HTTP/1.0", func(c *serviceConn, wait time.Duration) {
		body := c.down(c.rng.IntN(10_000))
		if c.toHEAD() {
			body = nil
		}
		head := fmt.Sprintf("HTTP/1.0 200 OK\r\nX-Token: %s\r\nX-Size: %d\r\n\r\n", c.token, len(body))
		c.say(part{wait, append([]byte(head), body...), c.close})
	}},
	{"an answer behind what fills a read", behindFullRead},
	{"an answer, and only the own direction's end", func(c *serviceConn, wait time.Duration) {
		// The service has enough, but accepts what is still on its way.
		text := "HTTP/1.1 413 Too Large\r\nX-Token: " + c.token +
			"\r\nX-Size: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
		c.say(part{wait, []byte(text), c.CloseWrite})
	}},
}

const (
	hints = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
	evil  = "HTTP/1.1 200 OK\r\nX-Evil: yes\r\nContent-Length: 4\r\n\r\nevil"
)

// fullRead is the most that the gateway reads of an answer at a time: its scratch memory minus the
// room that a longer head may need.
const fullRead = 60 << 10

// head200 is the head of an answer with a body of the given size.
func (c *serviceConn) head200(size int, fields string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Token: %s\r\nX-Size: %d\r\n%s\r\n", c.token, size, fields)
}

// down is the beginning of the answer's body.
func (c *serviceConn) down(size int) []byte { return noiseOf(c.token+"down").bytes(0, size) }

func partOfBody(c *serviceConn, wait time.Duration) {
	sent := c.down(c.rng.IntN(99_000))
	then := []func(){c.close, c.reset, nil}[c.rng.IntN(3)]
	head := c.head200(100_000, "Content-Length: 100000\r\n")
	if c.rng.IntN(2) == 0 {
		head = c.head200(100_000, "Transfer-Encoding: chunked\r\n") + "186a0\r\n"
	}
	c.stay(part{wait, append([]byte(head), sent...), then})
}

func behindFullRead(c *serviceConn, wait time.Duration) {
	if c.toHEAD() {
		c.respond(wait, 200, 10, false)
		return
	}
	c.Whole()
	const size = 50_000
	fields := func(pad int) string {
		return "X-Pad: " + strings.Repeat("x", pad) + "\r\nContent-Length: 50000\r\n"
	}
	head := c.head200(size, fields(fullRead-size-len(c.head200(size, fields(0)))))
	c.stay(part{wait, fmt.Appendf(nil, "%s%s%s", head, c.down(size), evil), nil})
}

// stay sends something that makes the connection useless, and keeps the connection open. For a
// HEAD, that may be an answer with something after it: it is sent in one piece, because a gateway
// cannot know about bytes that have not arrived yet.
func (c *serviceConn) stay(p part) {
	if c.toHEAD() {
		c.Whole()
	}
	c.say(p, part{wait: time.Hour})
}
