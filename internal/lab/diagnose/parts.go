package diagnose

import (
	"slices"

	"plimsoll/internal/lab/profile"
)

// The tables here are of libraries whose files do more than one kind of work, so that only some of
// their functions say which: by the file or the package, the functions' own names.

// parsesTemplates are functions that parse and compile templates. Their files render too, and each
// stack of a service that renders what it has compiled once has a frame of them.
var parsesTemplates = map[string][]string{
	"template/base.py": {
		"parse", "tokenize", "compile_nodelist", "compile_filter", "create_token",
		"split_contents", "_tag_re_split", "_parse",
	},
	"tornado/template.py": {
		"_parse", "_generate_python", "_create_template", "_format_code", "__init__",
	},
	"chameleon/template.py":   {"cook", "_cook", "parse", "_compile"},
	"zpt/template.py":         {"parse"},
	"lib/ejs.js":              ejsCompiles,
	"node_modules/ejs":        ejsCompiles,
	"mustache/mustache.js":    mustacheParses,
	"node_modules/mustache":   mustacheParses,
	"lib/twig.js":             {"tokenize", "compile", "prepare"},
	"node_modules/twig":       {"tokenize", "compile", "prepare"},
	"dist/liquid.node.cjs.js": liquidParses,
	"node_modules/liquidjs":   liquidParses,
	"dot/doT.js":              {"template", "resolveDefs", "unescape"},
	"lib/erb.rb":              {"initialize"},
	"erb.rb":                  {"initialize"},
	"lib/erubi.rb":            {"initialize"},
	"tilt/template.rb":        {"initialize", "compile_template_method"},
}

var (
	ejsCompiles    = []string{"compile", "generateSource", "parseTemplateText", "scanLine"}
	mustacheParses = []string{"parseTemplate", "parse", "nestTokens", "squashTokens"}
	liquidParses   = []string{
		"parseTokens", "parseToken", "readTopLevelTokens", "readTopLevelToken",
	}
)

// makesSchemas are functions that make a schema. What checks data by it is in the same packages.
var makesSchemas = map[string][]string{
	"node_modules/joi":       joiMakes,
	"node_modules/@hapi/joi": joiMakes,
	"node_modules/yup": {
		"Schema", "BaseSchema", "ObjectSchema", "StringSchema", "NumberSchema", "BooleanSchema",
		"ArraySchema", "DateSchema", "MixedSchema", "TupleSchema", "shape", "sortFields",
		"createValidation", "of", "required", "notRequired", "optional", "nullable",
		"nonNullable", "defined", "min", "max", "length", "matches", "email", "oneOf",
		"positive", "integer", "pick", "omit",
	},
	"node_modules/zod":    {"ZodType", "create", "processCreateParams", "generateFastpass"},
	"classic/schemas.js":  zodMakes,
	"classic/schemas.cjs": zodMakes,
}

var (
	joiMakes = []string{
		"generate", "method", "$_addRule", "$_setFlag", "$_mutateRegister", "$_mutateRebuild",
		"_values",
	}
	zodMakes = []string{
		"object", "strictObject", "looseObject", "string", "number", "boolean", "array", "tuple",
		"optional", "nullable", "union", "record", "literal", "date", "email", "uuid", "_enum",
		"_default", "check", "min", "max", "length", "regex", "refine",
	}
)

// searchesModules are the functions of Python's import that look for a module and read it. Those
// that run it are not here: a service may be started by an import, which is at the root of each of
// its stacks then.
var searchesModules = func() map[string][]string {
	external := []string{
		"find_spec", "_get_spec", "_path_stat", "_path_isfile", "_path_isdir",
		"_path_is_mode_type", "_path_importer_cache", "_path_hooks", "path_hook_for_FileFinder",
		"_fill_cache", "path_stats", "get_code", "get_data", "source_to_code",
		"_compile_bytecode", "_classify_pyc", "_validate_timestamp_pyc", "cache_from_source",
		"_cache_bytecode", "spec_from_file_location",
	}
	inner := []string{"_find_spec", "find_spec"}
	return map[string][]string{
		importsExternal:                    external,
		"importlib/_bootstrap_external.py": external,
		importsInner:                       inner,
		"importlib/_bootstrap.py":          inner,
	}
}()

// The files of Python's import, which are compiled into the interpreter.
const (
	importsExternal = "<frozen importlib._bootstrap_external>"
	importsInner    = "<frozen importlib._bootstrap>"
)

