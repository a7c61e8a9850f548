//go:build !race

package replay_test

import (
	"runtime"
	"strings"
	"testing"

	"plimsoll/internal/lab/replay"
)

// With several loops, which the race detector sees, the log has whole seconds.
func TestEachSecondHasTheArrivalsOfALogWithMilliseconds(t *testing.T) { hasItsArrivals(t, 1, true) }

// Of each three bytes of such an entry a header of thirty would be made, and an entry has up to 64 MB.
func TestAHARsHeadersTakeNoMoreMemoryThanTheirText(t *testing.T) {
	text := `{"log":{"entries":[{"startedDateTime":"2026-11-20T08:00:00Z","request":{"method":"GET",` +
		`"url":"https://a.test/","headers":[` + strings.Repeat("{},", 1<<20) +
		`{"name":"User-Agent","value":"curl"}]}}]}}`
	path := file(t, text)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, err := replay.Open(path, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Start(t.Context(), 1, "shop.test")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) / uint64(len(text)); took > 20 {
		t.Errorf("%d bytes of memory for each byte of the entry", took)
	}
	if st := s.Stats(); st.Arrivals != 1 || st.WithoutAgent != 0 {
		t.Errorf("%+v", st)
	}
}
