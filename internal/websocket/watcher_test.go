package websocket_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"plimsoll/internal/websocket"
)

// frame is a frame with a payload of n zero bytes, masked where key is not "".
func frame(first byte, n int, key string) string {
	mask := byte(0)
	if key != "" {
		mask = 0x80
	}
	head := []byte{first, mask | byte(n)}
	switch {
	case n > 0xffff:
		head = []byte{first, mask | 127, 0, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	case n > 125:
		head = []byte{first, mask | 126, byte(n >> 8), byte(n)}
	}
	return string(head) + key + strings.Repeat("\x00", n)
}

// feed shows data to a watcher in pieces of a size.
func feed(w *websocket.Watcher, data string, size int) {
	for len(data) > 0 {
		piece := []byte(data[:min(size, len(data))])
		data = data[len(piece):]
		for len(piece) > 0 {
			piece = piece[w.Next(piece):]
		}
	}
}

func watch(data string, fromClient, extensions bool, size int) *websocket.Watcher {
	w := new(websocket.Watcher)
	w.Start(fromClient, extensions)
	feed(w, data, size)
	return w
}

func TestTheStateIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(websocket.Watcher{}); n >= 64 {
		t.Errorf("a watcher has %d bytes", n)
	}
}

func TestFramesAreCountedHoweverTheyAreSplit(t *testing.T) {
	for name, key := range map[string]string{"from a client": "\x01\x02\x03\x04", "from a server": ""} {
		all := frame(0x81, 5, key) + frame(0x01, 0, key) + frame(0x89, 125, key) + frame(0x00, 125, key) +
			frame(0x8a, 0, key) + frame(0x80, 126, key) + frame(0x82, 0xffff, key) + frame(0x82, 0x10000, key)
		payload := uint64(5 + 125 + 125 + 126 + 0xffff + 0x10000)
		for _, size := range []int{1, 2, 3, 7, 14, 1000, len(all)} {
			w := watch(all, key != "", false, size)
			if w.Messages != 4 || w.Controls != 2 || w.Payload != payload || !w.AtBoundary() || w.Broken() {
				t.Errorf("%s, %d bytes at a time: %+v", name, size, w)
			}
		}
	}
}

func TestWhatIsNotAFrameIsNotWatched(t *testing.T) {
	const key = "\x00\x00\x00\x00"
	for name, data := range map[string]string{
		"no mask":                      frame(0x81, 1, ""),
		"a reserved bit":               frame(0xc1, 1, key),
		"a reserved opcode":            frame(0x83, 1, key),
		"a reserved control opcode":    frame(0x8b, 1, key),
		"a continuation of nothing":    frame(0x80, 1, key),
		"a message in a message":       frame(0x01, 1, key) + frame(0x81, 1, key),
		"a ping in parts":              frame(0x09, 1, key),
		"a long ping":                  frame(0x89, 126, key),
		"half a close code":            frame(0x88, 1, key),
		"a length longer than needed":  "\x81\xfe\x00\x7d" + key + strings.Repeat("x", 125),
		"a length of eight for two":    "\x81\xff\x00\x00\x00\x00\x00\x00\xff\xff" + key,
		"a length beyond what may be":  "\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00" + key,
		"a message after its end only": frame(0x81, 1, key) + frame(0x80, 1, key),
	} {
		for _, size := range []int{1, 1000} {
			if w := watch(data+"anything", true, false, size); !w.Broken() || w.AtBoundary() || w.InHeader() {
				t.Errorf("%s: %+v", name, w)
			}
		}
	}
	if w := watch(frame(0x81, 1, key), false, false, 1000); !w.Broken() {
		t.Errorf("a mask on a server's frame: %+v", w)
	}
	if w := watch(frame(0xc1, 1, ""), false, true, 1000); w.Broken() || w.Messages != 1 {
		t.Errorf("a reserved bit where an extension was agreed on: %+v", w)
	}
}

func TestACloseFrameIsTheLast(t *testing.T) {
	key := [4]byte{9, 8, 7, 6}
	for _, code := range []uint16{1000, 1001, 4999} {
		data := string(websocket.AppendClose(nil, code, "bye", &key)) + "whatever follows"
		for _, size := range []int{1, 5, 1000} {
			w := watch(data, true, false, size)
			if !w.Closed() || w.Code() != code || w.AtBoundary() || w.Broken() {
				t.Errorf("code %d in pieces of %d: %+v", code, size, w)
			}
		}
	}
	if w := watch(frame(0x88, 0, ""), false, false, 1); !w.Closed() || w.Code() != websocket.NoCode {
		t.Errorf("without a code: %+v", w)
	}
}

