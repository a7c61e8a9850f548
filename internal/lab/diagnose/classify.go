package diagnose

import (
	"math/bits"
	"slices"
	"strings"

	"plimsoll/internal/lab/profile"
)

// The classes of a processor profile's stacks. Each stack is in one class.
const (
	classCollector  = "garbage collection"
	classHandshake  = "TLS handshakes"
	classLogging    = "logging"
	classJSON       = "JSON"
	classReflection = "reflection"
	classConnect    = "making and closing connections"
	classFiles      = "looking up and opening files"
	classOwn        = "the service's own code"
	classHTTP       = "HTTP and the network"
	classRuntime    = "the runtime"
)

// A class is known by the functions in its stacks. The first class that fits takes the stack: a log
// line that encodes JSON by reflection is logging. A name that ends in a dot or a slash is a
// package, or the packages below it. begins holds prefixes of function names. files holds the last
// two parts of a library file's path, for languages in which a function's name alone says little.
type class struct {
	name                     string
	functions, begins, files []string
	parts                    map[string][]string // functions of files that do other work too
}

// classIndex finds the classes of a frame.
var classIndex = func() (x index) {
	for i, c := range classes {
		x.add(i, c.functions, c.begins, c.files)
		x.addParts(i, c.parts)
	}
	return x
}()

