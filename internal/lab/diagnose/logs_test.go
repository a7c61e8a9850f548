package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
)

func TestLinesThatAreWrittenOneByOneAreSeenWithoutAProfile(t *testing.T) {
	const file = "target.files.appended_bytes./srv/app.log"
	lines := []string{
		"all target.writes += 60000", "half target.writes += 30000", "all goodput 1000",
		"half goodput 500",
		"all target.written_bytes += 5400000", "half target.written_bytes += 2700000",
		"all " + file + " += 5000000", "half " + file + " += 2500000", "all target.cpu.seconds += 1.6",
		"all target.cpu.system_seconds += .25", "all host.cpu.busy_seconds += 1.8",
	}
	f := diagnosed(t, lines...).found("logging-hot")
	if f == nil || !f.says("60.0 write calls") || !f.says("/srv/app.log") || f.Rank != Cost ||
		f.Gain.Factor < 2 {
		t.Errorf("found %+v", f)
	}
	for name, c := range map[string][]string{
		"a few lines": {
			"all target.writes += 9000", "half target.writes += 4500",
			"all target.written_bytes += 810000", "half target.written_bytes += 405000",
			"all " + file + " += 750000", "half " + file + " += 375000",
		},
		"no more of them at half": {"half target.writes += 90000"},
		"large ones": {
			"all target.written_bytes += 120000000", "half target.written_bytes += 60000000",
			"all " + file + " += 110000000", "half " + file + " += 55000000",
		},
		"a file that grows slowly":   {"all " + file + " += 400000"},
		"half of it goes elsewhere":  {"all " + file + " += 3000000"},
		"it asks a store many times": {asks("before", "20000"), asks("half", "10000"), asks("at-line", "20000")},
		"little work for the kernel": {"all target.cpu.system_seconds += .07"},
		"a profile without them":     {"at-line profile cpu nanoseconds 1000000000 main.show < runtime.main"},
	} {
		if f := diagnosed(t, slices.Concat(lines, c)...).found("logging-hot"); f != nil {
			t.Errorf("%s: found %+v", name, f)
		}
	}
	// Two workers have a file each. The one that grows most is named.
	more := append(lines, "all "+file+" += 3000000", "half "+file+" += 1500000")
	for _, stage := range []string{"all", "half"} {
		more = append(more, strings.ReplaceAll(stage+" "+file+" += 2000000", "app.log", "a.log"))
	}
	if f := diagnosed(t, more...).found("logging-hot"); f == nil ||
		!f.says("/srv/app.log and 1 more grew by 5.00 kB") {
		t.Errorf("two files: found %+v", f)
	}
}

// each returns the lines of a fixture in which a counter grows by so much for each request at all
// rates.
func each(name string, n float64) (lines []string) {
	for _, s := range stages {
		lines = append(lines, fmt.Sprintf("%s %s += %v", s.name, name, n*s.rate))
	}
	return lines
}

// logger returns the lines of a fixture in which each request takes 1.5 ms of processor time,
// a share of it in the kernel, and writes so many bytes by so many calls. The generator receives an
// answer of some bytes.
func logger(kernel, calls, bytes, answer float64) []string {
	return slices.Concat(
		each("target.writes", calls), each("target.written_bytes", bytes),
		each("target.cpu.seconds", .0015), each("target.cpu.system_seconds", .0015*kernel),
		[]string{fmt.Sprintf("all answers %v", answer)},
	)
}

const (
	appLog     = "target.files.appended_bytes./srv/app.log"
	dataFile   = "target.files.appended_bytes./srv/orders.dat"
	writeAhead = "target.files.appended_bytes./srv/log.db-wal"
)

func TestTheAnswerIsTakenOffWhatIsWritten(t *testing.T) {
	lines := slices.Concat(logger(.15, 16, 15*150+8192, 8192), each(appLog, 15*150))
	f := diagnosed(t, lines...).found("logging-hot")
	if f == nil || !f.says("15.0 write calls, of 150 B each") || f.Confidence != .7 {
		t.Errorf("found %+v", f)
	}
	// Python sends its answers by send(2), which are not among what is written.
	lines = slices.Concat(logger(.15, 15, 15*150, 8192), each(appLog, 15*150))
	f = diagnosed(t, lines...).found("logging-hot")
	if f == nil || !f.says("15.0 write calls, of 150 B each") {
		t.Errorf("the answer is sent: found %+v", f)
	}
	for name, c := range map[string][]string{
		"an answer in pieces": logger(.15, 40, 40*2000, 40*2000),
		"pieces, and an access log": append(logger(.15, 41, 40*2000+300, 40*2000),
			each(appLog, 300)...),
		"pieces, and a long line": append(logger(.15, 13, 12*2000+900, 12*2000),
			each(appLog, 900)...),
		"small pieces, and a record": append(logger(.15, 21, 20*100+900, 20*100),
			each(dataFile, 900)...),
		"an answer, and one line": append(logger(.15, 2, 8192+200, 8192), each(appLog, 200)...),
		"an answer, and two records": append(logger(.15, 3, 8192+2400, 8192),
			each(dataFile, 2400)...),
		"it asks a store, and logs a little": slices.Concat(
			logger(.15, 22, 20*80+8192+200, 8192), each(appLog, 200), asksEach(20)),
		"SQLite's write-ahead log, by lseek": append(logger(.15, 41, 40*2060+500, 500),
			each(writeAhead, 40*2060)...),
		"the same with pages of 1 KiB": append(logger(.15, 41, 40*524+500, 500),
			each(writeAhead, 40*524)...),
		"it asks a store over a Unix socket": append(logger(.15, 22, 20*80+8192+200, 8192),
			"all target.outgoing.to.unix:/run/db.sock = 5"),
	} {
		if f := diagnosed(t, c...).found("logging-hot"); f != nil {
			t.Errorf("%s: found %+v", name, f)
		}
	}
}

