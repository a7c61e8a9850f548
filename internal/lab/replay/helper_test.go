package replay_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/pace"
	"plimsoll/internal/lab/replay"
)

// begin is when made logs begin.
var begin = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// madeLog writes a log with so many lines in each second, at random moments of it. A fine one has
// milliseconds, in front of the line.
func madeLog(w io.Writer, perSecond []int, fine bool) error {
	rng := rand.New(rand.NewPCG(1, 2))
	line, number := []byte{}, 0
	for second, n := range perSecond {
		offsets := make([]int, n)
		for i := range offsets {
			offsets[i] = rng.IntN(1000)
		}
		slices.Sort(offsets)
		for _, ms := range offsets {
			at := begin.Add(time.Duration(second)*time.Second + time.Duration(ms)*time.Millisecond)
			line = line[:0]
			if fine {
				line = fmt.Appendf(line, "%d.%03d ", at.Unix(), ms)
			}
			line = append(line, "203.0.113.7 - - ["...)
			line = at.AppendFormat(line, "02/Jan/2006:15:04:05 -0700")
			line = fmt.Appendf(line, "] \"GET /items/%d?page=2 HTTP/1.1\" 200 512 \"-\" "+
				"\"Mozilla/5.0 (X11; Linux)\"\n", number)
			number++
			if _, err := w.Write(line); err != nil {
				return err
			}
		}
	}
	return nil
}

// fineFormat is the log_format of a fine made log.
const fineFormat = `$msec $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`

// madeFile is a made log in a file.
func madeFile(t *testing.T, perSecond []int, fine bool) string {
	t.Helper()
	var b bytes.Buffer
	if err := madeLog(&b, perSecond, fine); err != nil {
		t.Fatal(err)
	}
	return file(t, b.String())
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// burst is half a minute of a thousand a second with 3,200 in each of eight seconds: 50,600 lines.
func burst() []int {
	perSecond := make([]int, 33)
	for i := range perSecond {
		perSecond[i] = 1000
		if i >= 16 && i < 24 {
			perSecond[i] = 3200
		}
	}
	return perSecond
}

// arrival is a request as a loop got it.
type arrival struct {
	due     time.Duration
	request string
	kind    load.Request
}

// start opens and starts a log in a file.
func start(t *testing.T, path string, o replay.Options, loops int) *replay.Source {
	t.Helper()
	l, err := replay.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Start(context.Background(), loops, "shop.test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// drain takes all that a source gives to its loops, each as the generator would, and returns it by
// loop.
func drain(t *testing.T, s *replay.Source, loops int) [][]arrival {
	t.Helper()
	all := make([][]arrival, loops)
	schedules, players := make([]pace.Streamed, loops), make([]load.Player, loops)
	for i := range loops {
		schedules[i], players[i] = s.Arrivals(i, loops).(pace.Streamed), s.Player(i, loops, 1)
	}
	for open := true; open; {
		open = false
		for i, schedule := range schedules {
			due, ok := schedule.Next()
			if !ok {
				open = open || schedule.Pending()
				runtime.Gosched()
				continue
			}
			open = true
			session := players[i].Begin()
			request, kind := session.Request(nil)
			session.Answer(&load.Answer{Status: 200})
			session.End()
			all[i] = append(all[i], arrival{time.Duration(due), string(request), kind})
		}
	}
	return all
}

// replayed is what a log gives to one loop, and the counts.
func replayed(t *testing.T, text string, o replay.Options) ([]arrival, replay.Stats) {
	t.Helper()
	s := start(t, file(t, text), o, 1)
	all := drain(t, s, 1)
	return all[0], s.Stats()
}

// dues are the due times, as text.
func dues(arrivals []arrival) string {
	texts := make([]string, len(arrivals))
	for i, a := range arrivals {
		texts[i] = a.due.String()
	}
	return strings.Join(texts, " ")
}

// requestLine is a line of a log in the combined format.
func requestLine(clock, request string) string {
	return fmt.Sprintf("203.0.113.7 - - [20/Nov/2026:%s +0000] %q 200 512 \"-\" \"-\"\n",
		clock, request)
}
