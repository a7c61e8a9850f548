package telemetry_test

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"plimsoll/internal/http1"
	"plimsoll/internal/telemetry"
)

// inline stands for loops that do nothing else: it runs f at once.
func inline(_ int, f func()) bool {
	f()
	return true
}

func options(loops int) telemetry.Options {
	return telemetry.Options{
		Loops: loops, Version: "1.0.0-test",
		Reasons:           []string{"", "no_route", "upstream_timeout"},
		Ends:              []string{"completed", "client_gone"},
		HandshakeFailures: []string{"timeout", "bad_certificate"},
		BufferSizes:       []string{"4096", "65536"},
		AccessLog:         func() (written, dropped, lost uint64) { return 1000, 20, 3 },
		Descriptors:       func() (used, allowed uint64) { return 77, 1 << 20 },
	}
}

func newRegistry(t testing.TB, o telemetry.Options) *telemetry.Registry {
	t.Helper()
	r, err := telemetry.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// scrape is what Prometheus would get, in the text format.
func scrape(t testing.TB, r *telemetry.Registry, call telemetry.Call) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.Handler(call).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("the scrape got %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func wantLines(t *testing.T, page string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+page, "\n"+line+"\n") {
			t.Errorf("there is no line %q; near it:\n%s", line, family(page, line))
		}
	}
}

// family is the lines of the same series as line.
func family(page, line string) string {
	name, _, _ := strings.Cut(strings.ReplaceAll(line, " ", "{"), "{")
	var out strings.Builder
	for l := range strings.Lines(page) {
		if strings.HasPrefix(l, name) {
			out.WriteString(l)
		}
	}
	return out.String()
}

// busy is a registry on which everything has been counted at least once, on two loops.
func busy(t testing.TB) *telemetry.Registry {
	r := newRegistry(t, options(2))
	items, buy := r.Route("items"), r.Route("buy \"now\"\n\xff")
	shop := r.Upstream("shop")
	r.ConfigLoaded("c0ffee", time.Unix(1772366400, 500e6), false)
	r.ConfigLoaded("c0ffee", time.Unix(1772366400, 500e6), true)
	r.ReloadFailed()
	r.RouteClass(items, 1)
	r.RouteClass(buy, 0)
	for loop := range 2 {
		s := r.Shard(loop)
		s.Grow(r.Sizes())
		s.Exchange(&telemetry.ExchangeStats{
			Route: items, Upstream: shop, Status: 200, Total: 1_500_000, UpstreamTime: 1_400_000, Gateway: 20_000,
			BytesIn: 300, BytesOut: 1000, Retries: 1, Class: 1, Verdict: telemetry.Good,
		})
		s.Exchange(&telemetry.ExchangeStats{Route: items, Upstream: shop, End: 1, Class: 2, Verdict: telemetry.Bad})
		s.Exchange(&telemetry.ExchangeStats{Route: buy, Upstream: telemetry.NoUpstream, Status: 504, Reason: 2, Total: 2e9, Gateway: 9_000})
		s.Exchange(&telemetry.ExchangeStats{Route: telemetry.NoRoute, Upstream: telemetry.NoUpstream, Status: 404, Reason: 1})
		s.Accepted, s.Closed, s.SlowConnections, s.Active = 10, 4, 3, 2
		s.RefusedConnections[telemetry.AddressFull]++
		s.RefusedRequests[http1.BareLF] += 5
		s.Handshakes[telemetry.TLS13][1] += 7
		s.HandshakeFailures[1]++
		s.UpstreamReceived, s.UpstreamSent = 2000, 600
		s.MirrorsSent, s.MirrorsDropped, s.MirrorsTooLong = 5, 1, 3
		s.ClaimsIgnored[telemetry.DeadlineClaim] = 2
		up := s.Upstream(shop)
		up.Opened, up.Reused, up.ConnectFailures, up.RetriesRefused, up.Reclaimed = 3, 40, 2, 1, 6
		s.Refresh = func(s *telemetry.Shard) {
			s.BusyNS, s.CPUNS, s.Turns = 2_500_000_000, 2_250_000_000, 1234
			s.BuffersOut[1] = 6
		}
	}
	return r
}

