package http2_test

import (
	"strings"
	"testing"
	"unsafe"

	"plimsoll/internal/http2"
)

const (
	millisecond = int64(1_000_000)
	second      = 1000 * millisecond
)

func frame(t http2.Type, flags http2.Flags, payload string) *http2.Frame {
	return &http2.Frame{Type: t, Flags: flags, Stream: 1, Payload: []byte(payload), Length: len(payload), First: true, Last: true}
}

var (
	headers      = frame(http2.Headers, http2.EndHeaders|http2.EndStream, "block")
	reset        = frame(http2.RSTStream, 0, "\x00\x00\x00\x08")
	settings     = frame(http2.SettingsFrame, 0, "")
	ping         = frame(http2.Ping, 0, "12345678")
	windowUpdate = frame(http2.WindowUpdate, 0, "\x00\x00\x00\x01")
	priority     = frame(http2.PriorityFrame, 0, "12345")
	unknown      = frame(0xee, 0, "grease")
	goAway       = frame(http2.GoAway, 0, "12345678")
	large        = frame(http2.Data, 0, strings.Repeat("x", 16384))
)

// A client is what drives a budget.
type client struct {
	t      *testing.T
	budget http2.Budget
	now    int64
}

func (c *client) sends(frames ...*http2.Frame) {
	c.t.Helper()
	for _, f := range frames {
		if r := c.budget.Frame(f, 64<<10, c.now); r != http2.OK {
			c.t.Fatalf("after %d ms: %v", c.now/millisecond, r)
		}
	}
}

// completed is a stream that was answered by Headers and this many frames of Data.
func (c *client) completed(data int) {
	for range data + 1 {
		c.budget.Sent()
	}
	c.budget.Completed()
}

func TestNormalTrafficNeverTrips(t *testing.T) {
	for name, run := range map[string]func(c *client){
		"a load generator with 100 streams": func(c *client) {
			c.sends(settings, windowUpdate)
			for i := range 200_000 {
				c.now += millisecond / 50
				c.sends(headers)
				c.completed(1)
				if i%200 == 0 {
					c.sends(windowUpdate)
				}
			}
		},
		"a browser that cancels what it scrolled past": func(c *client) {
			c.sends(settings, windowUpdate)
			for range 5 {
				c.sends(priority)
			}
			for range 3000 {
				c.now += 30 * millisecond
				c.sends(headers, windowUpdate, priority, priority)
				c.sends(reset)
			}
		},
		"gRPC: deadlines of 1000 calls at once, then hedging": func(c *client) {
			for range 1000 {
				c.sends(headers)
			}
			for range 1000 {
				c.sends(reset)
			}
			c.now += 31 * second
			for range 100_000 {
				c.sends(headers, headers, reset)
				c.completed(1)
			}
		},
		"gRPC that measures the path while messages arrive": func(c *client) {
			for range 50_000 {
				c.now += millisecond / 5
				c.sends(ping, windowUpdate, windowUpdate)
				c.budget.Sent()
			}
			for range 15 {
				c.sends(settings)
			}
		},
		"a stream of messages as small as gRPC has them": func(c *client) {
			for range 100_000 {
				c.sends(frame(http2.Data, 0, "\x00\x00\x00\x00\x00"))
			}
		},
		"a terminal": func(c *client) {
			for range 10_000 {
				c.now += 15 * millisecond
				c.sends(frame(http2.Data, 0, "x"))
			}
		},
		"an upload with frames of unknown types, ended by an empty frame": func(c *client) {
			for range 1000 {
				c.sends(headers)
				for range 100 {
					c.sends(unknown, large)
				}
				c.sends(frame(http2.Data, 0, ""), frame(http2.Data, http2.EndStream, ""))
				c.completed(0)
			}
		},
		"Go that gives up on 33 requests a second": func(c *client) {
			for range 10_000 {
				c.now += second/33 + 1
				c.sends(headers, reset, ping)
			}
		},
		"an idle connection that is kept alive for a day": func(c *client) {
			for range 8640 {
				c.now += 10 * second
				c.sends(ping)
			}
			c.sends(goAway, goAway)
		},
	} {
		t.Run(name, func(t *testing.T) { run(&client{t: t}) })
	}
}

