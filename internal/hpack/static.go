package hpack

import "encoding/binary"

// Statics is the number of entries of the static table. Its indexes are 1 to Statics (RFC 7541,
// appendix A).
const Statics = 61

// Indexes of the names that HTTP/2 itself has to know: the first entry of each name.
const (
	Authority uint8 = 1
	Method    uint8 = 2
	Path      uint8 = 4
	Scheme    uint8 = 6
	Status    uint8 = 8
)

// static is an entry of the static table.
type static struct {
	name, value []byte
	first       uint8 // the lowest index of an entry of this name
	last        uint8 // the highest one
	size        int   // RFC 7541, section 4.1
}

// texts is the static table. Where an entry has no name, it is that of the entry before.
var texts = [Statics + 1][2]string{
	1: {":authority"}, {":method", "GET"}, {"", "POST"}, {":path", "/"}, {"", "/index.html"},
	{":scheme", "http"}, {"", "https"}, {":status", "200"}, {"", "204"}, {"", "206"}, {"", "304"},
	{"", "400"}, {"", "404"}, {"", "500"}, {"accept-charset"}, {"accept-encoding", "gzip, deflate"},
	{"accept-language"}, {"accept-ranges"}, {"accept"}, {"access-control-allow-origin"}, {"age"},
	{"allow"}, {"authorization"}, {"cache-control"}, {"content-disposition"}, {"content-encoding"},
	{"content-language"}, {"content-length"}, {"content-location"}, {"content-range"},
	{"content-type"}, {"cookie"}, {"date"}, {"etag"}, {"expect"}, {"expires"}, {"from"}, {"host"},
	{"if-match"}, {"if-modified-since"}, {"if-none-match"}, {"if-range"}, {"if-unmodified-since"},
	{"last-modified"}, {"link"}, {"location"}, {"max-forwards"}, {"proxy-authenticate"},
	{"proxy-authorization"}, {"range"}, {"referer"}, {"refresh"}, {"retry-after"}, {"server"},
	{"set-cookie"}, {"strict-transport-security"}, {"transfer-encoding"}, {"user-agent"}, {"vary"},
	{"via"}, {"www-authenticate"},
}

var statics [Statics + 1]static

// byHash finds a static name by its hash. The factors are such that no two names share a slot,
// which a test checks.
var byHash [1 << hashBits]uint8

const (
	hashBits   = 8
	longest    = len("access-control-allow-origin")
	nameFactor = 0xd20c3bbe5499c935
	lastFactor = 0xed8614be78a6acbb
	fold       = 0x2020202020202020
)

func init() {
	var first uint8
	for i := uint8(1); i <= Statics; i++ {
		if texts[i][0] != "" {
			first = i
		}
		s := &statics[i]
		s.first, s.name, s.value = first, []byte(texts[first][0]), []byte(texts[i][1])
		s.size = overhead + len(s.name) + len(s.value)
		statics[first].last = i
		byHash[hashName(s.name)>>(64-hashBits)] = first
	}
}

// StaticName is the name of entry index, 1 to Statics, of the static table. Nobody may write to it.
func StaticName(index uint8) []byte { return statics[index].name }

// StaticIndex is the lowest index of an entry of the static table whose name is name, in any case,
// or 0 where there is none.
func StaticIndex(name []byte) uint8 { return staticIndex(name, hashName(name)) }

// staticIndex is StaticIndex of a name whose hash is known.
func staticIndex(name []byte, hash uint64) uint8 {
	i := byHash[hash>>(64-hashBits)]
	if i != 0 && equalFold(statics[i].name, name) {
		return i
	}
	return 0
}

// exactIndex is StaticIndex of a name that counts only in lower case.
func exactIndex(name []byte) uint8 {
	if len(name) > longest {
		return 0
	}
	i := byHash[hashName(name)>>(64-hashBits)]
	if i != 0 && string(statics[i].name) == string(name) {
		return i
	}
	return 0
}

// ends covers a string with two words, both ends of it. Of strings of up to 16 bytes and one
// length, only equal ones give equal words.
func ends(b []byte) (first, last uint64) {
	switch n := len(b); {
	case n >= 8:
		return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[n-8:])
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[n-4:]))
	case n > 0:
		return uint64(b[0]) | uint64(b[n/2])<<8, uint64(b[n-1])
	}
	return 0, 0
}

// hashName is the hash of a name in any case. It reads both ends of the name only: a caller that
// finds something by it compares.
func hashName(name []byte) uint64 {
	first, last := ends(name)
	return mix(first|fold, last|fold, len(name))
}

// hashValue is the hash of a value. It reads at most 24 bytes of it.
func hashValue(value []byte) uint64 {
	first, last := ends(value)
	if n := len(value); n > 16 {
		last += binary.LittleEndian.Uint64(value[n/2-4:]) * nameFactor
	}
	return mix(first, last, len(value))
}

func mix(first, last uint64, length int) uint64 {
	h := (first ^ uint64(length)) * nameFactor
	return (h ^ h>>29 ^ last) * lastFactor
}

// lower is eight bytes with A-Z in lower case.
func lower(x uint64) uint64 {
	const ones = 0x0101010101010101
	low := x & (0x7f * ones)
	from, past := low+(0x80-'A')*ones, low+(0x80-'Z'-1)*ones
	return x | (from&^past&^x&(0x80*ones))>>2
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// toLower makes the letters of b lower-case, in place.
func toLower(b []byte) {
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, lower(binary.LittleEndian.Uint64(b)))
		b = b[8:]
	}
	for i, c := range b {
		b[i] = lowerByte(c)
	}
}

// equalFold compares a name in lower case with one in any case.
func equalFold(low, name []byte) bool {
	if len(low) != len(name) {
		return false
	}
	for len(low) >= 8 && len(name) >= 8 {
		if lower(binary.LittleEndian.Uint64(name)) != binary.LittleEndian.Uint64(low) {
			return false
		}
		low, name = low[8:], name[8:]
	}
	for i, c := range low {
		if lowerByte(name[i]) != c {
			return false
		}
	}
	return true
}
