package proxy

import (
	"testing"

	"plimsoll/internal/head"
)

func TestTrailersOfHTTP3AreMadeInTheLoopsMemory(t *testing.T) {
	var l head.List
	l.Add([]byte("Grpc-Status"), []byte("0"))
	l.Add([]byte("X-Sum"), []byte("a value that is long enough not to be kept on the stack"))
	var w Worker
	if n := testing.AllocsPerRun(100, func() { w.tail3 = w.appendTrailers3(w.tail3[:0], &l) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
