package diagnose

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

// says looks for words in what a finding says and advises.
func (f *Finding) says(words string) bool {
	said := []string{f.Claim}
	for _, a := range f.Advice {
		said = append(said, a.Text, a.Command)
	}
	return slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, words) })
}

const postgres, redis = "behind.cpu_seconds.127.0.0.1:5432/postgres",
	"behind.cpu_seconds.127.0.0.1:7000/redis-server"

func TestADatabaseThatDoesNotComputeIsAskedForItsLocks(t *testing.T) {
	d := diagnosed(t, append(idleService, "at-line service 20ms", "over goodput 1010",
		"all "+postgres+" += .1")...)
	f := d.found("slow-dependency")
	if f == nil || !f.says("postgres at 127.0.0.1:5432") || !f.says("lock on a row") ||
		f.says("Seq Scan") {
		t.Errorf("found %+v", f)
	}
}

func TestWhatIsAskedOverAUnixSocketIsNamed(t *testing.T) {
	const at = "unix:/run/postgresql/.s.PGSQL.5432"
	lines := append(idleService, "at-line service 20ms", "over goodput 1010",
		"all target.outgoing.established = 10", "all target.outgoing.to."+at+" = 10")
	d := diagnosed(t, lines...)
	if f := d.found("slow-dependency"); f == nil || !f.says(at+" (usually PostgreSQL)") {
		t.Errorf("found %+v", f)
	}
	d = diagnosed(t, append(lines, "all behind.cpu_seconds."+at+"/postgres += .1",
		"all behind.doing."+at+"/postgres/UPDATE waiting = 0",
		"at-line behind.doing."+at+"/postgres/UPDATE waiting = 5",
		"over behind.doing."+at+"/postgres/UPDATE waiting = 8")...)
	if f := d.found("slow-dependency"); f == nil || !f.says("sessions of postgres at "+at) {
		t.Errorf("found %+v", f)
	}
}

func TestANameServerIsAskedForWhatItIsAsked(t *testing.T) {
	d := diagnosed(t, append(idleService, "at-line service 20ms", "over goodput 1010",
		"all target.outgoing.established = 10", "all target.outgoing.to.192.0.2.1:53 = 10")...)
	if f := d.found("slow-dependency"); f == nil || !f.says("usually a name server") ||
		!f.says("ndots") {
		t.Errorf("found %+v", f)
	}
}

func TestADatabaseThatTakesTheProcessorsIsNamed(t *testing.T) {
	busy := []string{
		"at-line target.cpu.seconds += .3", "over target.cpu.seconds += .3",
		"at-line service 12ms", "over goodput 1010",
	}
	d := diagnosed(t, append(busy, "at-line "+postgres+" += 1.4", "over "+postgres+" += 1.5")...)
	f := d.found("slow-dependency")
	if f == nil || d.Findings[0].Rule != "slow-dependency" || !f.says("Seq Scan") ||
		f.Gain.Factor < 1.5 || d.First.What != "slow-dependency" {
		t.Errorf("found %+v, and the bottleneck is %+v", f, d.First)
	}
	// If the service uses about as much itself, look at the service first.
	d = diagnosed(t, append(busy, "at-line "+postgres+" += .4", "over "+postgres+" += .45")...)
	if d.found("slow-dependency") != nil {
		t.Errorf("found %v", names(d))
	}
}

