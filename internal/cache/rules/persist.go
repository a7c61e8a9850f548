package rules

import (
	"encoding/binary"

	"plimsoll/internal/head"
)

// Stored responses are exchanged with other instances as a list of numbers. Another instance has a
// different monotonic clock, so instead of the time of arrival, the list has the age at a time of
// the wall clock.

// Flags of a Stored in its list.
const (
	isShared = 1 << iota
	hasWhile
	hasError
)

// AppendStored appends s, with its age at now, in the form that ReadStored reads.
func AppendStored(dst []byte, s *Stored, now Instant) []byte {
	flags := int64(0)
	for i, set := range [...]bool{s.sharedMaxAge, s.whileGiven, s.errorGiven} {
		if set {
			flags |= 1 << i
		}
	}
	for _, n := range [...]int64{
		now.Wall, min(s.Age(now.Mono), maxKept), s.Lifetime, s.StaleWhileRevalidate, s.StaleIfError,
		s.Date, s.LastModified, s.Length, int64(s.Status), int64(s.set), flags,
		int64(s.etag.at), int64(s.etag.end), int64(s.modified.at), int64(s.modified.end),
	} {
		dst = binary.AppendVarint(dst, n)
	}
	return dst
}

const (
	storedNumbers = 15 // numbers that AppendStored appends
	// maxKept is the longest age and lifetime that are kept, in nanoseconds. Sums of a few of them
	// fit 64 bits.
	maxKept = maxDelta * second
)

// ReadStored reads what AppendStored has appended, perhaps on another machine, and returns the rest
// of b. block is the length of the response's block in bytes; ok is false for values that cannot
// belong to it. The response counts as received now, with its age according to the wall clocks of
// the two machines. If the clocks differ so that it would come from the future, its age is what it
// was when it was written, never less.
func ReadStored(b []byte, now Instant, block int) (s Stored, rest []byte, ok bool) {
	var n [storedNumbers]int64
	for i := range n {
		value, size := binary.Varint(b)
		if size <= 0 {
			return Stored{}, nil, false
		}
		n[i], b = value, b[size:]
	}
	for _, duration := range n[1:5] {
		if duration < 0 || duration > maxKept {
			return Stored{}, nil, false
		}
	}
	for _, end := range [...]int64{n[11], n[12], n[13], n[14]} {
		if end < 0 || end > int64(block) {
			return Stored{}, nil, false
		}
	}
	if n[7] < head.Unknown || n[8] < 200 || n[8] > 599 || n[11] > n[12] || n[13] > n[14] ||
		n[9] < 0 || n[9] > int64(^Directive(0)) {
		return Stored{}, nil, false
	}
	elapsed := int64(0)
	if now.Wall > n[0] {
		elapsed = int64(min(uint64(now.Wall)-uint64(n[0]), uint64(maxKept)))
	}
	return Stored{
		Received: now.Mono, InitialAge: n[1] + elapsed, Lifetime: n[2],
		StaleWhileRevalidate: n[3], StaleIfError: n[4], Date: n[5], LastModified: n[6],
		Length: n[7], Status: int(n[8]), set: Directive(n[9]),
		sharedMaxAge: n[10]&isShared != 0, whileGiven: n[10]&hasWhile != 0, errorGiven: n[10]&hasError != 0,
		etag: span{uint32(n[11]), uint32(n[12])}, modified: span{uint32(n[13]), uint32(n[14])},
	}, b, true
}

// Keep is for how many nanoseconds from now the response can be of use: while it is fresh, and then
// for as long as it may be served stale. more is what the options allow beyond what the response
// allows. Keep is at most 0 for a response every use of which needs the origin.
func (s *Stored) Keep(now, more int64) int64 {
	if s.set&NoCache != 0 {
		return 0
	}
	return s.TTL(now) + max(s.StaleWhileRevalidate, s.StaleIfError, more)
}
