package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"plimsoll/internal/exchange"
)

const (
	lightChecks = "health: {active: {path: /health/light, interval: 1s, timeout: 1s, unhealthy_after: 3, healthy_after: 1}"
	noPassive   = "health: {passive: {disabled: true}}"
)

func TestATargetWhoseCheckFailsGetsNothingUntilItIsWell(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	all := backends(t, 2)
	g := serve(t, balanced(2, targetsOf(all), "balance: round_robin, "+lightChecks+"}"))
	all[0].answer(all[0].unwell("/health/light", 500))
	g.becomes("s", all[0].address, "down")
	expectOnly(t, g.crowd(4, 10, "/"), "200 b", 40)
	if why := g.target("s", all[0].address).Why; !strings.Contains(why, "status 500") {
		t.Errorf("it is down because %q, want the status", why)
	}
	all[0].answer(nil)
	g.becomes("s", all[0].address, "up")
	if got := g.crowd(4, 10, "/"); got["200 a"] < 10 || got["200 b"] < 10 {
		t.Errorf("after both were well the clients got %v", got)
	}
}

func TestATargetThatHangsInItsCheckIsDown(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	release := make(chan struct{})
	defer close(release)
	all := backends(t, 2)
	all[0].answer(hanging(release))
	g := serve(t, balanced(2, targetsOf(all), lightChecks+"}"))
	g.becomes("s", all[0].address, "down")
	expectOnly(t, g.crowd(4, 10, "/"), "200 b", 40)
}

func TestTheDeepCheckTakesATargetOutByItself(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	all := backends(t, 2)
	all[0].answer(all[0].unwell("/health/deep", 503))
	g := serve(t, balanced(2, targetsOf(all),
		strings.Replace(lightChecks, "path: /health/light,", "path: /health/light, deep_path: /health/deep, deep_interval: 1s,", 1)+"}"))
	g.becomes("s", all[0].address, "deep check down")
	expectOnly(t, g.crowd(4, 10, "/"), "200 b", 40)
	all[0].answer(nil)
	g.becomes("s", all[0].address, "up")
}

func TestChecksReachTargetsOnUnixSockets(t *testing.T) {
	// it waits, for timeouts of the gateway, most of its time
	t.Parallel()
	dir, err := os.MkdirTemp("", "plimsoll") // short, as the paths of sockets must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := newBackendAt(t, "a", "unix", filepath.Join(dir, "s"), nil)
	address := "unix:" + b.address
	g := serve(t, fmt.Sprintf(`
listeners: [{address: "127.0.0.1:0"}]
upstreams: {s: {targets: [%q], %s}}}
routes: [{match: /, upstream: s}]
`, address, lightChecks))
	expectOnly(t, g.crowd(2, 10, "/"), "200 a", 20)
	b.stop()
	g.becomes("s", address, "down")
	if status, body := g.get("/"); status != 503 || !strings.Contains(body, "no_target") {
		t.Errorf("got %d %q, want 503 with no_target", status, body)
	}
	b.start()
	g.becomes("s", address, "up")
	expectOnly(t, g.crowd(2, 10, "/"), "200 a", 20)
}

func TestChecksSpeakTLSWhereTrafficDoes(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	b := newBackendAt(t, "a", "tcp", "127.0.0.1:0", secured(t))
	g := serve(t, balanced(2, targetsOf([]*backend{b}), "tls: {insecure_skip_verify: true}, "+lightChecks+"}"))
	eventually(t, "a check to have succeeded", func() bool {
		light := g.target("s", b.address).Light
		return light != nil && light.Successes > 0
	})
	expectOnly(t, g.crowd(2, 5, "/"), "200 a", 10)
}

func TestWhenTheChecksFindAllTargetsDownTheAnswerIs503AtOnce(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	log := filepath.Join(t.TempDir(), "access.log")
	all := backends(t, 2)
	// The panic threshold would have all be used, and a target that is asked hangs for longer than
	// the test's patience.
	g := serve(t, fmt.Sprintf(`
access_log: {path: %q}`, log)+balanced(2, targetsOf(all), lightChecks+", panic: 100%}"))
	for _, b := range all {
		b.answer(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/health") {
				w.WriteHeader(500)
				return
			}
			<-r.Context().Done()
		})
	}
	for _, b := range all {
		g.becomes("s", b.address, "down")
	}
	asked := all[0].requests.Load() + all[1].requests.Load()
	expectOnly(t, g.crowd(4, 5, "/"), "503 503 Service Unavailable: no_target: no target of this service is up", 20)
	if n := all[0].requests.Load() + all[1].requests.Load(); n != asked {
		t.Errorf("%d requests were sent to targets that are down", n-asked)
	}
	if n := g.reasons(exchange.NoTarget); n != 20 {
		t.Errorf("no_target was counted %d times, want 20", n)
	}
	eventually(t, "the access log to say so", func() bool {
		text, _ := os.ReadFile(log)
		return strings.Count(string(text), `"no_target"`) == 20
	})
}

