package diagnose

import (
	"slices"

	"plimsoll/internal/lab/profile"
)

// waste is a kind of work that has the same result each time, or that other code would avoid. It is
// known by the library code that does it: by function names if these are complete, as in Go and
// Java, and by files if a function's name alone says little.
type waste struct {
	what      string
	functions []string // as understood by fits
	files     []string // the last two parts of the path of a library file, or a folder of it
	// parts are functions of files that do other work too: by the file, as in files, the functions'
	// own names, without those of their classes.
	parts map[string][]string
	// begins are prefixes of function names anywhere in its stacks. searches are names of C
	// functions at the end of them, without what C libraries add for the kind of processor:
	// "rawmemchr" for "__rawmemchr_evex".
	begins, searches []string
	is               func(stack []profile.Frame) bool // further stacks; may be nil
	// common says that honest work does some of it too. It is a waste only if it takes more time,
	// in one function.
	common bool
	// least is the share of the processor time from which on it is a waste, if that is not the
	// usual one of its sort.
	least float64
	// sorts says that it is a sort, which is not the waste if its comparisons are.
	sorts bool
	// compresses says that a writer of another library may do it.
	compresses bool
	// writesFiles says that lines of a log may be what is written.
	writesFiles bool
	// searchesLists says that it is a search, which may call the service's own code for each element.
	searchesLists bool
	// encodes says that it is also found in stacks of the class JSON, of which it is a part.
	encodes bool
	// asked says that it counts only if the service's own code is seen to cause it. Servers and
	// interpreters also do it for their own work.
	asked bool
	// instead is what to do, if there is more to say than for any waste.
	instead string
	// stays is the share of its time that is likely to be needed after the advice was followed.
	stays float64
}

// wastes in the order in which a stack is compared with them: the first that fits takes the stack.
var wastes = slices.Concat(wholeWastes, commonWastes)

