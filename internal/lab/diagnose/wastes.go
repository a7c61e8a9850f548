package diagnose

import (
	"slices"
	"strings"

	"plimsoll/internal/lab/profile"
)

// waste is a kind of work that is the same each time, or that another way of writing spares. It is
// known by what of a library does it: by names of functions where these are whole, as in Go and
// Java, and by files where a function's name alone says little.
type waste struct {
	what      string
	functions []string // as fits has them
	files     []string // the last two parts of the path of a file of the library
	// begins is how names of functions begin that stand in its stacks, and searches the names of C
	// functions that stand at the end of them, without what C libraries put around these for the
	// kind of processor: "rawmemchr" for "__rawmemchr_evex".
	begins, searches []string
	is               func(stack []profile.Frame) bool // further stacks; nil for none
	// instead is what to do, where there is more to say than for any waste.
	instead string
}

var wastes = []waste{
	{
		what: "regular expressions that are compiled each time",
		functions: []string{
			"regexp.Compile", "regexp.MustCompile", "regexp.compile", "regexp/syntax.",
			"java.util.regex.Pattern.compile", "java.util.regex.Pattern.<init>",
			"System.Text.RegularExpressions.RegexParser.", "rb_reg_initialize_m",
			"rb_reg_initialize", "onig_new", "regcomp", "pcre_compile", "pcre2_compile_8",
			"v8::internal::RegExpCompiler.",
		},
		files: []string{
			"re/_compiler.py", "re/_parser.py", "sre_compile.py", "sre_parse.py",
		},
	},
	{
		what: "templates that are parsed each time",
		functions: []string{
			"text/template/parse.", "html/template.(*Template).Parse",
			"text/template.(*Template).Parse", "html/template.(*Template).ParseFiles",
			"freemarker.template.Template.<init>", "freemarker.core.FMParser.",
			"org.apache.velocity.runtime.parser.", "org.thymeleaf.templateparser.",
		},
		files: []string{
			"jinja2/parser.py", "jinja2/lexer.py", "jinja2/compiler.py", "mako/lexer.py",
			"template/base.py", "lib/ejs.js", "pug-parser/index.js", "pug-lexer/index.js",
		},
	},
	{
		what: "certificates and keys that are parsed each time",
		functions: []string{
			"crypto/x509.ParseCertificate", "crypto/x509.(*CertPool).AppendCertsFromPEM",
			"crypto/x509.ParsePKCS1PrivateKey", "crypto/x509.ParsePKCS8PrivateKey",
			"crypto/tls.X509KeyPair", "sun.security.x509.X509CertImpl.<init>",
			"java.security.KeyStore.load", "X509_load_cert_crl_file_ex",
			"PEM_X509_INFO_read_bio_ex",
			"X509_STORE_load_locations", "SSL_CTX_load_verify_locations",
		},
	},
	{
		what: "keys that are made each time",
		functions: []string{
			"crypto/rsa.GenerateKey", "crypto/ecdsa.GenerateKey",
			"java.security.KeyPairGenerator.generateKeyPair", "EVP_PKEY_keygen",
		},
	},
	{what: "time zones that are read each time", functions: []string{"time.LoadLocation"}},
	{
		what: "random generators that are seeded each time",
		functions: []string{
			"math/rand.NewSource", "math/rand.(*rngSource).Seed",
			"java.security.SecureRandom.<init>",
		},
	},
	{
		what: "mappers of JSON or XML that are made each time",
		functions: []string{
			"com.fasterxml.jackson.databind.ObjectMapper.<init>", "com.google.gson.Gson.<init>",
			"javax.xml.bind.JAXBContext.newInstance", "jakarta.xml.bind.JAXBContext.newInstance",
			"javax.xml.parsers.DocumentBuilderFactory.newInstance",
		},
	},
	{
		what: "tables that are made each time",
		functions: []string{
			"hash/crc32.MakeTable", "hash/crc32.simpleMakeTable", "hash/crc32.simplePopulateTable",
			"hash/crc32.slicingMakeTable", "hash/crc64.MakeTable", "hash/crc64.makeTable",
			"hash/crc64.makeSlicingBy8Table", "encoding/base64.NewEncoding",
			"encoding/base32.NewEncoding", "strings.NewReplacer", "strings.(*Replacer).build",
			"golang.org/x/text/collate.New", "java.text.Collator.getInstance",
			"java.text.SimpleDateFormat.<init>", "java.time.format.DateTimeFormatter.ofPattern",
		},
		instead: "make the table once, when the program starts, and use it for all requests",
	},
	{
		what: "compressors that are made each time",
		functions: []string{
			"compress/flate.NewWriter", "compress/flate.(*compressor).init",
			"compress/gzip.NewWriterLevel", "github.com/klauspost/compress/zstd.NewWriter",
			"java.util.zip.Deflater.<init>", "deflateInit2_",
		},
		instead: "keep compressors in a pool (sync.Pool), and reset them for each response",
	},
	{
		what:      "exceptions whose stacks are written down",
		functions: []string{"java.lang.Throwable.fillInStackTrace", "java.lang.Throwable.<init>"},
	},
	{
		what: "strings that are put together piece by piece", functions: []string{
			"runtime.concatstrings",
		},
	},
	{what: "slices that grow piece by piece", functions: []string{"runtime.growslice"}},
	{
		what: "keys of a sort that are made again for each comparison",
		is:   makesSortKeys,
		instead: "make the key of each thing once, before they are sorted, and compare the keys; " +
			"or keep them with the things",
	},
	{
		// Engines that can take a time which grows with the square of a text, or faster.
		what: "regular expressions that try again and again what does not match",
		begins: []string{
			"RegExp:", "Builtins_RegExp", "java.util.regex.", "System.Text.RegularExpressions.",
			"pcre2_match", "pcre2_jit_match", "pcre_exec", "sre_ucs", "sre_search", "onig_search",
			"onig_match",
		},
		instead: "leave an expression one way to match: no star inside of a star, no two of them " +
			"that fit the same beside each other, an anchor at its beginning; or use an engine " +
			"that takes a linear time (RE2, Rust's regex), and bound the length of what is matched",
	},
	{
		what: "texts that are looked through again and again for their end or a place in them " +
			"(strlen, memchr, strstr; sscanf and strcat look for the end at each call)",
		searches: []string{
			"rawmemchr", "memchr", "strlen", "strnlen", "strchr", "strchrnul", "strstr",
			"strcasestr",
			"memmem", "wcslen", "strpbrk", "strspn", "strcspn",
		},
		instead: "keep the length of a text, or where it was read to, and go on from there: " +
			"strtoul and strtod in the place of sscanf, stpcpy or a pointer to the end in the " +
			"place of strcat, and no strlen in the condition of a loop",
	},
}

