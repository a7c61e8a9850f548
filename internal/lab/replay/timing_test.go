package replay_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/replay"
)

// The log has 1,000 lines a second and a burst of 3,200 for 8 s; what each loop is given together
// has as many in each second, in order of time.
func TestEachSecondHasTheArrivalsOfTheLog(t *testing.T) { hasItsArrivals(t, 3, false) }

func TestLinesOfOneMomentAreSpreadOverTheUnitOfTheLogsClock(t *testing.T) {
	get := "GET / HTTP/1.1"
	seconds := requestLine("08:00:00", get) + requestLine("08:00:00", get) +
		requestLine("08:00:00", get) + requestLine("08:00:00", get) +
		requestLine("08:00:03", get) + requestLine("08:00:03", get)
	if got, _ := replayed(t, seconds, replay.Options{}); dues(got) != "0s 250ms 500ms 750ms 3s "+
		"3.5s" {
		t.Errorf("whole seconds: %s", dues(got))
	}
	milliseconds := `{"ts":1763625600.123,"request":"GET / HTTP/1.1"}` + "\n" +
		`{"ts":1763625600.123,"request":"GET / HTTP/1.1"}` + "\n" +
		`{"ts":1763625600.200,"request":"GET / HTTP/1.1"}` + "\n"
	if got, _ := replayed(t, milliseconds, replay.Options{}); dues(got) != "0s 500µs 77ms" {
		t.Errorf("milliseconds: %s", dues(got))
	}
}

// seconds is a log with a line at each of the seconds after eight o'clock.
func seconds(at ...int) string {
	var b strings.Builder
	for i, s := range at {
		b.WriteString(requestLine(fmt.Sprintf("08:%02d:%02d", s/60, s%60),
			fmt.Sprintf("GET /%d HTTP/1.1", i)))
	}
	return b.String()
}

func TestASpeedDividesTheTimes(t *testing.T) {
	if got, stats := replayed(t, seconds(0, 1, 4), replay.Options{
		Speed: 2,
	}); dues(got) != "0s 500ms 2s" || stats.Length != 2*time.Second || stats.Speed != 2 {
		t.Errorf("%s, %+v", dues(got), stats)
	}
}

