package limit

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func priced(algorithm Algorithm) Limit {
	l := Limit{
		Algorithm: algorithm, Rate: Rate{20, time.Minute}, Cost: 2, CostHeader: "X-Cost", MaxCost: 10,
		Headers: Always,
	}
	if algorithm == LeakyBucket {
		l.MaxWait, l.Queue = time.Minute, 1000
	}
	return l
}

// left asks with a cost and says how much is left of a limit of 20 after it.
func (b *bench) left(trusted bool, cost string) string {
	b.request("192.0.2.1", "X-Cost", cost)
	b.x.PeerTrusted = trusted
	b.OnRequest(&b.x)
	_, after, _ := strings.Cut(string(b.x.RateLimit), ";r=")
	left, _, _ := strings.Cut(after, ";")
	return left
}

func TestARequestOfATrustedPeerCostsWhatItSays(t *testing.T) {
	for _, a := range []Algorithm{TokenBucket, FixedWindow, SlidingWindow} {
		for _, c := range []struct {
			trusted bool
			cost    string
			left    string
		}{
			{true, "1", "19"},
			{true, "7", "13"},
			{true, "10", "10"},
			{true, "11", "10"},                         // as much as a request can cost
			{true, "99999999999999999999999999", "10"}, // whatever it says
			{true, "0", "18"}, {true, "", "18"},        // the usual cost
			{true, "-3", "18"}, {true, "3.5", "18"}, {true, " 3", "18"}, {true, "x", "18"},
			{false, "1", "18"}, {false, "10", "18"},
		} {
			if left := newBench(t, priced(a)).left(c.trusted, c.cost); left != c.left {
				t.Errorf("%s: a cost of %q, trusted %v: %s are left of 20, want %s", a, c.cost, c.trusted, left, c.left)
			}
		}
	}
}

// A request of a cost passes when as many of cost 1 would, and leaves what they would leave.
func TestARequestOfACostIsAsManyOfCostOne(t *testing.T) {
	for _, a := range []Algorithm{TokenBucket, GCRA, FixedWindow, SlidingWindow} {
		t.Run(a.String(), rapid.MakeCheck(func(t *rapid.T) {
			n := drawNumbers(t, a)
			n.cost = 1
			n.most = min(n.rate.Count, rapid.Int64Range(1, 5).Draw(t, "most"))
			n.burst = max(n.burst, n.most)
			s := newSubject(t, n)
			now := rapid.Int64Range(0, 1e12).Draw(t, "begin")
			for range 50 {
				now += rapid.Int64Range(0, int64(n.rate.Per)).Draw(t, "step") / n.rate.Count
				var p place
				s.at(&p)
				p.cost = rapid.Int64Range(1, n.most).Draw(t, "cost")
				single, pass := s.state.Load(), true
				for range p.cost {
					next, one, _ := s.p.step(single, now, 1)
					single, pass = next, pass && one
				}
				o := p.take(now)
				if o.pass != pass {
					t.Fatalf("%+v: a request of cost %d passes: %v, as many of cost 1: %v", n, p.cost, o.pass, pass)
				}
				if pass && o.after != single {
					t.Fatalf("%+v: a request of cost %d leaves %x, as many of cost 1 %x", n, p.cost, o.after, single)
				}
				if pass && rapid.Bool().Draw(t, "given back") {
					p.giveBack(&o, now)
					if _, again, _ := s.p.step(s.state.Load(), now, p.cost); !again {
						t.Fatalf("%+v: what was given back does not pass again", n)
					}
				}
			}
		}))
	}
}

func TestAnExpensiveRequestDelaysThoseBehindItInALeakyBucket(t *testing.T) {
	n := sample(LeakyBucket, 60)
	n.most = 10
	s := newSubject(t, n)
	var p place
	s.at(&p)
	p.cost = 10
	if o := p.take(60 * second); !o.pass || o.wait != 0 {
		t.Errorf("the first: passes %v and waits %d", o.pass, o.wait)
	}
	if o := s.ask(60 * second); !o.pass || o.wait != 10*second {
		t.Errorf("the next: passes %v and waits %d, want 10 s", o.pass, o.wait)
	}
}

func TestCostsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		change func(*Limit)
		want   string
	}{
		{func(l *Limit) { l.CostHeader = "" }, "no header says a cost"},
		{func(l *Limit) { l.MaxCost = 1 }, "at least the cost"},
		{func(l *Limit) { l.Burst = 9 }, "no request would pass"},
		{func(l *Limit) { l.Algorithm = SlidingLog }, "counts requests alike"},
		{func(l *Limit) { l.Algorithm, l.Rate.Count = FixedWindow, 9 }, "no request would pass"},
		{func(l *Limit) { l.Shared = &Shared{} }, "counts requests alike"},
	} {
		l := priced(TokenBucket)
		c.change(&l)
		if _, err := l.check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want an error with %q", l, err, c.want)
		}
	}
}
