package proxy_test

import (
	"bytes"
	"strconv"
	"syscall"
	"testing"

	"plimsoll/internal/hpack"
	"plimsoll/internal/http1"
	"plimsoll/internal/http2"
)

// waiter is a client of HTTP/2 whose request waits for its answer, from a target of HTTP/1.1 or 2.
type waiter struct {
	*bed
	client, target *sock
	framed         bool // the target speaks HTTP/2
}

func newWaiter(t *testing.T, framedToo bool) *waiter {
	t.Helper()
	w := &waiter{bed: framed(newBed(t, nil)), framed: framedToo}
	if framedToo {
		framedTarget(w.bed, 0)
	}
	w.client = w.bed.client(silence)
	w.turn()
	w.says(w.client, greeting+framedAsk(1, "x-token", "8d2f0c5e9b7a4f3d", "cookie", "theme=dark"))
	w.greets()
	w.sleeps()
	return w
}

// greets has the target that was dialled last begin the protocol.
func (w *waiter) greets() {
	w.turn()
	w.target = w.dialed[len(w.dialed)-1]
	w.target.dialed = false // what it gets is kept
	if w.framed {
		w.answers(string(http2.AppendSettings(nil)))
	}
}

// sleeps lets the time pass after which an exchange is packed.
func (w *waiter) sleeps() {
	w.t.Helper()
	w.passes(2)
	w.passes(2)
	if n := w.acceptor.Worker.Packed(); n != 1 {
		w.t.Fatalf("%d exchanges are packed, want the one that waits", n)
	}
}

// answers has the target say something.
func (w *waiter) answers(text string) {
	w.target.in = saying(silence, text)
	w.tell(w.target)
	w.turn()
	w.turn()
}

// status is an answer, whole where it is final, of the target.
func (w *waiter) status(code int) string {
	if !w.framed {
		text := "HTTP/1.1 " + strconv.Itoa(code) + " X\r\n"
		if code >= 200 {
			text += "Content-Length: 0\r\n"
		}
		return text + "\r\n"
	}
	var e hpack.Encoder
	e.Init(hpack.Initial, false)
	return string(http2.AppendHeaders(nil, 1, e.AppendStatus(e.Begin(nil), code), code >= 200, 1<<14))
}

// statuses are the statuses that the client got on its stream.
func (w *waiter) statuses() (all []int) {
	w.t.Helper()
	var d hpack.Decoder
	d.Init(hpack.Initial)
	for _, f := range framesTo(w.t, w.client) {
		if f.Type != http2.Headers {
			continue
		}
		d.Begin(f.Payload)
		var field hpack.Field
		for {
			_, ok, err := d.Next(&field, make([]byte, 0, 1<<10))
			if err != nil || !ok {
				break
			}
			if string(field.Name) == ":status" {
				code, _ := strconv.Atoi(string(field.Value))
				all = append(all, code)
			}
		}
	}
	return all
}

func (w *waiter) expectStatuses(want ...int) {
	w.t.Helper()
	got := w.statuses()
	if len(got) != len(want) || w.acceptor.Worker.Packed() != 0 {
		w.t.Fatalf("the client got %v, want %v; %d exchanges are packed", got, want, w.acceptor.Worker.Packed())
	}
	for i := range want {
		if got[i] != want[i] {
			w.t.Errorf("the client got %v, want %v", got, want)
		}
	}
}

// Whatever happens to an exchange that is packed happens as if it were not.
func TestAnExchangeThatIsPackedGoesOn(t *testing.T) {
	for _, framedToo := range []bool{false, true} {
		w := newWaiter(t, framedToo)
		w.answers(w.status(200))
		w.expectStatuses(200)

		w = newWaiter(t, framedToo)
		w.answers(w.status(103))
		w.sleeps() // once more
		w.answers(w.status(404))
		w.expectStatuses(103, 404)

		w = newWaiter(t, framedToo)
		answer := w.status(200)
		w.answers(answer[:len(answer)-1])
		w.sleeps()
		w.answers(answer[len(answer)-1:])
		w.expectStatuses(200)

		w = newWaiter(t, framedToo)
		w.target.in = func([]byte) (int, syscall.Errno) { return 0, 0 } // its end
		w.tell(w.target)
		w.turn()
		w.expectStatuses(502)

		w = newWaiter(t, framedToo)
		w.target.out = nil
		w.says(w.client, string(http2.AppendRST(nil, 1, http2.Cancel)))
		w.expectStatuses()
		if told := bytes.Contains(w.target.out, http2.AppendRST(nil, 1, http2.Cancel)); told != framedToo ||
			w.target.closed == framedToo {
			t.Errorf("a request that its client gives up: the target was told %v, its connection closed %v",
				told, w.target.closed)
		}

		w = newWaiter(t, framedToo)
		w.loop.Post(w.acceptor.Worker.Close)
		w.passes(3)
		if n := w.acceptor.Worker.Packed(); n != 0 || !w.target.closed {
			t.Errorf("as the loop ends %d exchanges are packed, and the target's connection is closed: %v",
				n, w.target.closed)
		}
	}
}

