package replay_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
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

// The lines of endless logs: HH:MM:SS is put in the place of the first mark, and a number in that
// of the second.
const (
	combinedLine = `203.0.113.7 - - [20/Nov/2026:HH:MM:SS +0000] "GET /items/NNNNNNNN?page=2 HTTP/1.1" 200 512 "-" "Mozilla/5.0 (X11; Linux)"`
	jsonLine     = `{"time":"2026-11-20THH:MM:SS.123456Z","client":"203.0.113.7","method":"GET","host":"shop.test","path":"/items/NNNNNNNN",` +
		`"query":"page=2","protocol":"HTTP/1.1","status":200,"bytes_in":0,"bytes_out":512,"duration":0.002,"gateway_duration":0.00002,"user_agent":"Mozilla/5.0"}`
)

// forever is a log without an end: a thousand lines a second.
type forever struct {
	line         []byte
	time, number int // where they stand in the line
	lines        int
	rest         []byte
}

func newForever(line string) *forever {
	return &forever{
		line:   []byte(line + "\n"),
		time:   strings.Index(line, "HH:MM:SS"),
		number: strings.Index(line, "NNNNNNNN"),
	}
}

func (f *forever) Read(b []byte) (int, error) {
	n := 0
	for n < len(b) {
		if len(f.rest) == 0 {
			at := 8*3600 + f.lines/1000
			put(f.line[f.time:f.time+2], at/3600)
			put(f.line[f.time+3:f.time+5], at/60%60)
			put(f.line[f.time+6:f.time+8], at%60)
			put(f.line[f.number:f.number+8], f.lines)
			f.rest = f.line
			f.lines++
		}
		c := copy(b[n:], f.rest)
		n, f.rest = n+c, f.rest[c:]
	}
	return n, nil
}

// put writes a number in decimal.
func put(b []byte, n int) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

func startForever(t *testing.T, loops int) (*forever, *replay.Source) {
	t.Helper()
	f := newForever(combinedLine)
	l, err := replay.OpenReader(f, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Start(t.Context(), loops, "shop.test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return f, s
}

// take waits for the next arrival.
func take(t *testing.T, s pace.Streamed) {
	t.Helper()
	for {
		if _, ok := s.Next(); ok {
			return
		}
		if !s.Pending() {
			t.Fatal("the log is over")
		}
		runtime.Gosched()
	}
}

// hasItsArrivals gives a log of half a minute to so many loops and counts each second's arrivals.
// A log may have milliseconds (fine).
func hasItsArrivals(t *testing.T, loops int, fine bool) {
	t.Helper()
	want := burst()
	o := replay.Options{}
	if fine {
		o.Format = fineFormat
	}
	s := start(t, madeFile(t, want, fine), o, loops)
	got := make([]int, len(want))
	for _, arrivals := range drain(t, s, loops) {
		if !slices.IsSortedFunc(arrivals, func(a, b arrival) int {
			return int(a.due - b.due)
		}) {
			t.Error("a loop's arrivals are not in order of time")
		}
		for _, a := range arrivals {
			got[a.due/time.Second]++
		}
	}
	// A fine log's first line is some milliseconds after the second, so that its seconds
	// are cut elsewhere by as much.
	for i, n := range got {
		if allowed := 0.01 * float64(want[i]); math.Abs(float64(n-want[i])) > allowed {
			t.Errorf("second %d has %d arrivals, the log %d", i, n, want[i])
		}
	}
	if s := s.Stats(); s.Arrivals != 50_600 || s.Taken != 50_600 {
		t.Errorf("%d arrivals, of which %d were taken", s.Arrivals, s.Taken)
	}
	for i, n := range s.Plan().Counts {
		if int(n) != got[i] {
			t.Errorf("second %d is planned with %d arrivals and has %d", i, n, got[i])
		}
	}
}