var classes = []class{
	{
		name: classCollector,
		functions: []string{
			"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.gcAssistAlloc1",
			"runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart", "runtime.gcMarkTermination",
			"runtime.deductSweepCredit", "runtime.gcMarkDone",
		},
	},
	{
		name: classLogging,
		functions: []string{
			"log.", "log/slog.", "log/slog/internal/", "golang.org/x/exp/slog.",
			"github.com/labstack/gommon/log.", "github.com/gofiber/fiber/v2/log.",
			"go.uber.org/zap.", "go.uber.org/zap/",
			"github.com/sirupsen/logrus.", "github.com/rs/zerolog.", "github.com/rs/zerolog/",
			"github.com/go-kit/log.", "github.com/go-kit/kit/log.", "k8s.io/klog/",
			"github.com/golang/glog.", "github.com/go-logr/", "github.com/apex/log.",
			"github.com/hashicorp/go-hclog.", "github.com/inconshreveable/log15.",
			"github.com/charmbracelet/log.", "github.com/phuslu/log.", "fmt.Println", "fmt.Printf",
			"fmt.Print", "log/syslog.", "java.io.PrintStream.", "org.tinylog.",
			"com.google.common.flogger.", "org.apache.juli.", "System.Console.", "log4net.",
			"github.com/lmittmann/tint.", "github.com/golang/glog/",
			"k8s.io/klog.", "github.com/uber-go/zap.", "github.com/uber-go/zap/",
			"github.com/gookit/slog.", "github.com/cihub/seelog.", "github.com/op/go-logging.",
			"github.com/beego/beego/v2/core/logs.", "github.com/gin-gonic/gin.LoggerWithConfig",
			"github.com/natefinch/lumberjack.", "gopkg.in/natefinch/lumberjack.v2.",
			"github.com/gorilla/handlers.writeLog", "io.klogging.", "mu.KLogger",
			"com.typesafe.scalalogging.", "org.pmw.tinylog.", "net.logstash.logback.",
			"io.github.oshai.kotlinlogging.", "ZLogger.",
			"java.util.logging.", "org.slf4j.", "ch.qos.logback.", "org.apache.logging.log4j.",
			"org.apache.log4j.", "org.apache.commons.logging.", "org.jboss.logmanager.",
			"ngx_log_error_core", "ngx_syslog_send", "ngx_http_log_handler", "process_send_log",
			"__vsyslog_internal", "udp_sendmsg", "udpv6_sendmsg", "unix_dgram_sendmsg",
			"java.lang.System$Logger.", "Microsoft.Extensions.Logging.", "Serilog.", "NLog.",
		},
		files: []string{
			"logging/__init__.py", "logging/handlers.py", "logging/config.py", "loguru/_logger.py",
			"util/inspect", "util/debuglog",
			"loguru/_better_exceptions.py", "loguru/_file_sink.py", "structlog/dev.py",
			"structlog/stdlib.py", "logbook/base.py", "rich/logging.py",
			"pythonjsonlogger/jsonlogger.py", "loguru/_handler.py", "structlog/_base.py",
			"structlog/_native.py", "structlog/processors.py", "winston/logger.js",
			"logform/combine.js", "logform/json.js", "pino/pino.js", "lib/bunyan.js",
			"console/constructor", "console/constructor.js", "logger/formatter.rb",
			"logger/log_device.rb", "lib/logger.rb", "lib/log4js.js", "Monolog/Logger.php",
			"sonic-boom/index.js", "winston-transport/index.js", "winston-transport/modern.js",
			"winston/logger.js", "winston/create-logger.js", "transports/console.js",
			"transports/file.js", "logform/printf.js", "logform/timestamp.js",
			"logform/colorize.js",
			"logform/simple.js", "logform/splat.js", "src/consola.js", "lib/loglevel.js",
			"morgan/index.js", "signale/signale.js", "tslog/index.js",
			"structlog/_frames.py", "structlog/_output.py", "eliot/_output.py",
			"pythonjsonlogger/json.py", "pythonjsonlogger/core.py",
			"json_log_formatter/__init__.py",
			"lib/semantic_logger.rb", "semantic_logger/base.rb", "semantic_logger/logger.rb",
			"lograge/log_subscriber.rb", "active_support/logger.rb", "logger/severity.rb",
			"active_support/tagged_logging.rb", "active_support/broadcast_logger.rb",
			"Formatter/LineFormatter.php", "Formatter/NormalizerFormatter.php",
			"Handler/StreamHandler.php", "node_modules/pino", "node_modules/pino-pretty",
			"node_modules/fast-redact", "node_modules/@pinojs/redact",
			"node_modules/pino-std-serializers", "node_modules/pino-abstract-transport",
			"node_modules/thread-stream", "node_modules/sonic-boom", "node_modules/winston",
			"node_modules/logform", "node_modules/winston-transport", "node_modules/bunyan",
			"node_modules/signale", "node_modules/tslog", "services/console-logger.service.js",
			"services/logger.service.js",
			"node_modules/consola", "site-packages/structlog", "site-packages/pythonjsonlogger",
			"site-packages/logbook",
		},
		begins: []string{
			"ngx_log_error", "ngx_http_log_",
			"spdlog::", "fmtlog::", "google::LogMessage", "log4cxx::", "log4cplus::", "g_log",
			"quill::", "plog::", "el::base::", "log4c_", "zlog_", "slog::", "slog_", "fern::",
			"log4rs::",
			"flexi_logger::", "tracing_core::", "log::__private_api", "absl::log_internal::",
			"boost::log::", "tracing_subscriber::", "env_logger::", "vsyslog", "__vsyslog",
			"syslog",
		},
	},
	{
		name: classHandshake,
		functions: []string{
			"crypto/tls.(*Conn).HandshakeContext", "crypto/tls.(*Conn).handshakeContext",
			"crypto/tls.(*Conn).Handshake", "crypto/tls.(*Conn).clientHandshake",
			"crypto/tls.(*Conn).serverHandshake", "sun.security.ssl.HandshakeContext.",
			"sun.security.ssl.SSLHandshake.", "sun.security.ssl.SSLEngineImpl$DelegatedTask.",
			"sun.security.ssl.SSLSocketImpl.startHandshake",
			"io.netty.internal.tcnative.SSL.doHandshake",
			"System.Net.Security.SslStream.ForceAuthenticationAsync",
		},
	},
	{
		name: classJSON,
		functions: []string{
			"encoding/json.", "encoding/json/", "github.com/json-iterator/go.",
			"github.com/goccy/go-json.", "github.com/goccy/go-json/", "github.com/bytedance/sonic.",
			"github.com/bytedance/sonic/", "github.com/mailru/easyjson.",
			"github.com/mailru/easyjson/", "github.com/valyala/fastjson.",
			"github.com/tidwall/gjson.", "github.com/tidwall/sjson.",
			"github.com/buger/jsonparser.", "github.com/segmentio/encoding/json.",
			"github.com/go-json-experiment/json.", "github.com/go-json-experiment/json/",
			"github.com/Jeffail/gabs/", "github.com/pquerna/ffjson/", "github.com/ugorji/go/codec.",
			"github.com/minio/simdjson-go.", "github.com/wI2L/jettison.",
			"github.com/francoispqt/gojay.",
			"io.circe.", "play.api.libs.json.", "org.json4s.", "spray.json.",
			"kotlinx.serialization.json.",
			"io.vertx.core.json.", "groovy.json.", "com.dslplatform.json.", "Utf8Json.", "Jil.",
			"SpanJson.", "com.fasterxml.jackson.databind.JsonNode.",
			"com.fasterxml.jackson.databind.util.TokenBuffer.", "org.codehaus.jackson.",
			"google.golang.org/protobuf/encoding/protojson.",
			"com.fasterxml.jackson.databind.ObjectMapper.readValue",
			"com.fasterxml.jackson.databind.ObjectMapper.writeValue",
			"com.fasterxml.jackson.databind.ObjectMapper.writeValueAsString",
			"com.fasterxml.jackson.databind.ObjectMapper.writeValueAsBytes",
			"com.fasterxml.jackson.databind.ObjectWriter.",
			"com.fasterxml.jackson.databind.ObjectReader.", "com.fasterxml.jackson.databind.node.",
			"com.google.gson.Gson.toJson", "com.google.gson.Gson.fromJson", "com.squareup.moshi.",
			"org.eclipse.yasson.", "javax.json.", "org.glassfish.json.", "net.minidev.json.",
			"com.jsoniter.", "com.alibaba.fastjson2.", "com.jayway.jsonpath.",
			"com.fasterxml.jackson.core.", "com.fasterxml.jackson.databind.ser.",
			"com.fasterxml.jackson.databind.deser.", "com.google.gson.stream.",
			"com.google.gson.internal.", "org.json.", "jakarta.json.", "com.alibaba.fastjson.",
			"System.Text.Json.", "Newtonsoft.Json.",
		},
		begins: []string{
			"v8::internal::Json", "Builtins_Json", "generate_json", "JSON_parse_", "cParser_",
			"cState_", "oj_", "php_json_", "encoder_listencode_", "_parse_object_unicode", "cJSON_",
			"json_object_", "json_loads", "json_dumps", "json_tokener_", "yyjson_", "rapidjson::",
			"nlohmann::", "simdjson::", "jansson_", "json_value_", "parson_", "jsmn_",
			"sajson::", "boost::json::", "orjson", "ujson", "objToJSON", "JSON_DecodeObject",
			"simd_json::", "sonic_rs::", "rustc_serialize::",
			"v8::internal::SerializeJson", "serde_json::", "Json::",
			// Modules of Python without symbols.
			"[_json.cpython-", "[orjson.cpython-", "[ujson.cpython-", "[rapidjson.cpython-",
		},
		files: []string{
			"json/encoder.py", "json/decoder.py", "json/scanner.py", "json/__init__.py",
			"simplejson/encoder.py", "simplejson/decoder.py", "json/common.rb",
			"json/generic_object.rb", "pure/parser.rb", "multi_json/adapter.rb",
			"encoding/json.rb", "fast-json-stringify/index.js", "msgspec/json.py",
			"rapidjson/__init__.py", "demjson/__init__.py", "jsonpickle/pickler.py",
			"jsonpickle/unpickler.py", "simplejson/scanner.py", "json/provider.py", "json/ext.rb",
			"json_gem/encoding.rb", "jbuilder/jbuilder.rb",
			"json-stringify-safe/stringify.js", "safe-stable-stringify/index.js",
			"fast-safe-stringify/index.js", "fast-json-stable-stringify/index.js",
			"lib/jsonpath.js",
			"JSONStream/index.js", "fastapi/encoders.py", "utils/encoders.py",
			"node_modules/fast-json-stringify", "node_modules/secure-json-parse",
			"node_modules/json-bigint", "node_modules/flatted", "site-packages/simplejson",
			"site-packages/jsonpickle",
		},
	},
	{
		name: classConnect,
		functions: []string{
			"net.(*Dialer).DialContext", "net/http.(*Transport).dialConnFor",
			"net/http.(*Transport).dialConn", "internal/poll.(*FD).Accept", "net.(*conn).Close",
			"internal/poll.(*FD).Close",
			"internal/poll.(*FD).decref", "net.(*netFD).connect", "net.(*TCPListener).Accept",
		},
	},
	{
		name: classFiles,
		functions: []string{
			"os.ReadFile", "os.Open", "os.OpenFile", "os.Create", "os.Stat", "os.Lstat",
			"os.ReadDir", "os.(*File).ReadDir", "os.(*File).Readdir", "os.(*File).Readdirnames",
			"os.(*File).Close", "os.WriteFile", "os.Remove", "os.CreateTemp", "os.MkdirTemp",
			"path/filepath.EvalSymlinks", "path/filepath.Glob", "sun.nio.fs.",
			"java.io.UnixFileSystem.", "java.io.FileInputStream.open",
			"java.io.FileInputStream.open0", "java.io.File.exists",
		},
		files: []string{
			"fs/promises", "read/context", "glob.py", "linecache.py",
			"pathlib.py", "pathlib/__init__.py", "pathlib/_local.py", "pathlib/_abc.py",
			"genericpath.py", "<frozen genericpath>",
		},
		parts: findsFiles,
	},
}