func TestScrapeSaysWhatAllLoopsCounted(t *testing.T) {
	wantLines(t, scrape(t, busy(t), inline),
		`plimsoll_requests_total{code="2xx",route="items"} 2`,
		`plimsoll_requests_total{code="none",route="items"} 2`,
		`plimsoll_requests_total{code="4xx",route="items"} 0`,
		`plimsoll_requests_total{code="5xx",route="buy \"now\"\n�"} 2`,
		`plimsoll_requests_total{code="4xx",route="none"} 2`,
		`plimsoll_request_duration_seconds_bucket{route="items",le="0.001048576"} 2`,
		`plimsoll_request_duration_seconds_bucket{route="items",le="0.002097152"} 4`,
		`plimsoll_request_duration_seconds_bucket{route="items",le="+Inf"} 4`,
		`plimsoll_request_duration_seconds_sum{route="items"} 0.003`,
		`plimsoll_request_duration_seconds_count{route="items"} 4`,
		`plimsoll_gateway_duration_seconds_bucket{route="items",le="3.2768e-05"} 4`,
		`plimsoll_gateway_duration_seconds_bucket{route="items",le="1.6384e-05"} 2`,
		`plimsoll_slo_requests_total{class="P1",route="items"} 2`,
		`plimsoll_slo_good_total{class="P1",route="items"} 2`,
		`plimsoll_slo_requests_total{class="P2",route="items"} 2`,
		`plimsoll_slo_good_total{class="P2",route="items"} 0`,
		`plimsoll_slo_requests_total{class="P0",route="buy \"now\"\n�"} 0`,
		`plimsoll_upstream_requests_total{code="2xx",upstream="shop"} 2`,
		`plimsoll_upstream_duration_seconds_sum{upstream="shop"} 0.0028`,
		`plimsoll_exchanges_total{end="completed"} 6`,
		`plimsoll_exchanges_total{end="client_gone"} 2`,
		`plimsoll_answers_total{reason="upstream_timeout"} 2`,
		`plimsoll_refused_requests_total{reason="bare_lf"} 10`,
		`plimsoll_requests_in_flight 4`,
		`plimsoll_connections_accepted_total 20`,
		`plimsoll_connections_closed_total 8`,
		`plimsoll_connections_slow_total 6`,
		`plimsoll_connections_open 12`,
		`plimsoll_connections_refused_total{reason="address_full"} 2`,
		`plimsoll_connections_refused_total{reason="listener_full"} 0`,
		`plimsoll_client_received_bytes_total 600`,
		`plimsoll_client_sent_bytes_total 2000`,
		`plimsoll_upstream_received_bytes_total 4000`,
		`plimsoll_upstream_sent_bytes_total 1200`,
		`plimsoll_tls_handshakes_total{resumed="true",version="1.3"} 14`,
		`plimsoll_tls_handshakes_total{resumed="false",version="1.2"} 0`,
		`plimsoll_tls_handshake_failures_total{reason="bad_certificate"} 2`,
		`plimsoll_upstream_connections_opened_total{upstream="shop"} 6`,
		`plimsoll_upstream_connection_reuses_total{upstream="shop"} 80`,
		`plimsoll_upstream_connect_failures_total{upstream="shop"} 4`,
		`plimsoll_upstream_retries_total{upstream="shop"} 2`,
		`plimsoll_upstream_retries_refused_total{upstream="shop"} 2`,
		`plimsoll_upstream_connections_reclaimed_total{upstream="shop"} 12`,
		`plimsoll_mirrors_sent_total 10`,
		`plimsoll_mirrors_dropped_total{reason="too_many"} 2`,
		`plimsoll_mirrors_dropped_total{reason="too_long"} 6`,
		`plimsoll_claims_ignored_total{claim="class"} 0`,
		`plimsoll_claims_ignored_total{claim="deadline"} 4`,
		`plimsoll_loop_requests_total{loop="1"} 4`,
		`plimsoll_loop_busy_seconds_total{loop="0"} 2.5`,
		`plimsoll_loop_cpu_seconds_total{loop="0"} 2.25`,
		`plimsoll_loop_turns_total{loop="1"} 1234`,
		`plimsoll_buffers_out{size="65536"} 12`,
		`plimsoll_descriptors_used 77`,
		`plimsoll_descriptors_allowed 1.048576e+06`,
		`plimsoll_access_log_lines_written_total 1000`,
		`plimsoll_access_log_lines_dropped_total{reason="ring_full"} 20`,
		`plimsoll_access_log_lines_dropped_total{reason="write_error"} 3`,
		`plimsoll_config_info{version="c0ffee"} 1`,
		`plimsoll_config_loaded_timestamp_seconds 1.7723664005e+09`,
		`plimsoll_config_reloads_total{result="success"} 1`,
		`plimsoll_config_reloads_total{result="failure"} 1`,
		`plimsoll_scrapes_total 1`,
		`plimsoll_scrape_loops_missed_total 0`,
	)
}