// imports reports whether a stack is in Python's import itself, and not in what was imported: the
// service's code that is nearest to the end of the stack has called for it.
func imports(stack []profile.Frame) bool {
	own := slices.IndexFunc(stack, profile.User)
	return own > 0 && slices.ContainsFunc(stack[:own], func(f profile.Frame) bool {
		return f.File == importsExternal || f.File == importsInner
	})
}

// mapsRows are functions of mappers that make objects of rows, and what is sent of the objects.
var mapsRows = map[string][]string{
	"node_modules/mongoose": {
		"Document", "$__buildDoc", "$__init", "createModel", "$toObject", "toObject", "toJSON",
		"$__toObjectShallow", "applyGetters",
	},
	"node_modules/sequelize": {"build", "bulkBuild", "_initValues", "_groupJoinData"},
	// Django and SQLAlchemy.
	"models/base.py": {"from_db"},
	"orm/loading.py": {"_instance", "_populate_full", "load_scalar_attributes"},
}

// goesThroughRows are functions of pandas that make an object of each row of a table.
var goesThroughRows = map[string][]string{
	"core/frame.py": {"iterrows"},
	"core/apply.py": {"apply_standard", "apply_series_generator"},
}

// readsTables are functions of databases within the process that go from row to row of a table, or
// try a condition on a row. A row that an index finds costs little time in them.
var readsTables = []string{
	"org.h2.mvstore.db.MVPrimaryIndex$MVStoreCursor.", "org.h2.command.query.Select.isConditionMet",
	"org.h2.table.TableFilter.isOk", "org.apache.derby.impl.store.access.heap.HeapScan.",
	"org.hsqldb.RangeVariable$RangeIteratorMain.findNext",
}

// findsFiles are functions of Python's library that look up, make and remove files. What reads and
// copies their content is in the same modules.
var findsFiles = func() map[string][]string {
	walks := []string{"walk", "_walk", "fwalk", "_fwalk", "makedirs", "removedirs", "renames"}
	resolves := []string{"realpath", "_joinrealpath", "lexists", "islink", "ismount"}
	return map[string][]string{
		"node:fs":            nodeFinds,
		"os.py":              walks,
		"<frozen os>":        walks,
		"posixpath.py":       resolves,
		"<frozen posixpath>": resolves,
		"tempfile.py": {
			"mkstemp", "mkdtemp", "mktemp", "_mkstemp_inner", "NamedTemporaryFile",
			"TemporaryFile", "gettempdir", "_get_default_tempdir", "cleanup", "_cleanup",
			"_rmtree",
		},
		"shutil.py": {
			"copymode", "copystat", "copytree", "_copytree", "rmtree", "_rmtree_safe_fd",
			"_rmtree_unsafe", "move", "which", "disk_usage",
		},
	}
}()

// nodeFinds are the functions of Node's fs that look up, open and read files. Lines of a log are written
// by others.
var nodeFinds = []string{
	"open", "openSync", "readFile", "readFileSync", "tryReadSync", "tryCreateBuffer", "readSync", "read",
	"readFileHandle", "readFileAfterOpen", "readFileAfterStat", "readFileAfterRead", "readFileAfterClose",
	"readdir", "readdirSync", "stat", "statSync", "lstat", "lstatSync", "fstat", "fstatSync",
	"tryStatSync", "isFileType", "existsSync", "exists", "access", "accessSync", "realpath",
	"realpathSync", "close", "closeSync", "opendir", "opendirSync", "mkdir", "mkdirSync", "unlink",
	"unlinkSync", "rename", "renameSync", "rm", "rmSync", "copyFile", "copyFileSync", "readlink",
	"readlinkSync", "writeFile", "writeFileSync", "appendFile", "appendFileSync", "mkdtemp",
	"mkdtempSync", "utimes", "utimesSync", "chmod", "chmodSync", "symlink", "symlinkSync",
	"makeStatsCallback",
}

// looksUpForWaste reports whether a stack that looks up files does so for work that could be done
// once, such as to import modules or to read certificates. That says more of what to change.
func looksUpForWaste(stack []profile.Frame) bool {
	seen := wasteIndex.among(stack)
	for i := range wholeWastes {
		w := &wholeWastes[i]
		if !w.common && (seen&(1<<i) != 0 || w.is != nil && w.is(stack)) {
			return true
		}
	}
	return false
}