// in says that the waste is under way in a stack.
func (w *waste) in(stack []profile.Frame) bool {
	return slices.ContainsFunc(stack, func(f profile.Frame) bool {
		return isOneOf(f, w.functions, w.begins, w.files)
	}) || len(stack) > 0 && slices.Contains(w.searches, plainName(stack[0].Function)) ||
		w.is != nil && w.is(stack)
}

// sorters are functions of libraries that ask again and again which of two things comes first, and
// comparers are what somebody calls to answer that.
var (
	sorters = []string{
		"sort.Slice", "sort.SliceStable", "sort.Sort", "sort.Stable", "slices.SortFunc",
		"slices.SortStableFunc", "slices.SortedFunc", "slices.SortedStableFunc",
		"java.util.TimSort.", "java.util.ComparableTimSort.", "java.util.Arrays.sort",
		"Builtins_ArrayTimSort", "Builtins_ArrayPrototypeSort", "qsort", "qsort_r",
		"msort_with_tmp",
	}
	comparers = []string{
		"cmp.", "strings.Compare", "strings.EqualFold", "bytes.Compare", "bytes.Equal",
		"bytes.EqualFold", "runtime.memequal", "runtime.cmpstring", "internal/bytealg.",
		"runtime.mapaccess1", "runtime.mapaccess1_faststr", "runtime.mapaccess1_fast64",
		"internal/runtime/maps.", "time.Time.", "math.", "math/big.",
		"java.lang.String.", "java.lang.Integer.", "java.lang.Long.", "java.lang.Double.",
		"java.util.Comparator.", "java.util.Objects.", "memcmp", "strcmp", "strncmp", "strcoll",
	}
)

// makesSortKeys says that a comparison for a sort calls a library to do more than compare: what that
// finds is of one of the two things, and the same in each of their comparisons.
func makesSortKeys(stack []profile.Frame) bool {
	is := func(f profile.Frame, names []string) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			return fits(f.Function, n) || plainName(f.Function) == n
		})
	}
	sort := slices.IndexFunc(stack, func(f profile.Frame) bool { return is(f, sorters) })
	if sort < 0 {
		return false
	}
	own := slices.IndexFunc(stack[:sort], profile.User)
	return own > 0 && !is(stack[own-1], comparers)
}

// plainName is a C function's name without the underscores before it and the kind of processor
// behind.
func plainName(function string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(function, "_"), "_")
	return name
}
