package proxy_test

import (
	"strings"
	"testing"
	"time"

	"plimsoll/internal/admission"
	"plimsoll/internal/cache/rules"
	"plimsoll/internal/exchange"
	"plimsoll/internal/policy/cache"
	"plimsoll/internal/policy/ladder"
)

// stepped makes the route one that has all steps, and gives what makes class its class.
func (b *bed) stepped() (become func(class uint8)) {
	b.t.Helper()
	o := cache.MemoryOptions{Bytes: 4 << 20, MaxObject: 1 << 16, MaxWaiters: 100}
	memory, err := cache.NewMemory(o, nil, "")
	if err != nil {
		b.t.Fatal(err)
	}
	key, err := rules.NewKey(rules.KeyOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	all := exchange.Barred{exchange.StepCache: 1, exchange.StepStale: 1, exchange.StepStatic: 1<<0 | 1<<1}
	stored, err := cache.New(cache.Options{Memory: memory, Barred: all, Env: exchange.Env{Loops: 1},
		UpstreamName: func(int) string { return "s" },
		Rules:        rules.Options{Key: key, StaleUnderPressure: int64(time.Hour)}})
	if err != nil {
		b.t.Fatal(err)
	}
	steps, err := ladder.New(ladder.Options{Answer: &exchange.StaticOptions{Body: []byte("later")}, Stored: true,
		Loops: 1, Barred: all[exchange.StepStatic]})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		stored.Close()
		if err := memory.Release(); err != nil {
			b.t.Error(err)
		}
	})
	var chain exchange.Chain
	chain.Append(steps)
	chain.Append(stored)
	return func(class uint8) {
		s := b.snapshot(b.upstream)
		s.Routes[0].Class, s.Routes[0].Chain = class, chain
		s.Admission = admission.NewSheddingPlan(admission.Options{Delay: time.Millisecond,
			Used: [admission.Classes]bool{true, true, true}})
		b.loop.Post(func() { b.acceptor.Worker.Install(s) })
		b.turn()
	}
}

// Admission is asked behind the cache: what is fresh never meets it. The fetch for what is stale does,
// and when it is refused the ladder says what its client gets.
func TestARequestThatIsNotAdmittedTakesTheStepsOfItsClass(t *testing.T) {
	b := overloaded(t, false)
	become := b.stepped()
	become(1)
	c := b.client(saying(silence, "GET /fresh HTTP/1.1\r\nHost: x\r\n\r\n"))
	target := b.asked()
	request := func(method, path string, late bool) string {
		c.out = nil
		c.in = saying(silence, method+" "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		b.tell(c)
		if late {
			b.lateTurn()
		}
		for range 4 {
			b.turn()
		}
		return string(c.out)
	}
	answer := func(head string) {
		target.in = saying(silence, "HTTP/1.1 200 OK\r\n"+head+"Content-Length: 4\r\n\r\nlive")
		b.tell(target)
		b.turn()
		b.turn()
		if got := string(c.out); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Fatalf("the first answer is %q", got)
		}
	}
	answer("Cache-Control: max-age=36000\r\n")
	request("GET", "/stale", false)
	answer("Cache-Control: max-age=50\r\nAge: 100\r\n")
	sent := target.sends
	for _, want := range []struct {
		class                    uint8
		method, path, says, step string
	}{
		{0, "GET", "/fresh", "live", ""},
		{0, "GET", "/stale", "instance_overloaded", ""},
		{1, "GET", "/fresh", "live", ""},
		{1, "GET", "/stale", "live", "stale"},
		{1, "GET", "/other", "instance_overloaded", ""},
		{2, "GET", "/fresh", "live", ""},
		{2, "GET", "/stale", "live", "stale"},
		{2, "GET", "/other", "later", "static"},
		{2, "POST", "/other", "instance_overloaded", ""},
	} {
		become(want.class)
		got := request(want.method, want.path, true)
		_, step, _ := strings.Cut(got, "\r\nX-Degraded: ")
		step, _, _ = strings.Cut(step, "\r\n")
		if !strings.Contains(got, want.says) || step != want.step {
			t.Errorf("P%d %s %s gives %q, want %s and step %q", want.class, want.method, want.path, got,
				want.says, want.step)
		}
	}
	if target.sends != sent {
		t.Errorf("the service was asked %d times more", target.sends-sent)
	}
}