// transfers read from connections and write to them.
var transfers = []string{
	"net.(*netFD).Read", "net.(*netFD).Write", "net.(*netFD).writeBuffers", "net.sendFile",
	"net.spliceFrom", "crypto/tls.(*Conn).Read", "crypto/tls.(*Conn).Write",
}

// spareTime is the collector's work on processors that would be idle. It slows nothing down.
const spareTime = "runtime.gcDrainMarkWorkerIdle"

// reflects are the packages whose purpose needs reflection. Their use of it is not the service's
// choice.
var reflects = []string{
	"fmt.", "text/template", "html/template", "database/sql.", "encoding/asn1.", "encoding/gob.",
	"encoding/json", "encoding/xml.", "google.golang.org/protobuf/",
}

// reflecting are functions that reflect. Package binary does it for what is neither a number nor a
// slice of numbers, and much of that time is in its own functions.
var reflecting = []string{
	"reflect.", "encoding/binary.(*decoder).value", "encoding/binary.(*encoder).value",
	"encoding/binary.(*decoder).skip", "encoding/binary.(*encoder).skip",
	"encoding/binary.dataSize", "encoding/binary.sizeof",
}

// reflectors are the functions and files that do reflection in other languages.
var reflectors = func() (x index) {
	x.add(0, []string{
		"java.lang.reflect.", "jdk.internal.reflect.", "sun.reflect.", "java.beans.",
		"java.lang.Class.getMethod", "java.lang.Class.getMethods",
		"java.lang.Class.getDeclaredMethods", "java.lang.Class.getDeclaredMethod",
		"java.lang.Class.getField", "java.lang.Class.getFields", "java.lang.Class.getDeclaredField",
		"java.lang.Class.getDeclaredFields", "java.lang.Class.getMethod0",
		"java.lang.Class.privateGetDeclaredMethods", "java.lang.Class.privateGetDeclaredFields",
		"java.lang.Class.getConstructor", "java.lang.Class.forName", "java.lang.Class.forName0",
		"sun.reflect.annotation.", "org.apache.commons.beanutils.",
		"org.springframework.beans.BeanUtils.", "org.springframework.util.ReflectionUtils.",
		"System.Reflection.", "System.RuntimeType.", "System.RuntimeMethodHandle.",
		"System.Activator.", "System.ComponentModel.",
	}, nil, []string{
		"inspect.py", "typing.py", "node_modules/class-transformer", "node_modules/class-validator",
		"node_modules/reflect-metadata",
	})
	return x
}()

