package exchange

import (
	"net/http"
	"strconv"
	"strings"
)

// RefusalBody is the text of a refusal by the gateway. It is made once for each status and reason:
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

// refusalBodies is filled by DeclareReason and only read once main begins.
var refusalBodies = map[refusal][]byte{}

// refusalStatuses are the statuses of refusals.
var refusalStatuses = [...]int{400, 403, 404, 405, 408, 413, 414, 429, 431, 500, 501, 502, 503, 504, 505}

func prepareRefusals(r Reason) {
	for _, status := range refusalStatuses {
		key := refusal{status, r}
		refusalBodies[key] = makeRefusalBody(key)
	}
}

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
