package ward

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// admitted is a service that runs.
type admitted struct {
	service, debug string
	said           *bytes.Buffer
	end            func() error
}

func admit(t *testing.T, cured bool, build func(p *Patient) (http.Handler, error)) admitted {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	type addresses struct{ service, debug net.Addr }
	opened, over := make(chan addresses, 1), make(chan error, 1)
	said := &bytes.Buffer{}
	go func() {
		over <- run(ctx, build, options{address: "127.0.0.1:0", debug: "127.0.0.1:0", cured: cured, out: said,
			opened: func(service, debug net.Addr) { opened <- addresses{service, debug} }})
	}()
	select {
	case a := <-opened:
		return admitted{service: "http://" + a.service.String(), debug: "http://" + a.debug.String(), said: said, end: func() error {
			stop()
			return <-over
		}}
	case err := <-over:
		t.Fatalf("the service did not start: %v", err)
	}
	return admitted{}
}

func get(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, answer.Status, err)
	}
	return string(body)
}

func TestAPatientServesAndSaysThatItIsReady(t *testing.T) {
	for _, cured := range []bool{false, true} {
		a := admit(t, cured, func(p *Patient) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "cured: ", p.Cured) }), nil
		})
		if want := "ready " + strings.TrimPrefix(a.service, "http://") + "\n"; a.said.String() != want {
			t.Errorf("it said %q, want %q", a.said, want)
		}
		if got, want := get(t, a.service), fmt.Sprint("cured: ", cured); got != want {
			t.Errorf("the service answers %q, want %q", got, want)
		}
		if err := a.end(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
}

func TestTheDebuggingPortShowsProfilesAndMetrics(t *testing.T) {
	a := admit(t, false, func(p *Patient) (http.Handler, error) {
		p.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "own_gauge"}, func() float64 { return 7 }))
		return http.NotFoundHandler(), nil
	})
	metrics := get(t, a.debug+"/metrics")
	for _, series := range []string{"own_gauge 7", "go_sched_latencies_seconds_bucket",
		"go_gc_heap_goal_bytes", "go_sync_mutex_wait_total_seconds_total", "process_open_fds"} {
		if !strings.Contains(metrics, "\n"+series) {
			t.Errorf("/metrics has no %s", series)
		}
	}
	for _, kind := range []string{"goroutine", "heap", "allocs", "mutex", "block"} {
		if body := get(t, a.debug+"/debug/pprof/"+kind); !strings.HasPrefix(body, "\x1f\x8b") {
			t.Errorf("the %s profile is not one: %.40q", kind, body)
		}
	}
	if !strings.Contains(get(t, a.debug+"/debug/vars"), "memstats") {
		t.Error("/debug/vars has no memstats")
	}
	if err := a.end(); err != nil {
		t.Error(err)
	}
}

func TestThePatientsListenerIsUsed(t *testing.T) {
	var own net.Listener
	a := admit(t, false, func(p *Patient) (http.Handler, error) {
		p.Listen = func(address string) (l net.Listener, err error) {
			own, err = net.Listen("tcp", address)
			return own, err
		}
		return http.NotFoundHandler(), nil
	})
	if "http://"+own.Addr().String() != a.service {
		t.Errorf("it listens on %s, and the patient's listener on %s", a.service, own.Addr())
	}
	if err := a.end(); err != nil {
		t.Error(err)
	}
}

func TestEndsRunTheLastFirst(t *testing.T) {
	var order []int
	a := admit(t, false, func(p *Patient) (http.Handler, error) {
		p.OnEnd(func() { order = append(order, 1) })
		p.OnEnd(func() { order = append(order, 2) })
		return http.NotFoundHandler(), nil
	})
	if err := a.end(); err != nil {
		t.Error(err)
	}
	if fmt.Sprint(order) != "[2 1]" {
		t.Errorf("ended in the order %v", order)
	}
}

func TestAPatientThatCannotStartSaysWhyAndEnds(t *testing.T) {
	ended := false
	err := run(t.Context(), func(p *Patient) (http.Handler, error) {
		p.OnEnd(func() { ended = true })
		return nil, errors.New("no bed")
	}, options{address: "127.0.0.1:0", out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "no bed") || !ended {
		t.Errorf("got error %v, ended %v", err, ended)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	build := func(*Patient) (http.Handler, error) { return http.NotFoundHandler(), nil }
	err = run(t.Context(), build, options{address: taken.Addr().String(), out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "--address") {
		t.Errorf("a taken port: %v", err)
	}
	err = run(t.Context(), build, options{address: "127.0.0.1:0", debug: taken.Addr().String(), out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "--debug") {
		t.Errorf("a taken debugging port: %v", err)
	}
}

func TestOneOfTwoDiseasesIsCured(t *testing.T) {
	cured := Cures()
	for _, c := range []struct {
		flag          string
		all           bool
		first, second bool
	}{
		{"", false, false, false}, {"first", false, true, false}, {"second", false, false,
			true}, {"both", false, true, true}, {"", true, true, true},
	} {
		if c.flag != "" {
			if err := flag.Set("cure", c.flag); err != nil {
				t.Fatal(err)
			}
		}
		first, second := cured(&Patient{Cured: c.all})
		if first != c.first || second != c.second {
			t.Errorf("--cure %q, cured %v: first %v, second %v", c.flag, c.all, first, second)
		}
	}
	if flag.Set("cure", "third") == nil {
		t.Error("a third disease is cured")
	}
}