// reflectsFor reports whether the service's own code used reflection. It looks below the innermost
// function of the service, because frameworks call the service's functions by reflection too.
func reflectsFor(stack []profile.Frame) bool {
	i := slices.IndexFunc(stack, func(f profile.Frame) bool {
		return profile.User(f) && reflectors.of(f) == 0
	})
	return i > 0 && reflectors.among(stack[:i]) != 0
}

// loggers is the bit of logging in the index of the classes.
var loggers = classBit(classLogging)

// passers are functions of logging libraries that call the service's handler, whose work is not
// theirs. What they do themselves is in other functions, or, if to is given, wherever they do not
// call that.
var passers = []struct{ function, file, to string }{
	{function: "github.com/gin-gonic/gin.LoggerWithConfig", to: "github.com/gin-gonic/gin.(*Context).Next"},
	{function: "ch.qos.logback.access."},
	{function: "logger", file: "morgan/index.js"},
	{function: "catch_wrapper", file: "loguru/_logger.py"},
	{function: "tagged", file: "active_support/tagged_logging.rb"},
	{function: "tagged", file: "semantic_logger/base.rb"},
}

// passesOn reports whether a frame of a logging library is there because it has called the handler.
func passesOn(stack []profile.Frame, i int) bool {
	f := stack[i]
	for _, p := range passers {
		if fits(f.Function, p.function) && (p.file == "" || f.File == p.file) &&
			(p.to == "" || i > 0 && fits(stack[i-1].Function, p.to)) {
			return true
		}
	}
	return false
}

func fits(function, name string) bool {
	if strings.HasSuffix(name, ".") || strings.HasSuffix(name, "/") {
		return strings.HasPrefix(function, name)
	}
	// The name of a closure continues with a dot.
	return strings.HasPrefix(function, name) &&
		(len(function) == len(name) || function[len(name)] == '.')
}

