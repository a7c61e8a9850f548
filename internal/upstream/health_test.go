package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/internal/reactor"
)

// bubble makes an upstream whose clock is the synctest bubble's.
func bubble(t *testing.T, o Options) *Upstream {
	t.Helper()
	began := time.Now()
	u, err := New("users", o, Env{Loops: 1, Post: func(int, func()) {}, Now: func() int64 { return int64(time.Since(began)) }})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// pass lets virtual time go by. In a bubble a timer costs no time.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestChecksAreAskedAtTheirIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := DefaultOptions(addresses(20)...)
		o.Active = &ActiveOptions{Path: "/light", DeepPath: "/deep"}
		u := bubble(t, o)
		var light, deep atomic.Int64
		u.probe = func(_ context.Context, _ *Target, path string) error {
			if path == "/deep" {
				deep.Add(1)
			} else {
				light.Add(1)
			}
			return nil
		}
		u.Start()
		defer u.Close()
		synctest.Wait()
		if light.Load() > 5 {
			t.Errorf("%d of 20 targets were asked at the very start", light.Load())
		}
		pass(3 * time.Second)
		if n := light.Load(); n < 20 || n > 21 {
			t.Errorf("%d light checks in the first interval, want one for each of 20 targets", n)
		}
		pass(57 * time.Second)
		if n := light.Load(); n < 20*20 || n > 20*20+1 {
			t.Errorf("%d light checks in a minute, want 400", n)
		}
		pass(9 * time.Minute)
		if n := deep.Load(); n != 2*20 {
			t.Errorf("%d deep checks in ten minutes, want 40", n)
		}
	})
}

func TestATargetThatFailsItsChecksIsOutAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := DefaultOptions(addresses(2)...)
		o.Active = &ActiveOptions{Path: "/", Interval: time.Second}
		u := bubble(t, o)
		var sick atomic.Bool
		sick.Store(true)
		u.probe = func(ctx context.Context, tg *Target, _ string) error {
			if tg.addr.String() != addresses(1)[0] || !sick.Load() {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		u.Start()
		defer u.Close()
		// Each check takes its timeout of a second, and the next comes a second later.
		pass(7 * time.Second)
		if s := u.Status().Targets[0]; s.Usable || !strings.Contains(s.Why, "deadline") {
			t.Fatalf("after three timeouts it is %q: %s", s.State, s.Why)
		}
		sick.Store(false)
		pass(3 * time.Second)
		if s := u.Status().Targets[0]; !s.Usable {
			t.Errorf("after two successes it is %q: %s", s.State, s.Why)
		}
	})
}

func TestChecksAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := DefaultOptions(addresses(300)...)
		o.Active = &ActiveOptions{Path: "/", Timeout: time.Minute, Interval: time.Second}
		u := bubble(t, o)
		var at, most atomic.Int64
		u.probe = func(ctx context.Context, _ *Target, _ string) error {
			most.Store(max(most.Load(), at.Add(1)))
			defer at.Add(-1)
			<-ctx.Done()
			return ctx.Err()
		}
		u.Start()
		pass(30 * time.Second)
		if most.Load() != maxChecks {
			t.Errorf("%d checks at once, want %d", most.Load(), maxChecks)
		}
		// Close must end them though each would take another half minute.
		before := time.Now()
		u.Close()
		if took := time.Since(before); took != 0 {
			t.Errorf("Close waited %v for checks", took)
		}
	})
}

func TestEjectionHappensWithoutWaitingForTheTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := bubble(t, DefaultOptions(addresses(3)...))
		u.Start()
		defer u.Close()
		l := u.Local(0)
		l.Pick(0, 0, nil)
		for range 5 {
			l.members[1].Begin(0)
			l.members[1].End(0, ConnectFailed, 1000)
		}
		synctest.Wait()
		if s := u.Status().Targets[1]; s.State != "ejected" || s.EjectedFor != 10*time.Second {
			t.Errorf("it is %q for %v", s.State, s.EjectedFor)
		}
		pass(10*time.Second + judgeEvery + judgeSpread)
		if s := u.Status().Targets[1]; !s.Usable {
			t.Errorf("ten seconds and a tick later it is %q", s.State)
		}
	})
}

func TestANameIsFollowedByItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := bubble(t, DefaultOptions("users.internal:80", "10.9.9.9:80"))
		type answer struct {
			addrs []netip.Addr
			ttl   time.Duration
			err   error
		}
		a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		answers := []answer{
			{[]netip.Addr{b, a}, 20 * time.Second, nil},
			{[]netip.Addr{a, b}, 0, nil},
			{nil, 0, errors.New("server failure")},
			{nil, time.Hour, nil},
			{[]netip.Addr{b}, time.Hour, nil},
			{[]netip.Addr{a}, time.Hour, nil},
		}
		var asked []time.Duration
		began := time.Now()
		u.lookup = func(context.Context, string) ([]netip.Addr, time.Duration, error) {
			asked = append(asked, time.Since(began))
			if len(asked) > len(answers) {
				return []netip.Addr{a}, time.Hour, nil
			}
			got := answers[len(asked)-1]
			return got.addrs, got.ttl, got.err
		}
		u.Start()
		defer u.Close()
		l := u.Local(0)
		targets := func() string {
			var all []string
			for _, s := range u.Status().Targets {
				all = append(all, s.Address)
			}
			return strings.Join(all, " ")
		}
		if got := targets(); got != "10.0.0.1:80 10.0.0.2:80 10.9.9.9:80" {
			t.Fatalf("the targets are %s", got)
		}
		l.Pick(0, 0, nil)
		kept := l.members[1]
		pass(22500 * time.Millisecond)
		if s := u.Status(); s.Names[0].Error == "" || targets() != "10.0.0.1:80 10.0.0.2:80 10.9.9.9:80" {
			t.Errorf("after failures: error %q, targets %s", s.Names[0].Error, targets())
		}
		pass(2 * time.Second)
		if got := targets(); got != "10.0.0.2:80 10.9.9.9:80" {
			t.Errorf("the targets are %s", got)
		}
		l.Pick(int64(time.Since(began)), 0, nil)
		if l.members[0] != kept {
			t.Error("a target that stays lost its state")
		}
		pass(10 * time.Minute)
		want := []time.Duration{0, 20 * time.Second, 21 * time.Second, 22 * time.Second,
			24 * time.Second, 324 * time.Second, 624 * time.Second}
		if fmt.Sprint(asked) != fmt.Sprint(want) {
			t.Errorf("asked at %v, want %v", asked, want)
		}
	})
}

func TestAnOperatorsWordOutlivesANewAnswer(t *testing.T) {
	w := newWorld(t, 1)
	u := w.upstream(DefaultOptions("users.internal:80"))
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	u.resolved(0, w.now, []netip.Addr{a, b}, nil)
	if err := u.Drain("10.0.0.1:80"); err != nil {
		t.Fatal(err)
	}
	u.resolved(0, w.now, []netip.Addr{b}, nil)
	u.resolved(0, w.now, []netip.Addr{a, b}, nil)
	if s := u.Status().Targets[0]; s.State != "drained" {
		t.Errorf("it is %q", s.State)
	}
	if err := u.Drain("10.0.0.9:80"); err == nil || !strings.Contains(err.Error(), "10.0.0.2:80") {
		t.Errorf("an unknown target should name those there are: %v", err)
	}
}

func TestStartWaitsTwoSecondsForNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := bubble(t, DefaultOptions("slow.internal:80"))
		u.lookup = func(ctx context.Context, _ string) ([]netip.Addr, time.Duration, error) {
			<-ctx.Done()
			return nil, 0, ctx.Err()
		}
		began := time.Now()
		u.Start()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("Start took %v", took)
		}
		if m, why := u.Local(0).Pick(0, 0, nil); m != nil || why != NoTargets {
			t.Errorf("Pick says %v, %v", m, why)
		}
		u.Close()
	})
}

// probeWith asks a real server once.
func probeWith(t *testing.T, address string, change func(*Options)) error {
	t.Helper()
	return probeFor(t, address, "/healthz", change)
}

// probeFor asks a real server once for a path, or what else the options make of it.
func probeFor(t *testing.T, address, asks string, change func(*Options)) error {
	t.Helper()
	o := DefaultOptions(address)
	o.Active = &ActiveOptions{Path: asks}
	if change != nil {
		change(&o)
	}
	u := newWorld(t, 1).upstream(o)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return u.probe(ctx, u.set.Load().targets[0], asks)
}

func TestAProbeBelievesTheStatus(t *testing.T) {
	for status, well := range map[int]bool{101: false, 200: true, 204: true, 302: true, 399: true,
		400: false, 404: false, 500: false, 503: false} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if r.URL.Path != "/healthz" || r.Host != "health.example" {
				t.Errorf("it was asked for %s of %s", r.URL.Path, r.Host)
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
		}))
		err := probeWith(t, server.Listener.Addr().String(), func(o *Options) { o.Active.Host = "health.example" })
		if (err == nil) != well || asked.Load() != 1 {
			t.Errorf("status %d: %v, after %d requests", status, err, asked.Load())
		}
		server.Close()
	}
}

func TestAProbeOfNothingFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	if err := probeWith(t, address, nil); err == nil {
		t.Error("a closed port is well")
	}
}

func TestAProbeReadsNoMoreThanItMust(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		block := make([]byte, 64<<10)
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	if err := probeWith(t, server.Listener.Addr().String(), nil); err != nil {
		t.Errorf("an endless body made the check fail: %v", err)
	}
}

func TestAProbeOverAUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "localhost" {
			t.Errorf("the Host header is %q", r.Host)
		}
	})}
	done := make(chan struct{})
	go func() { _ = server.Serve(l); close(done) }()
	defer func() { server.Close(); <-done }()
	if err := probeWith(t, "unix:"+path, nil); err != nil {
		t.Error(err)
	}
}

func TestAProbeWaitsForRoomInAnAcceptQueue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	fd, err := reactor.BindListener(reactor.Address{Path: path}, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "listener")
	l, err := net.FileListener(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	for err == nil { // until the queue is full
		var c net.Conn
		if c, err = net.Dial("unix", path); err == nil {
			defer c.Close()
		}
	}
	limited, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if c, err := dialTarget(limited, Address{Path: path}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v and %v from a queue that stays full, want the end of its time", c, err)
	}
	result := make(chan error)
	go func() { result <- probeWith(t, "unix:"+path, nil) }()
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	done := make(chan struct{})
	go func() { _ = server.Serve(l); close(done) }()
	if err := <-result; err != nil {
		t.Error(err)
	}
	server.Close()
	<-done
}

func TestAProbeOverTLSChecksTheCertificate(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	server.Config.ErrorLog = nil
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	address := server.Listener.Addr().String()
	for name, c := range map[string]struct {
		config *tls.Config
		well   bool
	}{
		"trusted":     {&tls.Config{RootCAs: roots}, true},
		"server name": {&tls.Config{RootCAs: roots, ServerName: "example.com"}, true},
		"other name":  {&tls.Config{RootCAs: roots, ServerName: "elsewhere.test"}, false},
		"untrusted":   {&tls.Config{RootCAs: x509.NewCertPool()}, false},
	} {
		err := probeWith(t, address, func(o *Options) { o.TLS = c.config })
		if (err == nil) != c.well {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A connection whose handshake is over when its check was given up must not stay: each check of a
// service that is slow to shake hands would add one.
func TestAConnectionThatComesTooLateForItsCheckIsClosed(t *testing.T) {
	for name, active := range map[string]ActiveOptions{
		"HTTP": {Path: "/"}, "gRPC": {GRPC: &GRPCHealth{}},
	} {
		t.Run(name, func(t *testing.T) {
			asked, goOn, closed := make(chan bool), make(chan bool), make(chan bool, 1)
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.EnableHTTP2 = true
			server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				asked <- true
				<-goOn
				return nil, nil
			}}
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateClosed {
					closed <- true
				}
			}
			server.StartTLS()
			defer server.Close()
			o := DefaultOptions(server.Listener.Addr().String())
			o.TLS, o.Protocol, o.Active = &tls.Config{InsecureSkipVerify: true}, HTTP2, &active
			u := newWorld(t, 1).upstream(o)
			check, giveUp := context.WithCancel(t.Context())
			go func() {
				<-asked
				giveUp()
			}()
			if err := u.probe(check, u.set.Load().targets[0], "/"); err == nil {
				t.Error("a check that was given up is well")
			}
			close(goOn)
			select {
			case <-closed:
			case <-time.After(10 * time.Second):
				t.Error("its connection stays open")
			}
		})
	}
}

// HAZARDS: secrets in what is shown. A check's path may hold a token.
func TestHazardWhatIsSaidOfACheckDoesNotNameItsPath(t *testing.T) {
	const secret = "/healthz?token=s3cret"
	w := newWorld(t, 1)
	logged := &bytes.Buffer{}
	w.log = slog.New(slog.NewTextHandler(logged, nil))
	o := DefaultOptions(addresses(2)...)
	o.Active = &ActiveOptions{Path: secret, UnhealthyAfter: 1, HealthyAfter: 1}
	u := w.upstream(o)
	target := u.set.Load().targets[0]
	for _, c := range []check{{asks: secret}, {asks: secret, deep: true}} {
		for _, err := range []error{u.probe(t.Context(), target, secret+"%zz\x00"), nil} {
			u.checked(target, c, w.now, err)
			if why := u.Status().Targets[0].Why; strings.Contains(why, "s3cret") {
				t.Errorf("the status says %q", why)
			}
		}
	}
	if text := logged.String(); strings.Contains(text, "s3cret") || !strings.Contains(text, "deep check failed 1 times") {
		t.Errorf("the log says\n%s", text)
	}
}
