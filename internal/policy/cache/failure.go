package cache

import (
	"plimsoll/internal/exchange"
)

// failure is what requests that wait for a fetch are told if it fails: a single word, which the
// fill passes on. The zero value means no information: they look again.
type failure struct {
	status int
	reason exchange.Reason
	after  int // seconds of Retry-After, up to maxAfter; 0 for none
}

// maxAfter is the longest Retry-After, in seconds, that is sent to clients that waited for a fetch.
// The service may have limited only the client whose request began it, and the next fetch is for
// another client.
const maxAfter = 5

func (f failure) word() uint32 {
	return uint32(f.after)<<18 | uint32(f.status)<<8 | uint32(f.reason)
}

func failureOf(word uint32) failure {
	return failure{int(word >> 8 & 0x3ff), exchange.Reason(word & 0xff), int(word >> 18)}
}

// shares reports whether an answer that is not stored is a failure for all waiting requests. 5xx
// are failures of the service. So is 429: the gateway's fetch was one request too many, and so
// would be each waiting request if it went on alone. Other answers concern the single request, and
// each waiting request gets its own.
func shares(status int) bool { return status == 429 || status >= 500 }

// failureFrom is the failure that a service's answer means for clients that did not cause it. A
// client that has sent one request is not told that it has sent too many (429), but that the
// service accepts no more now.
func failureFrom(x *exchange.Exchange) failure {
	if x.Response.Status != 429 {
		return failure{status: x.Response.Status, reason: FetchFailed}
	}
	f := failure{status: 503, reason: FetchLimited}
	if field := x.Response.Fields.Find(retryAfterName); field != nil {
		for _, c := range field.Value {
			if c < '0' || c > '9' { // a date, which is rare: Retry-After is then omitted
				return failure{status: 503, reason: FetchLimited}
			}
			f.after = min(f.after*10+int(c-'0'), maxAfter)
		}
	}
	return f
}

var retryAfterName = []byte("Retry-After")
