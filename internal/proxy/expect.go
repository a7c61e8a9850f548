package proxy

import (
	"time"

	"plimsoll/internal/exchange"
)

// A client that sends Expect: 100-continue does not send its body until it is told to go on (RFC
// 9110, section 10.1.1). If none of the body has come yet, the upstream decides: it gets Expect
// with the head, and while the flag expecting is set the gateway does not ask for the body. The
// first of these ends that:
//
//   - the upstream's 100, which is passed on;
//   - the upstream's final response, which is passed on; the body stays unread, so both connections
//     end after it;
//   - bytes of the body, from a client that does not wait;
//   - the end of expectWait: an upstream that does not know Expect waits for the body, so the
//     gateway says 100 itself.
//
// The flag continued says that the client needs no 100 any more: it got one, or sends already. A
// further try then does without Expect.

// expectWait is for how many nanoseconds to wait for an upstream's answer to Expect. The wait is at
// most half of the route's timeout, so that some of that is left for the body.
const expectWait = int64(time.Second)

var expectLine = []byte("Expect: 100-continue\r\n")

// expectsUpstream reports whether the upstream decides if the client sends its body. It does not if
// some of the body has come or is held already: the upstream would get that with the head.
func (f *flow) expectsUpstream() bool {
	return f.is(expects) && !f.is(continued|bodyWhole) && f.bodyIn == 0 && f.stream.buffered() == 0
}

// appendExpect adds Expect to the end of a request's head. out ends with the empty line of the
// head.
func (f *flow) appendExpect(out []byte) []byte {
	f.flags |= expecting
	out = append(out[:len(out)-len(crlf)], expectLine...)
	return append(out, crlf...)
}

// settleExpect ends the wait for the upstream's decision: the body is expected, and the measurement
// of its rate begins.
func (f *flow) settleExpect() {
	f.flags = f.flags&^expecting | continued
	if f.stage == stageSent {
		f.awaitAnswer(f.deadline)
	}
	f.armBodyTimer()
}

// letContinue tells the client to send its body. It returns false if the client is gone and the
// exchange over.
func (f *flow) letContinue() bool {
	f.settleExpect()
	if f.stream.sendContinue() != nil {
		f.abort(exchange.NoReason)
		return false
	}
	return true
}
