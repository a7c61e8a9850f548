package gateway

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
)

// evilForms are whole requests for a path, as bytes, that are unlike a plain one in other ways than
// by a field. PATH is the path.
var evilForms = []string{
	"HEAD PATH HTTP/1.1\r\nHost: a\r\n\r\n",
	"POST PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nevil",
	"EVIL PATH HTTP/1.1\r\nHost: a\r\n\r\n",
	"get PATH HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET PATH HTTP/1.0\r\nHost: a\r\n\r\n",
	"GET PATH HTTP/1.0\r\n\r\n",
	"GET PATH?evil HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET PATH?evil=1&_method=DELETE HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET PATH? HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET PATH;evil HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET PATH#evil HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET PATH%3fevil HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET PATH%23evil HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET PATH/evil/.. HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET PATH/%2e%2e/evil HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /evil/..PATH HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /.PATH HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET /PATH HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET PATH%00evil HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET PATH\\evil HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http://aPATH HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET HTTP://APATH HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http://evilPATH HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http://evil@aPATH HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http://a:80PATH HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: A\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a.\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a:80\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a:8080\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: evil\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a evil\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a/evil\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nHost: evil\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nConnection: close, X-Evil\r\nX-Evil: evil\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nConnection: Host, X-Forwarded-For\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: evil\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" +
		"HTTP2-Settings: AAMAAABk\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nExpect: evil\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nKeep-Alive: evil\r\nProxy-Connection: evil\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nevil",
	"GET PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n" +
		"X-Evil: evil\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Evil\r\n\r\n0\r\n" +
		"X-Evil: evil\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\n\r\nGET /evil HTTP/1.1\r\nHost: evil\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nX-Large: " + strings.Repeat("evil", 7000) + "\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0,2-2\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0\r\nIf-Range: \"evil\"\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nCookie: evil\r\nCookie: evil=1\r\nAuthorization: Basic evil\r\n\r\n",
	"GET PATH HTTP/1.1\r\nHost: a\r\nAccept: \"evil, text/html\r\nAccept: evil\r\n\r\n",
}

func TestHazardNoFormOfARequestPoisonsTheCache(t *testing.T) {
	t.Parallel()
	b := serveCache(t, reflecting(t).address(), poisonRoutes, "")
	victim := b.talk(allSpoken[0])
	for n, form := range evilForms {
		for _, kind := range []string{"fresh", "stale", "varies"} {
			path := fmt.Sprintf("/%s/%d", kind, n)
			if kind == "stale" {
				victim.plainly(path, "nothing")
			}
			b.evil(strings.ReplaceAll(form, "PATH", path))
			victim.plainly(path, form)
		}
	}
}

// evil sends raw bytes and reads what comes back.
func (b *bed) evil(raw string) {
	p := dialRaw(b.t, b.address(1))
	defer p.Close()
	p.send(raw)
	method, _, _ := strings.Cut(raw, " ")
	for {
		r, err := http.ReadResponse(p.r, &http.Request{Method: method})
		if err != nil {
			return
		}
		r.Body.Close()
		if r.StatusCode >= 200 {
			return
		}
	}
}

// Requests that are put together at random, of all of the above, some at once, for a few paths.
func TestHazardNoRandomRequestPoisonsTheCache(t *testing.T) {
	t.Parallel()
	const seed, rounds = 20261123, 400
	b := serveCache(t, reflecting(t).address(), poisonRoutes, "")
	r := rand.New(rand.NewPCG(seed, 1))
	victim := b.talk(allSpoken[0])
	for round := range rounds {
		path := fmt.Sprintf("/%s/%d", []string{"fresh", "stale", "varies"}[r.IntN(3)], round/4)
		done := make(chan bool)
		many := 1 + r.IntN(3)
		var raw string
		for range many {
			one := randomRequest(r, path)
			go func() {
				b.evil(one)
				done <- true
			}()
			raw += one
		}
		if r.IntN(2) == 0 { // else it asks while they do
			for ; many > 0; many-- {
				<-done
			}
		}
		victim.plainly(path, fmt.Sprintf("round %d of seed %d, of\n%s\n", round, seed, raw))
		for ; many > 0; many-- {
			<-done
		}
		if t.Failed() {
			return
		}
	}
}

// randomRequest is one of the forms, with some fields more.
func randomRequest(r *rand.Rand, path string) string {
	head, rest, _ := strings.Cut(evilForms[r.IntN(len(evilForms))], "\r\n")
	var fields strings.Builder
	for range r.IntN(5) {
		name, value := evilFields[r.IntN(len(evilFields))], evilValues[r.IntN(len(evilValues))]
		switch {
		case name == "Authorization" || name == "Range" || strings.HasPrefix(name, "If-"):
		case r.IntN(3) == 0:
			name = strings.ToUpper(name)
		case r.IntN(10) == 0:
			fields.WriteString("Connection: " + name + "\r\n")
		}
		fields.WriteString(name + ": " + value + "\r\n")
	}
	return strings.ReplaceAll(head, "PATH", path) + "\r\n" + fields.String() +
		strings.ReplaceAll(rest, "PATH", path)
}