// wholeWastes are work that is done for each request and could be done once, and some of the work
// that is done again and again.
var wholeWastes = []waste{
	{
		what: "regular expressions that are compiled each time",
		functions: []string{
			"regexp.Compile", "regexp.MustCompile", "regexp.compile", "regexp/syntax.",
			"regexp.MatchString", "regexp.Match", "regexp.MatchReader",
			"github.com/dlclark/regexp2.Compile",
			"github.com/dlclark/regexp2/syntax.", "java.util.regex.Pattern.compile",
			"java.util.regex.Pattern.<init>", "com.google.re2j.Pattern.compile",
			"System.Text.RegularExpressions.RegexParser.",
			"System.Text.RegularExpressions.RegexCompiler.", "rb_reg_initialize_m",
			"rb_reg_initialize", "rb_reg_new_str", "rb_reg_regcomp", "onig_new", "regcomp",
			"re_compile_internal", "pcre_compile", "pcre_compile2", "pcre2_compile_8",
		},
		begins: []string{
			"v8::internal::RegExpCompiler", "v8::internal::RegExpImpl::Compile",
			"v8::internal::RegExpParser", "std::__detail::_Compiler",
			"std::__detail::_Scanner", "std::__cxx11::basic_regex",
			"regex_automata::meta::Builder",
			"regex_syntax::", "regex::builders::", "re2::RE2::Init", "re2::Regexp::Parse",
		},
		files: []string{
			"re/_compiler.py", "re/_parser.py", "sre_compile.py", "sre_parse.py",
			"regex/_regex_core.py",
		},
	},
	{
		what: "templates that are parsed each time",
		functions: []string{
			"text/template/parse.", "html/template.(*Template).Parse",
			"text/template.(*Template).Parse", "html/template.(*Template).ParseFiles",
			"html/template.ParseFiles", "html/template.ParseGlob", "html/template.ParseFS",
			"text/template.ParseFiles", "html/template.(*Template).escape",
			"html/template.(*Template).Clone", "html/template.escapeTemplate",
			"freemarker.template.Template.<init>", "freemarker.core.FMParser.",
			"org.apache.velocity.runtime.parser.Parser.",
			"org.apache.velocity.runtime.parser.StandardParser.",
			"org.apache.velocity.runtime.RuntimeInstance.parse", "org.thymeleaf.templateparser.",
			"com.github.mustachejava.MustacheParser.",
			"com.github.jknack.handlebars.internal.HbsParser.",
			"com.github.jknack.handlebars.internal.HbsLexer.",
			"com.github.jknack.handlebars.internal.HbsParserFactory.",
			"com.github.jknack.handlebars.internal.TemplateBuilder.",
			"Scriban.Parsing.",
			"github.com/flosch/pongo2.FromString", "github.com/flosch/pongo2/v6.FromString",
			"github.com/aymerick/raymond.Parse", "github.com/cbroglie/mustache.ParseString",
		},
		files: []string{
			"jinja2/parser.py", "jinja2/lexer.py", "jinja2/compiler.py", "mako/lexer.py",
			"jinja2/nodes.py", "jinja2/visitor.py", "jinja2/optimizer.py", "jinja2/idtracking.py",
			"mako/codegen.py", "mako/parsetree.py", "pug-parser/index.js", "pug-lexer/index.js",
			"pug-code-gen/index.js", "compiler/javascript-compiler.js", "compiler/parser.js",
			"eta/compile.js", "erb/compiler.rb", "slim/parser.rb", "haml/parser.rb",
			"temple/engine.rb", "pystache/parser.py", "genshi/template.py", "src/compiler.js",
			"handlebars/compiler.js", "erubis/converter.rb", "cheetah/Parser.py",
			"liquid/parser.rb", "liquid/lexer.rb",
		},
		parts: parsesTemplates,
	},
	{
		// V8 keeps what it has made of a text, so most of the time is that of making the text.
		what: "functions that are made from text each time (new Function, eval)",
		functions: []string{
			"v8::internal::Builtin_FunctionConstructor", "v8::internal::Compiler::GetFunctionFromEval",
		},
		least: .1,
		instead: "make the function once, and keep it with what it was made for: a schema, a template, " +
			"an expression",
	},
	{
		what: "code that is compiled each time (eval, expressions, schemas, scripts)",
		functions: []string{
			"javax.script.", "org.mozilla.javascript.Context.compileString",
			"org.codehaus.groovy.control.", "groovy.lang.GroovyShell.parse",
			"org.springframework.expression.spel.standard.InternalSpelExpressionParser.",
			"org.mvel2.compiler.", "ognl.OgnlParser.", "com.sun.tools.javac.parser.",
			"com.sun.tools.javac.comp.", "jdk.internal.classfile.",
			"java.lang.ClassLoader.defineClass1", "System.Linq.Expressions.Compiler.",
			"System.Reflection.Emit.", "Microsoft.CodeAnalysis.",
			"System.Xml.Serialization.XmlSerializer..ctor", "github.com/dop251/goja.Compile",
			"github.com/dop251/goja/parser.", "github.com/robertkrimen/otto/parser.",
			"github.com/expr-lang/expr.Compile", "github.com/antonmedv/expr.Compile",
			"github.com/Knetic/govaluate.NewEvaluableExpression",
			"github.com/google/cel-go/cel.(*Env).Compile", "github.com/yuin/gopher-lua/parse.",
			"github.com/xeipuuv/gojsonschema.NewSchema",
			"google.golang.org/protobuf/reflect/protodesc.", "github.com/bufbuild/protocompile.",
			"github.com/bufbuild/protocompile/", "github.com/jhump/protoreflect/",
			"com.google.protobuf.Descriptors$FileDescriptor.buildFrom",
			"github.com/xeipuuv/gojsonschema.Validate",
			"github.com/kaptinlin/jsonschema.(*Compiler).Compile", "go.starlark.net/syntax.",
			"github.com/d5/tengo/v2/parser.", "github.com/open-policy-agent/opa/ast.",
			"github.com/open-policy-agent/opa/v1/ast.", "github.com/itchyny/gojq.Parse",
			"github.com/jmespath/go-jmespath.Compile", "github.com/PaesslerAG/gval.Evaluate",
			"github.com/hashicorp/hcl/", "github.com/graphql-go/graphql/language/parser.",
			"github.com/vektah/gqlparser/", "graphql.parser.",
			"com.networknt.schema.JsonSchemaFactory.",
			"org.everit.json.schema.loader.", "org.apache.commons.jexl3.internal.Engine.createExpression",
			"org.apache.commons.jexl3.internal.Engine.createScript",
			"com.googlecode.aviator.AviatorEvaluatorInstance.compile",
			"org.graalvm.polyglot.Context.create",
			"github.com/santhosh-tekuri/jsonschema.(*Compiler).Compile", "go/parser.", "zendparse",
			"lex_scan", "compile_file", "open_file_for_scanning", "rb_iseq_compile_node",
			"rb_parser_compile_string", "rb_eval_string", "luaL_loadbufferx", "compileFunction",
			"runInContext", "runInNewContext", "compileSchema", "check_schema",
		},
		begins: []string{
			"v8::internal::Compiler::", "v8::internal::Parser", "v8::internal::parsing::",
			"v8::internal::interpreter::BytecodeGenerator", "_PyPegen_", "_PyAST_Compile",
			"zend_compile_", "yyparse", "ruby_yyparse", "luaY_",
		},
		files: []string{
			"node:vm", "language/parser.mjs",
			"language/parser.js", "language/lexer.js", "compile/index.js",
			"fastjsonschema/generator.py", "_internal/_generate_schema.py",
			"_internal/_model_construction.py", "lib/ostruct.rb",
			"ostruct.rb",
			"jmespath/parser.py", "jsonpath_ng/parser.py", "ply/yacc.py", "lark/lark.py",
			"lark/load_grammar.py", "pyparsing/core.py", "ast.py"},
		parts: makesSchemas,
	},
	{
		what: "certificates and keys that are parsed each time",
		functions: []string{
			"crypto/x509.ParseCertificate", "crypto/x509.(*CertPool).AppendCertsFromPEM",
			"crypto/x509.ParsePKCS1PrivateKey", "crypto/x509.ParsePKCS8PrivateKey",
			"crypto/x509.ParseECPrivateKey", "crypto/x509.ParsePKIXPublicKey",
			"crypto/x509.SystemCertPool", "crypto/x509.loadSystemRoots", "encoding/pem.Decode",
			"crypto/tls.X509KeyPair", "crypto/tls.LoadX509KeyPair",
			"sun.security.x509.X509CertImpl.<init>", "java.security.KeyStore.load",
			"sun.security.pkcs12.", "java.security.KeyFactory.generatePrivate",
			"java.security.KeyFactory.generatePublic", "javax.net.ssl.SSLContext.init",
			"X509_load_cert_crl_file_ex", "PEM_X509_INFO_read_bio_ex", "PEM_read_bio_PrivateKey",
			"PEM_read_bio_ex", "X509_STORE_load_locations", "SSL_CTX_load_verify_locations",
			"OSSL_DECODER_from_bio", "X509_STORE_load_file_ex", "X509_STORE_set_default_paths",
			"d2i_PrivateKey_ex", "create_default_context", "load_default_certs",
			"createSecureContext", "createPrivateKey", "createPublicKey", "prepare_key",
			"load_pem_private_key", "load_pem_public_key", "load_pem_x509_certificate",
			"load_ssl_context_verify", "load_verify_locations", "load_cert_chain",
		},
		instead: "load them once, when the program starts, and use the same context, client or " +
			"key for all requests",
	},
	{
		what: "keys that are made each time",
		functions: []string{
			"crypto/rsa.GenerateKey", "crypto/ecdsa.GenerateKey",
			"crypto/rsa.GenerateMultiPrimeKey", "crypto/internal/fips140/rsa.GenerateKey",
			"crypto/dsa.GenerateParameters", "java.security.KeyPairGenerator.generateKeyPair",
			"sun.security.rsa.RSAKeyPairGenerator.generateKeyPair", "EVP_PKEY_keygen",
			"EVP_PKEY_generate", "generateKeyPairSync", "BN_generate_prime_ex2",
			"DH_generate_parameters_ex",
		},
	},
	{
		what: "passwords that are stretched into keys each time (PBKDF2, scrypt, bcrypt, Argon2)",
		functions: []string{
			"golang.org/x/crypto/pbkdf2.Key", "crypto/pbkdf2.Key",
			"golang.org/x/crypto/scrypt.Key",
			"crypto/internal/fips140/pbkdf2.Key", "golang.org/x/crypto/bcrypt.",
			"golang.org/x/crypto/argon2.", "com.sun.crypto.provider.PBKDF2KeyImpl.",
			"org.springframework.security.crypto.bcrypt.BCrypt.", "com.password4j.",
			"org.wildfly.security.password.", "de.mkammerer.argon2.",
			"golang.org/x/crypto/blowfish.ExpandKey", "org.mindrot.jbcrypt.BCrypt.",
			"at.favre.lib.crypto.bcrypt.", "org.bouncycastle.crypto.generators.",
			"System.Security.Cryptography.Rfc2898DeriveBytes.", "PKCS5_PBKDF2_HMAC",
			"EVP_PBE_scrypt", "EVP_PBE_scrypt_ex", "pbkdf2Sync", "scryptSync", "ossl_pkcs5_pbkdf2",
			"BF_crypt", "_crypt_blowfish_rn", "bcrypt_hashpass", "blf_encipher", "sha512crypt",
			"__sha512_crypt_r", "__sha256_crypt_r", "hashSync", "compareSync",
			"php_password_bcrypt_hash", "checkpw", "hashpw", "pbkdf2_hmac",
		},
		files: []string{
			"auth/hashers.py", "werkzeug/security.py", "handlers/pbkdf2.py", "handlers/bcrypt.py",
			"handlers/argon2.py", "handlers/scrypt.py", "argon2/_password_hasher.py",
			"node_modules/bcryptjs", "node_modules/scrypt-js", "node_modules/pbkdf2",
		},
		begins: []string{
			"argon2_", "node::crypto::PBKDF2", "node::crypto::Scrypt", "Blowfish_encipher",
			"Blowfish_expandstate", "Blowfish_expand0state",
		},
		instead: "stretch a password once, at the login, and give out a session or a token that " +
			"is signed; derive a key of the service's own once, and keep it; see that its cost " +
			"is not higher than has to be",
	},
	{
		what: "time zones that are read each time",
		functions: []string{
			"time.LoadLocation", "time.LoadLocationFromTZData", "tzset_internal", "__tzfile_read",
			"__tzfile_compute", "sun.util.calendar.ZoneInfoFile.", "__tz_convert",
		},
		files: []string{"pytz/__init__.py", "pytz/tzfile.py", "pytz/lazy.py", "tz/_common.py",
			"moment-timezone/moment-timezone.js", "tzinfo/timezone.rb", "tzinfo/data_source.rb",
			"zoneinfo/_zoneinfo.py", "tz/tz.py",
		},
	},
	{
		what: "languages' rules for dates, numbers and words that are looked up each time (Intl, " +
			"ICU)",
		functions: []string{
			"toLocaleDateString", "toLocaleTimeString", "toLocaleString", "localeCompare",
			"golang.org/x/text/message.NewPrinter", "golang.org/x/text/language.",
			"golang.org/x/text/collate.New", "java.text.Collator.getInstance",
			"java.text.NumberFormat.getInstance", "java.text.DecimalFormatSymbols.",
			"java.util.ResourceBundle.getBundle", "sun.util.locale.provider.",
			"java.text.DateFormatSymbols.",
		},
		begins: []string{
			"v8::internal::JSDateTimeFormat", "v8::internal::JSNumberFormat",
			"v8::internal::Intl::", "v8::internal::JSCollator", "icu_", "icu::", "newlocale",
			"_nl_load_locale",
		},
		instead: "make one formatter or collator for each language (Intl.DateTimeFormat, " +
			"Intl.NumberFormat, Intl.Collator, DateTimeFormatter), and use it for all requests",
	},
	{
		what: "random generators that are seeded each time",
		functions: []string{
			"math/rand.NewSource", "math/rand.(*rngSource).Seed", "math/rand.Seed",
			"math/rand.seedrand", "java.security.SecureRandom.<init>",
			"java.security.SecureRandom.getInstance", "init_by_array",
			"std::mersenne_twister_engine",
		},
	},
	{
		what: "mappers of JSON or XML that are made each time",
		functions: []string{
			"com.fasterxml.jackson.databind.ObjectMapper.<init>", "com.google.gson.Gson.<init>",
			"com.google.gson.GsonBuilder.create", "javax.xml.bind.JAXBContext.newInstance",
			"jakarta.xml.bind.JAXBContext.newInstance",
			"javax.xml.parsers.DocumentBuilderFactory.newInstance",
			"javax.xml.parsers.SAXParserFactory.newInstance",
			"javax.xml.transform.TransformerFactory.newInstance",
			"javax.xml.validation.SchemaFactory.", "javax.xml.xpath.XPathFactory.newInstance",
			"javax.xml.stream.XMLInputFactory.newInstance",
			"com.sun.org.apache.xpath.internal.compiler.",
			"com.sun.org.apache.xalan.internal.xsltc.compiler.",
			"com.thoughtworks.xstream.XStream.<init>",
			"com.fasterxml.jackson.databind.json.JsonMapper$Builder.build",
			"com.fasterxml.jackson.dataformat.xml.XmlMapper.<init>",
			"com.squareup.moshi.Moshi$Builder.build", "jakarta.json.bind.JsonbBuilder.create",
			"System.Text.Json.JsonSerializerOptions..ctor", "encoding/gob.NewEncoder",
			"encoding/gob.(*Decoder).compileDec", "encoding/gob.(*Decoder).getDecoderEnginePtr",
			"encoding/gob.compileEnc", "encoding/gob.(*Encoder).sendTypeDescriptor",
			"encoding/gob.(*Decoder).recvType", "encoding/xml.getTypeInfo",
			"com.fasterxml.jackson.databind.introspect.",
			"com.fasterxml.jackson.databind.ser.BeanSerializerFactory.",
			"com.fasterxml.jackson.databind.deser.BeanDeserializerFactory.",
			"com.google.gson.internal.bind.ReflectiveTypeAdapterFactory.getBoundFields",
			"com.google.gson.internal.bind.ReflectiveTypeAdapterFactory.create",
		},
		encodes: true,
		instead: "make one for all requests: it remembers what it has found out of each type",
	},
	{
		what: "things that are copied by writing them down and reading them again, or piece by " +
			"piece to the bottom (deep copies)",
		functions: []string{
			"org.apache.commons.lang3.SerializationUtils.clone", "java.io.ObjectInputStream.",
			"java.io.ObjectOutputStream.", "org.dozer.", "org.modelmapper.",
			"github.com/jinzhu/copier.", "github.com/mitchellh/copystructure.",
			"github.com/barkimedes/go-deepcopy.", "github.com/mohae/deepcopy.",
			"github.com/huandu/go-clone.", "github.com/brunoga/deep.",
			"github.com/ulule/deepcopier.", "org.apache.commons.lang.SerializationUtils.",
			"com.rits.cloning.", "com.esotericsoftware.kryo.Kryo.copy", "deep_dup",
			"deepcopy",
			"encoding/gob.(*Encoder).Encode", "encoding/gob.(*Decoder).Decode",
			"google.golang.org/protobuf/proto.Clone", "structuredClone", "baseClone", "cloneDeep",
			"rb_marshal_dump", "rb_marshal_load", "rb_marshal_dump_limited", "php_var_serialize",
			"php_var_unserialize", "zif_serialize", "zif_unserialize",
		},
		begins: []string{"v8::internal::ValueSerializer", "v8::internal::ValueDeserializer"},
		files: []string{
			"copy.py", "pickle.py", "object/deep_dup.rb", "clone/clone.js",
			"deepcopy/deepcopy.js", "lodash/_baseClone.js",
			"rfdc/index.js", "node_modules/rfdc", "node_modules/clone", "node_modules/klona",
		},
		instead: "copy only what is changed, share what is not, or keep what is shared read-only",
	},
	{
		what: "settings and lists in YAML, TOML or the like that are read each time",
		functions: []string{
			"gopkg.in/yaml.v2.", "gopkg.in/yaml.v3.", "go.yaml.in/yaml/", "sigs.k8s.io/yaml.",
			"sigs.k8s.io/yaml/", "github.com/goccy/go-yaml.", "github.com/goccy/go-yaml/",
			"github.com/BurntSushi/toml.", "github.com/pelletier/go-toml.",
			"github.com/pelletier/go-toml/", "gopkg.in/ini.v1.", "github.com/spf13/viper.",
			"org.yaml.snakeyaml.", "org.snakeyaml.engine.", "java.util.Properties.load",
			"com.fasterxml.jackson.dataformat.yaml.", "com.typesafe.config.",
			"YamlDotNet.", "composeNode",
		},
		begins: []string{"yaml_parser_", "serde_yaml::", "toml::", "YAML::"},
		files: []string{
			"yaml/scanner.py", "yaml/reader.py", "yaml/parser.py", "yaml/composer.py",
			"yaml/constructor.py", "yaml/resolver.py", "yaml/__init__.py", "tomllib/_parser.py",
			"tomli/_parser.py", "configparser.py", "toml/decoder.py", "js-yaml/loader.js",
			"psych/parser.rb", "psych/tree_builder.rb", "psych/scalar_scanner.rb",
		},
		instead: "read them once, when the program starts or when the file has changed, and keep " +
			"what came of it; where it is what clients send, a faster form or a faster library",
	},
	{
		what: "XML or CSV that is read again and again",
		functions: []string{
			"encoding/xml.(*Decoder).", "encoding/xml.Unmarshal", "encoding/csv.(*Reader).",
			"com.sun.org.apache.xerces.internal.", "javax.xml.parsers.DocumentBuilder.parse",
			"org.apache.commons.csv.", "com.opencsv.", "System.Xml.XmlDocument.Load",
			"xmlParseDocument", "XML_ParseBuffer", "doContent",
		},
		begins: []string{"tinyxml2::", "quick_xml::", "xmlParse"},
		files: []string{
			"etree/ElementTree.py", "dom/expatbuilder.py", "csv.py", "lib/sax.js",
			"xmlparser/OrderedObjParser.js", "parsers/baseparser.rb", "csv/parser.rb",
		},
		common:  true,
		instead: "read what does not change once, and keep what came of it",
	},
	{
		what: "documents that are parsed or drawn from text each time (HTML, Markdown, user " +
			"agents)",
		functions: []string{
			"golang.org/x/net/html.Parse", "golang.org/x/net/html.(*parser).",
			"github.com/microcosm-cc/bluemonday.NewPolicy",
			"github.com/microcosm-cc/bluemonday.UGCPolicy",
			"github.com/mssola/user_agent.", "github.com/mssola/useragent.",
			"github.com/ua-parser/uap-go/",
			"github.com/alecthomas/chroma/", "nl.basjes.parse.useragent.", "ua_parser.",
			"github.com/PuerkitoBio/goquery.",
			"github.com/yuin/goldmark.", "github.com/yuin/goldmark/",
			"github.com/russross/blackfriday.", "github.com/gomarkdown/markdown/",
			"org.jsoup.parser.", "org.commonmark.parser.", "com.vladsch.flexmark.",
		},
		files: []string{
			"markdown/core.py", "markdown/blockprocessors.py", "markdown/treeprocessors.py",
			"markdown/inlinepatterns.py", "mistune/", "html/parser.py", "bs4/", "pygments/",
			"html5lib/", "bleach/", "docutils/",
			"markdown_it/", "cheerio/", "parse5/", "jsdom/",
			"showdown/",
			"kramdown/", "rouge/", "redcarpet/", "lib/marked.cjs",
			"lib/marked.umd.js", "lib/marked.esm.js", "rules_inline/", "rules_block/",
			"src/ua-parser.js", "user_agents/parsers.py", "node_modules/markdown-it",
			"node_modules/marked", "node_modules/showdown", "node_modules/cheerio",
			"node_modules/parse5", "node_modules/htmlparser2", "node_modules/jsdom",
			"node_modules/sanitize-html", "node_modules/highlight.js", "node_modules/ua-parser-js",
		},
		begins:  []string{"pulldown_cmark::", "cmark_"},
		instead: "keep what came of a document, by its content, as long as it does not change",
	},
	{
		what: "tables that are made each time",
		functions: []string{
			"hash/crc32.MakeTable", "hash/crc32.simpleMakeTable", "hash/crc32.simplePopulateTable",
			"hash/crc32.slicingMakeTable", "hash/crc64.MakeTable", "hash/crc64.makeTable",
			"hash/crc64.makeSlicingBy8Table", "encoding/base64.NewEncoding",
			"encoding/base32.NewEncoding", "strings.NewReplacer", "strings.(*Replacer).build",
			"strings.makeGenericReplacer", "strings.(*genericReplacer).",
			"crypto/aes.NewCipher", "golang.org/x/crypto/blowfish.NewCipher",
			"java.text.SimpleDateFormat.<init>", "java.text.MessageFormat.<init>",
			"java.text.MessageFormat.applyPattern", "java.text.DecimalFormat.<init>",
			"java.time.format.DateTimeFormatter.ofPattern",
			"java.time.format.DateTimeFormatterBuilder.", "gconv_open", "iconv_open",
			"__gconv_open", "__gconv_find_transform",
		},
		instead: "make the table once, when the program starts, and use it for all requests",
	},
	{
		what: "addresses and networks that are parsed each time",
		functions: []string{
			"net.ParseCIDR", "net.ParseIP", "net/netip.ParsePrefix", "net/netip.ParseAddr",
			"java.net.InetAddress.getByName", "inet_pton", "inet_aton",
		},
		files: []string{"ipaddress.py", "lib/ipaddr.js"},
		instead: "parse the networks once, when they are loaded, and keep them in a tree of " +
			"prefixes",
	},
	{
		what: "compressors that are made each time",
		functions: []string{
			"compress/flate.NewWriter", "compress/flate.(*compressor).init",
			"compress/gzip.NewWriterLevel", "compress/zlib.NewWriterLevel",
			"github.com/klauspost/compress/zstd.NewReader", "github.com/pierrec/lz4/v4.NewWriter",
			"github.com/klauspost/compress/zstd.NewWriter",
			"github.com/andybalholm/brotli.NewWriter",
			"github.com/klauspost/compress/flate.NewWriter", "java.util.zip.Deflater.<init>",
			"deflateInit2_", "ZSTD_createCCtx",
		},
		instead: "keep compressors in a pool (sync.Pool), and reset them for each response",
	},
	{
		what: "exceptions and errors whose stacks are written down",
		functions: []string{
			"java.lang.Throwable.fillInStackTrace", "java.lang.Throwable.<init>",
			"java.lang.Throwable.getStackTrace", "java.lang.Thread.getStackTrace",
			"java.lang.StackTraceElement.",
			"java.lang.Throwable.printStackTrace", "System.Diagnostics.StackTrace.",
			"System.Exception.get_StackTrace", "runtime/debug.Stack", "runtime/debug.PrintStack",
			"runtime.Callers", "runtime.Stack", "runtime.CallersFrames", "runtime.(*Frames).Next",
			"github.com/pkg/errors.callers", "github.com/go-errors/errors.New",
			"github.com/cockroachdb/errors/withstack.",
			"github.com/rotisserie/eris.", "github.com/ztrue/tracerr.",
			"golang.org/x/xerrors.Caller",
			"runtime.Caller", "runtime.FuncForPC", "emperror.dev/errors.", "captureStackTrace",
			"prepareStackTraceCallback", "ErrorPrepareStackTrace", "get stack",
			"rb_exc_backtrace", "rb_make_backtrace", "_Unwind_RaiseException", "_Unwind_Find_FDE",
			"__cxa_throw", "backtrace_symbols",
		},
		begins: []string{
			"v8::internal::ErrorUtils::", "v8::internal::Isolate::CaptureAndSetErrorStack",
			"v8::internal::SerializeCallSiteInfo", "v8::internal::Builtin_CallSitePrototype",
			"uw_frame_state_for", "_Unwind_",
		},
		files: []string{"traceback.py"},
		instead: "answer what is to be expected without an exception; or make one without its " +
			"stack (Error.stackTraceLimit = 0, writableStackTrace false, errors that are " +
			"variables)",
	},
	{
		what: "clients, engines and statements of databases and services that are made each time",
		files: []string{
			"engine/create.py", "botocore/loaders.py", "botocore/session.py", "boto3/session.py",
			"resources/factory.py",
		},
		is:     compilesStatements,
		common: true, // a service whose statements all differ has them compiled
		instead: "make a client or an engine once, for all requests; write statements with " +
			"parameters in the place of values, so that what came of them is found again",
	},
	{
		what: "classes, plugins and providers that are looked up each time",
		functions: []string{
			"java.util.ServiceLoader.", "java.util.ServiceLoader$LazyClassPathLookupIterator.",
			"java.lang.ClassLoader.loadClass", "java.lang.ClassLoader.getResource",
			"java.net.URLClassLoader.", "jdk.internal.loader.", "java.util.jar.",
			"java.util.zip.ZipFile.", "sun.security.jca.GetInstance.", "java.security.Provider.",
			"sun.security.jca.ProviderList.",
			"org.springframework.context.support.AbstractApplicationContext.refresh",
			"rb_f_require", "rb_require_string", "dlopen", "_dl_open",
			"google.golang.org/grpc.NewClient", "google.golang.org/grpc.Dial",
			"org.hibernate.cfg.Configuration.buildSessionFactory",
			"javax.naming.InitialContext.<init>",
			"createRequire", "Module._resolveFilename",
		},
		begins: []string{"_dl_map_object", "_dl_relocate_object"},
		files: []string{
			"metadata/__init__.py", "pkg_resources/__init__.py", "cjs/loader",
			"esm/loader", "bootsnap/load_path_cache.rb",
		},
		parts:   searchesModules,
		is:      imports,
		instead: "look them up once, when the program starts, and keep them",
	},
	{
		what: "programs that are started each time",
		functions: []string{
			"os/exec.(*Cmd).Start", "os.StartProcess", "syscall.forkExec",
			"java.lang.ProcessBuilder.start", "java.lang.ProcessImpl.start",
			"spawnSync", "execSync", "execFileSync", "rb_fork_ruby", "posix_spawn", "__spawni",
		},
		begins: []string{"__x64_sys_execve", "do_execveat", "dup_mmap", "copy_page_range"},
		files:  []string{"node:child_process", "internal/child_process", "subprocess.py"},
		instead: "do their work in the process, by a library; or keep a few of them running, and " +
			"talk to them",
	},
	{
		what: "threads that are started each time",
		functions: []string{
			"java.lang.Thread.start", "java.lang.Thread.start0", "pthread_create",
			"rb_thread_create", "std::thread::_M_start_thread", "__pthread_create_2_1",
			"allocate_stack", "start_new_thread",
		},
		begins:  []string{"__x64_sys_clone", "kernel_clone", "copy_process", "__do_sys_clone"},
		instead: "have a pool of threads for all requests",
	},
	{
		what: "waiting in a loop that asks again and again (spinning)",
		functions: []string{
			"runtime.Gosched", "java.lang.Thread.yield", "java.lang.Thread.onSpinWait",
			"java.util.concurrent.locks.ReentrantLock.tryLock", "sync.(*Mutex).TryLock",
			"System.Threading.SpinWait.", "System.Threading.SpinLock.", "sched_yield",
			"pthread_spin_lock", "pthread_mutex_trylock", "std::this_thread::yield",
			"std::thread::yield_now", "core::hint::spin_loop", "rb_thread_schedule", "waitAtomics",
		},
		begins:  []string{"__x64_sys_sched_yield", "do_sched_yield"},
		instead: "wait for the moment itself: a channel, a condition, a future, a lock that sleeps",
	},
	{
		what: "the runtime's or the machine's own figures that are taken each time",
		functions: []string{
			"runtime.ReadMemStats", "runtime/pprof.", "runtime.GoroutineProfile",
			"github.com/shirou/gopsutil/",
			"com.sun.management.", "oshi.", "getHeapStatistics", "cpuUsage",
			"runtime/metrics.Read", "java.lang.management.", "sun.management.", "memoryUsage",
			"net.Interfaces", "net.InterfaceAddrs", "net.interfaceTable", "os/user.Lookup",
			"os/user.LookupId", "os/user.Current", "os/user.lookupUnixUid",
			"java.net.NetworkInterface.", "java.net.InetAddress.getLocalHost", "uv_cpu_info",
			"uv_interface_addresses", "networkInterfaces",
		},
		files: []string{
			"tracemalloc.py", "objgraph.py", "pympler/", "lib/objspace.rb", "psutil/_pslinux.py",
			"psutil/__init__.py", "platform.py",
		},
		instead: "take them every few seconds, in the background: some of them stop all threads",
	},
}
