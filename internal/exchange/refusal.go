package exchange

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// RefusalBody is the text of an answer of the gateway's own, made once for each status and reason:
// "503 Service Unavailable: no_target: no target of this service is up\n".
func RefusalBody(status int, reason Reason) []byte {
	key := refusal{status, reason}
	if b, ok := refusalBodies()[key]; ok {
		return b
	}
	return makeRefusalBody(key)
}

type refusal struct {
	status int
	reason Reason
}

// refusalBodies are made at the first refusal, when all rooms have declared their reasons.
var refusalBodies = sync.OnceValue(func() map[refusal][]byte {
	m := map[refusal][]byte{}
	for _, status := range []int{400, 403, 404, 405, 408, 413, 414, 429, 431, 500, 501, 502, 503, 504, 505} {
		for r := range reasons {
			key := refusal{status, Reason(r)}
			m[key] = makeRefusalBody(key)
		}
	}
	return m
})

func makeRefusalBody(k refusal) []byte {
	var b strings.Builder
	b.WriteString(strconv.Itoa(k.status))
	b.WriteString(" " + http.StatusText(k.status) + ": " + k.reason.String())
	if text := reasons[k.reason].Text; text != "" {
		b.WriteString(": " + text)
	}
	b.WriteByte('\n')
	return []byte(b.String())
}
