package scrape_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"expvar"
	"fmt"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/scrape"
)

// collected is a real page of Prometheus's client for Go.
func collected(t *testing.T, all ...prometheus.Collector) (url string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	for _, c := range all {
		registry.MustRegister(c)
	}
	s := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(s.Close)
	return s.URL
}

// collect makes n garbage collections.
func collect(n int) {
	for range n {
		runtime.GC()
	}
}

// has says which of the names that begin so the values lack.
func has(t *testing.T, values map[string]float64, begin string, but ...string) {
	t.Helper()
	left := strings.Join(but, " ") + " "
	for name := range understood(values) {
		if !slices.ContainsFunc(scrape.Values, func(v measure.SampleName) bool {
			return v.Name == name
		}) {
			t.Errorf("%s is not in the list of values", name)
		}
	}
	for _, v := range scrape.Values {
		_, ok := values[v.Name]
		if want := strings.HasPrefix(v.Name, begin) &&
			!strings.Contains(left, v.Name+" "); ok != want {
			t.Errorf("%s is there: %v, want %v", v.Name, ok, want)
		}
	}
}

func TestEveryValueOfTheRuntimeIsReadFromItsNewSeries(t *testing.T) {
	read := reader(
		t,
		collected(
			t,
			collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)),
		),
	)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(3 << 30))
	defer debug.SetGCPercent(debug.SetGCPercent(150))
	collect(1)
	before := read()
	has(t, before, "go.", "go.gc.pause.p50_seconds", "go.gc.pause.p95_seconds",
		"go.sched.latency.p50_seconds", "go.sched.latency.p99_seconds")
	collect(5)
	after := read()
	has(t, after, "go.")
	if after["go.gomaxprocs"] != float64(runtime.GOMAXPROCS(0)) ||
		after["go.gogc_percent"] != 150 || after["go.memory_limit_bytes"] != 3<<30 {
		t.Errorf("settings: %v", understood(after))
	}
	if n := after["go.gc.cycles"] - before["go.gc.cycles"]; n < 5 || n > 50 {
		t.Errorf("%v collections, and five were made", n)
	}
	if p := after["go.gc.pause.p50_seconds"]; p <= 0 || p > after["go.gc.pause.p95_seconds"] ||
		p > 1 {
		t.Errorf("a pause of %v seconds", p)
	}
	for name, above := range map[string]float64{
		"go.heap.live_bytes":   1e5,
		"go.heap.goal_bytes":   1e6,
		"go.allocated_bytes":   1e5,
		"go.allocated_objects": 1e3,
		"go.goroutines":        2,
		"go.gc.cpu_seconds":    0,
	} {
		if after[name] < above || after[name] > 1e12 {
			t.Errorf("%s is %v", name, after[name])
		}
	}
}

// What a reading costs the reader; see Page.Read.
func BenchmarkRead(b *testing.B) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)))
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: true}).ServeHTTP(
		recorder, httptest.NewRequest("GET", "/metrics", nil),
	)
	content := recorder.Body.Bytes()
	var values map[string]float64
	for b.Loop() {
		values, _ = scrape.Texts(content)
	}
	b.ReportMetric(float64(len(values)), "values")
	b.ReportMetric(float64(len(content)), "bytes")
}

func TestTheOlderSeriesAreUnderstoodAsWell(t *testing.T) {
	read := reader(t, collected(t, collectors.NewGoCollector(
		collectors.WithGoCollectorMemStatsMetricsDisabled(),
		collectors.WithoutGoCollectorRuntimeMetrics(collectors.MetricsAll.Matcher))))
	read()
	collect(3)
	values := read()
	for _, name := range []string{
		"go.goroutines", "go.gc.cycles", "go.gc.pause.p50_seconds", "go.gc.pause.p95_seconds",
	} {
		if values[name] <= 0 {
			t.Errorf("%s is %v", name, values[name])
		}
	}
	// What the client gives unless it is told otherwise.
	read = reader(t, collected(t, collectors.NewGoCollector()))
	read()
	collect(3)
	has(t, read(), "go.", "go.memory_limit_bytes", "go.heap.live_bytes", "go.gc.cpu_seconds",
		"go.sched.latency.p50_seconds", "go.sched.latency.p99_seconds",
		"go.mutex.wait_seconds")
}

func TestNoLimitIsNotAValue(t *testing.T) {
	content := "go_gc_gomemlimit_bytes 9.223372036854776e+18\n" +
		"go_gc_gogc_percent 1.8446744073709552e+19\ngo_gc_heap_goal_bytes 1.8446744073709552e+19\n"
	wantValues(t, understood(reader(t, text(t, &content))()), map[string]float64{
		"go.gogc_percent": -1,
	})
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	values := reader(t, collected(t, collectors.NewGoCollector()))()
	if goal, there := values["go.heap.goal_bytes"]; values["go.gogc_percent"] != -1 || there {
		t.Errorf("GOGC is off, and said to be %v with a goal of %v",
			values["go.gogc_percent"], goal)
	}
}

func TestTheRuntimesFiguresOnAPageOfSeveralProcessesAreNotTheServices(t *testing.T) {
	content := "go_goroutines{instance=\"a\"} 7\ngo_goroutines{instance=\"b\"} 9\n" +
		"go_gc_heap_live_bytes{instance=\"a\"} 7\n" +
		"go_gc_gogc_percent{instance=\"a\"} 1.8446744073709552e+19\n" +
		"go_gc_gogc_percent{instance=\"b\"} 100\n"
	wantValues(t, understood(reader(t, text(t, &content))()), map[string]float64{
		"go.heap.live_bytes": 7,
	})
}