func TestFloodsTrip(t *testing.T) {
	rapid := func(f ...*http2.Frame) []*http2.Frame { return f }
	for _, c := range []struct {
		name   string
		frames []*http2.Frame
		every  int64 // time between rounds
		within int   // rounds
		want   http2.Reason
	}{
		{"rapid reset", rapid(headers, reset), 0, 1001, http2.TooManyResets},
		{"rapid reset at 100 a second", rapid(headers, reset), 10 * millisecond, 1700, http2.TooManyResets},
		{"settings", rapid(settings), 0, 101, http2.TooManySettings},
		{"long settings", rapid(frame(http2.SettingsFrame, 0, strings.Repeat("123456", 2730))), 0, 1, http2.TooManySettings},
		{"ping", rapid(ping), millisecond, 250, http2.TooManyPings},
		{"priority", rapid(priority), millisecond, 600, http2.TooManyPriorities},
		{"priority updates", rapid(frame(http2.PriorityUpdate, 0, "1234u=1")), millisecond, 600, http2.TooManyPriorities},
		{"window by one byte", rapid(windowUpdate), millisecond, 1200, http2.TooManyWindowUpdates},
		{"empty data", rapid(frame(http2.Data, 0, "")), millisecond, 110, http2.TooManyEmptyFrames},
		{"padding alone", rapid(&http2.Frame{Type: http2.Data, Length: 256, Overhead: 256, First: true}), 0, 101, http2.TooManyEmptyFrames},
		{"empty headers", rapid(frame(http2.Headers, 0, ""), frame(http2.Continuation,
			http2.EndHeaders, "a")), millisecond, 110, http2.TooManyEmptyFrames},
		{"bytes of data", rapid(frame(http2.Data, 0, "x")), millisecond, 1200, http2.TooManySmallFrames},
		{"goaway", rapid(goAway), second, 11, http2.TooManyGoAways},
		{"unknown", rapid(unknown), millisecond, 220, http2.TooManyUnknownFrames},
		{"continuation", rapid(frame(http2.Continuation, 0, "x")), second, 17, http2.TooManyContinuations},
		{"block", rapid(frame(http2.Continuation, 0, strings.Repeat("x", 16384))), second, 5, http2.BlockTooLarge},
	} {
		var b http2.Budget
		now, rounds, reason := int64(1e18), 0, http2.OK
		for ; reason == http2.OK && rounds < 2*c.within; rounds++ {
			for _, f := range c.frames {
				reason = max(reason, b.Frame(f, 64<<10, now))
			}
			now += c.every
		}
		if reason != c.want || rounds > c.within {
			t.Errorf("%s: %v after %d rounds, want %v within %d", c.name, reason, rounds, c.want, c.within)
		}
		if reason.Code() != http2.EnhanceYourCalm {
			t.Errorf("%s: code %d", c.name, reason.Code())
		}
	}
}

func TestFaultsTripAndAreForgotten(t *testing.T) {
	var b http2.Budget
	for range 100 {
		if r := b.Spend(http2.FaultKind, 0); r != http2.OK {
			t.Fatal(r)
		}
	}
	if r := b.Spend(http2.FaultKind, second-1); r != http2.TooManyFaults {
		t.Fatalf("one too many: %v", r)
	}
	for range 5 {
		if r := b.Spend(http2.FaultKind, second); r != http2.OK {
			t.Fatalf("a second later: %v", r)
		}
	}
	if r := b.Spend(http2.FaultKind, second); r != http2.TooManyFaults {
		t.Fatalf("one too many again: %v", r)
	}
	if r := b.Spend(http2.FaultKind, 1<<62); r != http2.OK {
		t.Fatalf("long after: %v", r)
	}
}

func TestOnlyFirstPartsAndNoAcknowledgementsCount(t *testing.T) {
	var b http2.Budget
	part := *frame(http2.Data, 0, "")
	part.First = false
	for range 10_000 {
		for _, f := range []*http2.Frame{&part, frame(http2.Ping, http2.Ack, "12345678"), frame(http2.SettingsFrame, http2.Ack, "")} {
			if r := b.Frame(f, 1, 0); r != http2.OK {
				t.Fatal(r)
			}
		}
	}
}

func TestABudgetIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(http2.Budget{}); n > 40 {
		t.Errorf("%d bytes", n)
	}
}

// A service may announce every KB that it reads, send an empty frame before each response's end, and
// refuse all that it gets.
func TestABusyTargetNeverTrips(t *testing.T) {
	var b http2.Budget
	empty := frame(http2.Data, 0, "")
	for i := range 200_000 {
		b.Sent() // the request's head
		b.Sent() // and 16 KB
		frames := []*http2.Frame{headers, large, empty, reset}
		for range 32 {
			frames = append(frames, windowUpdate)
		}
		for _, f := range frames {
			if why := b.TargetFrame(f, 64<<10, 0); why != http2.OK {
				t.Fatalf("after %d requests: %v", i, why)
			}
		}
	}
}
