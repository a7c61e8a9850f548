package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// ofRuntime is a fixture's diagnosis for a target of a runtime, and a server.
func ofRuntime(t *testing.T, runtime, server string, lines ...string) *Diagnosis {
	t.Helper()
	run := newFixture(t, slices.Concat(strings.Split(base, "\n"), lines)...).open(t)
	run.Manifest.Machine.TargetRuntime, run.Manifest.Machine.TargetServer = runtime, server
	return Run(run)
}

func TestServersAreAdvisedByTheirOwnKnobs(t *testing.T) {
	few := append([]string{
		"all target.outgoing.established = 5", "all target.outgoing.to.192.0.2.7:5432 = 5",
	}, stuck...)
	for server, knob := range map[string]string{
		"haproxy": "maxconn", "envoy": "max_requests", "apache": "MaxRequestWorkers", "puma": "-t 16:16",
	} {
		f := ofRuntime(t, measure.RuntimeC, server, few...).found("concurrency-limited")
		if f == nil || !f.says(knob) {
			t.Errorf("%s is advised %+v", server, f)
		}
	}
	one := []string{
		"all host.cores = 4", "all service 30ms", "at-line service 60ms", "over service 90ms",
		"half target.cpu.seconds += .6", "at-line target.cpu.seconds += .93",
		"over target.cpu.seconds += .97", "over target.threads.full = 1",
	}
	for server, knob := range map[string]string{"nginx": "worker_processes", "haproxy": "nbthread"} {
		f := ofRuntime(t, measure.RuntimeC, server, one...).found("single-threaded")
		if f == nil || !f.says(knob) {
			t.Errorf("%s is advised %+v", server, f)
		}
	}
}