func TestUnderThePanicThresholdTargetsThatAreDownAreUsedAgain(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	all := backends(t, 3)
	g := serve(t, balanced(1, targetsOf(all), "balance: round_robin, "+lightChecks+", panic: 50%}"))
	for _, b := range all[:2] {
		b.answer(b.unwell("/health", 500))
	}
	for _, b := range all[:2] {
		g.becomes("s", b.address, "down")
	}
	if got := g.crowd(1, 30, "/"); len(got) != 3 {
		t.Errorf("one of three is well, under the threshold of a half: the clients got %v, want all three", got)
	}
}

func TestFailuresInARowEjectATargetForAWhile(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	all := backends(t, 2)
	all[0].answer(answerStatus(503))
	g := serve(t, balanced(1, targetsOf(all),
		"balance: round_robin, health: {passive: {consecutive_failures: 3, eject_for: 300ms}}"))
	p := g.dial()
	for range 6 {
		p.request("GET", "/")
	}
	eventually(t, "the target to have been ejected", func() bool { return g.target("s", all[0].address).Ejections > 0 })
	if !strings.Contains(g.logged.String(), "3 failures in a row: ejected for 300ms") {
		t.Errorf("the log does not say why:\n%s", g.logged)
	}
	all[0].answer(nil)
	g.becomes("s", all[0].address, "up")
	if got := g.crowd(1, 20, "/"); got["200 a"] != 10 {
		t.Errorf("after its ejection the clients got %v, want ten from it", got)
	}
}

func TestWhatTheGatewayCutsShortIsNotATargetsFailure(t *testing.T) {
	all := backends(t, 2)
	release := make(chan struct{})
	defer close(release)
	for _, b := range all {
		b.answer(hanging(release))
	}
	g := serve(t, balanced(1, targetsOf(all), "balance: round_robin, health: {passive: {consecutive_failures: 1}}"))
	for range 10 {
		p := g.dial()
		before := all[0].requests.Load() + all[1].requests.Load()
		p.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		eventually(t, "the request to arrive", func() bool { return all[0].requests.Load()+all[1].requests.Load() > before })
		p.Close()
	}
	eventually(t, "the clients' leaving to be counted", func() bool { return g.snapshot().Ends[exchange.ClientGone] == 10 })
	for _, b := range all {
		if s := g.target("s", b.address); s.ConsecutiveFailures != 0 || s.State != "up" {
			t.Errorf("clients that left were counted against %s: %d failures, %s", b.address, s.ConsecutiveFailures, s.State)
		}
	}
}

func TestNoMoreThanAShareOfTheTargetsIsEjected(t *testing.T) {
	all := backends(t, 4)
	for _, b := range all[:3] {
		b.answer(answerStatus(502))
	}
	g := serve(t, balanced(1, targetsOf(all),
		"balance: round_robin, health: {panic: 0%, passive: {consecutive_failures: 1, max_ejected: 50%, eject_for: 1h}}"))
	g.crowd(1, 20, "/")
	ejected := func() (n int) {
		for _, b := range all {
			if g.target("s", b.address).State == "ejected" {
				n++
			}
		}
		return n
	}
	eventually(t, "two targets to be ejected", func() bool { return ejected() == 2 })
	g.crowd(1, 60, "/")
	if n := ejected(); n != 2 {
		t.Errorf("%d of four targets are ejected, want half", n)
	}
}

func TestTheOnlyTargetIsNeverEjected(t *testing.T) {
	b := newBackend(t, "a")
	b.answer(answerStatus(503))
	g := serve(t, balanced(2, targetsOf([]*backend{b}), "health: {passive: {consecutive_failures: 1}}"))
	expectOnly(t, g.crowd(2, 25, "/"), "503 ", 50)
	if n := b.requests.Load(); n != 50 {
		t.Errorf("the target saw %d of 50 requests", n)
	}
}

// samePort are two services on one port of two loopback addresses.
func samePort(t *testing.T) (a, b *backend, port string) {
	a = newBackend(t, "a")
	_, port, err := net.SplitHostPort(a.address)
	if err != nil {
		t.Fatal(err)
	}
	return a, newBackendAt(t, "b", "tcp", "127.0.0.2:"+port, nil), port
}

