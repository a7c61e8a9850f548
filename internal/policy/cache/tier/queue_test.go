package tier

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/cache/store"
	"plimsoll/internal/redis/redistest"
)

// kept is an entry whose body has so many times the same byte.
func kept(t *testing.T, key string, b byte, length int) *store.Entry {
	t.Helper()
	s, err := store.New(store.Options{Bytes: int64(8*length) + store.MinBytes})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	meta, block := stored(t, length, "Cache-Control", "max-age=600")
	f, _ := s.Begin([]byte(key), []byte(key))
	err = f.Head(&store.Head{Key: []byte(key), URI: []byte(key), Block: block, Meta: meta})
	if err == nil {
		_, err = f.Append(bytes.Repeat([]byte{b}, length))
	}
	if err == nil {
		err = f.Finish()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.Peek([]byte(key))
}

// clients counts the gateway's connections to a Redis.
func clients(t *testing.T, server *redistest.Server) int {
	t.Helper()
	all, err := server.Do("CLIENT", "LIST")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(all, "name=plimsoll")
}

// A Redis that takes a part of a value and then stands still has the connection's goroutine wait in
// the middle of it, for a second after the call has timed out. The race detector sees what is written
// over there, even where Redis never gets it.
func TestWhatIsStillBeingSentIsNotWrittenOver(t *testing.T) {
	const long = 8 << 20 // more than the sockets' buffers take
	server := redistest.Start(t)
	tier, _ := newTier(t, server.Address(), func(o *Options) {
		o.MaxObject, o.Redis.Timeout = long, time.Second
	})
	first, short := kept(t, "first", 'a', long), kept(t, "short", 'a', 1)
	for range 64 { // rueidis draws one of up to four connections, and makes it where it is not there
		tier.writeOne(nil, &Response{Entry: short})
	}
	before := clients(t, server)
	server.Pause()
	buffer := tier.writeOne(nil, &Response{Entry: first})
	if tier.stats.written.Load() != 64 || tier.stats.writeFailed.Load() != 1 {
		t.Fatal("a Redis that stands still has taken the whole value: it must be longer")
	}
	again := buffer[:cap(buffer)]
	for i := range again {
		again[i] = 'b'
	}
	server.Resume()
	var value string
	redistest.Eventually(t, "Redis to have the value, or its connection to be given up", func() bool {
		now := clients(t, server)
		var err error
		if value, err = server.Do("GET", tier.name("", first.Key())); err != nil {
			t.Fatal(err)
		}
		return len(value) >= long || now < before
	})
	if strings.Contains(value, strings.Repeat("b", 100)) {
		t.Error("Redis has a value of two responses")
	}
}

// A call that is not made has given the buffer to nobody. An outage would have one made for each
// response otherwise.
func TestABufferThatNobodyWasGivenIsUsedAgain(t *testing.T) {
	const nobody = "127.0.0.1:1"
	open, _ := newTier(t, nobody, func(o *Options) {
		o.Redis.Failures = 1
		o.Redis.Now = func() int64 { return 1 } // so the breaker stays open
	})
	busy, _ := newTier(t, nobody, func(o *Options) { o.Redis.MaxInFlight = 1 })
	if _, err := busy.writer.Admit(); err != nil {
		t.Fatal(err)
	}
	response := Response{Entry: kept(t, "key", 'a', 100)}
	if open.writeOne(make([]byte, 0, 4096), &response) != nil {
		t.Error("the buffer of a call that was made, and failed, is used again")
	}
	for name, tier := range map[string]*Tier{"the breaker is open": open, "Redis is busy": busy} {
		given := make([]byte, 1, 4096)
		back := tier.writeOne(given[:0], &response)
		if len(back) == 0 || &back[0] != &given[0] {
			t.Errorf("where %s, the buffer is thrown away", name)
		}
		if tier.stats.written.Load() != 0 {
			t.Errorf("where %s, something is written", name)
		}
	}
}