// Most commands of such a store take microseconds, and many queries of a database do not.
func TestAQuickStoreThatComputesForLongIsNamed(t *testing.T) {
	lines := []string{
		"at-line host.cpu.busy_seconds += 1.35", "at-line target.cpu.seconds += .75",
		"at-line goodput 200", "over goodput 210",
	}
	d := diagnosed(t, append(lines, "at-line "+redis+" += .5", "over "+redis+" += .55")...)
	if f := d.found("slow-dependency"); f == nil || !f.says("2.50 ms of a processor") ||
		!f.says("slowlog") || f.Gain.Factor < 1.5 {
		t.Errorf("found %v: %+v", names(d), f)
	}
	for _, other := range [][]string{
		{"at-line " + redis + " += .1", "over " + redis + " += .1"},
		{"at-line " + postgres + " += .35", "over " + postgres + " += .4"},
		{"at-line " + redis + " += .5", "at-line goodput 1000"},
	} {
		if d := diagnosed(t, append(lines, other...)...); d.found("slow-dependency") != nil {
			t.Errorf("%v: found %v", other, names(d))
		}
	}
}

const asksPostgres = "all target.outgoing.exchanges.127.0.0.1:5432 += "

// The service computes as much as the database that lacks an index.
func TestADatabaseThatComputesForLongForEachRequestIsNamedBesideABusyService(t *testing.T) {
	lines := []string{
		"all service 10ms", "at-line service 20ms", "all goodput 150", "at-line goodput 150",
		"over goodput 180", "at-line host.cpu.busy_seconds += 1.5", "at-line target.cpu.seconds += .75",
		"all " + postgres + " += .6", "half " + postgres + " += .6",
	}
	d := diagnosed(t, lines...)
	if f := d.found("slow-dependency"); f == nil || !f.says("4.00 ms of a processor") ||
		!f.says("Seq Scan") || f.Rank != Cost || f.Gain.Factor < 1.25 {
		t.Errorf("found %v, held back %+v: %+v", names(d), d.HeldBack, f)
	}
	for name, other := range map[string][]string{
		"many quick ones": {asksPostgres + "1200", "at-line " + asksPostgres[4:] + "1350"},
		"little of it":    {"all " + postgres + " += .35"},
	} {
		if d := diagnosed(t, append(lines, other...)...); d.found("slow-dependency") != nil {
			t.Errorf("%s: found %v", name, names(d))
		}
	}
	// One that is slow among a few that are quick.
	few := append(lines, asksPostgres+"300", "at-line "+asksPostgres[4:]+"900")
	if d := diagnosed(t, few...); d.found("slow-dependency") == nil {
		t.Errorf("one of six: found %v", names(d))
	}
	// Over a Unix socket it is not known how many they are.
	const socket = "unix:/run/postgresql/.s.PGSQL.5432"
	local := strings.Split(strings.ReplaceAll(strings.Join(lines, "\n"), "127.0.0.1:5432", socket), "\n")
	of := "all " + strings.Replace(postgres, "127.0.0.1:5432", socket, 1)
	if d := diagnosed(t, append(local, of+" += .8")...); d.found("slow-dependency") == nil {
		t.Errorf("5.3 ms over a Unix socket: found %v", names(d))
	}
	if d := diagnosed(t, append(local, of+" += .7")...); d.found("slow-dependency") != nil {
		t.Errorf("4.7 ms over a Unix socket: found %v", names(d))
	}
}

// PostgreSQL has a process for each connection, so it has one for each processor.
func TestPostgresUsesOneProcessorOnlyOverOneConnection(t *testing.T) {
	lines := []string{
		"all target.cpu.seconds += .4", "all host.cpu.busy_seconds += 1.2",
		"all host.cores = 4", "all " + postgres + " += .9", "all service 5ms", "at-line service 12ms",
		"over goodput 1010",
	}
	for connections, one := range map[string]bool{"1": true, "6": false} {
		d := diagnosed(t, append(lines, "all target.outgoing.established = "+connections,
			"all target.outgoing.to.127.0.0.1:5432 = "+connections)...)
		f := d.found("slow-dependency")
		if is := f != nil && f.says("no thread for another"); is != one {
			t.Errorf("%s connections: found %v: %+v", connections, names(d), f)
		}
	}
}

