package diagnose

import (
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

func TestLibrariesAreKnownByTheKindOfWorkThatTheyDo(t *testing.T) {
	for _, c := range []struct{ stack, class, waste string }{
		{"sonic-boom@sonic-boom/index.js < handle@app/server.js", classLogging, ""},
		{"write@semantic_logger/logger.rb < show@app/ships.rb", classLogging, ""},
		{"io.circe.Printer.print@io/circe/Printer.java < a.Ships.list@a/Ships.java", classJSON, ""},
		{"dumps@json/provider.py < show@app/ships.py", classJSON, ""},
		{"internal/runtime/maps.(*table).rehash < internal/runtime/maps.(*table).grow < main.index < " +
			"runtime.main", classOwn, "tables that grow piece by piece"},
		{"strings.ToLower < main.find < runtime.main", classOwn, "turned into bytes or back"},
		{"java.util.HashMap.resize@java/util/HashMap.java < a.Ships.list@a/Ships.java", classOwn,
			"tables that grow piece by piece"},
		{"github.com/itchyny/gojq.Parse < main.pick < runtime.main", classOwn, "code that is compiled"},
		{"parse@parser/_parser.py < due@app/ships.py", classRuntime, "by a format"},
		{"crypto/rand.Read < main.token < runtime.main", classOwn, "random numbers"},
		{"net.interfaceTable < net.Interfaces < main.host < runtime.main", classOwn, "machine's own"},
		{"compress/flate.(*compressor).deflate < compress/gzip.(*Writer).Write < main.list < runtime.main",
			classOwn, "compressed each time"},
		{"longest_match < deflate_slow < deflate < show@app.c", classRuntime, "compressed each time"},
		{"compress/flate.(*compressor).init < compress/gzip.NewWriterLevel < main.list < runtime.main",
			classOwn, "compressors that are made"},
		{"_nss_files_gethostbyname4_r < gaih_inet < ask@app.c", classRuntime, "names of machines"},
		{"pbkdf2@utils/crypto.py < encode@auth/hashers.py < login@app/views.py", classRuntime,
			"passwords that are stretched"},
		{"com.fasterxml.jackson.databind.introspect.POJOPropertiesCollector.collectAll@introspect/POJO.java < " +
			"com.fasterxml.jackson.databind.ObjectMapper.writeValueAsString@databind/ObjectMapper.java < " +
			"a.Ships.list@a/Ships.java", classJSON, "mappers of JSON"},
		{"prepare_key@jwt/algorithms.py < token@app/views.py", classRuntime, "certificates and keys"},
		{"create_engine@engine/create.py < list@app/views.py", classRuntime, "clients, engines and"},
		{"golang.org/x/crypto/blowfish.ExpandKey < main.login < runtime.main", classOwn,
			"passwords that are stretched"},
	} {
		var stack []profile.Frame
		for frame := range strings.SplitSeq(c.stack, " < ") {
			name, file, _ := strings.Cut(frame, "@")
			stack = append(stack, profile.Frame{Function: name, File: file})
		}
		if got := classOf(stack); got != c.class {
			t.Errorf("%s is %s, and not %s", c.stack, got, c.class)
		}
		if w := wasteOf(stack); c.waste != "" && (w == nil || !strings.Contains(w.what, c.waste)) {
			t.Errorf("%s is %v, and not %q", c.stack, w, c.waste)
		}
	}
}

// Django's compiler runs the statement, and has a file of the same name.
func TestStatementsAreCompiledBySQLAlchemy(t *testing.T) {
	for of, want := range map[string]bool{"site-packages/sqlalchemy": true, "site-packages/django": false} {
		stack := []profile.Frame{
			{Function: "visit_select", File: "sql/compiler.py", Package: of},
			{Function: "list", File: "app/views.py"},
		}
		if w := wasteOf(stack); (w != nil) != want {
			t.Errorf("%s: %+v", of, w)
		}
	}
}

// To look at types is a part of JSON's time, and what to change.
func TestAMapperThatIsMadeEachTimeStandsBeforeJSON(t *testing.T) {
	const write = "com.fasterxml.jackson.databind.ObjectMapper.writeValueAsString@databind/ObjectMapper.java < " +
		"a.Ships.list@a/Ships.java"
	looks := func(share string) []string {
		return []string{
			"at-line profile cpu nanoseconds " + share + "00000000 " +
				"com.fasterxml.jackson.databind.introspect.AnnotatedClass.fields@introspect/A.java < " + write,
			"at-line profile cpu nanoseconds 400000000 " + write,
		}
	}
	for share, first := range map[string]string{"6": "cpu-hot-function", "1": "json-hot"} {
		d := ofRuntime(t, measure.RuntimeJVM, "", looks(share)...)
		if len(d.Findings) == 0 || d.Findings[0].Rule != first {
			t.Errorf("%s of it: found %v, held back %+v", share, names(d), d.HeldBack)
		}
	}
}

func TestWhoMakesTheGarbageStandsBeforeItsCollection(t *testing.T) {
	lines := []string{
		"at-line profile cpu nanoseconds 1000000000 encoding/json.Marshal < main.show < " +
			"net/http.(*conn).serve",
		"at-line profile cpu nanoseconds 1600000000 runtime.scanobject < runtime.gcBgMarkWorker",
		"at-line profile cpu nanoseconds 1400000000 main.show < net/http.(*conn).serve",
		"at-line profile allocs bytes 900000000 encoding/json.Marshal < main.show < " +
			"net/http.(*conn).serve",
		"at-line profile allocs bytes 100000000 main.show < net/http.(*conn).serve",
	}
	// A quarter of the time is below the threshold for JSON, but collecting what it allocates
	// counts too.
	d := diagnosed(t, lines...)
	if len(d.Findings) < 2 || d.Findings[0].Rule != "json-hot" || d.found("gc-heavy") == nil {
		t.Errorf("found %v", names(d))
	}
	d = diagnosed(t, append(lines, "at-line go.gogc_percent = 20")...)
	if len(d.Findings) == 0 || d.Findings[0].Rule != "gc-heavy" {
		t.Errorf("with little room for the heap: found %v", names(d))
	}
}

// A profile keeps the last two parts of a file's path, and its package.
func TestFilesOfLibrariesHaveNoMorePartsThanProfilesKeep(t *testing.T) {
	var all []string
	for _, c := range classes {
		all = append(all, c.files...)
	}
	for _, w := range wastes {
		all = append(all, w.files...)
	}
	for _, name := range all {
		inPackage := strings.HasPrefix(name, "node_modules/@")
		if strings.Count(strings.TrimSuffix(name, "/"), "/") > 1 && !inPackage {
			t.Errorf("%s is found in no profile", name)
		}
	}
}
