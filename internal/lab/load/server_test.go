package load_test

import (
	"strings"
	"testing"
	"time"

	"plimsoll/internal/lab/load"
)

func TestTheServerThatAnAnswerNamesIsKept(t *testing.T) {
	for field, want := range map[string]string{
		"":                            "",
		"Server: gunicorn/20.0.4\r\n": "gunicorn/20.0.4",
		"server: " + strings.Repeat("x", 300) + "\r\n": strings.Repeat("x", 200),
	} {
		o := get(t, serve(t, send("HTTP/1.1 200 OK\r\n"+field+"Content-Length: 2\r\n\r\nok")).url())
		o.Duration = 50 * time.Millisecond
		if totals, _ := run(t, o); totals.Server != want {
			t.Errorf("%q: %q, want %q", field, totals.Server, want)
		}
	}
	all := load.Outcome{}
	all.Add(&load.Outcome{Server: "nginx"})
	all.Add(&load.Outcome{Server: "puma"})
	if all.Server != "nginx" {
		t.Errorf("the parts of a run have %q", all.Server)
	}
}
