package reactor

import (
	"testing"

	"plimsoll/internal/invariant"
)

func TestABufferHasTheSmallestSizeThatHoldsWhatIsAskedFor(t *testing.T) {
	l := &Loop{}
	for _, c := range []struct{ want, size int }{
		{0, 512}, {1, 512}, {512, 512}, {513, 1 << 10}, {1<<10 + 1, 2 << 10}, {4 << 10, 4 << 10}, {4<<10 + 1, 16 << 10},
		{16<<10 + 1, 64 << 10}, {64 << 10, 64 << 10},
	} {
		b := l.GetBuffer(c.want)
		if len(b.Bytes) != c.size || len(b.Data()) != 0 || len(b.Room()) != c.size {
			t.Errorf("for %d bytes: a buffer of %d with %d in it and room for %d", c.want, len(b.Bytes), len(b.Data()), len(b.Room()))
		}
		l.PutBuffer(b)
	}
}

func TestTheBufferUsedLastIsUsedNextAndComesEmpty(t *testing.T) {
	l := &Loop{}
	first, second := l.GetBuffer(1), l.GetBuffer(1)
	first.End = copy(first.Room(), "somebody's secret")
	first.Start = 3
	l.PutBuffer(second)
	l.PutBuffer(first)
	if b := l.GetBuffer(1); b != first || len(b.Data()) != 0 || b.Start != 0 {
		t.Errorf("got the other one, or %d bytes in it", len(b.Data()))
	}
	if b := l.GetBuffer(1); b != second {
		t.Error("the buffer before it is not the next")
	}
}

func TestALoopKeepsABoundedNumberOfBuffers(t *testing.T) {
	for class, size := range Sizes {
		l := &Loop{}
		many := make([]*Buffer, keptBytes/size+10)
		for i := range many {
			many[i] = l.GetBuffer(size)
		}
		if out := l.BuffersOut()[class]; out != len(many) {
			t.Errorf("size %d: %d are out, want %d", size, out, len(many))
		}
		for _, b := range many {
			l.PutBuffer(b)
		}
		kept := 0
		for b := l.buffers.free[class]; b != nil; b = b.next {
			kept++
		}
		if kept*size != keptBytes || l.buffers.kept[class] != kept || l.BuffersOut()[class] != 0 {
			t.Errorf("size %d: %d bytes are kept, counted as %d buffers, %d are out", size,
				kept*size, l.buffers.kept[class], l.BuffersOut()[class])
		}
	}
}

func TestGivingABufferBackTwiceIsFound(t *testing.T) {
	l := &Loop{}
	b := l.GetBuffer(1)
	l.PutBuffer(b)
	if found := panics(func() { l.PutBuffer(b) }); found != invariant.On {
		t.Errorf("it panicked: %v, invariants are on: %v", found, invariant.On)
	}
}

func TestABufferThatWasGivenBackIsOverwrittenSoThatUsingItIsFound(t *testing.T) {
	l := &Loop{}
	b := l.GetBuffer(1)
	b.Bytes[0] = 'x'
	l.PutBuffer(b)
	if overwritten := b.Bytes[0] == 0xdb; overwritten != invariant.On {
		t.Errorf("overwritten: %v, invariants are on: %v", overwritten, invariant.On)
	}
}

func TestTouchingALoopFromOutsideIsFound(t *testing.T) {
	// A loop that another thread runs, as far as the check can tell.
	l := &Loop{thread: -1}
	for name, touch := range map[string]func(){
		"GetBuffer":    func() { l.GetBuffer(1) },
		"SetTimer":     func() { l.SetTimer(&Timer{}, nil, 1) },
		"StopTimer":    func() { l.StopTimer(&Timer{}) },
		"ReleaseTimer": func() { l.ReleaseTimer(&Timer{}) },
	} {
		l.timers.init(1)
		if found := panics(touch); found != invariant.On {
			t.Errorf("%s: it panicked: %v, invariants are on: %v", name, found, invariant.On)
		}
	}
}

func panics(f func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	f()
	return false
}