func TestTheLengthOfAMessageIsKnownFromItsHeaders(t *testing.T) {
	const key = "\x00\x00\x00\x00"
	w := watch("\x01\x83"+key+"abc\x00\xff\x00\x00\x00\x00\x01\x00\x00\x00"+key, true, false, 1)
	if w.Message() != 3+1<<24 || w.AtBoundary() {
		t.Errorf("%+v", w)
	}
	w = watch("\x02\x83"+key+"abc"+frame(0x89, 9, key)+"\x00\xff\x7f\xff\xff\xff\xff\xff\xff\xff"+key, true, false, 1000)
	if w.Message() != 1<<63+2 || w.Broken() {
		t.Errorf("%+v", w)
	}
	w = watch(frame(0x02, 3, key)+frame(0x80, 4, key)+frame(0x82, 5, key), true, false, 1000)
	if w.Message() != 5 {
		t.Errorf("the next message: %+v", w)
	}
}

func TestAPongIsKnownByItsPayload(t *testing.T) {
	const ours = "12345678"
	key := "abcd"
	pong := func(payload string) string {
		b := []byte(payload)
		for i := range b {
			b[i] ^= key[i%4]
		}
		return "\x8a" + string([]byte{0x80 | byte(len(b))}) + key + string(b)
	}
	for payload, want := range map[string]bool{
		ours: true, "12345679": false, "x2345678": false, "1234567": false, "": false, ours + "9": false,
	} {
		w := watch(pong(payload), true, false, 3)
		if got := w.Matches(websocket.Pong, []byte(ours)); got != want || w.Matches(websocket.Ping, []byte(ours)) {
			t.Errorf("a pong of %q matches %v", payload, got)
		}
	}
	whole := pong(ours)
	for n := 6; n < len(whole); n++ {
		if w := watch(whole[:n], true, false, 100); !w.Matches(websocket.Pong, []byte(ours)) || w.AtBoundary() {
			t.Errorf("after %d bytes it does not match yet", n)
		}
	}
}

func TestAFrameCanBePutInAtABoundaryOnly(t *testing.T) {
	const key = "\x05\x06\x07\x08"
	all := frame(0x01, 3, key) + frame(0x89, 2, key) + frame(0x80, 300, key)
	ends := map[int]bool{0: true, 9: true, 17: true, len(all): true}
	for n := range len(all) + 1 {
		if w := watch(all[:n], true, false, 4); w.AtBoundary() != ends[n] {
			t.Errorf("after %d bytes AtBoundary says %v", n, w.AtBoundary())
		}
	}
}

func TestFramesOfOurOwnAreFrames(t *testing.T) {
	w := watch(string(websocket.AppendPing(nil, []byte("12345678"))), false, false, 100)
	if w.Controls != 1 || !w.Matches(websocket.Ping, []byte("12345678")) || !w.AtBoundary() {
		t.Errorf("a ping: %+v", w)
	}
	long := strings.Repeat("x", 200)
	w = watch(string(websocket.AppendClose(nil, 1001, long, nil)), false, false, 100)
	if w.Code() != 1001 || w.Payload != websocket.MaxControl {
		t.Errorf("a close frame with a long reason: %+v", w)
	}
}

func TestWatchingDoesNotAllocate(t *testing.T) {
	data := []byte(strings.Repeat(frame(0x82, 100, "\x01\x02\x03\x04"), 50))
	var w websocket.Watcher
	w.Start(true, false)
	if n := testing.AllocsPerRun(100, func() {
		for rest := data; len(rest) > 0; {
			rest = rest[w.Next(rest):]
		}
	}); n != 0 || w.Messages != 101*50 {
		t.Errorf("%g allocations, %d messages", n, w.Messages)
	}
}

func BenchmarkWatch(b *testing.B) {
	for _, size := range []int{16, 128, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			one := []byte(frame(0x82, size, "\x01\x02\x03\x04"))
			data := bytes.Repeat(one, max(1, 16<<10/len(one)))
			var w websocket.Watcher
			w.Start(true, false)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				for rest := data; len(rest) > 0; {
					rest = rest[w.Next(rest):]
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(w.Messages), "ns/frame")
		})
	}
}
