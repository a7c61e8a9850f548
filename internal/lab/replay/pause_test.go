package replay_test

import (
	"errors"
	"strings"
	"testing"

	"plimsoll/internal/lab/replay"
)

// dated is a line of a log in the combined format, of 8 o'clock on a day.
func dated(day, path string) string {
	return "203.0.113.7 - - [" + day + ":08:00:00 +0000] \"GET " + path +
		" HTTP/1.1\" 200 512 \"-\" \"-\"\n"
}

// One line with a wrong year must not keep the replay waiting for it, wherever it stands.
func TestAReplayDoesNotWaitForALineOfAnotherCentury(t *testing.T) {
	cases := map[string]struct{ log, want string }{
		"far ahead, at the end":    {dated("20/Nov/2026", "/a") + dated("20/Nov/2026", "/b") + dated("20/Nov/2199", "/c"), "0s 500ms"},
		"far ahead, in the middle": {dated("20/Nov/2026", "/a") + dated("20/Nov/2199", "/c") + dated("20/Nov/2026", "/b"), "0s 0s"},
		"long ago, at the start":   {dated("01/Jan/1970", "/a") + dated("20/Nov/2026", "/b"), "0s"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := start(t, file(t, c.log), replay.Options{}, 1)
			got := drain(t, s, 1)[0]
			if dues(got) != c.want && dues(got) != "0s 500ms" {
				t.Errorf("due at %s, want %s", dues(got), c.want)
			}
			err := s.Err()
			if err == nil || strings.Contains(err.Error(), "\n") ||
				!strings.Contains(err.Error(), "more than a week: the log goes from ") {
				t.Errorf("the reading ended with %v", err)
			}
		})
	}
	// What is as slow as it was asked to be has no wrong time.
	if got, stats := replayed(t, seconds(0, 1000), replay.Options{
		Speed: .001,
	}); dues(got) != "0s 277h46m40s" || stats.Ended != "the log's end" {
		t.Errorf("%s, %+v", dues(got), stats)
	}
	if got, stats := replayed(t, dated("20/Nov/2026", "/a")+dated("30/Nov/2026", "/b"),
		replay.Options{Speed: 100}); len(got) != 2 {
		t.Errorf("%s, %+v", dues(got), stats)
	}
}

// A mean rate over two centuries would make one burst of all the lines but one.
func TestARateIsNotTakenOfALogWithAWrongYear(t *testing.T) {
	l, err := replay.Open(file(t, dated("20/Nov/2026", "/a")+dated("20/Nov/2199", "/c")),
		replay.Options{Rate: 10})
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.Start(t.Context(), 1, "localhost")
	if err == nil {
		s.Close()
		err = errors.New("nothing")
	}
	if !strings.Contains(err.Error(), "from 2026-11-20 08:00:00 to 2199-11-20 08:00:00") {
		t.Errorf("the error is: %v", err)
	}
}
