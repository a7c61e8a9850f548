package cache

import (
	"plimsoll/internal/exchange"
)

// failure is what those who wait for a fetch are told when it fails: one word, as the fill passes it on. Its
// zero value says nothing: they look again.
type failure struct {
	status int
	reason exchange.Reason
	after  int // seconds of Retry-After, up to maxAfter; 0 for none
}

// maxAfter is the longest Retry-After, in seconds, that who waits for a fetch is told. The service may have
// limited the client that began it, and the next fetch is another's.
const maxAfter = 5

func (f failure) word() uint32 {
	return uint32(f.after)<<18 | uint32(f.status)<<8 | uint32(f.reason)
}

func failureOf(word uint32) failure {
	return failure{int(word >> 8 & 0x3ff), exchange.Reason(word & 0xff), int(word >> 18)}
}

// shares says whether an answer that is not stored is a failure for all who wait. 5xx are the service's.
// So is 429: the gateway's fetch is one request too many, and each that waits would be the next if it
// went on alone. Other answers are about the request, and each that waits gets its own.
func shares(status int) bool { return status == 429 || status >= 500 }

// failureFrom is what an answer of the service's is for those who did not cause it. Who has sent one request
// is not told that it has sent too many (429), but that the service takes no more now.
func failureFrom(x *exchange.Exchange) failure {
	if x.Response.Status != 429 {
		return failure{status: x.Response.Status, reason: FetchFailed}
	}
	f := failure{status: 503, reason: FetchLimited}
	if field := x.Response.Fields.Find(retryAfterName); field != nil {
		for _, c := range field.Value {
			if c < '0' || c > '9' { // a date, which is rare: it is told without
				return failure{status: 503, reason: FetchLimited}
			}
			f.after = min(f.after*10+int(c-'0'), maxAfter)
		}
	}
	return f
}

var retryAfterName = []byte("Retry-After")
