package diagnose

import (
	"strings"
	"testing"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// stackOf makes a stack of "FUNCTION@FILE < … < ROOT". A package stands before its file:
// "node_modules/zod:lib/types.js".
func stackOf(text string) (stack []profile.Frame) {
	for frame := range strings.SplitSeq(text, " < ") {
		name, file, _ := strings.Cut(frame, "@")
		of, in, packed := strings.Cut(file, ":")
		if !packed {
			of, in = "", file
		}
		stack = append(stack, profile.Frame{Function: name, File: in, Package: of})
	}
	return stack
}

// tryStacks compares what is known of stacks. An empty waste says that there is none.
func tryStacks(t *testing.T, all []struct{ stack, class, waste string }) {
	t.Helper()
	for _, c := range all {
		stack := stackOf(c.stack)
		if got := classOf(stack); got != c.class {
			t.Errorf("%s is %s, and not %s", c.stack, got, c.class)
		}
		w := wasteOf(stack)
		if c.waste == "" && w != nil {
			t.Errorf("%s is %q", c.stack, w.what)
		}
		if c.waste != "" && (w == nil || !strings.Contains(w.what, c.waste)) {
			t.Errorf("%s is %v, and not %q", c.stack, w, c.waste)
		}
	}
}

func TestRenderingATemplateIsNotParsingIt(t *testing.T) {
	const parsed = "templates that are parsed"
	tryStacks(t, []struct{ stack, class, waste string }{
		{"resolve@template/base.py < render@template/base.py < " +
			"show@app/views.py", classRuntime, ""},
		{"Lexer.tokenize@template/base.py < Template.compile_nodelist@template/base.py < " +
			"show@app/views.py",
			classOwn, parsed},
		{"match@re/__init__.py < split_contents@template/base.py < parse@template/base.py < " +
			"show@app/views.py", classRuntime, parsed},
		{"convert@markdown/core.py < render@template/base.py < show@app/views.py", classRuntime,
			"documents that are parsed"},
		{"generate@tornado/template.py < get@app/main.py", classRuntime, ""},
		{"_parse@tornado/template.py < __init__@tornado/template.py < " +
			"get@app/main.py", classRuntime,
			parsed},
		{"deepcopy@copy.py < generate@tornado/template.py < " +
			"get@app/main.py", classRuntime, "copied"},
		{"render@chameleon/template.py < list@app/views.py", classRuntime, ""},
		{"visit@chameleon/compiler.py < cook@chameleon/template.py < " +
			"list@app/views.py", classRuntime,
			parsed},
		{"returnedFn@lib/ejs.js < show@app/server.js", classRuntime, ""},
		{"scanLine@lib/ejs.js < compile@lib/ejs.js < show@app/server.js", classRuntime, parsed},
		{"generateSource@node_modules/ejs:cjs/ejs.js < show@app/server.js", classRuntime, parsed},
		{"renderTokens@mustache/mustache.js < render@mustache/mustache.js < show@app/server.js",
			classRuntime, ""},
		{"parseTemplate@mustache/mustache.js < show@app/server.js", classRuntime, parsed},
		{"Twig.expression.parse@lib/twig.js < show@app/server.js", classOwn, ""},
		{"Twig.tokenize@lib/twig.js < show@app/server.js", classOwn, parsed},
		{"render@node_modules/liquidjs:dist/liquid.node.js < show@app/server.js", classRuntime, ""},
		{"readTopLevelTokens@node_modules/liquidjs:dist/liquid.node.js < show@app/server.js",
			classRuntime, parsed},
		{"encodeHTML@dot/doT.js < show@app/server.js", classRuntime, ""},
		{"doT.template@dot/doT.js < show@app/server.js", classOwn, parsed},
		{"render@tilt/template.rb < show@app/ships.rb", classRuntime, ""},
		{"compile_template_method@tilt/template.rb < show@app/ships.rb", classRuntime, parsed},
		{"org.apache.velocity.runtime.parser.node.ASTReference.render@node/ASTReference.java < " +
			"a.Ships.show@a/Ships.java", classOwn, ""},
		{"org.apache.velocity.runtime.parser.StandardParser.process@parser/StandardParser.java < " +
			"a.Ships.show@a/Ships.java", classOwn, parsed},
		{"com.github.jknack.handlebars.internal.Block.merge@internal/Block.java < " +
			"a.Ships.show@a/Ships.java",
			classOwn, ""},
		{"com.github.jknack.handlebars.internal.HbsParser.body@internal/HbsParser.java < " +
			"a.Ships.show@a/Ships.java", classOwn, parsed},
	})
}

func TestGosOwnLibraryIsKnownByWhatItDoes(t *testing.T) {
	tryStacks(t, []struct{ stack, class, waste string }{
		{"regexp.(*Regexp).tryBacktrack < regexp.(*Regexp).backtrack < " +
			"regexp.(*Regexp).doExecute < " +
			"regexp.(*Regexp).MatchString < main.route < " +
			"runtime.main", classOwn, "many regular expressions"},
		{"regexp.(*Regexp).doOnePass < regexp.MatchString < main.route < runtime.main", classOwn,
			"compiled each time"},
		{"sort.insertionSort_func < sort.Slice < main.list < " +
			"runtime.main", classOwn, "sorted as a whole"},
		{"slices.partitionCmpFunc < slices.pdqsortCmpFunc < slices.SortFunc < main.list < " +
			"runtime.main",
			classOwn, "sorted as a whole"},
		{"sort.Search < main.find < runtime.main", classOwn, ""},
		{"slices.BinarySearchFunc < main.find < runtime.main", classOwn, ""},
		{"time.parse < time.Parse < main.due < runtime.main", classOwn, "by a format"},
		{"time.Time.appendFormat < time.Time.Format < main.due < " +
			"runtime.main", classOwn, "by a format"},
		{"time.Now < main.due < runtime.main", classOwn, ""},
		{"time.Time.Sub < main.due < runtime.main", classOwn, ""},
		{"reflect.Value.SetUint < encoding/binary.(*decoder).value < encoding/binary.Read < " +
			"main.unpack < " +
			"runtime.main", classReflection, ""},
		{"encoding/binary.(*encoder).value < encoding/binary.Write < main.pack < runtime.main",
			classReflection, ""},
		{"encoding/binary.bigEndian.Uint32 < main.unpack < runtime.main", classOwn, ""},
		{"encoding/binary.decodeFast < encoding/binary.Read < main.unpack < " +
			"runtime.main", classOwn, ""},
		{"reflect.Value.Field < encoding/xml.(*Decoder).unmarshal < main.read < " +
			"runtime.main", classOwn,
			"XML"},
	})
}

// Matching and sorting are also what some services are there for.
func TestMatchingAndSortingAreWastesOnlyIfTheyAreMostOfTheWork(t *testing.T) {
	for stack, says := range map[string]string{
		"regexp.(*Regexp).doExecute < regexp.(*Regexp).MatchString < " +
			"main.route": "many regular expressions",
		"sort.insertionSort_func < sort.Slice < " +
			"main.route": "sorted as a whole",
	} {
		for share, found := range map[string]bool{"2600000000": true, "2000000000": false} {
			d := diagnosed(t, "at-line profile cpu nanoseconds "+share+" "+stack+" < "+
				"net/http.(*conn).serve",
				"at-line profile cpu nanoseconds 1400000000 net/http.(*conn).serve")
			f := d.found("cpu-hot-function")
			if (f != nil && f.says(says) && f.says("main.route")) != found {
				t.Errorf("%s of %s: found %v, held back %+v", share, stack, names(d), d.HeldBack)
			}
		}
	}
}

func TestModulesOfPythonWithoutSymbolsAreKnownByTheirNames(t *testing.T) {
	const tail = "-312-x86_64-linux-gnu.so] < show@app/views.py"
	tryStacks(t, []struct{ stack, class, waste string }{
		{"[_json.cpython" + tail, classJSON, ""},
		{"[orjson.cpython" + tail, classJSON, ""},
		{"[ujson.cpython" + tail, classJSON, ""},
		{"[rapidjson.cpython" + tail, classJSON, ""},
		{"[_pickle.cpython" + tail, classRuntime, "written down and read again"},
		{"[_bcrypt.abi3.so] < login@app/views.py", classRuntime, "stretched"},
		{"[_yaml.cpython" + tail, classRuntime, "YAML"},
		{"[_brotli.cpython" + tail, classRuntime, "compressed"},
		{"[_regex.cpython" + tail, classRuntime, "regular expressions"},
		{"[_struct.cpython" + tail, classRuntime, ""},
		{"[_asyncio.cpython" + tail, classRuntime, ""},
	})
	for name, does := range map[string]string{
		"[_json.cpython-312-x86_64-linux-gnu.so]":    "JSON",
		"[_pickle.cpython-312-x86_64-linux-gnu.so]":  serializes,
		"[_asyncio.cpython-312-x86_64-linux-gnu.so]": "",
	} {
		if got := binaryOf(profile.Frame{Function: name}); got != does {
			t.Errorf("%s is for %q, and not %q", name, got, does)
		}
	}
}

// Sessions and caches are written down by pickle in honest services, too.
func TestPickleIsAWasteOnlyIfItTakesMuch(t *testing.T) {
	for share, found := range map[string]bool{"8": true, "5": false} {
		d := ofRuntime(t, measure.RuntimeCPython, "",
			"at-line profile cpu nanoseconds "+share+"00000000 "+
				"[_pickle.cpython-312-x86_64-linux-gnu.so] < share@app/views.py",
			"at-line profile cpu nanoseconds 1000000000 wait@app/loop.py")
		f := d.found("cpu-hot-function")
		if (f != nil && f.says("written down and read again")) != found {
			t.Errorf("%s: found %v, held back %+v", share, names(d), d.HeldBack)
		}
	}
}

func TestPathsThatPythonLooksUpAreFiles(t *testing.T) {
	const bootstrap = "@<frozen importlib._bootstrap>"
	const external = "@<frozen importlib._bootstrap_external>"
	const started = " < exec_module" + external + " < _load_unlocked" + bootstrap + " < " +
		"main@app/run.py"
	tryStacks(t, []struct{ stack, class, waste string }{
		{"stat@pathlib.py < exists@pathlib.py < show@app/views.py", classFiles, ""},
		{"Path.exists@pathlib/_local.py < show@app/views.py", classFiles, ""},
		{"isfile@<frozen genericpath> < show@app/views.py", classFiles, ""},
		{"exists@genericpath.py < show@app/views.py", classFiles, ""},
		{"walk@<frozen os> < show@app/views.py", classFiles, ""},
		{"getenv@<frozen os> < show@app/views.py", classRuntime, ""},
		{"_joinrealpath@<frozen posixpath> < realpath@<frozen posixpath> < show@app/views.py",
			classFiles, ""},
		{"join@<frozen posixpath> < show@app/views.py", classRuntime, ""},
		{"mkstemp@tempfile.py < show@app/views.py", classFiles, ""},
		{"rmtree@shutil.py < show@app/views.py", classFiles, ""},
		{"copyfileobj@shutil.py < show@app/views.py", classRuntime, ""},
		{"_path_stat" + external + " < find_spec" + external + " < _find_spec" + bootstrap +
			" < main.show@app/views.py", classOwn, "looked up each time"},
		{"isfile@<frozen genericpath> < find_spec" + external + " < " +
			"main.show@app/views.py", classOwn,
			"looked up each time"},
		{"stat@pathlib.py < read_text@metadata/__init__.py < main.show@app/views.py", classOwn,
			"looked up each time"},
		{"_handle_fromlist" + bootstrap + " < " +
			"main.show@app/views.py", classOwn, "looked up each time"},
		{"main.show@app/views.py < main.serve@app/server.py" + started, classOwn, ""},
		{"compute@math < main.show@app/views.py" + started, classOwn, ""},
		{"exists@genericpath.py < main.show@app/views.py" + started, classFiles, ""},
		{"path_openat < do_sys_openat2 < get_data" + external + " < " +
			"main.show@app/views.py", classOwn,
			"looked up each time"},
		{"path_openat < do_sys_openat2 < main.show@app/views.py", classFiles, ""},
		{"os.Open < os.ReadFile < crypto/x509.loadSystemRoots < main.call < runtime.main", classOwn,
			"certificates"},
		{"os.Open < os.ReadFile < main.call < runtime.main", classFiles, ""},
	})
	// Who imports is told, and not who was imported.
	stack := stackOf("_path_stat" + external + " < find_spec" + external +
		" < main.show@app/views.py" + started)
	if at, _ := wasteOf(stack).has(stack); at.Function != "main.show" {
		t.Errorf("it is caused by %s", at.Function)
	}
}

func TestLibrariesOfNodeAreKnownByWhatTheyDo(t *testing.T) {
	tryStacks(t, []struct{ stack, class, waste string }{
		{"Blowfish_encipher < Blowfish_expand0state < bcrypt", classRuntime, "stretched"},
		{"$__init@node_modules/mongoose:lib/document.js < list@app/server.js", classRuntime,
			"objects of a mapper"},
		{"exec@node_modules/mongoose:lib/query.js < list@app/server.js", classRuntime, ""},
		{"_initValues@node_modules/sequelize:lib/model.js < list@app/server.js", classRuntime,
			"objects of a mapper"},
		{"selectQuery@node_modules/sequelize:abstract/query-generator.js < list@app/server.js",
			classRuntime, ""},
		{"transformColumns@transformer/RawSqlResultsToEntityTransformer.js < list@app/server.js",
			classRuntime, "objects of a mapper"},
		{"method@node_modules/joi:types/string.js < show@app/server.js", classRuntime, "schemas"},
		{"validate@node_modules/joi:lib/validator.js < show@app/server.js", classRuntime, ""},
		{"ObjectSchema@node_modules/yup:yup/index.js < " +
			"show@app/server.js", classRuntime, "schemas"},
		{"clone@node_modules/yup:yup/index.js < required@node_modules/yup:yup/index.js < " +
			"show@app/server.js", classRuntime, "schemas"},
		{"_validate@node_modules/yup:yup/index.js < show@app/server.js", classRuntime, ""},
		{"ZodType@node_modules/zod:lib/types.js < show@app/server.js", classRuntime, "schemas"},
		{"object@node_modules/zod:classic/schemas.js < " +
			"show@app/server.js", classRuntime, "schemas"},
		{"_parse@node_modules/zod:lib/types.js < show@app/server.js", classRuntime, ""},
		{"transform@node_modules/class-transformer:cjs/TransformOperationExecutor.js < " +
			"app.show@app/server.js",
			classReflection, ""},
		{"getOwnMetadata@node_modules/reflect-metadata:reflect-metadata/Reflect.js < " +
			"app.show@app/server.js",
			classReflection, ""},
		{"app.copy@app/server.js < " +
			"transform@node_modules/class-transformer:cjs/TransformOperationExecutor.js < " +
			"app.show@app/server.js", classOwn, ""},
	})
}

func TestListsAndTablesOfJavaThatAreLookedThrough(t *testing.T) {
	const lists = "looked through for each element"
	const tables = "tables that are read through"
	const own = " < a.Ships.find@a/Ships.java"
	const query = " < org.h2.command.query.Select.query@query/Select.java < " +
		"org.h2.jdbc.JdbcPreparedStatement.executeQuery@jdbc/JdbcPreparedStatement.java" + own
	tryStacks(t, []struct{ stack, class, waste string }{
		{"java.util.Arrays$ArrayList.indexOf@util/Arrays.java" + own, classOwn, lists},
		{"java.util.ArrayDeque.contains@util/ArrayDeque.java" + own, classOwn, lists},
		{"java.util.ArrayDeque.addLast@util/ArrayDeque.java" + own, classOwn, ""},
		{"java.util.concurrent.ConcurrentLinkedQueue.size@concurrent/Queue.java" + own,
			classOwn, lists},
		{"java.util.concurrent.ConcurrentLinkedQueue.poll@concurrent/Queue.java" + own,
			classOwn, ""},
		{"org.h2.mvstore.Cursor.next@mvstore/Cursor.java < " +
			"org.h2.mvstore.db.MVPrimaryIndex$MVStoreCursor.next@db/MVPrimaryIndex.java" + query,
			classOwn, tables},
		{"org.h2.mvstore.MVMap.get@mvstore/MVMap.java < " +
			"org.h2.mvstore.db.MVPrimaryIndex.getRow@db/MVPrimaryIndex.java" + query, classOwn, ""},
		{"org.h2.command.Parser.parse@command/Parser.java" + query, classOwn, ""},
		{"org.apache.derby.impl.store.access.heap.HeapScan.fetchNextGroup@heap/HeapScan.java" + own,
			classOwn, tables},
		{"org.hsqldb.RangeVariable$RangeIteratorMain.findNext@hsqldb/RangeVariable.java" + own,
			classOwn, tables},
	})
	// The service asks the database, whose packages are one library.
	stack := stackOf("org.h2.mvstore.db.MVPrimaryIndex$MVStoreCursor.next" +
		"@db/MVPrimaryIndex.java" + query)
	if at, _ := wasteOf(stack).has(stack); at.Function != "a.Ships.find" {
		t.Errorf("it is caused by %s", at.Function)
	}
}

// A function's file is distinguished by what profiles keep of it.
func TestFilesOfPartsHaveNoMorePartsThanProfilesKeep(t *testing.T) {
	for _, parts := range []map[string][]string{
		parsesTemplates, makesSchemas, searchesModules, mapsRows, findsFiles,
	} {
		for name, functions := range parts {
			if strings.Count(name, "/") > 1 && !strings.HasPrefix(name, "node_modules/@") ||
				strings.HasSuffix(name, "/") || len(functions) == 0 {
				t.Errorf("%s is found in no profile", name)
			}
		}
	}
}

func TestWorkWithinAnEncoderIsNotTheEncoders(t *testing.T) {
	const encode = "encoding/json.(*Encoder).Encode < main.page"
	tryStacks(t, []struct{ stack, class, waste string }{
		{"compress/flate.(*compressor).deflate < compress/gzip.(*Writer).Write < " + encode, classOwn,
			"compressed each"},
		{"encoding/json.(*encodeState).marshal < " + encode, classJSON, ""},
		{"java.text.SimpleDateFormat.<init> < shop.Dates.serialize@shop/Dates.java < " +
			"com.fasterxml.jackson.databind.ObjectMapper.writeValueAsString < shop.Main.page@shop/Main.java",
			classOwn, "tables"},
		{"java.lang.StringBuilder.append < shop.Dates.serialize@shop/Dates.java < " +
			"com.fasterxml.jackson.databind.ObjectMapper.writeValueAsString < shop.Main.page@shop/Main.java",
			classJSON, ""},
		{"fmt.Sprintf < main.Money.MarshalJSON < " + encode, classJSON, ""},
	})
}

func TestASearchThatAsksForMoreIsNotWhatCosts(t *testing.T) {
	const search = "java.util.stream.FindOps$FindOp.evaluateSequential < shop.Main.page@shop/Main.java"
	tryStacks(t, []struct{ stack, class, waste string }{
		{"java.lang.String.equals < shop.Main.lambda$0@shop/Main.java < " + search, classOwn, "lists"},
		{"shop.Mark.name@shop/Mark.java < shop.Main.lambda$0@shop/Main.java < " + search, classOwn, "lists"},
		{"shop.Tax.rate@shop/Tax.java < shop.Cart.sum@shop/Cart.java < shop.Main.lambda$0@shop/Main.java < " +
			search, classOwn, ""},
	})
}

func TestWhereAWasteIsIsTheServicesOwn(t *testing.T) {
	for _, c := range []struct{ runtime, stack, at string }{
		{measure.RuntimeJVM, "org.jsoup.parser.Tokeniser.read@parser/Tokeniser.java < " +
			"org.jsoup.Jsoup.parse@jsoup/Jsoup.java < shop.Main.page@shop/Main.java", "shop.Main.page"},
		{measure.RuntimeNode, "parseTemplate@node_modules/mustache:mustache/mustache.js < " +
			"app.view@node_modules/express:lib/view.js < shop.page@shop/main.js", "shop.page"},
	} {
		stack := stackOf(c.stack)
		w := wasteOf(stack)
		if w == nil {
			t.Errorf("%s: no waste", c.stack)
			continue
		}
		if at, _ := w.has(stack); !strings.HasPrefix(at.Function, c.at) {
			t.Errorf("%s: %s", c.stack, at.Function)
		}
	}
}

func TestMoreOfWhatLibrariesDoIsKnown(t *testing.T) {
	const own = " < shop.Main.page@shop/Main.java"
	tryStacks(t, []struct{ stack, class, waste string }{
		{"java.util.TimSort.mergeSort" + own, classOwn, "sorted as a whole"},
		{"java.math.BigDecimal.compareTo < shop.Main.lambda$0@shop/Main.java < java.util.TimSort.sort" + own,
			classOwn, "sorted as a whole"},
		{"java.time.format.DateTimeFormatter.parse" + own, classOwn, "by a format"},
		{"fmt.Fprintf < main.page", classOwn, "by a format"},
		{"golang.org/x/image/draw.(*Kernel).Scale < main.page", classOwn, "scaled"},
		{"from_db@models/base.py < list@shop/views.py", classRuntime, "objects of a mapper"},
		{"iterrows@core/frame.py < list@shop/views.py", classRuntime, "row by row"},
	})
}

func TestLinesThatNodeWritesAreNotFilesThatAreLookedUp(t *testing.T) {
	for function, class := range map[string]string{
		"writeSync": classOwn, "readFileSync": classFiles, "openSync": classFiles, "statSync": classFiles,
	} {
		stack := []profile.Frame{{Function: function, File: "node:fs"}, {Function: "shop.page"}}
		if got := classOf(stack); got != class {
			t.Errorf("%s is %s, and not %s", function, got, class)
		}
	}
}
