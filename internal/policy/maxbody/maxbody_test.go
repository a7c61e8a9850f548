package maxbody_test

import (
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/maxbody"
)

func TestMaxBody(t *testing.T) {
	p, err := maxbody.New(maxbody.Options{Max: 100})
	if err != nil {
		t.Fatal(err)
	}
	for length, refused := range map[int64]bool{0: false, 100: false, 101: true, 1 << 62: true, head.Unknown: false} {
		x := &exchange.Exchange{Request: &head.Request{Length: length}, Response: &head.Response{}}
		x.Begin(nil)
		verdict := p.OnRequest(x)
		if refused && (verdict != exchange.Answered || x.Response.Status != 413 || x.Reason != exchange.BodyTooLarge) {
			t.Errorf("length %d: verdict %d, status %d, reason %v", length, verdict, x.Response.Status, x.Reason)
		}
		if !refused && (verdict != exchange.Continue || x.MaxBody != 100) {
			t.Errorf("length %d: verdict %d, bound %d", length, verdict, x.MaxBody)
		}
	}
}

func TestALimitOfNothingIsRefused(t *testing.T) {
	for _, limit := range []int64{0, -1} {
		if _, err := maxbody.New(maxbody.Options{Max: limit}); err == nil {
			t.Errorf("%d is accepted", limit)
		}
	}
}

func TestMaxBodyDoesNotAllocate(t *testing.T) {
	p, _ := maxbody.New(maxbody.Options{Max: 100})
	x := &exchange.Exchange{Request: &head.Request{Length: 101}, Response: &head.Response{}}
	p.OnRequest(x)
	if n := testing.AllocsPerRun(100, func() { p.OnRequest(x) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
