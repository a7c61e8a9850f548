package limit

import (
	"strconv"
	"time"

	"plimsoll/internal/exchange"
)

var (
	rateLimitName       = []byte("RateLimit")
	rateLimitPolicyName = []byte("RateLimit-Policy")
)

// prepareFields writes the response fields of the limits that send them in this case
// (draft-ietf-httpapi-ratelimit-headers-11). RateLimit lists each limit's name with what is left
// and the time until all of it is available again (r, t). RateLimit-Policy lists the limits'
// numbers (q, w). A limit that only counts sends nothing, and no field says which value is counted.
func (p *Policy) prepareFields(x *exchange.Exchange, spots []spot, now int64, when Headers) {
	size := 0
	for i, l := range p.limits {
		if l.speaks(&spots[i], when) {
			size += len(l.Name) + fieldSize
		}
	}
	if size == 0 {
		return
	}
	left, policy := x.Alloc(size)[:0], x.Alloc(size)[:0]
	for i, l := range p.limits {
		s := &spots[i]
		if !l.speaks(s, when) {
			continue
		}
		if len(left) > 0 {
			left, policy = append(left, ", "...), append(policy, ", "...)
		}
		tokens, until := s.left(now, when == OnRefused)
		if !s.pass {
			tokens, until = 0, s.wait
		}
		left = appendNumbers(appendName(left, l.Name), ";r=", tokens, ";t=",
			ceil(until, int64(time.Second)))
		policy = append(appendName(policy, l.Name), s.outcome.params.advertised...)
	}
	x.RateLimit, x.RateLimitPolicy = left, policy
}

// fieldSize is the number of bytes that a member takes besides the name: two quotes, two keys, two
// numbers and a comma.
const fieldSize = 2 + 6 + 2*20 + 2

func (l *limit) speaks(s *spot, when Headers) bool {
	if r := s.remote; r != nil && s.pass && r.by != byRedis && r.by != byHere {
		return false // this instance does not know what is left
	}
	return s.decided() && !l.DryRun && (l.Headers == Always || l.Headers == when)
}

func appendName(b []byte, name string) []byte {
	return append(append(append(b, '"'), name...), '"')
}

func appendNumbers(b []byte, key1 string, value1 int64, key2 string, value2 int64) []byte {
	b = strconv.AppendInt(append(b, key1...), value1, 10)
	return strconv.AppendInt(append(b, key2...), value2, 10)
}

// left is what is left after the decision. If another limit refuses the request, it takes nothing.
func (s *spot) left(now int64, refused bool) (tokens, until int64) {
	if s.elsewhere() {
		return s.remote.answer.Left, int64(s.remote.answer.Reset)
	}
	p, w := s.outcome.params, s.before
	if s.pass && !refused {
		w = s.after
	}
	if p.algorithm == SlidingLog {
		return p.leftInLog(s.ring, now)
	}
	return p.left(w, now)
}

// advertise returns the quota and its window in whole seconds. A bucket's window is the time in
// which an empty bucket becomes full again.
func (p *params) advertise() (quota, seconds int64) {
	second := int64(time.Second)
	if p.algorithm.bucket() {
		seconds = max(1, ceil(p.depth/units, second))
	} else {
		seconds = max(1, ceil(p.period, second))
	}
	if p.period == seconds*second {
		return p.rate.Count, seconds
	}
	if !p.algorithm.bucket() && p.period > second {
		return p.rate.Count, seconds
	}
	return max(1, seconds*second*units/p.token), seconds
}

// OnResponse adds the fields.
func (p *Policy) OnResponse(x *exchange.Exchange) exchange.PolicyVerdict {
	if len(x.RateLimit) > 0 {
		x.Response.Fields.Add(rateLimitName, x.RateLimit)
		x.Response.Fields.Add(rateLimitPolicyName, x.RateLimitPolicy)
		x.RateLimit = nil // only once, even if another answer replaces this response
	}
	return exchange.Continue
}
