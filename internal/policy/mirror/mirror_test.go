package mirror_test

import (
	"math"
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
	"plimsoll/internal/policy/mirror"
)

func policy(t testing.TB, o mirror.Options) *mirror.Policy {
	t.Helper()
	p, err := mirror.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func request(length int64) *exchange.Exchange {
	x := &exchange.Exchange{Request: &head.Request{Length: length}, Response: &head.Response{}}
	x.Begin(nil)
	return x
}

func TestTheShareIsExact(t *testing.T) {
	const draws = 10_000
	for _, share := range []float64{0.0001, 0.1, 0.5, 0.9999, 1} {
		i := uint64(0)
		p := policy(t, mirror.Options{Upstream: 3, Share: share, MaxBody: 10,
			Random: func() uint64 { i++; return (i - 1) * (math.MaxUint64 / draws) }})
		copied := 0
		for range draws {
			x := request(0)
			if v := p.OnRequest(x); v != exchange.Continue {
				t.Fatalf("verdict %d", v)
			}
			if x.Mirror == 3 && x.MirrorBody == 10 {
				copied++
			} else if x.Mirror != exchange.NoUpstream {
				t.Fatalf("mirror %d, body %d", x.Mirror, x.MirrorBody)
			}
		}
		if want := share * draws; math.Abs(float64(copied)-want) > 1 {
			t.Errorf("a share of %g copied %d of %d", share, copied, draws)
		}
	}
}

func TestTheBoundOnBodiesIsPassedOn(t *testing.T) {
	for _, length := range []int64{0, 100, 101, head.Unknown} {
		x := request(length)
		policy(t, mirror.Options{Upstream: 2, Share: 1, MaxBody: 100}).OnRequest(x)
		if x.Mirror != 2 || x.MirrorBody != 100 {
			t.Errorf("a body of %d bytes: mirror %d, bound %d; want 2, 100", length, x.Mirror, x.MirrorBody)
		}
	}
}

func TestATunnelIsNotCopied(t *testing.T) {
	p := policy(t, mirror.Options{Share: 1, MaxBody: 1})
	x := request(0)
	x.Request.Fields.Add([]byte("Upgrade"), []byte("websocket"))
	p.OnRequest(x)
	if x.Mirror != exchange.NoUpstream {
		t.Errorf("mirror %d, want none", x.Mirror)
	}
	x = request(0) // over HTTP/2 no field says so
	x.WebSocket = true
	if p.OnRequest(x); x.Mirror != exchange.NoUpstream {
		t.Errorf("mirror %d of a WebSocket over HTTP/2, want none", x.Mirror)
	}
}

func TestBadOptionsAreRefused(t *testing.T) {
	for hint, o := range map[string]mirror.Options{
		"cannot be an index": {Upstream: -1, Share: 1},
		"a mirror of 0 ":     {Share: 0},
		"a mirror of 1.1":    {Share: 1.1},
		"a mirror of NaN":    {Share: math.NaN()},
		"-1 bytes":           {Share: 1, MaxBody: -1},
	} {
		if _, err := mirror.New(o); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%+v: %v, want an error with %q", o, err, hint)
		}
	}
}

func TestMirrorDoesNotAllocate(t *testing.T) {
	p := policy(t, mirror.Options{Share: 0.5, MaxBody: 1})
	x := request(0)
	if n := testing.AllocsPerRun(100, func() { p.OnRequest(x) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
