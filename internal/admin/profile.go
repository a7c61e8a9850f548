package admin

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	rtpprof "runtime/pprof"
	"strconv"
	"time"
)

// profileLongest bounds a profile or trace over a time. Package pprof has no bound: it puts off the
// server's write timeout by whatever the request says, and such a request holds its connection, and
// the one place for profiles of the processor, for as long.
const profileLongest = 5 * time.Minute

// timed lets requests through whose seconds, if they give any, are a time within the bound. Package
// pprof would take them from a form in the body too.
func timed(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.NoBody
		if q := r.URL.Query(); q.Has("seconds") {
			text, most := q.Get("seconds"), profileLongest.Seconds()
			// The negation refuses NaN too.
			if n, err := strconv.ParseFloat(text, 64); err != nil || !(n > 0 && n <= most) {
				fail(w, http.StatusBadRequest,
					fmt.Sprintf("seconds=%s: give a number above 0, at most %g", quoted(text), most))
				return
			}
		}
		next(w, r)
	}
}

// profile serves the runtime's profiles by name.
func profile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("profile")
	if rtpprof.Lookup(name) == nil {
		fail(w, http.StatusNotFound,
			"there is no profile "+strconv.Quote(name)+"; /debug/pprof/ lists those there are")
		return
	}
	pprof.Handler(name).ServeHTTP(w, r)
}
