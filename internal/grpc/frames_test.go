package grpc_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"plimsoll/internal/grpc"
)

// frame is a message, or trailers, as it stands in a body.
func frame(flags byte, content string) string {
	head := binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(content)))
	return string(head) + content
}

func TestWatcher(t *testing.T) {
	message, small := frame(0, "hello"), frame(1, "abc")
	for name, c := range map[string]struct {
		body                          string
		messages, compressed, largest int
		between, malformed, trailing  bool
	}{
		"nothing":               {"", 0, 0, 0, true, false, false},
		"an empty message":      {frame(0, ""), 1, 0, 0, true, false, false},
		"one":                   {message, 1, 0, 5, true, false, false},
		"two":                   {message + small, 2, 1, 5, true, false, false},
		"a part of a head":      {message + small[:4], 1, 0, 5, false, false, false},
		"a head alone":          {message + small[:5], 2, 1, 5, false, false, false},
		"a part of content":     {message[:9], 1, 0, 5, false, false, false},
		"a reserved flag":       {message + frame(2, "abc") + message, 1, 0, 5, false, true, false},
		"trailers":              {message + frame(128, "a: b\r\n"), 1, 0, 5, true, false, true},
		"compressed trailers":   {frame(129, "abc"), 0, 0, 0, true, false, true},
		"a part of trailers":    {frame(128, "abc")[:6], 0, 0, 0, false, false, true},
		"behind the trailers":   {frame(128, "abc") + message, 0, 0, 0, false, true, true},
		"the largest there is":  {"\x00\xff\xff\xff\xffabc", 1, 0, 1<<32 - 1, false, false, false},
		"the flags alone":       {"\x00", 0, 0, 0, false, false, false},
		"reserved flags, alone": {"\x40", 0, 0, 0, false, false, false},
	} {
		for cut := range len(c.body) + 1 {
			var w grpc.Watcher
			w.Pass([]byte(c.body[:cut]))
			w.Pass([]byte(c.body[cut:]))
			if w.Messages != int64(c.messages) || w.Compressed != int64(c.compressed) || w.Largest != uint32(c.largest) ||
				w.Between() != c.between || w.Malformed() != c.malformed || w.Trailing() != c.trailing {
				t.Errorf("%s, cut at %d: %+v", name, cut, w)
			}
		}
	}
}

// counted is what a slow reader finds, who has the whole body.
type counted struct {
	messages, compressed int64
	largest              uint32
	between, malformed   bool
}

func count(body []byte) (c counted) {
	for trailing := false; ; {
		if len(body) < grpc.HeadSize {
			c.between = len(body) == 0
			return c
		}
		flags, length := body[0], uint64(body[1])<<24|uint64(body[2])<<16|uint64(body[3])<<8|uint64(body[4])
		if trailing || flags != 0 && flags != 1 && flags != 128 && flags != 129 {
			c.malformed = true
			return c
		}
		if body = body[5:]; flags < 128 {
			c.messages++
			c.compressed += int64(flags)
			c.largest = max(c.largest, uint32(length))
		} else {
			trailing = true
		}
		if uint64(len(body)) < length {
			return c
		}
		body = body[length:]
	}
}

// FuzzWatcher compares what is counted of a body in random portions with the slow reader.
func FuzzWatcher(f *testing.F) {
	f.Add([]byte(frame(0, "hello")+frame(1, "abc")), uint64(1))
	f.Add([]byte(frame(0, "hello")+frame(128, "abc")+"x"), uint64(2))
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		draws := rand.New(rand.NewPCG(seed, 1))
		var w grpc.Watcher
		for rest := body; len(rest) > 0; {
			n := 1 + draws.IntN(min(len(rest), 1+draws.IntN(16)))
			w.Pass(rest[:n])
			rest = rest[n:]
		}
		got := counted{w.Messages, w.Compressed, w.Largest, w.Between(), w.Malformed()}
		if want := count(body); got != want {
			t.Errorf("%x: got %+v, want %+v", body, got, want)
		}
	})
}