func TestExpvarsMemstatsGiveThePausesExactly(t *testing.T) {
	pauses := make([]int, 256)
	pageOf := func(collections, allocated int) string {
		return fmt.Sprintf(`{"memstats": {"NumGC": %d, "TotalAlloc": %d, "Mallocs": 3, "NextGC": 4000, "PauseNs": %s}}`,
			collections, allocated, strings.ReplaceAll(fmt.Sprint(pauses), " ", ","))
	}
	content := pageOf(254, 1000)
	read := reader(t, text(t, &content))
	rest := map[string]float64{
		"go.gc.cycles":         254,
		"go.allocated_bytes":   1000,
		"go.allocated_objects": 3,
		"go.heap.goal_bytes":   4000,
	}
	wantValues(t, read(), rest)
	// Collections 255 to 258 are stored at 254, 255, 0 and 1.
	pauses[253] = 9e9
	pauses[254] = 1e6
	pauses[255] = 3e6
	pauses[0] = 2e6
	pauses[1] = 4e6
	pauses[2] = 9e9
	content = pageOf(258, 2000)
	rest["go.gc.cycles"], rest["go.allocated_bytes"] = 258, 2000
	rest["go.gc.pause.p50_seconds"], rest["go.gc.pause.p95_seconds"] = .002, .004
	wantValues(t, read(), rest)
	// Nothing has happened since the last reading.
	delete(rest, "go.gc.pause.p50_seconds")
	delete(rest, "go.gc.pause.p95_seconds")
	wantValues(t, read(), rest)
	// The process has restarted: its pauses cannot be distinguished from earlier ones.
	content = pageOf(300, 50)
	rest["go.gc.cycles"], rest["go.allocated_bytes"] = 300, 50
	wantValues(t, read(), rest)
	// More collections than the runtime keeps.
	for i := range pauses {
		pauses[i] = 5e6
	}
	content = pageOf(300_000_000, 60)
	rest["go.gc.cycles"], rest["go.allocated_bytes"] = 300_000_000, 60
	rest["go.gc.pause.p50_seconds"], rest["go.gc.pause.p95_seconds"] = .005, .005
	wantValues(t, read(), rest)
}

func TestRealMemstatsAreUnderstood(t *testing.T) {
	s := httptest.NewServer(expvar.Handler())
	defer s.Close()
	read := reader(t, s.URL)
	read()
	collect(3)
	values := read()
	for _, name := range []string{
		"go.allocated_bytes", "go.allocated_objects", "go.heap.goal_bytes", "go.gc.cycles",
		"go.gc.pause.p50_seconds", "go.gc.pause.p95_seconds",
	} {
		if v := values[name]; v <= 0 || v > 1e12 {
			t.Errorf("%s is %v", name, v)
		}
	}
}

// pool is a database driver without a database.
type pool struct{ driver.Conn }

func (pool) Connect(context.Context) (driver.Conn, error) { return pool{}, nil }
func (pool) Driver() driver.Driver                        { return nil }
func (pool) Close() error                                 { return nil }

func TestPoolsOfConnectionsAreAddedUp(t *testing.T) {
	orders, users := sql.OpenDB(pool{}), sql.OpenDB(pool{})
	defer orders.Close()
	defer users.Close()
	orders.SetMaxOpenConns(5)
	orders.SetMaxIdleConns(1)
	users.SetMaxOpenConns(20)
	held := take(t, orders, 3)
	kept := take(t, users, 2)
	for _, c := range held[1:] {
		c.Close()
	}
	defer held[0].Close()
	defer kept[0].Close()
	defer kept[1].Close()
	url := collected(t, collectors.NewDBStatsCollector(orders, "orders"),
		collectors.NewDBStatsCollector(users, "users"))
	values := understood(reader(t, url)())
	wantValues(t, values, map[string]float64{
		"db.max_open":         25,
		"db.open":             4,
		"db.in_use":           3,
		"db.idle":             1,
		"db.waits":            0,
		"db.wait_seconds":     0,
		"db.closed.idle":      1,
		"db.closed.idle_time": 0,
		"db.closed.lifetime":  0,
	})
	users.SetMaxOpenConns(0)
	if v := understood(reader(t, url)())["db.max_open"]; v != 0 {
		t.Errorf("one of two pools has no limit, and together they have one of %v", v)
	}
}

func take(t *testing.T, db *sql.DB, n int) (all []*sql.Conn) {
	t.Helper()
	for range n {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

func TestThePoolsSettingsAreReadWhereThePageTellsThem(t *testing.T) {
	content := `go_sql_max_idle_connections{db_name="orders"} 50
go_sql_max_idle_connections{db_name="users"} 2
go_sql_max_lifetime_seconds{db_name="orders"} 300
go_sql_max_lifetime_seconds{db_name="users"} 0
pg_settings_max_connections{server="db:5432"} 100
`
	wantValues(t, understood(reader(t, text(t, &content))()), map[string]float64{
		"db.max_idle":             52,
		"db.max_lifetime_seconds": 0,
		"db.server_limit":         100,
	})
}