// classOf returns a stack's class.
func classOf(stack []profile.Frame) string {
	in := func(names ...string) bool {
		return slices.ContainsFunc(stack, func(f profile.Frame) bool {
			return slices.ContainsFunc(names, func(n string) bool { return fits(f.Function, n) })
		})
	}
	if in(spareTime) {
		return classRuntime
	}
	seen := uint64(0)
	for i, f := range stack {
		of := classIndex.of(f)
		if of&loggers != 0 && passesOn(stack, i) {
			of &^= loggers
		}
		seen |= of
	}
	if seen == classBit(classFiles) && looksUpForWaste(stack) || seen == classBit(classJSON) &&
		encodesWaste(stack) {
		seen = 0
	}
	if seen != 0 {
		return classes[bits.TrailingZeros64(seen)].name
	}
	if class := otherClass(stack); class != "" && (class != classFiles || !looksUpForWaste(stack)) {
		return class
	}
	own := slices.ContainsFunc(stack, profile.User)
	switch {
	case in(transfers...):
		return classHTTP // whichever code asked for it: reading and writing are a server's work
	case own && !inGo(stack) && reflectsFor(stack):
		return classReflection
	case own && in(reflecting...) && !slices.ContainsFunc(stack, func(f profile.Frame) bool {
		return slices.ContainsFunc(reflects, func(p string) bool {
			return strings.HasPrefix(f.Function, p)
		})
	}):
		return classReflection
	case own:
		return classOwn
	case in("net/http.", "net.", "internal/poll.", "bufio.", "net/textproto.", "golang.org/x/net/"):
		return classHTTP
	}
	return classRuntime
}

// The names of the profile files that are used here.
const (
	kindCPU    = "cpu"
	kindAllocs = "allocs"
)

// fewestSeconds is the minimum processor time in a profile for its shares to mean something: 50
// samples at pprof's 100 a second.
const fewestSeconds = .5

// placesTold is how many places of each class are reported.
const placesTold = 5

// classify finds where the target's processor time went at the line.
func (e *Evidence) classify() {
	p := e.AtLine.Profile(kindCPU)
	if p == nil || p.Total(profile.CPU)*p.Seconds() < fewestSeconds {
		return
	}
	e.Places = map[string][]profile.Place{}
	e.Classes = Classes(p)
	for class := range e.Classes {
		e.Places[class] = p.Top(profile.CPU, placeIn(class), placesTold)
	}
}

// placeIn returns a function that picks the service's own code from the stacks of a class.
func placeIn(class string) func(stack []profile.Frame) (profile.Frame, bool) {
	return func(stack []profile.Frame) (profile.Frame, bool) {
		if classOf(stack) != class {
			return profile.Frame{}, false
		}
		return profile.FirstUser(stack)
	}
}

// classBit returns the class's bit in the index; 0 for one that is not known by names.
func classBit(name string) uint64 {
	i := slices.IndexFunc(classes, func(c class) bool { return c.name == name })
	if i < 0 {
		return 0
	}
	return 1 << i
}

// garbage finds which classes allocated at the line.
func (e *Evidence) garbage() {
	p := e.AtLine.Profile(kindAllocs)
	if p == nil {
		return
	}
	total := p.Total(profile.AllocSpace)
	if total == 0 {
		return
	}
	e.Garbage = map[string]float64{}
	for class, weight := range p.Classify(profile.AllocSpace, classOf) {
		e.Garbage[class] = weight / total
	}
}

// spent is a class's share of the processor time at the line, including the collector's work on
// what the class allocated: the more is allocated, the more often the collector runs.
func (e *Evidence) spent(class string) float64 {
	return e.Classes[class] + e.Classes[classCollector]*e.Garbage[class]
}

// flames returns the flame graphs of the report.
func (e *Evidence) flames() (all []Flame) {
	atLine, half := e.AtLine.Profile(kindCPU), e.Half.Profile(kindCPU)
	if atLine == nil {
		return nil
	}
	if root := atLine.Tree(profile.CPU); root != nil {
		all = append(all, Flame{
			Title: "Processor time at the line",
			Root:  root,
			Unit:  atLine.Unit(profile.CPU),
		})
	}
	if half == nil || e.Half.Goodput() == 0 || e.AtLine.Goodput() == 0 {
		return all
	}
	if root := profile.Difference(half, atLine, profile.CPU); root != nil {
		// Per request, because the line has twice as many of them.
		root.Scale(1/e.AtLine.Goodput(), 1/e.Half.Goodput())
		all = append(all, Flame{
			Title:      "Processor time of a request, at half of the line and at the line",
			Root:       root,
			Difference: true,
			Unit:       "processor seconds a request",
		})
	}
	return all
}