func TestConnectionsForEachRequestComeBeforeWhatAcceptsThem(t *testing.T) {
	const shop = "behind.cpu_seconds.127.0.0.1:8080/shop"
	lines := []string{
		"at-line target.cpu.seconds += .3", "over target.cpu.seconds += .3",
		"at-line service 12ms", "over goodput 1010", "all target.outgoing.established = 5",
		"at-line " + shop + " += 1.4", "over " + shop + " += 1.5",
	}
	for opened, first := range map[string]string{
		"1000": "upstream-connections-not-reused", "10": "slow-dependency",
	} {
		d := diagnosed(t, append(lines, "all host.tcp.opened_active += "+opened)...)
		if len(d.Findings) == 0 || d.Findings[0].Rule != first || d.found("slow-dependency") == nil {
			t.Errorf("%s connections a second: found %v", opened, names(d))
		}
	}
	// To accept one takes no 4 ms.
	d := diagnosed(t, append(lines, "all host.tcp.opened_active += 360", "all goodput 180",
		"at-line goodput 360", "over goodput 370", "all "+shop+" += .72", "at-line "+shop+" += 1.45")...)
	if len(d.Findings) < 2 || d.Findings[0].Rule != "slow-dependency" ||
		d.found("upstream-connections-not-reused") == nil {
		t.Errorf("one that computes for long: found %v, held back %+v", names(d), d.HeldBack)
	}
}

func TestAStoreOfOneThreadThatIsFullIsNamed(t *testing.T) {
	lines := []string{
		"all host.cpu.busy_seconds += 1.3", "over host.cpu.busy_seconds += 1.35",
		"all target.cpu.seconds += .2", "at-line service 20ms", "over goodput 1010",
	}
	d := diagnosed(t, append(lines, "at-line "+redis+" += .93", "over "+redis+" += .98")...)
	f := d.found("slow-dependency")
	if f == nil || !f.says("redis-server at 127.0.0.1:7000") || !f.says("KEYS") {
		t.Errorf("found %+v of %v", f, names(d))
	}
	// A thread that uses half of a processor is not full.
	d = diagnosed(t, append(lines, "at-line "+redis+" += .5", "over "+redis+" += .5")...)
	if d.found("slow-dependency") != nil {
		t.Errorf("found %v", names(d))
	}
}

func TestConnectionsThatAreNotKeptAreAdvisedInTheServersWords(t *testing.T) {
	run := newFixture(t, slices.Concat(strings.Split(base, "\n"), []string{
		"all host.tcp.opened_active += 1000", "all target.outgoing.established = 5",
	})...).open(t)
	for server, words := range map[string]string{
		"nginx": "proxy_http_version 1.1", "": "one client or pool for all requests",
	} {
		run.Manifest.Machine.TargetServer = server
		f := Run(run).found("upstream-connections-not-reused")
		if f == nil || !f.says(words) {
			t.Errorf("%q is advised %+v", server, f)
		}
	}
}