func TestThreadsThatShareAnInterpreterAreOneProcessorWellAboveTheLine(t *testing.T) {
	lines := []string{
		"all host.cpu.busy_seconds += .4", "at-line host.cpu.busy_seconds += .9",
		"over host.cpu.busy_seconds += 1.2", "all service 1600us", "half target.cpu.seconds += .4",
		"all target.cpu.seconds += .4", "at-line target.cpu.seconds += .75",
		"over target.cpu.seconds += 1.08", "at-line service 5ms", "over service 120ms",
		"over goodput 1010",
	}
	if d := ofRuntime(t, measure.RuntimeCPython, "", lines...); d.found("single-threaded") == nil {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	// Threads that share an interpreter wait for it, and do not sleep.
	for _, lock := range [][]string{nil, {"all target.files.locked.sqlite:/srv/shop.db = .8"}} {
		sleeps := slices.Concat(lines, standingIn("python;sleep;clock_nanosleep;", "0", "4", "20"), lock)
		d := ofRuntime(t, measure.RuntimeCPython, "", sleeps...)
		f := d.found("concurrency-limited")
		if f == nil || d.found("single-threaded") != nil || !strings.Contains(f.Claim, "sleep for a time") ||
			lock != nil && !(strings.Contains(f.Claim, "SQLite's lock on /srv/shop.db was taken in 80") &&
				f.says("PRAGMA")) {
			t.Errorf("found %v, held back %+v: %+v", names(d), d.HeldBack, f)
		}
	}
	// Requests that mostly wait use one whole processor only by chance.
	waiting := append(lines, "all service 20ms", "at-line service 40ms", "over service 120ms")
	if d := ofRuntime(t, measure.RuntimeCPython, "", waiting...); d.found("single-threaded") != nil {
		t.Errorf("found %v", names(d))
	}
}

func TestOneConnectionBehindALockIsALimitOfTheService(t *testing.T) {
	lines := append([]string{
		"station 1", "all service 1500us", "at-line service 4ms", "over service 40ms",
		"all target.outgoing.established = 1", "all target.outgoing.to.192.0.2.7:80 = 1",
	}, stuck...)
	f := diagnosed(t, append(lines, "all service 1500us", "at-line service 4ms",
		"over service 40ms")...).found("concurrency-limited")
	if f == nil || !f.says("a lock that is held while it is asked") {
		t.Errorf("%+v", f)
	}
}

func TestAStoreThatBeginsASessionForEachRequestIsNotBlamedForItsQueries(t *testing.T) {
	busy := []string{
		"at-line target.cpu.seconds += .3", "over target.cpu.seconds += .3", "at-line service 12ms",
		"over goodput 1010", "at-line " + postgres + " += 1.4", "over " + postgres + " += 1.5",
		"all host.tcp.opened_active += 950", "all target.outgoing.established = 5",
		"all target.outgoing.time_wait = 5800",
	}
	d := diagnosed(t, busy...)
	f := d.found("upstream-connections-not-reused")
	if f == nil || d.Findings[0].Rule != f.Rule || !f.says("PostgreSQL at 127.0.0.1:5432") ||
		!f.says("PgBouncer") || f.Gain.Factor < 1.5 || d.found("slow-dependency") != nil {
		t.Errorf("found %v: %+v", names(d), f)
	}
	// If connections are opened for few requests only, the cost is in what is asked.
	d = diagnosed(t, append(busy, "all host.tcp.opened_active += 100")...)
	if d.found("slow-dependency") == nil || d.found("upstream-connections-not-reused") != nil {
		t.Errorf("found %v", names(d))
	}
}

func TestTheOnlyThreadOfAStoreIsFullBeforeItHasAllOfAProcessor(t *testing.T) {
	lines := []string{
		"all host.cpu.busy_seconds += 1.2", "over host.cpu.busy_seconds += 1.5",
		"all target.cpu.seconds += .4", "at-line service 12ms", "over goodput 1400",
		"at-line " + redis + " += .66", "over " + redis + " += .82",
	}
	f := diagnosed(t, lines...).found("slow-dependency")
	if f == nil || !f.says("no thread for another") || !f.says("SCAN") {
		t.Errorf("%+v", f)
	}
	other := strings.ReplaceAll(redis, "redis-server", "inventory")
	if f := diagnosed(t, append(lines[:4:4], "at-line "+other+" += .66",
		"over "+other+" += .82")...).found("slow-dependency"); f != nil && f.says("no thread for another") {
		t.Errorf("%s", f.Claim)
	}
}

func TestAHeapThatMayGrowIsNotALeakUntilItIsFull(t *testing.T) {
	const name = " target.memory.rss_bytes = "
	growing := []string{
		"all host.memory.available_bytes = 8000000000",
		"before" + name + "50000000 to 66000000", "half" + name + "66000000 to 86000000",
		"at-line" + name + "86000000 to 126000000", "over" + name + "126000000 to 182000000",
		"after" + name + "182000000 to 198000000",
	}
	d := ofRuntime(t, measure.RuntimeJVM, "", growing...)
	if d.found("leak") != nil || !slices.ContainsFunc(d.HeldBack, func(h HeldBack) bool {
		return strings.Contains(h.Why, "a quarter of")
	}) {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
	for _, lines := range [][]string{
		append(growing, "all host.memory.available_bytes = 500000000"), growing,
	} {
		runtime := measure.RuntimeJVM
		if len(lines) == len(growing) {
			runtime = measure.RuntimeCPython
		}
		if d := ofRuntime(t, runtime, "", lines...); d.found("leak") == nil {
			t.Errorf("%s: found %v, held back %+v", runtime, names(d), d.HeldBack)
		}
	}
}

func TestWasteIsKnownInOtherLanguagesLibraries(t *testing.T) {
	for _, c := range []struct{ runtime, stack, says string }{
		{measure.RuntimeJVM, "java.util.regex.Pattern.compile < shop.Names.clean", "compiled"},
		{
			measure.RuntimeJVM,

			"com.fasterxml.jackson.databind.ObjectMapper.<init> < shop.Names.clean",
			"mappers",
		},
		{measure.RuntimeJVM, "java.util.LinkedList.node < shop.Main.handle", "lists"},
		{
			measure.RuntimeJVM,
			"shop.Main$Chart.lambda$mark$0 < java.util.stream.ReferencePipeline$2$1.accept < " +
				"java.util.stream.FindOps$FindOp.evaluateSequential < shop.Main$Chart.mark", "lists",
		},
		{measure.RuntimeJVM, "java.util.HashMap$TreeNode.find < shop.Main.handle", "hashes"},
		{measure.RuntimeCPython, "deepcopy@python3.11/copy.py < page@shop/app.py", "deep copies"},
		{measure.RuntimeCPython, "scan@yaml/scanner.py < page@shop/app.py", "YAML"},
		{measure.RuntimeNode, "v8::internal::JSDateTimeFormat::New < page@shop/main.js", "Intl"},
		{measure.RuntimeNode, "v8::internal::Builtin_ArrayShift < page@shop/main.js", "lists"},
		{measure.RuntimeNode, "Builtins_CloneObjectIC_Slow < page@shop/main.js", "spread"},
		{measure.RuntimeNode, "v8::internal::Compiler::GetFunctionFromEval < page@shop/main.js", "eval"},
		{measure.RuntimeNode, "rsa_ossl_private_encrypt < token@shop/main.js", "signatures"},
		{measure.RuntimeC, "__memset_avx2_unaligned_erms < shop.page", "cleared"},
		{measure.RuntimeC, "void std::__detail::_Compiler::_M_atom < page", "compiled"},
		{measure.RuntimeC, "sched_yield < page", "spinning"},
	} {
		lines := []string{
			fmt.Sprintf("at-line profile cpu nanoseconds %.0f %s", .57*4e9, c.stack),
			fmt.Sprintf("at-line profile cpu nanoseconds %.0f %s", .43*4e9, "shop.Main.handle"),
		}
		f := ofRuntime(t, c.runtime, "", lines...).found("cpu-hot-function")
		if f == nil || !strings.Contains(f.Claim, c.says) {
			t.Errorf("%s: %+v", c.stack, f)
		}
	}
}

// A library's work is divided among many of its functions, none of which has much of it.
func TestWasteIsItsCallersHoweverManyFunctionsOfALibraryDoIt(t *testing.T) {
	lines := []string{"at-line profile cpu nanoseconds 1600000000 main.page" + servesHTTP}
	for i := range 12 {
		lines = append(lines, fmt.Sprintf("at-line profile cpu nanoseconds %.0f gopkg.in/yaml.v3.part%d < "+
			"gopkg.in/yaml.v3.Unmarshal < main.settings%d < net/http.(*conn).serve", .2e9, i, i/4))
	}
	f := diagnosed(t, lines...).found("cpu-hot-function")
	if f == nil || !f.says("main.settings0") || !f.says("YAML") ||
		f.Evidence[len(f.Evidence)-1].Value != "gopkg.in/yaml.v3.Unmarshal" {
		t.Errorf("%+v", f)
	}
}

func TestALittleOfWhatHonestWorkDoesTooIsNoWaste(t *testing.T) {
	lines := []string{"at-line profile cpu nanoseconds 2400000000 main.page" + servesHTTP}
	for i := range 4 {
		lines = append(lines, fmt.Sprintf("at-line profile cpu nanoseconds %.0f runtime.growslice < "+
			"main.part%d < net/http.(*conn).serve", .4e9, i))
	}
	if d := diagnosed(t, lines...); len(d.Findings) != 0 {
		t.Errorf("found %v", names(d))
	}
}

func TestReflectionOfFrameworksIsNotTheServices(t *testing.T) {
	framework := "jdk.internal.reflect.DirectMethodHandleAccessor.invoke < " +
		"org.springframework.web.Servlet.doGet"
	for stack, found := range map[string]bool{
		"java.lang.Class.getDeclaredFields < shop.Mapper.copy < " + framework: true,
		"java.util.HashMap.get < shop.Main.handle < " + framework:             false,
	} {
		lines := []string{
			fmt.Sprintf("at-line profile cpu nanoseconds %.0f %s", .5*4e9, stack),
			fmt.Sprintf("at-line profile cpu nanoseconds %.0f %s", .5*4e9, "shop.Main.handle"),
		}
		d := ofRuntime(t, measure.RuntimeJVM, "", lines...)
		if f := d.found("reflection-hot"); (f != nil) != found {
			t.Errorf("%s: found %v", stack, names(d))
		}
	}
}

func TestClassesAreKnownInOtherLanguages(t *testing.T) {
	for _, c := range []struct{ runtime, rule, stack string }{
		{
			measure.RuntimeJVM, "logging-hot",
			"java.lang.String.format < java.util.logging.SimpleFormatter.format < " +
				"shop.Journal.publish < java.util.logging.Logger.log < shop.Main.handle",
		},
		{
			measure.RuntimeJVM, "json-hot",
			"com.fasterxml.jackson.core.json.UTF8JsonGenerator.writeString < shop.Main.handle",
		},
		{measure.RuntimeNode, "json-hot", "v8::internal::JsonParser::ParseJsonValue < copy < handle"},
		{measure.RuntimeNode, "logging-hot", "log@winston/logger.js < handle"},
		{measure.RuntimeNode, "logging-hot", "asJson@/srv/node_modules/pino/lib/tools.js < handle"},
		{measure.RuntimeC, "json-hot", "cJSON_PrintUnformatted < handle"},
		{measure.RuntimeRuby, "json-hot", "generate_json_object < handle"},
		{measure.RuntimeJVM, "logging-hot", "java.io.PrintStream.println < shop.Main.handle"},
		{measure.RuntimeJVM, "handshakes-dominate", "sun.security.ssl.SSLHandshake.produce"},
		{measure.RuntimeGo, "files-reopened", "syscall.Syscall6 < os.ReadFile < main.page < main.handle"},
		{measure.RuntimeNode, "files-reopened", "readFileSync@node:fs < page@shop/main.js"},
		{measure.RuntimeCPython, "json-hot", "iterencode@json/encoder.py < copy < handle"},
		{measure.RuntimeCPython, "logging-hot", "emit@logging/handlers.py < handle"},
	} {
		lines := []string{
			fmt.Sprintf("at-line profile cpu nanoseconds %.0f %s", .4*4e9, c.stack),
			fmt.Sprintf("at-line profile cpu nanoseconds %.0f %s", .6*4e9, "handle"),
		}
		if d := ofRuntime(t, c.runtime, "", lines...); d.found(c.rule) == nil {
			t.Errorf("%s: found %v", c.stack, names(d))
		}
	}
}

// Middleware that writes a log calls the handler, whose work is not logging.
func TestWhatALoggersMiddlewareCallsIsNotLogging(t *testing.T) {
	for _, c := range []struct{ runtime, rule, stack string }{
		{measure.RuntimeNode, "json-hot", "v8::internal::JsonParser::ParseJsonValue < load@shop/main.js < " +
			"next@express/router.js < logger@morgan/index.js < handle@shop/main.js"},
		{measure.RuntimeNode, "logging-hot", "write@shop/main.js < logRequest@morgan/index.js"},
		{measure.RuntimeCPython, "json-hot", "iterencode@json/encoder.py < page@shop/main.py < " +
			"catch_wrapper@loguru/_logger.py"},
		{measure.RuntimeCPython, "logging-hot", "_log@loguru/_logger.py < page@shop/main.py < " +
			"catch_wrapper@loguru/_logger.py"},
		{measure.RuntimeGo, "json-hot", "encoding/json.Marshal < main.page < " +
			"github.com/gin-gonic/gin.(*Context).Next < github.com/gin-gonic/gin.LoggerWithConfig.func1 < " +
			"net/http.(*conn).serve"},
		{measure.RuntimeGo, "logging-hot", "fmt.Fprint < " +
			"github.com/gin-gonic/gin.LoggerWithConfig.func1 < net/http.(*conn).serve"},
	} {
		lines := []string{fmt.Sprintf("at-line profile cpu nanoseconds %.0f %s", .8*4e9, c.stack)}
		d := ofRuntime(t, c.runtime, "", lines...)
		for _, rule := range []string{"json-hot", "logging-hot"} {
			if (d.found(rule) != nil) != (rule == c.rule) {
				t.Errorf("%s: found %v", c.stack, names(d))
			}
		}
	}
}

func TestTheCallIsNamedAndNotTheWayToIt(t *testing.T) {
	d := ofRuntime(t, measure.RuntimeNode, "", fmt.Sprintf("at-line profile cpu nanoseconds %.0f %s",
		.6*4e9, "v8::internal::JsonParser::ParseJsonValue@node: < "+
			"v8::internal::JsonParser::ParseJson@node: < v8::internal::Builtin_JsonParse@node: < "+
			"Builtins_CEntry@node: < load@shop/main.js < handle@shop/main.js"))
	f := d.found("json-hot")
	if f == nil || !slices.ContainsFunc(f.Evidence, func(f Fact) bool {
		return f.Value == "v8::internal::JsonParser::ParseJson, 100 % of that"
	}) {
		t.Errorf("found %+v", f)
	}
}

func TestAdviceAboutTheProcessorIsInTheRuntimesOwnTerms(t *testing.T) {
	rules := map[string]bool{}
	for _, r := range Rules() {
		rules[r.Name] = true
	}
	for rule, terms := range ownTerms {
		if !rules[rule] {
			t.Errorf("there is no rule %s", rule)
		}
		for runtime := range terms {
			if _, known := languages[runtime]; !known && runtime != measure.RuntimeC {
				t.Errorf("%s: there is no runtime %s", rule, runtime)
			}
		}
	}
	for runtime, stack := range map[string]string{
		measure.RuntimeGo:      "encoding/json.Marshal < main.handle < net/http.(*conn).serve",
		measure.RuntimeNode:    "v8::internal::JsonParser::ParseJsonValue < copy < handle",
		measure.RuntimeCPython: "iterencode@json/encoder.py < copy < handle",
	} {
		d := ofRuntime(t, runtime, "",
			fmt.Sprintf("at-line profile cpu nanoseconds %.0f %s", .5*4e9, stack))
		f := d.found("json-hot")
		for other, terms := range ownTerms["json-hot"] {
			if f == nil || f.says(terms.Text) != (other == runtime) {
				t.Errorf("%s is advised for %s: %+v", runtime, other, f)
			}
		}
	}
}

func TestTablesThatAreMadeForEachRequestAreWaste(t *testing.T) {
	d := diagnosed(t,
		fmt.Sprintf("at-line profile cpu nanoseconds %.0f %s", .6*4e9,
			"hash/crc32.simplePopulateTable < hash/crc32.MakeTable < main.read < main.handle"),
		fmt.Sprintf("at-line profile cpu nanoseconds %.0f %s", .4*4e9, "main.handle"))
	f := d.found("cpu-hot-function")
	if f == nil || !f.says("tables that are made each time") ||
		!f.says("once, when the program starts") {
		t.Errorf("found %v, held back %+v", names(d), d.HeldBack)
	}
}

func TestAnOnlyThreadIsNotTakenForASmallPool(t *testing.T) {
	pool := "target.outgoing.to.127.0.0.1:7000 = 5"
	lines := slices.Concat(stuck, []string{
		"all target.outgoing.established = 5", "all " + pool, "at-line service 12ms",
		"over goodput 1100",
	})
	used := func(by string) []string {
		return append(lines[:len(lines):len(lines)], "at-line "+by+" += .6", "over "+by+" += .7")
	}
	if d := diagnosed(t, used(redis)...); d.found("concurrency-limited") != nil ||
		d.found("slow-dependency") == nil {
		t.Errorf("found %v", names(d))
	}
	other := strings.ReplaceAll(redis, "redis-server", "inventory")
	if d := diagnosed(t, used(other)...); d.found("concurrency-limited") == nil {
		t.Errorf("found %v", names(d))
	}
}

func TestFewAnswersThatAreWaitedForAtOnceAreALimitOfTheServiceItself(t *testing.T) {
	lines := slices.Concat(stuck, []string{
		"all target.outgoing.established = 48", "all target.outgoing.to.127.0.0.1:7000 = 48",
		"at-line service 12ms", "over goodput 1100",
	})
	waiting := "target.outgoing.waiting.127.0.0.1:7000 = "
	f := diagnosed(t, append(lines[:len(lines):len(lines)], "half "+waiting+"2", "at-line "+waiting+"5",
		"over "+waiting+"5")...).found("concurrency-limited")
	if f == nil || !f.says("127.0.0.1:7000 is asked for 5 at a time") || !f.says("a lock that is held") {
		t.Errorf("found %+v", f)
	}
	// All requests that are under way wait there.
	d := diagnosed(t, append(lines[:len(lines):len(lines)], "half "+waiting+"2", "at-line "+waiting+"12",
		"over "+waiting+"48")...)
	if d.found("concurrency-limited") != nil {
		t.Errorf("found %v", names(d))
	}
	// How many are awaited differs as much as a number of requests that nothing bounds.
	many := append(lines, "all service 30ms", "half service 30ms", "at-line service 150ms",
		"over service 250ms", "all target.outgoing.to.127.0.0.1:7000 = 198")
	const bound = "is asked for 48 at a time"
	for over, want := range map[string]bool{"40 to 48": true, "18 to 48": false} {
		d := diagnosed(t, append(many, "all "+waiting+"20", "at-line "+waiting+over, "over "+waiting+over)...)
		if f := d.found("concurrency-limited"); (f != nil && f.says(bound)) != want {
			t.Errorf("%s of them: found %v: %+v", over, names(d), f)
		}
	}
}

func TestWhoClosesItsClientsConnectionsIsAdvisedInItsOwnWords(t *testing.T) {
	closes := []string{
		"at-line connections 1000", "all listener.connections.time_wait = 5000",
		"all listener.clients.time_wait = 0",
	}
	for server, words := range map[string][]string{
		"haproxy": {"haproxy closes", "httpclose"}, "nginx": {"nginx closes", "keepalive_requests"},
		"": {"The service closes", "no Connection: close"},
	} {
		f := ofRuntime(t, measure.RuntimeC, server, closes...).found("client-connections-closed")
		if f == nil || !f.says(words[0]) || !f.says(words[1]) {
			t.Errorf("%q is advised %+v", server, f)
		}
	}
}

func TestPortsThatRunOutAreTowardsWhatTheServiceAsks(t *testing.T) {
	f := diagnosed(t, "all host.cpu.busy_seconds += .4", "all target.cpu.seconds += .2",
		"at-line host.tcp.ports_used = 480", "all host.tcp.ports = 500",
		"all target.outgoing.established = 5", "all target.outgoing.to.192.0.2.7:80 = 5",
	).found("ports-exhausted")
	if f == nil || !f.says("192.0.2.7:80") || !f.says("one client or pool") {
		t.Errorf("%+v", f)
	}
}

func TestAJavaFunctionsPackageEndsWhereItsClassBegins(t *testing.T) {
	for f, want := range map[profile.Frame]string{
		{Function: "java.util.regex.Pattern.compile", File: "regex/Pattern.java"}: "java.util.regex",
		{Function: "Main.lambda$serve$0", File: "Main.java"}:                      "",
		{Function: "encoding/json.(*Encoder).Encode", File: "json/stream.go"}:     "encoding/json",
	} {
		if got := packageIn(f); got != want {
			t.Errorf("%q is of %q, want %q", f.Function, got, want)
		}
	}
}

func TestEveryKindOfWasteAndEveryClassHasABitOfItsOwn(t *testing.T) {
	const bits = 64 // of an index
	if len(wastes) > bits || len(classes) > bits {
		t.Errorf("%d kinds of waste and %d classes do not fit into %d bits", len(wastes), len(classes),
			bits)
	}
	seen := map[string]bool{}
	for _, w := range wastes {
		if seen[w.what] {
			t.Errorf("%q is listed twice, and its bit is found by that", w.what)
		}
		seen[w.what] = true
	}
}

// V8 keeps what it has made of a text, so that most of the time is that of making the text.
func TestFunctionsThatAreMadeFromTextAreAWasteInSmallShares(t *testing.T) {
	for share, found := range map[float64]bool{.12: true, .08: false} {
		f := ofRuntime(t, measure.RuntimeNode, "",
			fmt.Sprintf("at-line profile cpu nanoseconds %.0f v8::internal::Builtin_FunctionConstructor"+
				" < check@shop/main.js", share*4e9),
			fmt.Sprintf("at-line profile cpu nanoseconds %.0f page@shop/main.js", (1-share)*4e9),
		).found("cpu-hot-function")
		if is := f != nil && f.says("made from text"); is != found {
			t.Errorf("%v of the time: found %+v", share, f)
		}
	}
}