func TestLongLinesAreLines(t *testing.T) {
	for length, want := range map[float64]bool{600: true, 1200: true, 2060: false} {
		f := diagnosed(t, slices.Concat(logger(.15, 21, 20*length+1000, 1000),
			each(dataFile, 20*length))...).found("logging-hot")
		if (f != nil) != want {
			t.Errorf("%v bytes: found %+v", length, f)
		}
	}
}

func TestLinesThatHardlyNeedTheKernelAreSeenIfTheyAreMany(t *testing.T) {
	for name, c := range map[string]struct {
		kernel, calls float64
		want          bool
	}{
		"Java's loggers": {.08, 20, true}, "hardly any": {.04, 20, false},
		"fewer lines": {.08, 13, false},
	} {
		f := diagnosed(t, slices.Concat(logger(c.kernel, c.calls+1, c.calls*100+500, 500),
			each(dataFile, c.calls*100))...).found("logging-hot")
		if (f != nil) != c.want {
			t.Errorf("%s: found %+v", name, f)
		}
	}
	// Lines beside far more work.
	f := diagnosed(t, slices.Concat(logger(.08, 21, 2500, 500), each(dataFile, 2000),
		each("target.cpu.seconds", .02), each("target.cpu.system_seconds", .0016))...).
		found("logging-hot")
	if f != nil {
		t.Errorf("they cost little: found %+v", f)
	}
}

func TestGatheredLinesAreSeenInWhatLooksLikeALog(t *testing.T) {
	gathered := logger(.05, 3, 3000+2000, 2000)
	f := diagnosed(t, slices.Concat(gathered, each(appLog, 3000))...).found("logging-hot")
	if f == nil || !f.says("/srv/app.log grew by 3.00 kB, some 20.0 lines") || f.Rank != Cost ||
		f.Confidence != .5 || f.Gain.Factor <= 1.2 {
		t.Errorf("found %+v", f)
	}
	f = diagnosed(t, slices.Concat(gathered, each(dataFile, 3000),
		[]string{"all target.output.file./srv/orders.dat = 1"})...).found("logging-hot")
	if f == nil || !f.says("/srv/orders.dat") {
		t.Errorf("the standard output: found %+v", f)
	}
	for name, c := range map[string][]string{
		"a service that appends records":  each(dataFile, 3000),
		"an access log":                   each(appLog, 300),
		"no more of it at half":           append(each(appLog, 3000), "half "+appLog+" += 3000000"),
		"LevelDB's log":                   each(measure.TargetAppended+"/srv/db/000012.log", 3000),
		"SQLite's log":                    each(writeAhead, 3000),
		"it asks a store again and again": append(each(appLog, 3000), asksEach(20)...),
		"much other work": slices.Concat(each(appLog, 3000), each("target.cpu.seconds", .02),
			each("target.cpu.system_seconds", .002)),
	} {
		if f := diagnosed(t, slices.Concat(gathered, c)...).found("logging-hot"); f != nil {
			t.Errorf("%s: found %+v", name, f)
		}
	}
}

// asksEach returns the lines of a fixture in which each request asks a database so many times.
func asksEach(times float64) []string {
	return append(each("target.outgoing.exchanges.192.0.2.7:5432", times),
		"all target.outgoing.to.192.0.2.7:5432 = 5")
}

func TestWhatLooksLikeALogIsKnownByItsName(t *testing.T) {
	for path, want := range map[string]bool{
		"/srv/app.log": true, "/srv/Log/out.txt": true, "/var/log/shop/2026.json": true,
		"/srv/log/x.dat": false, "/srv/access_log": true, "/srv/logs/all.TXT": true,
		"/srv/catalog.json": false, "/srv/blog.json": false, "/srv/dialogs.txt": false,
		"/srv/my_blog.txt": false, "/srv/catalog.log": true, "/srv/weblog": true,
		"/srv/APPLOG.1": true, "/srv/login.dat": false, "/srv/000012.log": false,
		"/srv/2026-11-28.log": true, "/srv/mysql-binlog.3": false, "/srv/blogs/a.txt": false,
		"/srv/orders.dat": false, "": false,
	} {
		if namedLog(path) != want {
			t.Errorf("%q: %v", path, !want)
		}
	}
}