// Requests that arrive at random queue at what computes for most of their time, long before it is
// busy on average.
func TestADatabaseThatIsMostOfARequestIsNamedOnAnIdleMachine(t *testing.T) {
	lines := []string{
		"all host.cpu.busy_seconds += .3", "half host.cpu.busy_seconds += .4",
		"at-line host.cpu.busy_seconds += .75", "over host.cpu.busy_seconds += 1.1",
		"before target.cpu.seconds += .07", "half target.cpu.seconds += .08",
		"at-line target.cpu.seconds += .16", "over target.cpu.seconds += .25",
		"before service 3ms", "half service 3.2ms", "at-line service 4ms", "over service 4.5ms",
		"before goodput 100", "half goodput 120", "at-line goodput 240", "over goodput 390",
		"before " + postgres + " += .19", "half " + postgres + " += .25",
		"at-line " + postgres + " += .5", "over " + postgres + " += .75", "station 1",
	}
	d := diagnosed(t, lines...)
	f := d.found("slow-dependency")
	if f == nil || d.First.What != "slow-dependency" || !f.says("Seq Scan") ||
		!f.says("takes 3.00 ms, and for 1.90 ms of that postgres at 127.0.0.1:5432 computes") {
		t.Fatalf("found %+v, and the bottleneck is %+v", f, d.First)
	}
	for name, change := range map[string][2]string{
		// Background work of a database weighs much where there are few requests.
		"it computes without requests": {"at-line " + postgres + " += .5",
			"at-line " + postgres + " += .22"},
		"a request takes longer": {"before service 3ms", "before service 4.5ms"},
		"the service computes as long": {"at-line target.cpu.seconds += .16",
			"at-line target.cpu.seconds += .4"},
		"others compute more": {"at-line host.cpu.busy_seconds += .75",
			"at-line host.cpu.busy_seconds += 1.15"},
		"no line": {"station 1", "no line"},
	} {
		changed := strings.Split(
			strings.Replace(strings.Join(lines, "\n"), change[0], change[1], 1), "\n")
		if name == "a request takes longer" {
			changed = append(changed, "half service 4.6ms", "at-line service 5ms")
		}
		if d := diagnosed(t, changed...); d.found("slow-dependency") != nil {
			t.Errorf("%s: found %+v", name, d.found("slow-dependency"))
		}
	}
	// Two milliseconds are much for a query, whatever the service computes beside it.
	beside := append(slices.Clip(lines), "before "+postgres+" += .21", "at-line target.cpu.seconds += .4")
	f = diagnosed(t, beside...).found("slow-dependency")
	if f == nil || !f.says("2.08 ms of a processor, which is much for what an index finds") {
		t.Errorf("beside a service that computes as long: found %+v", f)
	}
	// A query that is quick is what a service is there to ask.
	quick := make([]string, 0, len(lines))
	for _, line := range lines {
		stage, rest, is := strings.Cut(line, " goodput ")
		if is {
			line = stage + " goodput " + rest + "0"
		}
		quick = append(quick, strings.Replace(line, "service 3ms", "service .3ms", 1))
	}
	if d := diagnosed(t, quick...); d.found("slow-dependency") != nil {
		t.Errorf("a quick query: found %v", names(d))
	}
}

func TestADatabaseBehindAPoolerIsFollowed(t *testing.T) {
	const pooler, database = "behind.cpu_seconds.127.0.0.1:6432/pgbouncer", "host.others.cpu_seconds.postgres"
	lines := []string{
		"all host.cpu.busy_seconds += .9", "at-line host.cpu.busy_seconds += 1.7",
		"all target.cpu.seconds += .12", "at-line target.cpu.seconds += .25", "all goodput 115",
		"at-line goodput 230", "over goodput 240", "all service 8ms", "at-line service 15ms",
		"all " + pooler + " += .02", "at-line " + pooler + " += .04",
		"all " + database + " += .7", "at-line " + database + " += 1.4", "over " + database + " += 1.45",
	}
	d := diagnosed(t, lines...)
	if f := d.found("slow-dependency"); f == nil || !f.says("postgres behind pgbouncer at 127.0.0.1:6432") ||
		!f.says("Seq Scan") {
		t.Errorf("found %v, held back %+v: %+v", names(d), d.HeldBack, f)
	}
	// The service opens a connection to the pooler for each request, which keeps its own.
	opens := append(lines, "all host.tcp.opened_active += 230", "all target.outgoing.established = 5",
		"all target.outgoing.time_wait = 900")
	if f := diagnosed(t, opens...).found("slow-dependency"); f == nil || !f.says("Seq Scan") {
		t.Errorf("connections that are not kept: found %+v", f)
	}
	// Any service may ask it.
	shop := strings.Split(strings.ReplaceAll(strings.Join(lines, "\n"), "/pgbouncer", "/php-fpm"), "\n")
	if f := diagnosed(t, shop...).found("slow-dependency"); f == nil ||
		!f.says("postgres behind php-fpm at 127.0.0.1:6432") {
		t.Errorf("behind a service: found %+v", f)
	}
	for name, c := range map[string][2]string{
		"it works for others too": {"all " + database + " += .7", "all " + database + " += 1.4"},
		"no store":                {"cpu_seconds.postgres", "cpu_seconds.compile"},
		"not its store":           {"cpu_seconds.postgres", "cpu_seconds.mysqld"},
		"another store speaks":    {"/pgbouncer", "/redis-server"},
	} {
		other := strings.Split(strings.ReplaceAll(strings.Join(lines, "\n"), c[0], c[1]), "\n")
		if f := diagnosed(t, other...).found("slow-dependency"); f != nil && f.says("postgres") {
			t.Errorf("%s: found %+v", name, f)
		}
	}
}

