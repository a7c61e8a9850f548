package proxy

import (
	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/forwarded"
	"plimsoll/internal/telemetry"
)

// A trusted peer may claim an SLA class for a request, and a deadline until which it waits for the
// answer. Both are read once, when the route is known, from fields that the configuration names.
// Those of other peers were removed before (forwarded.DropClaims). A malformed value is ignored and
// counted. The upstream gets the gateway's own values: the class in force as a field of the
// request, which the route's policies may change, and the time that is left as a line of the head
// of each try.

// ClassHeader is the field that gives a request's SLA class.
type ClassHeader struct {
	name   []byte
	names  forwarded.Names
	fields [telemetry.Classes]head.Field
}

// NewClassHeader prepares the field with this name, which must be valid.
func NewClassHeader(name string) *ClassHeader {
	h := &ClassHeader{name: []byte(name), names: forwarded.Names{}.With(name)}
	for class := range h.fields {
		h.fields[class] = exchange.StaticField(name, "P"+string(rune('0'+class)))
	}
	return h
}

// DeadlineHeader is the field that says for how many milliseconds the sender waits for an answer.
type DeadlineHeader struct {
	name  []byte
	names forwarded.Names
	begin []byte // of the line
}

// NewDeadlineHeader prepares the field with this name, which must be valid.
func NewDeadlineHeader(name string) *DeadlineHeader {
	return &DeadlineHeader{[]byte(name), forwarded.Names{}.With(name), []byte(name + ": ")}
}

// takeClaims sets the class and the deadline. It returns false if it has refused the exchange,
// because the deadline has passed or a gRPC timeout is malformed. The peer must be trusted, or the
// fields of its claims removed.
func (f *flow) takeClaims(now int64) bool {
	if h := f.view.ClassHeader; h != nil {
		f.takeClass(h)
	}
	f.restartTimeout(now)
	if h := f.route.Deadline; h != nil && !f.takeDeadline(h, now) {
		return false
	}
	return f.call == nil || f.takeTimeout(now)
}

// takeClass takes over a claimed class, and sets the request's field to the class in force.
func (f *flow) takeClass(h *ClassHeader) {
	fields := &f.req.Fields
	if value, claimed := onlyValue(fields, h.name); claimed {
		if len(value) == 2 && value[0] == 'P' && '0' <= value[1] && value[1] <= '9' {
			f.Class = value[1] - '0'
		} else {
			f.w.shard.ClaimsIgnored[telemetry.ClassClaim]++
		}
	}
	h.names.Drop(fields)
	fields.Append(h.fields[f.Class])
}

// takeDeadline takes over a claimed deadline, and removes the field. It returns false if the
// deadline has passed and the exchange was refused.
func (f *flow) takeDeadline(h *DeadlineHeader, now int64) bool {
	fields := &f.req.Fields
	value, claimed := onlyValue(fields, h.name)
	h.names.Drop(fields)
	if !claimed {
		return true
	}
	left, ok := milliseconds(value)
	if !ok {
		f.w.shard.ClaimsIgnored[telemetry.DeadlineClaim]++
		return true
	}
	f.due = now + left
	f.deadline = min(f.deadline, f.due)
	if f.overdue(now) {
		f.fail(504, exchange.DeadlinePassed)
		return false
	}
	return true
}

// onlyValue returns the value of the field with this name, and whether there is one. If there are
// several, it returns no value, because choosing one of them would be a guess.
func onlyValue(l *head.List, name []byte) (value []byte, there bool) {
	for i := range l.Len() {
		if f := l.At(i); f.ID == head.Other && head.EqualFold(f.Name, name) {
			if there {
				return nil, true
			}
			value, there = f.Value, true
		}
	}
	return value, there
}

// longestClaim is a day in nanoseconds, the longest timeout that a route can have: a longer claim
// has no effect.
const longestClaim = 24 * 3600 * int64(1e9)

// milliseconds reads a whole number of milliseconds as nanoseconds.
func milliseconds(text []byte) (ns int64, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		ns = min(ns*10+int64(c-'0')*1e6, longestClaim)
	}
	return ns, len(text) > 0
}

// restartTimeout makes the route's timeout count from now. The peer's deadline stays.
func (f *flow) restartTimeout(now int64) {
	f.timeoutFrom = now
	f.deadline = now + f.route.Timeout
	if f.due != 0 {
		f.deadline = min(f.deadline, f.due)
	}
}

// overdue reports whether the peer's deadline has passed, so that it no longer waits for the
// answer.
func (f *flow) overdue(now int64) bool { return f.due != 0 && now >= f.due }

// tooLate reports whether, as far as is known, no target can answer before the peer's deadline.
func (f *flow) tooLate(now int64) bool {
	return f.overdue(now) || f.due != 0 && f.view.locals[f.Upstream].CannotAnswer(now, f.due-now)
}

// triedEnough reports whether the present try, since its body last moved, has had at least the time
// within which its class promises an answer. If a deadline leaves less, missing it says nothing
// about the target.
func (f *flow) triedEnough(now int64) bool {
	return now-max(f.sentAt, f.timeoutFrom) >= f.view.Classes[f.Class].Latency
}

// appendDeadline tells the upstream for how many milliseconds the gateway waits for it.
func (f *flow) appendDeadline(out []byte) []byte {
	h := f.route.Deadline
	if h == nil {
		return out
	}
	return append(appendInt(append(out, h.begin...), f.leftForUpstream()), crlf...)
}

// deadlineField is appendDeadline for HTTP/2. It returns the field's name, and its value, for which
// it uses the memory of digits.
func (f *flow) deadlineField(digits []byte) (name, value []byte, ok bool) {
	h := f.route.Deadline
	if h == nil {
		return nil, nil, false
	}
	return h.name, appendInt(digits, f.leftForUpstream()), true
}

// leftForUpstream returns for how many milliseconds the gateway waits for the present try, rounded
// down, and at least 1: an answer that comes later is discarded.
func (f *flow) leftForUpstream() int64 {
	by, now := f.deadline, f.w.loop.Now()
	if perTry := f.up.on().upstream.PerTry; perTry > 0 && f.is(bodyWhole) {
		by = min(by, now+perTry)
	}
	return max(1, (by-now)/1e6)
}
