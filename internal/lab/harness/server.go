package harness

import (
	"strings"

	"plimsoll/internal/lab/measure"
)

// named are server programs by the product that their answers' Server field begins with, in lower
// case, and the runtime that they run on.
var named = []struct{ product, server, runtime string }{
	{"gunicorn", "gunicorn", measure.RuntimeCPython},
	{"uvicorn", "uvicorn", measure.RuntimeCPython},
	{"hypercorn", "hypercorn", measure.RuntimeCPython},
	{"granian", "granian", measure.RuntimeCPython},
	{"daphne", "daphne", measure.RuntimeCPython},
	{"waitress", "waitress", measure.RuntimeCPython},
	{"werkzeug", "werkzeug", measure.RuntimeCPython},
	{"wsgiserver", "wsgiref", measure.RuntimeCPython},
	{"tornadoserver", "tornado", measure.RuntimeCPython},
	{"twistedweb", "twisted", measure.RuntimeCPython},
	{"cheroot", "cheroot", measure.RuntimeCPython},
	{"cherrypy", "cheroot", measure.RuntimeCPython},
	{"puma", "puma", measure.RuntimeRuby},
	{"unicorn", "unicorn", measure.RuntimeRuby},
	{"webrick", "webrick", measure.RuntimeRuby},
	{"apache-coyote", "tomcat", measure.RuntimeJVM},
	{"jetty", "jetty", measure.RuntimeJVM},
	{"kestrel", "kestrel", measure.RuntimeDotNet},
	{"nginx", "nginx", measure.RuntimeC},
	{"openresty", "nginx", measure.RuntimeC},
	{"lighttpd", "lighttpd", measure.RuntimeC},
	{"h2o", "h2o", measure.RuntimeC},
	{"apache", "apache", measure.RuntimeC},
	{"envoy", "envoy", measure.RuntimeCpp},
}

// serverOf returns the server program that a Server field names, if it runs on the target's
// runtime: a proxy passes on what the service behind it says. If the process is not known, because
// it is elsewhere, the field is all that there is.
func serverOf(field, runtime string) string {
	product := strings.ToLower(field)
	if i := strings.IndexAny(product, "/ (;"); i >= 0 {
		product = product[:i]
	}
	for _, n := range named {
		if product == n.product || strings.HasPrefix(product, n.product+"-") {
			if runtime == "" || runtime == n.runtime {
				return n.server
			}
			return ""
		}
	}
	return ""
}