func TestLinesToAStandardOutputThatIsNoFileAreSeen(t *testing.T) {
	piped := append(logger(.15, 21, 20*150+6000, 6000), "all target.output.piped = 1")
	f := diagnosed(t, piped...).found("logging-hot")
	if f == nil || !f.says("Lines are written one by one for each request: 20.0 write calls, of "+
		"150 B each, to its standard output, a pipe") || f.Rank != Cost || f.Gain.Factor <= 1.2 {
		t.Errorf("found %+v", f)
	}
	f = diagnosed(t, append(append(piped, each("target.writes", 24)...), asksEach(3)...)...).
		found("logging-hot")
	if f == nil || !f.says("20.0 write calls") {
		t.Errorf("three questions for each request: found %+v", f)
	}
	for name, c := range map[string][]string{
		"a file":                 {"all target.output.piped = 0"},
		"a database by TCP":      append(asksEach(20), "all target.outgoing.established = 5"),
		"a database, some times": asksEach(12),
		"a database by a Unix socket": {
			"all target.outgoing.to.unix:/run/postgresql/.s.PGSQL.5432 = 5",
		},
		"a database that is not counted": {"all target.outgoing.to.192.0.2.7:5432 = 5"},
		"a connection for each request":  {"all host.tcp.opened_active += 2000", "all connections 10"},
		"a pool of processes": {
			"all target.threads.at.python3;pipe;read;pipe_read = 3", "all" + usedBy + "python3 += 1",
		},
		"pairs of sockets": {
			"all target.threads.at.node;socket_read;read;unix_stream_data_wait = 3",
			"all" + usedBy + "node += 1",
		},
		"a large answer in pieces": {"all answers 9000"},
		"what wakes an event loop": each("target.written_bytes", 6000+20*8),
		"an access log": append(each("target.writes", 2),
			each("target.written_bytes", 6200)...),
		"no more of them at half": {"half target.writes += 30000"},
		"no work for the kernel":  each("target.cpu.system_seconds", .00005),
		"sent or not":             {"all answers 11000"},
		"pieces, and an access log": append(each("target.writes", 13),
			append(each("target.written_bytes", 12*300+900), "all answers 3600")...),
	} {
		if f := diagnosed(t, slices.Concat(piped, c)...).found("logging-hot"); f != nil {
			t.Errorf("%s: found %+v", name, f)
		}
	}
}

func TestALineCostsMoreInSomeRuntimes(t *testing.T) {
	lines := slices.Concat(logger(.2, 11, 10*150+500, 500), each(appLog, 10*150))
	gain := func(runtime string) float64 {
		f := ofRuntime(t, runtime, "", lines...).found("logging-hot")
		if f == nil {
			t.Fatalf("%s: nothing found", runtime)
		}
		return f.Gain.Factor
	}
	node, java, python := gain(measure.RuntimeNode), gain(measure.RuntimeJVM),
		gain(measure.RuntimeCPython)
	if node <= java || java <= python {
		t.Errorf("Node's gain is %v, Java's %v and Python's %v", node, java, python)
	}
}

// A syslog or a collector of statistics gets a datagram for each line or number.
func TestDatagramsForEachRequestAreSeen(t *testing.T) {
	lines := []string{
		"all target.writes += 10", "before host.udp.sent_datagrams += 20000",
		"half host.udp.sent_datagrams += 25000", "at-line host.udp.sent_datagrams += 50000",
		"all target.cpu.system_seconds += .5",
	}
	f := diagnosed(t, lines...).found("logging-hot")
	if f == nil || !f.says("50.0 of them") || !f.says("statsd") || f.Gain.Factor < 1.3 {
		t.Fatalf("found %+v", f)
	}
	for name, line := range map[string]string{
		"a few":                  "all host.udp.sent_datagrams += 5000",
		"sent by the clock":      "half host.udp.sent_datagrams += 50000",
		"the kernel does little": "all target.cpu.system_seconds += .1",
		"they are little of it":  "all target.cpu.seconds += 50",
		"it is asked over QUIC":  "",
	} {
		run := newFixture(t, slices.Concat(strings.Split(base, "\n"), lines, []string{line})...).open(t)
		if line == "" {
			run.Manifest.Settings = map[string]string{"protocol": "HTTP/3"}
		}
		if d := Run(run); d.found("logging-hot") != nil {
			t.Errorf("%s: found %v", name, names(d))
		}
	}
	// The kernel's part of a profile has them too, whatever sends them.
	sends := ofRuntime(t, measure.RuntimeC, "nginx",
		"at-line profile cpu nanoseconds 1800000000 udp_send_skb < udp_sendmsg < __sys_sendto < [nginx]",
		"at-line profile cpu nanoseconds 1800000000 [nginx]")
	if f := sends.found("logging-hot"); f == nil || !f.says("error_log FILE warn") {
		t.Errorf("in a profile: found %v", names(sends))
	}
}
