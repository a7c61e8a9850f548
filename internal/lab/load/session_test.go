package load_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"plimsoll/internal/lab/load"
	"plimsoll/internal/lab/measure"
)

// shop is a script of sessions: log in, then buy with what the login gave, n times, thinking before
// each.
type shop struct {
	to    load.Target
	buys  int
	think time.Duration
	mu    sync.Mutex
	begun int
	open  int
	wrong []string
}

type visit struct {
	shop   *shop
	number int
	step   int
	asked  bool
	token  string
}

func (s *shop) Names() []string                       { return []string{"login", "buy"} }
func (s *shop) Requests() float64                     { return float64(1 + s.buys) }
func (s *shop) Player(_, _ int, _ uint64) load.Player { return s }

func (s *shop) Begin() load.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun++
	s.open++
	return &visit{shop: s, number: s.begun}
}

func (v *visit) blame(format string, args ...any) {
	v.shop.mu.Lock()
	defer v.shop.mu.Unlock()
	v.shop.wrong = append(v.shop.wrong, fmt.Sprintf("visit %d, step %d: ", v.number, v.step)+fmt.Sprintf(format, args...))
}

func (v *visit) Request(b []byte) ([]byte, load.Request) {
	if v.asked {
		v.blame("Request without Answer before")
	}
	v.asked = true
	to := v.shop.to
	to.Path = fmt.Sprintf("/login/%d", v.number)
	if v.step > 0 {
		to.Path = "/buy/" + v.token
	}
	request, _ := load.Prepare(to, "GET", nil, nil)
	return append(b, request...), load.Request{Name: min(v.step, 1), Body: v.step == 0}
}

func (v *visit) Answer(a *load.Answer) load.AnswerVerdict {
	if !v.asked {
		v.blame("Answer without Request before")
	}
	v.asked = false
	if v.step == 0 {
		v.token = string(a.Body)
	}
	if v.step++; a.Status != 200 {
		return load.AnswerVerdict{Kind: measure.BadStatus}
	}
	return load.AnswerVerdict{More: v.step <= v.shop.buys, Think: v.shop.think}
}

func (v *visit) End() {
	v.shop.mu.Lock()
	defer v.shop.mu.Unlock()
	v.shop.open--
}

func (s *shop) check(t *testing.T, visits int) {
	t.Helper()
	for _, w := range s.wrong {
		t.Error(w)
	}
	if s.open != 0 || s.begun != visits {
		t.Errorf("%d visits were begun, want %d; %d were not ended", s.begun, visits, s.open)
	}
}

// shopServer gives tokens and takes only those.
func shopServer(t *testing.T) *server {
	return serve(t, func(_ int64, r *http.Request, c net.Conn) bool {
		var visit int
		if n, _ := fmt.Sscanf(r.URL.Path, "/login/%d", &visit); n == 1 {
			body := fmt.Sprintf("t%d", visit)
			_, err := io.WriteString(c, length(len(body))+body)
			return err == nil
		}
		if n, _ := fmt.Sscanf(r.URL.Path, "/buy/t%d", &visit); n == 1 && visit > 0 {
			_, err := io.WriteString(c, okAnswer)
			return err == nil
		}
		_, err := io.WriteString(c, "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")
		return err == nil
	})
}

func TestASessionCarriesWhatItLearned(t *testing.T) {
	s := shopServer(t)
	for _, think := range []time.Duration{0, 200 * time.Millisecond} {
		for _, perConnection := range []int{0, 1} {
			o := get(t, s.url())
			script := &shop{to: o.Target, buys: 2, think: think}
			o.Script, o.Arrivals, o.PerConnection = script, every(20, ms), perConnection
			totals, _ := run(t, o)
			want(t, totals, map[measure.Kind]uint64{measure.OK: 60})
			script.check(t, 20)
			if totals.Due != totals.Sent {
				t.Errorf("%d due, %d sent", totals.Due, totals.Sent)
			}
			if r := totals.Requests; r[0].Name != "login" || r[0].Ended[measure.OK] != 20 || r[1].Ended[measure.OK] != 40 ||
				r[0].Response.Count() != 20 || r[1].Response.Count() != 40 {
				t.Errorf("%+v", r)
			}
			if over := totals.Response.Over(int64(think)); think > 0 && over > 30 {
				t.Errorf("thinking counts as the target's time: %v of 60 response times are over %v", over, think)
			}
		}
	}
}

func TestInAClosedLoopAUserThinks(t *testing.T) {
	s := shopServer(t)
	o := get(t, s.url())
	script := &shop{to: o.Target, buys: 1, think: 20 * time.Millisecond}
	o.Script, o.Duration = script, 2*time.Second
	totals, _ := run(t, o)
	script.check(t, int(totals.Requests[0].Ended.Total()))
	if n := totals.Requests[0].Ended[measure.OK]; n < 4 || n > 4*101 || totals.Ended.Failed() != 0 {
		t.Errorf("4 users who think for 20 ms of each visit made %d visits in 2 s: %v", n, totals.Ended)
	}
}

func TestASessionEndsWithTheRequestThatFailed(t *testing.T) {
	s := serve(t, func(n int64, r *http.Request, c net.Conn) bool { return n%3 != 0 && send(okAnswer)(n, r, c) })
	o := get(t, s.url())
	script := &shop{to: o.Target, buys: 3}
	o.Script, o.Arrivals = script, every(40, ms)
	totals, _ := run(t, o)
	script.check(t, 40)
	if totals.Ended[measure.ConnectionLost] == 0 || totals.Due <= 40 || totals.Due >= 160 {
		t.Errorf("due %d: %v", totals.Due, totals.Ended)
	}
}

func TestSessionsThatAreNeverSentBeginInOrderAndEnd(t *testing.T) {
	s := serve(t, func(_ int64, _ *http.Request, c net.Conn) bool {
		_, err := c.Read(make([]byte, 1))
		return err == nil
	})
	o := get(t, s.url())
	script := &shop{to: o.Target, buys: 1}
	o.Script, o.Arrivals, o.Connections, o.Backlog, o.Timeout = script, every(50, ms/10), 1, 10, 50*time.Millisecond
	totals, _ := run(t, o)
	script.check(t, 50)
	if totals.Requests[0].Ended != totals.Ended {
		t.Errorf("of the first requests ended %v, of all %v", totals.Requests[0].Ended, totals.Ended)
	}
}

func TestADurationCutsSessionsThatThink(t *testing.T) {
	s := shopServer(t)
	o := get(t, s.url())
	script := &shop{to: o.Target, buys: 1, think: time.Hour}
	o.Script, o.Arrivals, o.Duration = script, every(10, ms), 50*time.Millisecond
	totals, _ := run(t, o)
	want(t, totals, map[measure.Kind]uint64{measure.OK: 10})
	script.check(t, 10)
}
