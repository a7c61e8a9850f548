package exchange

import (
	"net/http"
	"strconv"
	"strings"
)

// explanations say in an answer's body what a reason's label means for the one who asked.
var explanations = [reasons]string{
	RouteAnswer:     "the route has neither an upstream nor an answer",
	NoRoute:         "no route matches this host and path",
	WrongMethod:     "this path is served for other methods, see Allow",
	BadRequest:      "the request is malformed or over a limit",
	BadPath:         "the path has no canonical form",
	HeadTimeout:     "the request's head did not arrive in time",
	BodyTimeout:     "the request's body came too slowly",
	BodyTooLarge:    "the request's body is longer than this route takes",
	Denied:          "your address is not allowed here",
	NoTarget:        "no target of this service is up",
	PoolFull:        "all connections to this service are busy",
	ConnectFailed:   "the service could not be reached",
	UpstreamReset:   "the service closed the connection without an answer",
	UpstreamBad:     "the service's answer was malformed",
	UpstreamTimeout: "the service did not answer in time",
}

// RefusalBody is the text of an answer of the gateway's own, made once for each status and reason:
// "503 Service Unavailable: no_target: no target of this service is up\n".
func RefusalBody(status int, reason Reason) []byte {
	key := refusal{status, reason}
	if b, ok := refusalBodies[key]; ok {
		return b
	}
	return makeRefusalBody(key)
}

type refusal struct {
	status int
	reason Reason
}

var refusalBodies = func() map[refusal][]byte {
	m := map[refusal][]byte{}
	for _, status := range []int{400, 403, 404, 405, 408, 413, 414, 431, 500, 501, 502, 503, 504, 505} {
		for r := range reasons {
			m[refusal{status, r}] = makeRefusalBody(refusal{status, r})
		}
	}
	return m
}()

func makeRefusalBody(k refusal) []byte {
	var b strings.Builder
	b.WriteString(strconv.Itoa(k.status))
	b.WriteString(" " + http.StatusText(k.status) + ": " + k.reason.String())
	if text := explanations[k.reason]; text != "" {
		b.WriteString(": " + text)
	}
	b.WriteByte('\n')
	return []byte(b.String())
}
