package harness

import (
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestTheServerIsKnownFromItsAnswers(t *testing.T) {
	for _, c := range []struct{ field, runtime, server string }{
		{"gunicorn", measure.RuntimeCPython, "gunicorn"},
		{"gunicorn/20.0.4", "", "gunicorn"},
		{"Werkzeug/2.2.2 Python/3.11.2", measure.RuntimeCPython, "werkzeug"},
		{"hypercorn-h11", measure.RuntimeCPython, "hypercorn"},
		{"Jetty(9.4.50.v20221201)", measure.RuntimeJVM, "jetty"},
		{"Apache-Coyote/1.1", measure.RuntimeJVM, "tomcat"},
		{"Apache/2.4.57 (Debian)", "", "apache"},
		// A proxy in Go that passes on what is behind it.
		{"gunicorn", measure.RuntimeGo, ""},
		{"my gunicorn", measure.RuntimeCPython, ""},
		{"gunicorns", measure.RuntimeCPython, ""},
		{"", measure.RuntimeCPython, ""},
	} {
		if got := serverOf(c.field, c.runtime); got != c.server {
			t.Errorf("%q of %q is %q, and not %q", c.field, c.runtime, got, c.server)
		}
	}
}
