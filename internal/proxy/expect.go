package proxy

import (
	"time"

	"plimsoll/internal/exchange"
)

// A client that sends Expect: 100-continue waits with its body until it is told to go on (RFC 9110,
// section 10.1.1). Where none of the body is there yet, the upstream decides: it gets Expect with
// the head, and while the flag expecting is set no body is asked for. What ends that, whichever
// comes first:
//
//   - the upstream's 100, which is passed on;
//   - the upstream's final response, which is passed on; the body stays unread, so both connections
//     end after it;
//   - bytes of the body, from a client that does not wait;
//   - the end of expectWait: an upstream that does not know Expect waits for the body, so the
//     gateway says 100 itself.
//
// The flag continued says that the client needs no 100 any more: it had one, or sends already. A
// further try then does without Expect.

// expectWait is how long an upstream may think about Expect, in nanoseconds. It has at most half of
// the route's timeout: the body must have some of it too.
const expectWait = int64(time.Second)

var expectLine = []byte("Expect: 100-continue\r\n")

// expectsUpstream says whether it is the upstream that tells the client to send its body. It is not
// where some of the body is there, or held already: the upstream would get that with the head.
func (f *flow) expectsUpstream() bool {
	return f.is(expects) && !f.is(continued|bodyWhole) && f.bodyIn == 0 && f.stream.buffered() == 0
}

// appendExpect puts Expect at the end of a request's head, whose empty line is the last of out.
func (f *flow) appendExpect(out []byte) []byte {
	f.flags |= expecting
	out = append(out[:len(out)-len(crlf)], expectLine...)
	return append(out, crlf...)
}

// settleExpect ends the waiting for the upstream's decision: the body comes, and its pace counts
// from now on.
func (f *flow) settleExpect() {
	f.flags = f.flags&^expecting | continued
	if f.stage == stageSent {
		f.awaitAnswer(f.deadline)
	}
	f.armBodyTimer()
}

// letContinue tells the client to send its body; false means that it is gone and the exchange over.
func (f *flow) letContinue() bool {
	f.settleExpect()
	if f.stream.sendContinue() != nil {
		f.abort(exchange.NoReason)
		return false
	}
	return true
}