func TestASpeedIsReadAsPeopleWriteIt(t *testing.T) {
	for text, want := range map[string]float64{"2x": 2, "0.5x": 0.5, "10": 10} {
		if got, err := replay.ParseSpeed(text); err != nil || got != want {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "fast", "0x", "-1x", "NaN", "1e9x"} {
		if got, err := replay.ParseSpeed(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestARateScalesTheWholeLogSoThatItsMeanIsTheRate(t *testing.T) {
	perSecond := []int{10, 10, 40, 20}
	s := start(t, madeFile(t, perSecond, false), replay.Options{Rate: 200}, 1)
	got := drain(t, s, 1)[0]
	// 80 lines in 4 s are 20 a second: ten times as fast, so 0.1 s is a second of the log.
	counts := make([]int, 4)
	for _, a := range got {
		counts[a.due/(100*time.Millisecond)]++
	}
	if !slices.Equal(counts, perSecond) || math.Abs(s.Stats().Speed-10) > 1e-9 {
		t.Errorf("tenths of a second have %v arrivals, the speed is %v", counts, s.Stats().Speed)
	}
}

func TestLinesThatStandLateArePutBackInTheirPlace(t *testing.T) {
	got, stats := replayed(t, seconds(0, 2, 1, 3, 5, 4, 9), replay.Options{})
	if dues(got) != "0s 1s 2s 3s 4s 5s 9s" || stats.OutOfOrder != 2 || stats.Late != 0 {
		t.Errorf("%s, out of order %d, late %d", dues(got), stats.OutOfOrder, stats.Late)
	}
}

func TestALineThatStandsTooLateIsSentAtOnceAndCounted(t *testing.T) {
	got, stats := replayed(t, seconds(0, 10, 3, 20, 30), replay.Options{})
	if dues(got) != "0s 0s 10s 20s 30s" && dues(got) != "0s 3s 10s 20s 30s" ||
		stats.OutOfOrder != 1 {
		t.Errorf("%s, out of order %d", dues(got), stats.OutOfOrder)
	}
	got, stats = replayed(t, seconds(0, 10, 20, 3, 30), replay.Options{})
	if dues(got) != "0s 10s 11s 20s 30s" && dues(got) != "0s 10s 10s 20s 30s" ||
		stats.OutOfOrder != 1 || stats.Late != 1 {
		t.Errorf("%s, out of order %d, late %d", dues(got), stats.OutOfOrder, stats.Late)
	}
}

func TestTheTimeARequestTookIsTakenOffTheLogsTime(t *testing.T) {
	text := `{"msec":"1763625600.500","request_time":"0.500","request":"GET /a HTTP/1.1"}` + "\n" +
		`{"msec":"1763625602.000","request_time":"1.750","request":"GET /b HTTP/1.1"}` + "\n" +
		`{"msec":"1763625602.001","request_time":"1.901","request":"GET /c HTTP/1.1"}` + "\n"
	got, _ := replayed(t, text, replay.Options{})
	if dues(got) != "0s 100ms 250ms" || !strings.Contains(got[1].request, "/c") {
		t.Errorf("%s: %v", dues(got), got)
	}
}

func TestAPartOfTheLog(t *testing.T) {
	log := seconds(0, 10, 20, 30, 40)
	at := func(text string) replay.Moment {
		m, err := replay.ParseMoment(text)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	cases := map[string]struct {
		o     replay.Options
		want  string
		ended string
	}{
		"by time": {
			replay.Options{From: at("2026-11-20T08:00:10Z"), To: at("20/Nov/2026:08:00:30 +0000")},
			"0s 10s", "the end of the part that was asked for",
		},
		"by offset": {replay.Options{From: at("15s"), To: at("35s")}, "0s 10s", "the end of the part that was asked for"},
		"duration":  {replay.Options{MaxDuration: 25 * time.Second}, "0s 10s 20s", "the longest duration is over"},
		"sample":    {replay.Options{Sample: 2}, "0s 20s 40s", "the log's end"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, stats := replayed(t, log, c.o)
			if dues(got) != c.want || stats.Ended != c.ended {
				t.Errorf("%s, ended by %q, want %s, by %q", dues(got), stats.Ended, c.want, c.ended)
			}
		})
	}
}

func TestOnlyTheHostsThatWereAskedFor(t *testing.T) {
	text := ""
	for i, host := range []string{"a.test", "A.test:8080", "b.test", "[::1]", ""} {
		text += fmt.Sprintf(`{"ts":%d.5,"method":"GET","path":"/%d","host":%q}`+"\n",
			1763625600+i, i, host)
	}
	if got, stats := replayed(t, text, replay.Options{
		Hosts: []string{"a.test", "[::1]"},
	}); dues(got) != "0s 1s 3s" || stats.SkippedHost != 2 {
		t.Errorf("%s, skipped %d", dues(got), stats.SkippedHost)
	}
}

func TestEveryLineIsCountedOnce(t *testing.T) {
	text := seconds(0, 1, 2) + "\n" + "rubbish\n" + requestLine("08:00:03", "POST / HTTP/1.1") +
		seconds(4, 5, 6, 7, 9)
	_, s := replayed(t, text, replay.Options{Sample: 2, To: replay.Moment{After: 8 * time.Second}})
	want := replay.Stats{
		Lines:          11,
		Blank:          1,
		Unreadable:     1,
		SkippedRange:   1,
		SkippedUnsafe:  1,
		SkippedSampled: 3,
		Arrivals:       4,
		Taken:          4,
		First:          begin,
		Last:           begin.Add(7 * time.Second),
		Length:         7 * time.Second,
		Speed:          1,
		Ended:          "the log's end",
		Examples:       s.Examples,
	}
	if fmt.Sprint(s) != fmt.Sprint(want) || len(s.Examples) != 1 {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
}

func TestAGzippedLogIsUnpacked(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	io.WriteString(w, seconds(0, 1))
	w.Close()
	// rotated logs are often put one behind the other
	w = gzip.NewWriter(&packed)
	io.WriteString(w, seconds(2))
	w.Close()
	got, stats := replayed(t, packed.String(), replay.Options{})
	if dues(got) != "0s 1s 2s" || stats.Ended != "the log's end" {
		t.Errorf("%s, ended by %q", dues(got), stats.Ended)
	}
}

func TestWhatStandsBeforeTheDamageIsSentAndTheDamageIsNamed(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if err := madeLog(w, []int{100, 100}, false); err != nil {
		t.Fatal(err)
	}
	w.Close()
	s := start(t, file(t, packed.String()[:packed.Len()-20]), replay.Options{}, 1)
	got := drain(t, s, 1)[0]
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "unexpected EOF") ||
		len(got) == 0 {
		t.Errorf("sent %d, error %v", len(got), err)
	}
}

func TestAMomentIsReadAsPeopleWriteIt(t *testing.T) {
	want := begin.Add(time.Hour)
	for _, text := range []string{
		"2026-11-20T09:00:00Z", "2026-11-20 09:00:00", "2026-11-20T10:00:00+01:00",
		"20/Nov/2026:09:00:00 +0000", "2026-11-20T09:00:00.000Z",
	} {
		if m, err := replay.ParseMoment(text); err != nil || !m.At.Equal(want) {
			t.Errorf("%s is %v, %v", text, m, err)
		}
	}
	if m, err := replay.ParseMoment("1h30m"); err != nil || m.After != 90*time.Minute {
		t.Errorf("1h30m is %v, %v", m, err)
	}
	for _, text := range []string{
		"", "noon", "-5m", "2026-13-20T09:00:00Z", "2026-02-29T09:00:00Z", "12345",
	} {
		if m, err := replay.ParseMoment(text); err == nil {
			t.Errorf("%q is %v", text, m)
		}
	}
}

func TestWhatCannotBeReplayedIsRefusedInOneLineThatSaysWhy(t *testing.T) {
	good := file(t, seconds(0, 1))
	cases := map[string]struct {
		path string
		o    replay.Options
		want string
	}{
		"no file":           {good + ".missing", replay.Options{}, "no such file"},
		"a folder":          {t.TempDir(), replay.Options{}, "is a folder"},
		"an empty file":     {file(t, "\n\n"), replay.Options{}, "the log is empty"},
		"another format":    {file(t, "hello\nworld\n"), replay.Options{}, `the first one is "hello"`},
		"an unknown format": {good, replay.Options{Format: "combinde"}, "the formats are combined, common"},
		"no gzip":           {file(t, "\x1f\x8bnothing"), replay.Options{}, "begins as gzip does"},
		"no time":           {good, replay.Options{Format: `$remote_addr "$request"`}, "has no time"},
		"a decoded path":    {good, replay.Options{Format: `$msec $request_method $uri`}, "has $uri, which nginx has decoded"},
		"no request":        {good, replay.Options{Format: `$msec $status`}, "does not tell the request"},
		"no gap":            {good, replay.Options{Format: `$msec$request`}, "nothing between $msec"},
		"a lone dollar":     {good, replay.Options{Format: `$msec $ $request`}, "without a name"},
		"an unknown field": {
			good, replay.Options{Format: "json", Fields: map[string]string{"tmie": "t"}},
			`unknown field "tmie": the fields are host, method`,
		},
		"fields of no JSON":  {good, replay.Options{Fields: map[string]string{"time": "t"}}, "names of fields are for JSON"},
		"rate and speed":     {good, replay.Options{Rate: 1, Speed: 1}, "give one of them"},
		"a rate of a stream": {"-", replay.Options{Rate: 1}, "standard input can be read only once"},
		"a speed of nothing": {good, replay.Options{Speed: -1}, "a speed of -1"},
		"no number":          {good, replay.Options{Rate: math.NaN()}, "a rate of NaN"},
		"an empty part":      {good, replay.Options{From: replay.Moment{After: 5}, To: replay.Moment{After: 5}}, "ends before it begins"},
		"nothing to send":    {file(t, requestLine("08:00:00", "POST / HTTP/1.1")), replay.Options{}, "--unsafe sends all methods"},
		"no readable line":   {good, replay.Options{Format: `$msec "$request"`}, "line 1: it is not of the log's format"},
		"no HAR":             {file(t, `{"a": 1}`), replay.Options{Format: "har"}, `it has no "log"`},
		"half a HAR":         {file(t, `{"log":{"entries":[{"startedDateTime"`), replay.Options{}, "the HAR is damaged at byte"},
		"nothing for a rate": {
			file(t, requestLine("08:00:00", "POST / HTTP/1.1")), replay.Options{Rate: 5},
			"none of its 1 lines can be sent",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			l, err := replay.Open(c.path, c.o)
			if err == nil {
				_, err = l.Start(context.Background(), 1, "shop.test")
			}
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one that says %q", err, c.want)
			}
		})
	}
}

func TestAHARIsPutInOrderOfTime(t *testing.T) {
	entry := `{"startedDateTime":"2026-11-20T08:00:%02d.000Z","request":{"method":"GET","url":"https://a.test/%d"},"response":{"status":200}}`
	text := `{"log":{"entries":[` + fmt.Sprintf(entry, 40, 1) + "," + fmt.Sprintf(entry, 10, 2) +
		`,{"request":{"method":7}},` + fmt.Sprintf(entry, 20, 3) + `]}}`
	got, stats := replayed(t, text, replay.Options{})
	if dues(got) != "0s 10s 30s" || stats.Late != 0 || stats.Unreadable != 1 {
		t.Errorf("%s, late %d, unreadable %d: %v",
			dues(got), stats.Late, stats.Unreadable, stats.Examples)
	}
}

func TestWhatWasSentIsComparedWithThePlan(t *testing.T) {
	plan := replay.ArrivalPlan{Step: time.Second, Counts: []uint64{100, 200, 100}}
	windows := []measure.Window{}
	for i, n := range []uint64{50, 50, 100, 95, 50, 50} {
		windows = append(windows, measure.Window{
			Start:  int64(i) * 5e8,
			Length: 5e8,
			Due:    n,
			Sent:   n,
		})
	}
	windows = append(windows, measure.Window{Start: 3e9, Length: 1e9, Sent: 5})
	due, sent := plan.Fold(windows)
	if !slices.Equal(due, []uint64{100, 195, 100}) || !slices.Equal(sent, []uint64{100, 195, 105}) {
		t.Errorf("due %v, sent %v", due, sent)
	}
	if worst, at := replay.Compare(plan.Counts, sent); worst != 0.05 || at != 2 {
		t.Errorf("the largest difference is %v, in second %d", worst, at)
	}
	if worst, _ := replay.Compare([]uint64{0}, []uint64{3}); worst != 3 {
		t.Errorf("three that nobody planned differ by %v", worst)
	}
}

func TestAPlanOfMoreThanADayGrowsCoarser(t *testing.T) {
	s := start(
		t,
		file(t, requestLine("08:00:00", "GET / HTTP/1.1")+requestLine("08:00:01", "GET / HTTP/1.1")+
			strings.ReplaceAll(requestLine("08:00:00", "GET / HTTP/1.1"), "20/Nov", "22/Nov")),
		replay.Options{},
		1,
	)
	drain(t, s, 1)
	p := s.Plan()
	if p.Step != 4*time.Second || len(p.Counts) != 43_201 || p.Counts[0] != 2 ||
		p.Counts[43_200] != 1 {
		t.Errorf("%d counts of %v, the first %d, the last %d",
			len(p.Counts), p.Step, p.Counts[0], p.Counts[len(p.Counts)-1])
	}
}

func TestALogThatIsClosedEarlyGivesItsFileBack(t *testing.T) {
	path := madeFile(t, burst(), false)
	l, err := replay.Open(path, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Start(t.Context(), 2, "shop.test")
	if err != nil {
		t.Fatal(err)
	}
	s.Close() // the reader waits for the loops, with most of the log unread
	if stats := s.Stats(); stats.Ended != "the replay was ended" || stats.Lines > 40_000 ||
		s.Err() != nil {
		t.Errorf("%+v, %v", stats, s.Err())
	}
	if err := os.Remove(path); err != nil {
		t.Error(err)
	}
}