func TestScrapeHoldsTheRuntimeTheProcessAndTheBuild(t *testing.T) {
	page := scrape(t, busy(t), inline)
	for _, start := range []string{"go_goroutines ", "process_resident_memory_bytes ", `plimsoll_build_info{goversion="go1.`} {
		if !strings.Contains(page, "\n"+start) {
			t.Errorf("there is no series %s", start)
		}
	}
}

func TestScrapeIsCleanForPromlint(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(scrape(t, busy(t), inline))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestScrapeIsCleanForPromtool(t *testing.T) {
	check := exec.Command(promtool(t), "check", "metrics")
	check.Stdin = strings.NewReader(scrape(t, busy(t), inline))
	if out, err := check.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

func TestLongNamesThatAgreeWhereTheyAreCutShareASeries(t *testing.T) {
	r := newRegistry(t, options(1))
	long := strings.Repeat("é", 1000)
	if r.Route(long+"a") != r.Route(long+"b") {
		t.Error("they have two indices, and so two series of one name")
	}
	scrape(t, r, inline)
}

func TestCountersGoOnWhenALoopGrows(t *testing.T) {
	r := newRegistry(t, options(1))
	s := r.Shard(0)
	early := r.Route("early")
	e := telemetry.ExchangeStats{Route: early, Upstream: telemetry.NoUpstream, Status: 200}
	s.Exchange(&e) // before there is room: other
	s.Grow(r.Sizes())
	s.Exchange(&e)
	r.Route("late")
	s.Grow(r.Sizes())
	s.Grow(0, 0)
	s.Exchange(&e)
	wantLines(t, scrape(t, r, inline),
		`plimsoll_requests_total{code="2xx",route="other"} 1`,
		`plimsoll_requests_total{code="2xx",route="early"} 2`,
		`plimsoll_requests_total{code="2xx",route="late"} 0`)
}

func TestStrangeValuesAreCountedSomewhere(t *testing.T) {
	r := newRegistry(t, options(1))
	s := r.Shard(0)
	for _, status := range []int{0, -1, 99, 600, 99999, -1 << 62} {
		s.Exchange(&telemetry.ExchangeStats{Route: -7, Upstream: 1 << 40, Status: status, Reason: 255, End: 255})
	}
	wantLines(t, scrape(t, r, inline),
		`plimsoll_requests_total{code="none",route="other"} 6`,
		`plimsoll_upstream_requests_total{code="none",upstream="other"} 6`)
}

func TestCollectionHoldsALoopOnlyForSmallPortions(t *testing.T) {
	const routes = 1_000
	r := newRegistry(t, options(1))
	for i := range routes {
		r.Route(fmt.Sprint(i))
	}
	s := r.Shard(0)
	s.Grow(r.Sizes())
	count := func() {
		for i := range routes {
			s.Exchange(&telemetry.ExchangeStats{Route: i + 2, Upstream: telemetry.NoUpstream, Status: 200})
		}
	}
	calls := 0
	counting := func(_ int, f func()) bool { calls++; f(); return true }

	count()
	if got := r.Collect(counting); got.Requests != routes || got.Routes[501].Codes[2] != 1 {
		t.Errorf("%d requests, %d of one route", got.Requests, got.Routes[501].Codes[2])
	}
	if calls < routes/16 {
		t.Errorf("a thousand routes came in %d calls", calls)
	}
	calls = 0
	s.Exchange(&telemetry.ExchangeStats{Route: 501, Upstream: telemetry.NoUpstream, Status: 200})
	if got := r.Collect(counting); got.Requests != routes+1 || got.Routes[501].Codes[2] != 2 {
		t.Errorf("%d requests, %d of one route", got.Requests, got.Routes[501].Codes[2])
	}
	if calls > 5 {
		t.Errorf("one changed route took %d calls", calls)
	}
}

func TestLoopThatIsStuckKeepsItsLastNumbersAndIsNotAskedAgain(t *testing.T) {
	r := busy(t)
	before := r.Collect(inline)
	var queued []func()
	stuck := func(loop int, f func()) bool {
		if loop == 1 {
			queued = append(queued, f)
			return false
		}
		f()
		return true
	}
	r.Shard(0).Accepted++
	r.Shard(1).Accepted++
	for range 3 {
		s := r.Collect(stuck)
		if s.Missed != 1 || s.Accepted != before.Accepted+1 || s.Requests != before.Requests {
			t.Errorf("%d loops missed, %d accepted, %d requests", s.Missed, s.Accepted, s.Requests)
		}
	}
	if len(queued) != 1 {
		t.Fatalf("the loop that is stuck has %d calls waiting", len(queued))
	}
	queued[0]()
	if s := r.Collect(inline); s.Missed != 0 || s.Accepted != before.Accepted+2 {
		t.Errorf("after it: %d loops missed, %d accepted", s.Missed, s.Accepted)
	}
	wantLines(t, scrape(t, r, inline), `plimsoll_scrape_loops_missed_total 3`)
}

func TestSnapshotStaysAsItIs(t *testing.T) {
	r := busy(t)
	items := r.Route("items")
	s := r.Collect(inline)
	before := s.Routes[items].Total.Count()
	r.Shard(0).Exchange(&telemetry.ExchangeStats{Route: items, Upstream: telemetry.NoUpstream})
	r.Collect(inline)
	if s.Routes[items].Total.Count() != before || s.Routes[items].Name != "items" {
		t.Errorf("the snapshot's route %s went on to %d", s.Routes[items].Name, s.Routes[items].Total.Count())
	}
}

// loop is a goroutine that counts as fast as it can and, between two exchanges, does what it is
// called for.
func loop(s *telemetry.Shard, e telemetry.ExchangeStats, calls <-chan func(), stop <-chan struct{}, total *atomic.Uint64) {
	for {
		select {
		case f := <-calls:
			f()
		case <-stop:
			return
		default:
			s.Exchange(&e)
			total.Add(1)
			runtime.Gosched()
		}
	}
}

func TestScrapesAndReloadsGoOnWhileLoopsCount(t *testing.T) {
	const loops = 3
	r := newRegistry(t, options(loops))
	route, upstream := r.Route("r"), r.Upstream("u")
	stop, calls := make(chan struct{}), make([]chan func(), loops)
	var total atomic.Uint64
	for i := range loops {
		calls[i] = make(chan func())
		r.Shard(i).Grow(r.Sizes())
		go loop(r.Shard(i), telemetry.ExchangeStats{Route: route, Upstream: upstream, Status: 200}, calls[i], stop, &total)
	}
	call := func(loop int, f func()) bool {
		done := make(chan struct{})
		calls[loop] <- func() { f(); close(done) }
		<-done
		return true
	}
	last := uint64(0)
	for i := range 10 {
		r.Route(fmt.Sprint(i))
		for loop := range loops {
			call(loop, func() { r.Shard(loop).Grow(r.Sizes()) })
		}
		s := r.Collect(call)
		if n := s.Routes[route].Total.Count(); n < last || n > total.Load()+loops {
			t.Fatalf("%d exchanges after %d, of %d", n, last, total.Load())
		}
		last = s.Routes[route].Total.Count()
		scrape(t, r, call)
	}
	close(stop)
}

func TestAddedSeriesAreReadAtEachScrape(t *testing.T) {
	r := newRegistry(t, options(1))
	up := 1.0
	targets := telemetry.Series{
		Name: "target_up", Help: "Whether a target gets requests.", Labels: []string{"upstream", "target"},
	}
	read := func(emit telemetry.Emit) { emit(0, up, "shop", "127.0.0.1:9001"); emit(0, 1, "shop", "\xff") }
	if err := r.AddGroup(telemetry.Group{Series: []telemetry.Series{targets}, Read: read}); err != nil {
		t.Fatal(err)
	}
	wantLines(t, scrape(t, r, inline), `# TYPE plimsoll_target_up gauge`, `plimsoll_target_up{target="127.0.0.1:9001",upstream="shop"} 1`,
		`plimsoll_target_up{target="�",upstream="shop"} 1`)
	up = 0
	wantLines(t, scrape(t, r, inline), `plimsoll_target_up{target="127.0.0.1:9001",upstream="shop"} 0`)

	for name, s := range map[string]telemetry.Series{
		"a name that was added before": targets,
		"a name of our own":            {Name: "requests_total", Help: "x"},
		"no help":                      {Name: "x"},
		"no name":                      {Name: "\xff", Help: "x"},
	} {
		if err := r.AddGroup(telemetry.Group{Series: []telemetry.Series{s}, Read: read}); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestAddedHistogramsAreCumulative(t *testing.T) {
	r := newRegistry(t, options(1))
	counts := []uint64{3, 0, 2, 1}
	group := telemetry.Group{
		Series: []telemetry.Series{{Name: "age_seconds", Help: "Ages.", Labels: []string{"route"},
			Bounds: []float64{1, 5, 60}}, {Name: "plain", Help: "P."}},
		Read:           func(emit telemetry.Emit) { emit(1, 7) },
		ReadHistograms: func(emit telemetry.EmitHistogram) { emit(0, counts, 99.5, "r\xff") },
	}
	if err := r.AddGroup(group); err != nil {
		t.Fatal(err)
	}
	wantLines(t, scrape(t, r, inline), `# TYPE plimsoll_age_seconds histogram`,
		`plimsoll_age_seconds_bucket{route="r�",le="1"} 3`,
		`plimsoll_age_seconds_bucket{route="r�",le="5"} 3`,
		`plimsoll_age_seconds_bucket{route="r�",le="60"} 5`,
		`plimsoll_age_seconds_bucket{route="r�",le="+Inf"} 6`,
		`plimsoll_age_seconds_sum{route="r�"} 99.5`, `plimsoll_age_seconds_count{route="r�"} 6`,
		`plimsoll_plain 7`)
}

func TestAGroupIsReadOnceForEachScrape(t *testing.T) {
	r := newRegistry(t, options(1))
	reads := 0
	group := telemetry.Group{
		Series: []telemetry.Series{{Name: "a", Help: "A."}, {Name: "b_total", Help: "B.", Labels: []string{"x"}}},
		Read:   func(emit telemetry.Emit) { reads++; emit(1, 7, "y"); emit(0, 3) },
	}
	if err := r.AddGroup(group); err != nil {
		t.Fatal(err)
	}
	wantLines(t, scrape(t, r, inline), `# TYPE plimsoll_a gauge`, `plimsoll_a 3`,
		`# TYPE plimsoll_b_total counter`, `plimsoll_b_total{x="y"} 7`)
	if reads != 1 {
		t.Errorf("one scrape read the group %d times", reads)
	}
	twice := telemetry.Group{Series: []telemetry.Series{{Name: "c", Help: "C."}, {Name: "c", Help: "C."}}, Read: group.Read}
	if err := r.AddGroup(twice); err == nil {
		t.Error("a group with the same name twice was taken")
	}
	if err := r.AddGroup(telemetry.Group{Series: twice.Series[:1], Read: group.Read}); err != nil {
		t.Errorf("the name of a group that was not taken is not free: %v", err)
	}
	if err := r.AddGroup(group); err == nil {
		t.Error("a group that was added before was taken")
	}
}

func TestNewRefusesTablesThatDoNotFit(t *testing.T) {
	many := make([]string, 65)
	for name, o := range map[string]telemetry.Options{
		"loops":    {},
		"reasons":  {Loops: 1, Reasons: many},
		"ends":     {Loops: 1, Ends: many},
		"failures": {Loops: 1, HandshakeFailures: many},
		"sizes":    {Loops: 1, BufferSizes: many},
	} {
		if _, err := telemetry.New(o); err == nil {
			t.Errorf("too many or too few %s were taken", name)
		}
	}
}

func TestCountingAnExchangeDoesNotAllocate(t *testing.T) {
	s, e := steady(t)
	if n := testing.AllocsPerRun(1000, func() { s.Exchange(e); s.Upstream(e.Upstream).Reused++ }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// steady is a shard and an exchange that it has counted before.
func steady(t testing.TB) (*telemetry.Shard, *telemetry.ExchangeStats) {
	r := newRegistry(t, options(1))
	e := &telemetry.ExchangeStats{
		Route: r.Route("r"), Upstream: r.Upstream("u"), Status: 200, Total: 150_000,
		UpstreamTime: 130_000, Gateway: 12_000, BytesIn: 300, BytesOut: 400, Class: 1,
		Verdict: telemetry.Good,
	}
	s := r.Shard(0)
	s.Grow(r.Sizes())
	s.Exchange(e)
	return s, e
}

func BenchmarkExchange(b *testing.B) {
	s, e := steady(b)
	b.ReportAllocs()
	for b.Loop() {
		e.Total += 100
		s.Exchange(e)
	}
}

// BenchmarkScrape reports what a scrape of a thousand busy routes costs, and the longest time that
// it held a loop.
func BenchmarkScrape(b *testing.B) {
	r := newRegistry(b, options(1))
	for i := range 1_000 {
		r.Route(fmt.Sprint("route-", i))
	}
	s := r.Shard(0)
	s.Grow(r.Sizes())
	var held []time.Duration
	call := func(_ int, f func()) bool {
		begin := time.Now()
		f()
		held = append(held, time.Since(begin))
		return true
	}
	handler := r.Handler(call)
	for b.Loop() {
		for i := range 1_000 {
			s.Exchange(&telemetry.ExchangeStats{Route: i + 2, Upstream: telemetry.NoUpstream, Status: 200, Total: int64(i) * 10_000})
		}
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
	}
	var longest, total time.Duration
	for _, d := range held {
		longest, total = max(longest, d), total+d
	}
	b.ReportMetric(float64(longest.Microseconds()), "µs-longest-hold")
	b.ReportMetric(float64(total.Nanoseconds())/float64(len(held))/1e3, "µs-mean-hold")
}
