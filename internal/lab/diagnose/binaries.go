package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/internal/lab/measure"
	"plimsoll/internal/lab/profile"
)

// binaries are shared libraries by how their files' names begin, and what each is for.
// Distributions strip them, so a profile often has only the library's name for their functions:
// "[libz.so.1.2.13]". What every program has, such as the C library, is not listed.
var binaries = []struct{ begins, does string }{
	{"libz.so", compresses}, {"libz-ng.so", compresses}, {"libdeflate.so", compresses},
	{"libbrotli", compresses}, {"libzstd.so", compresses}, {"liblz4.so", compresses},
	{"libbz2.so", compresses}, {"liblzma.so", compresses}, {"libsnappy.so", compresses},
	{"libjpeg.so", draws}, {"libturbojpeg.so", draws}, {"libpng", draws}, {"libwebp", draws},
	{"libtiff.so", draws}, {"libgif.so", draws}, {"libgd.so", draws}, {"libMagick", draws},
	{"libGraphicsMagick", draws}, {"libvips", draws}, {"libheif.so", draws}, {"libavif.so", draws},
	{"libcairo.so", draws}, {"libpixman", draws}, {"librsvg", draws}, {"libfreetype.so", draws},
	{"libavcodec.so", "video and sound"}, {"libx264.so", "video and sound"},
	{"libcrypto.so", encrypts}, {"libssl.so", tlsOnly},
	{"libgnutls.so", tlsOnly}, {"libnettle.so", encrypts},
	{"libgcrypt.so", encrypts}, {"libmbedcrypto.so", encrypts},
	{"libsodium.so", encrypts}, {"libgmp.so", "arithmetic with large numbers"},
	{"libcrypt.so", stretches}, {"libargon2.so", stretches},
	{"libpcre", matches}, {"libre2.so", matches},
	{"libonig.so", matches}, {"libhs.so", matches},
	{"libxml2.so", "XML and HTML"}, {"libxslt.so", "XML and HTML"}, {"libexpat.so", "XML and HTML"},
	{"libyaml", "YAML"},
	{"libjansson.so", "JSON"}, {"libjson-c.so", "JSON"}, {"libyajl.so", "JSON"},
	{"libprotobuf", "protocol buffers"}, {"libsqlite3.so", "SQLite"},
	{"libicu", "languages' rules (ICU)"}, {"libpq.so", "PostgreSQL's protocol"},
	{"libmysqlclient.so", "MySQL's protocol"}, {"libmariadb.so", "MySQL's protocol"},
	{"libopenblas", "arithmetic with matrices"}, {"libblas.so", "arithmetic with matrices"},
	{"libmkl_", "arithmetic with matrices"}, {"libluajit", "scripts in Lua"},
	{"liblua", "scripts in Lua"},
	// Modules of Python: "[_json.cpython-312-x86_64-linux-gnu.so]".
	{"_json.cpython-", "JSON"}, {"orjson.cpython-", "JSON"}, {"ujson.cpython-", "JSON"},
	{"rapidjson.cpython-", "JSON"}, {"_pickle.cpython-", serializes},
	{"_bcrypt.abi3", stretches}, {"_yaml.cpython-", "YAML"},
	{"_brotli.cpython-", compresses}, {"_regex.cpython-", matches},
	{"_elementtree.cpython-", "XML and HTML"}, {"pyexpat.cpython-", "XML and HTML"},
}

// What some libraries are for.
const (
	compresses = "compression"
	encrypts   = "encryption and hashes"
	tlsOnly    = "TLS"
	matches    = "regular expressions"
	draws      = "pictures"
	stretches  = "passwords that are stretched into keys"
	serializes = "objects as bytes (pickle)"
)

// wastesOf are the wastes that a library without symbols is at: by what the library is for, how the
// waste's description begins. A library that is not here, such as one for pictures, may do what the
// service is there for.
var wastesOf = map[string]string{
	compresses: "answers and data that are compressed",
	matches:    "regular expressions that are tried",
	stretches:  "passwords that are stretched",
	"YAML":     "settings and lists in YAML",
	serializes: "objects that are written down and read again",
}

// compressesHard is how many seconds a library takes for each byte of an answer at least if it
// compresses harder than pays. zlib took .11, .15 and .18 µs for a byte of charthouses' catalogue at
// the levels 5, 6 and 7, and .29 and .31 at 8 and 9, which made it 1 % smaller.
const compressesHard = .23e-6

// compressedFor returns how many seconds of processor time a library takes for each byte of an
// answer; 0 if that is not known.
func (e *Evidence) compressedFor(w *wasted) float64 {
	t := &e.AtLine.Step.Totals
	sent := float64(t.BytesIn) / max(float64(t.Ended[measure.OK]), 1)
	if sent == 0 {
		return 0
	}
	return w.share * e.AtLine.PerRequest(measure.TargetCPU) / sent
}

// fair speaks for a library that compresses, unless it takes longer for a byte of an answer than the
// usual levels of zlib. Which functions of it run is not known: elsewhere than in a server that is
// known to compress answers, it may decompress what clients send, or serve another library. Nor are
// the usual costs of other libraries. To match expressions is work that a service may be there for,
// but not a server that only picks an answer by them.
func (e *Evidence) fair(w *wasted) (why string, fairly bool) {
	at := w.where[0].Function
	switch binaryOf(profile.Frame{Function: at}) {
	case compresses:
	case matches:
		return w.what + ", which may be what it is there for",
			programs[e.Run.Manifest.Machine.TargetServer].matches.Text == "" || e.guards()
	default:
		return w.what, false
	}
	serves := programs[e.Run.Manifest.Machine.TargetServer].compresses.Text != ""
	if !serves || !strings.HasPrefix(at, "[libz") || strings.HasPrefix(at, "[libzstd") {
		return w.what + ", which may be what it is there for", true
	}
	each := e.compressedFor(w)
	return fmt.Sprintf("%s, at %s for each byte of an answer; levels up to 7 of zlib take less "+
		"than %s", w.what, span(each), span(compressesHard)), each < compressesHard
}

// guards reports whether the profile has a firewall for HTTP, which is there to match what clients send.
func (e *Evidence) guards() bool {
	p := e.AtLine.Profile(kindCPU)
	return p != nil && slices.ContainsFunc(p.Top(profile.CPU, leafBinary, math.MaxInt),
		func(at profile.Place) bool { return strings.Contains(strings.ToLower(at.Function), "modsecurity") })
}

// binaryOf returns what the library that a frame only names is for; empty for other frames.
func binaryOf(f profile.Frame) string {
	name, is := strings.CutPrefix(f.Function, "[")
	if !is {
		return ""
	}
	for _, b := range binaries {
		if strings.HasPrefix(name, b.begins) {
			return b.does
		}
	}
	return ""
}

// byBinaries returns prefixes of the names of frames that are known to be at a waste by their
// library alone.
func (w *waste) byBinaries() (all []string) {
	for _, b := range binaries {
		if of := wastesOf[b.does]; of != "" && strings.HasPrefix(w.what, of) {
			all = append(all, "["+b.begins)
		}
	}
	return all
}

// spender chooses the function that a stack's time is told as: the service's own or, if none was
// seen, a library that is known by its name alone.
func spender(stack []profile.Frame) (profile.Frame, bool) {
	if f, is := profile.FirstUser(stack); is {
		return f, true
	}
	i := slices.IndexFunc(stack, func(f profile.Frame) bool { return binaryOf(f) != "" })
	if i < 0 {
		return profile.Frame{}, false
	}
	return stack[i], true
}
