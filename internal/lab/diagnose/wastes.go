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
		what:      "exceptions whose stacks are written down",
		functions: []string{"java.lang.Throwable.fillInStackTrace", "java.lang.Throwable.<init>"},
	},
	{
		what: "strings that are put together piece by piece", functions: []string{
			"runtime.concatstrings",
		},
	},
	{what: "slices that grow piece by piece", functions: []string{"runtime.growslice"}},
}

// in says that the waste is under way in a stack.
func (w *waste) in(stack []profile.Frame) bool {
	return slices.ContainsFunc(stack, func(f profile.Frame) bool {
		does := func(n string) bool { return fits(f.Function, n) }
		stands := func(n string) bool { return strings.HasSuffix("/"+f.File, "/"+n) }
		return slices.ContainsFunc(w.functions, does) || slices.ContainsFunc(w.files, stands)
	})
}