// begins is the head of a response whose body follows, and part is some of it; last says that it ends.
func (w *waiter) begins() string {
	if !w.framed {
		return "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n"
	}
	var e hpack.Encoder
	e.Init(hpack.Initial, false)
	return string(http2.AppendHeaders(nil, 1, e.AppendStatus(e.Begin(nil), 200), false, 1<<14))
}

func (w *waiter) part(content string, last bool) string {
	switch {
	case w.framed:
		return string(http2.AppendDataHeader(nil, 1, len(content), last)) + content
	case last:
		return string(http1.AppendLastChunk(http1.AppendChunk(nil, []byte(content)), nil))
	}
	return string(http1.AppendChunk(nil, []byte(content)))
}

// contents are what the client got of the body, and whether that was its end.
func (w *waiter) contents() (body string, whole bool) {
	w.t.Helper()
	for _, f := range framesTo(w.t, w.client) {
		if f.Type == http2.Data {
			body, whole = body+string(f.Payload), whole || f.Ends()
		}
	}
	return body, whole
}

func (w *waiter) expectContents(want string, wantWhole bool) {
	w.t.Helper()
	body, whole := w.contents()
	if n := w.acceptor.Worker.Packed(); body != want || whole != wantWhole || n != 0 {
		w.t.Errorf("the client got %q, whole %v; want %q, %v; %d exchanges are packed", body, whole, want,
			wantWhole, n)
	}
}

// An exchange whose response has begun is packed between two parts of it.
func TestAResponseThatIsPackedGoesOn(t *testing.T) {
	for _, framedToo := range []bool{false, true} {
		w := newWaiter(t, framedToo)
		w.answers(w.begins() + w.part("one ", false))
		w.sleeps()
		w.answers(w.part("two ", false))
		w.sleeps()
		w.answers(w.part("three", true))
		w.expectStatuses(200)
		w.expectContents("one two three", true)

		w = newWaiter(t, framedToo)
		w.answers(w.begins()) // with nothing behind it
		w.sleeps()
		w.answers(w.part("", true))
		w.expectContents("", true)

		w = newWaiter(t, framedToo)
		w.answers(w.begins() + w.part("one ", false))
		w.sleeps()
		w.target.in = func([]byte) (int, syscall.Errno) { return 0, 0 } // its end
		w.tell(w.target)
		w.turn()
		w.expectContents("one ", false)
		if !bytes.Contains(w.client.out, http2.AppendRST(nil, 1, http2.InternalError)) {
			t.Error("the client was not told that the response is cut off")
		}

		w = newWaiter(t, framedToo)
		w.answers(w.begins() + w.part("one ", false))
		w.sleeps()
		w.says(w.client, string(http2.AppendRST(nil, 1, http2.Cancel)))
		if n := w.acceptor.Worker.Packed(); n != 0 || w.target.closed == framedToo {
			t.Errorf("after the client has left, %d are packed; the target's connection is closed: %v",
				n, w.target.closed)
		}
	}
}

// What comes more often than an exchange is packed leaves it as it is.
func TestAResponseThatFlowsIsNotPacked(t *testing.T) {
	w := newWaiter(t, true)
	w.answers(w.begins())
	for range 5 {
		w.now += 7e8
		w.answers(w.part("x", false))
		if n := w.acceptor.Worker.Packed(); n != 0 {
			t.Fatal("it is packed")
		}
	}
}

// What a target that leaves has not begun is sent to another connection, as it was the first time.
func TestARequestThatWasPackedIsSentAgainAsItWas(t *testing.T) {
	w := newWaiter(t, true)
	asked := func() []byte {
		t.Helper()
		for out := w.target.out; len(out) > http2.HeaderSize; {
			end := http2.HeaderSize + int(out[0])<<16 + int(out[1])<<8 + int(out[2])
			if http2.Type(out[3]) == http2.Headers {
				return out[http2.HeaderSize:end]
			}
			out = out[end:]
		}
		t.Fatal("the target was asked nothing")
		return nil
	}
	first := asked()
	for range 3 {
		w.answers(string(http2.AppendGoAway(nil, 0, http2.NoError, "")))
		w.greets()
		if again := asked(); !bytes.Equal(again, first) {
			t.Fatalf("the request was sent again as %q, at first as %q", again, first)
		}
		w.sleeps()
	}
	w.answers(w.status(200))
	w.expectStatuses(200)
}