// A query that takes over a millisecond is much where the database computes more than the service.
func TestAQueryMayBeMostOfWhatBusyProcessorsDo(t *testing.T) {
	lines := []string{
		"all goodput 210", "half goodput 265", "at-line goodput 530", "over goodput 600",
		"all target.cpu.seconds += .28", "half target.cpu.seconds += .35",
		"at-line target.cpu.seconds += .69", "over target.cpu.seconds += .75",
		"all host.cpu.busy_seconds += .72", "half host.cpu.busy_seconds += .9",
		"at-line host.cpu.busy_seconds += 1.8", "over host.cpu.busy_seconds += 2",
		"all " + postgres + " += .38", "half " + postgres + " += .48", "at-line " + postgres + " += .95",
		"over " + postgres + " += 1.3",
	}
	d := diagnosed(t, lines...)
	if f := d.found("slow-dependency"); f == nil || d.Findings[0].Rule != f.Rule || !f.says("1.79 ms") {
		t.Errorf("found %v: %+v", names(d), f)
	}
	for what, change := range map[string][]string{
		"the service computes more": {"at-line target.cpu.seconds += .99"},
		"it takes less":             {"before " + postgres + " += .2", "half " + postgres + " += .25"},
		"it is asked thrice": {"before" + asksHere + "630", "half" + asksHere + "795",
			"at-line" + asksHere + "1590"},
	} {
		if d := diagnosed(t, append(lines, change...)...); d.found("slow-dependency") != nil {
			t.Errorf("%s: found %v", what, names(d))
		}
	}
}

const asksHere = " target.outgoing.exchanges.127.0.0.1:5432 += "

// Requests that wait for a lock in Redis ask for it every few milliseconds, on the only connection.
func TestTriesForALockInAStoreAreNotItsSlowness(t *testing.T) {
	const asks = " target.outgoing.exchanges.127.0.0.1:7000 += "
	lines := slices.Concat(stuck, []string{
		"all service 6ms", "half service 7ms", "at-line service 20ms", "over service 200ms",
		"all goodput 40", "half goodput 60", "at-line goodput 120", "over goodput 150",
		"all " + redis + " += .02", "over " + redis + " += .1", "all target.processes = 1",
		"all target.outgoing.to.127.0.0.1:7000 = 1", "all target.outgoing.established = 1",
		"all target.outgoing.waiting.127.0.0.1:7000 = .02",
		"over target.outgoing.waiting.127.0.0.1:7000 = .4",
		"before" + asks + "120", "half" + asks + "180", "at-line" + asks + "500", "over" + asks + "3600",
	})
	d := ofRuntime(t, measure.RuntimeNode, "", lines...)
	f := d.found("concurrency-limited")
	if f == nil || d.Findings[0].Rule != f.Rule || !f.says("again and again for a lock or a place in redis") {
		t.Errorf("found %v: %+v", names(d), f)
	}
	d = ofRuntime(t, measure.RuntimeNode, "", append(lines, "over"+asks+"450")...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "slow-dependency" {
		t.Errorf("it asks as often: found %v", names(d))
	}
}
