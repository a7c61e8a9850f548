package compress_test

import (
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/policy/compress"
)

func TestEncodersHaveABoundTogether(t *testing.T) {
	encoders, e := compress.NewEncoders(1), &engine{}
	encoders.SetMemory(16 << 20)
	one, other := policy(t, compress.Options{Encoders: encoders}),
		policy(t, compress.Options{Encoders: encoders, Level: compress.Small})
	var at []*exchange.Exchange
	for i := range 200 {
		x := ask(e, []string{"gzip", "br", "zstd"}[i%3])
		if i%2 == 0 {
			one.OnResponse(x)
		} else {
			other.OnResponse(x)
		}
		at = append(at, x)
		if used, kept := encoders.Memory(); used+kept > 16<<20 {
			t.Fatalf("%d bytes are used and %d kept", used, kept)
		}
	}
	none := one.Status().(compress.Status).Passed["no_encoder"] +
		other.Status().(compress.Status).Passed["no_encoder"]
	working := 0
	for _, x := range at {
		if x.Encoder != nil {
			working++
		} else if encoding(x) != "" {
			t.Error("a response without an encoder says that it is encoded")
		}
	}
	if working < 10 || uint64(200-working) != none {
		t.Errorf("%d have an encoder, and %d are counted without", working, none)
	}
	for _, x := range at {
		x.CloseEncoder()
	}
	used, kept := encoders.Memory()
	if used != 0 || kept == 0 || kept > 8<<20 {
		t.Errorf("afterwards %d bytes are used and %d kept", used, kept)
	}
	x := ask(e, "gzip")
	if one.OnResponse(x); x.Encoder == nil {
		t.Error("there is no encoder again")
	}
}

func TestStreamsOfEventsLeaveHalfToTheOthers(t *testing.T) {
	encoders, e := compress.NewEncoders(1), &engine{}
	encoders.SetMemory(16 << 20)
	p := policy(t, compress.Options{Encoders: encoders})
	var last *exchange.Exchange
	for range 100 {
		last = begin(e, "GET", []string{"Accept-Encoding: gzip"}, 200,
			[]string{"Content-Type: text/event-stream; charset=utf-8"})
		p.OnResponse(last)
	}
	if used, _ := encoders.Memory(); last.Encoder != nil || used > 8<<20 {
		t.Errorf("streams of events take %d bytes", used)
	}
	if x := ask(e, "gzip"); p.OnResponse(x) != exchange.Continue || x.Encoder == nil {
		t.Error("nothing is left for others")
	}
}

// What is kept in free encoders of one kind makes room for another.
func TestFreeEncodersGiveWay(t *testing.T) {
	encoders, e := compress.NewEncoders(1), &engine{}
	encoders.SetMemory(4 << 20)
	p := policy(t, compress.Options{Encoders: encoders})
	for _, name := range []string{"gzip", "br", "zstd"} {
		var at []*exchange.Exchange
		for {
			x := ask(e, name)
			if p.OnResponse(x); x.Encoder == nil {
				break
			}
			at = append(at, x)
		}
		if used, kept := encoders.Memory(); len(at) < 3 || used+kept > 4<<20 {
			t.Errorf("%s: %d encoders, %d bytes used and %d kept", name, len(at), used, kept)
		}
		for _, x := range at {
			x.CloseEncoder()
		}
	}
}

func TestABusyLoopEncodesLessAndThenNothing(t *testing.T) {
	e := &engine{now: 1e9}
	p := policy(t, compress.Options{Level: compress.Small})
	size := func() int {
		x := ask(e, "gzip")
		p.OnResponse(x)
		if x.Encoder == nil {
			return 0
		}
		defer x.CloseEncoder()
		out, err := x.Encoder.Encode(nil, document(20_000), exchange.Last)
		if err != nil {
			t.Fatal(err)
		}
		return len(out)
	}
	quiet := size()
	e.backlog = 20e6
	sizes := []int{quiet}
	for range 3 {
		e.now += 60e6
		sizes = append(sizes, size())
	}
	if sizes[1] <= sizes[0] || sizes[2] < sizes[0] || sizes[3] != 0 {
		t.Errorf("under load the content takes %v bytes", sizes)
	}
	e.backlog = 0
	for range 3 {
		e.now += 1e9
		size()
	}
	if again := size(); again != quiet {
		t.Errorf("afterwards it takes %d bytes, before %d", again, quiet)
	}
	if s := p.Status().(compress.Status); s.Passed["busy"] == 0 || s.Lowered < 2 {
		t.Errorf("%+v", s)
	}
	fixed := ask(&engine{now: 1e9, backlog: 1e12}, "gzip")
	if policy(t, compress.Options{Fixed: true}).OnResponse(fixed); fixed.Encoder == nil {
		t.Error("a fixed level gives way")
	}
}