func TestTheAddressesOfANameAreFollowed(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	_, _, port := samePort(t)
	names := newNameServer(t, "127.0.0.1")
	g := serveWith(t, balanced(2, `"service.test:`+port+`"`, "balance: round_robin"), Options{resolver: names.address()})
	expectOnly(t, g.crowd(4, 10, "/"), "200 a", 40)
	names.set("127.0.0.1", "127.0.0.2")
	eventually(t, "the second address to be a target", func() bool { return len(g.service("s").Status().Targets) == 2 })
	if got := g.crowd(4, 10, "/"); got["200 a"] < 10 || got["200 b"] < 10 {
		t.Errorf("the clients got %v, want both", got)
	}
	names.set("127.0.0.2")
	eventually(t, "the first address to be gone", func() bool { return len(g.service("s").Status().Targets) == 1 })
	expectOnly(t, g.crowd(4, 10, "/"), "200 b", 40)
	names.set()
	eventually(t, "the failure to be seen", func() bool { return g.service("s").Status().Names[0].Error != "" })
	expectOnly(t, g.crowd(4, 10, "/"), "200 b", 40)
}

func TestANameThatIsNotResolvedAtTheStartIsWaitedFor(t *testing.T) {
	t.Parallel() // it waits, for timeouts of the gateway, most of its time
	a := newBackend(t, "a")
	_, port, _ := net.SplitHostPort(a.address)
	names := newNameServer(t)
	g := serveWith(t, balanced(2, `"service.test:`+port+`"`, noPassive), Options{resolver: names.address()})
	if !strings.Contains(g.logged.String(), "service.test") {
		t.Errorf("the log says nothing of the name:\n%s", g.logged)
	}
	if status, body := g.get("/"); status != 503 || !strings.Contains(body, "no_target") {
		t.Errorf("got %d %q, want 503 with no_target", status, body)
	}
	names.set("127.0.0.1")
	eventually(t, "the name to be resolved", func() bool { return len(g.service("s").Status().Targets) == 1 })
	expectOnly(t, g.crowd(4, 10, "/"), "200 a", 40)
}

func TestALackOfDescriptorsIsNotATargetsFailure(t *testing.T) {
	all := backends(t, 2)
	g := serve(t, balanced(1, targetsOf(all), "balance: round_robin, health: {passive: {consecutive_failures: 1}}"))
	p := g.dial()
	eventually(t, "the connection to be accepted, which takes a descriptor", func() bool { return g.snapshot().Accepted == 1 })
	restore := exhaust(t)
	status, body := p.request("GET", "/")
	restore()
	if status != 503 || !strings.Contains(body, "pool_full") {
		t.Errorf("got %d %q, want 503 with pool_full", status, body)
	}
	for _, b := range all {
		if s := g.target("s", b.address); s.ConsecutiveFailures != 0 || s.Connections != 0 {
			t.Errorf("%s has %d failures and %d connections, want none", b.address, s.ConsecutiveFailures, s.Connections)
		}
	}
	eventually(t, "the log to say so", func() bool { return strings.Contains(g.logged.String(), "no descriptor, port or memory left") })
	got := map[string]bool{}
	for range 4 {
		status, body := p.request("GET", "/")
		got[fmt.Sprint(status, body)] = true
	}
	if !got["200a"] || !got["200b"] {
		t.Errorf("with descriptors again the client got %v", got)
	}
}

// exhaust uses up the descriptors that this process may open until restore is called, or the test
// has ended. No child inherits them: a test that starts one would find it without descriptors.
func exhaust(t *testing.T) (restore func()) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = min(limit.Cur, 512)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	var held []int
	for {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if errors.Is(err, syscall.EMFILE) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, fd)
	}
	restore = sync.OnceFunc(func() {
		for _, fd := range held {
			syscall.Close(fd)
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(restore)
	return restore
}

func TestASuccessRateFarUnderThePeersEjectsATarget(t *testing.T) {
	t.Parallel() // rates are compared every ten seconds
	all := backends(t, 4)
	// Every second request fails, so there is never a row of failures.
	var turn atomic.Int64
	all[3].answer(func(w http.ResponseWriter, _ *http.Request) {
		if turn.Add(1)%2 == 0 {
			w.WriteHeader(503)
		}
	})
	g := serve(t, balanced(1, targetsOf(all), "balance: round_robin, retry: {attempts: 0}"))
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 { // a rate takes a hundred requests of each target, however slow the machine
		c := g.client()
		clients.Go(func() {
			tick := time.NewTicker(32 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					fetch(c, "GET", g.url("/"))
				}
			}
		})
	}
	g.becomes("s", all[3].address, "ejected")
	close(stop)
	clients.Wait()
	if why := g.target("s", all[3].address).Why; !strings.Contains(why, "success rate") {
		t.Errorf("it was ejected because of %q, want its success rate", why)
	}
}
