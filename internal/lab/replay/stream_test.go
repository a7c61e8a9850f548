package replay_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll/internal/lab/pace"
	"plimsoll/internal/lab/replay"
)

// A log that is being written gives what there is; the schedule says that there is more to come,
// and does not wait for it.
func TestALogThatIsBeingWrittenIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		go io.WriteString(w, seconds(0, 1, 2, 3, 4))
		l, err := replay.OpenReader(r, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Start(t.Context(), 1, "shop.test")
		if err != nil {
			t.Fatal(err)
		}
		schedule := s.Arrivals(0, 1).(pace.Streamed)
		next := func(want string) {
			t.Helper()
			synctest.Wait()
			due, ok := schedule.Next()
			if got := fmt.Sprint(time.Duration(due), ok, schedule.Pending()); got != want {
				t.Errorf("next is %s, want %s", got, want)
			}
		}
		// The last two seconds of the log may still get lines from before.
		next("0s true true")
		next("1s true true")
		next("2s true true")
		next("0s false true")
		io.WriteString(w, seconds(5))
		next("3s true true")
		next("0s false true")
		w.Close()
		next("4s true true")
		next("5s true true")
		next("0s false false")
		next("0s false false")
		s.Close()
	})
}

func TestAStartThatIsGivenUpEndsTheReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		go io.WriteString(w, seconds(0))
		l, err := replay.OpenReader(r, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			<-ctx.Done()
			w.Close()
		}()
		if _, err := l.Start(ctx, 1, "shop.test"); err != context.DeadlineExceeded {
			t.Errorf("error %v", err)
		}
	})
}

// One loop's requests may be much larger than another's: it then has its share in more batches, and
// the other must not wait for a batch to be full.
func TestALoopWithSmallRequestsDoesNotStarveBesideOneWithLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lines = 600
		large, log := strings.Repeat("a", 12_000), strings.Builder{}
		for i := range lines {
			path := "small"
			if i%2 == 1 {
				path = large
			}
			fmt.Fprintf(&log, `{"ts":1763625600,"method":"GET","path":"/%s"}`+"\n", path)
		}
		l, err := replay.OpenReader(strings.NewReader(log.String()), replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Start(t.Context(), 2, "shop.test")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for i := range lines {
			synctest.Wait()
			if _, ok := s.Arrivals(i%2, 2).Next(); !ok {
				t.Fatalf("arrival %d of the log is held back until later ones have been taken", i)
			}
			s.Player(i%2, 2, 1).Begin().End()
		}
	})
}

// The writer of a pipe may never write again: ending the replay does not wait for it.
func TestAReplayOfAPipeThatIsSilentEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	if _, err := writer.WriteString(seconds(0, 1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	if _, err := replay.Open(path, replay.Options{Rate: 5}); err == nil {
		t.Error("a pipe is read twice")
	}
	if _, err := writer.WriteString(seconds(0, 1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	l, err := replay.Open(path, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Start(t.Context(), 1, "shop.test")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	<-s.Done()
	if stats := s.Stats(); stats.Ended != "the replay was ended" || s.Err() != nil {
		t.Errorf("ended by %q, %v", stats.Ended, s.Err())
	}
}
