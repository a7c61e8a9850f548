package wrkcheck

import (
	"testing"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
)

func TestEveryAnswerIsTakenAndBadStatusesAreCounted(t *testing.T) {
	script := newEvery([]byte("GET / HTTP/1.1\r\n\r\n"))
	for i, status := range []int{200, 302, 399, 400, 503} {
		s := script.Player(i, 5, 1).Begin()
		request, of := s.Request([]byte("before "))
		if string(request) != "before GET / HTTP/1.1\r\n\r\n" || of != (load.Request{}) {
			t.Errorf("%q %+v", request, of)
		}
		if v := s.Answer(&load.Answer{Status: status}); v.Kind != measure.OK || v.More {
			t.Errorf("%d: %+v", status, v)
		}
		s.End()
	}
	if n := script.bad(); n != 2 {
		t.Errorf("%d bad statuses were counted of 400 and 503", n)
	}
}

func TestARequestDoesNotAlloc(t *testing.T) {
	player := newEvery([]byte("GET / HTTP/1.1\r\n\r\n")).Player(0, 1, 1)
	buffer, answer := make([]byte, 0, 100), &load.Answer{Status: 200}
	if n := testing.AllocsPerRun(100, func() {
		s := player.Begin()
		s.Request(buffer)
		s.Answer(answer)
		s.End()
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
