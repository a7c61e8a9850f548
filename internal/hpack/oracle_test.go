package hpack_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	oracle "golang.org/x/net/http2/hpack"

	"plimsoll/internal/hpack"
)

var names = []string{
	":authority", ":method", ":path", ":scheme", ":status", "accept-encoding", "content-type",
	"Cookie", "date", "Server", "VIA", "access-control-allow-origin", "x", "X-Request-Id",
	"X-Powered-By", "x-a-name-that-is-longer-than-most-of-them", "Sec-CH-UA", "_",
}

var values = []string{
	"", "GET", "POST", "/", "https", "200", "404", "500", "gzip, deflate", "a", "no-cache",
	"text/html; charset=utf-8", "\x00\xff\x80", "0123456789abcdef0123456789abcdef0123456789abcdef",
	"Mon, 21 Oct 2013 20:13:21 GMT", "Mon, 21 Oct 2013 20:13:22 GMT",
}

// draw makes a field, mostly one that was seen before.
func draw(rng *rand.Rand) (name, value string) {
	name, value = names[rng.IntN(len(names))], values[rng.IntN(len(values))]
	switch rng.IntN(12) {
	case 0:
		name = fmt.Sprint("x-", rng.IntN(1000))
	case 1:
		value = strings.Repeat("v", rng.IntN(300))
	case 2:
		raw := make([]byte, rng.IntN(200))
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		value = string(raw)
	case 3:
		if rng.IntN(10) == 0 {
			value = strings.Repeat("long ", rng.IntN(1500))
		}
	}
	return name, value
}

func TestTheOracleDecodesWhatIsEncoded(t *testing.T) {
	sizes := []uint32{0, 31, 32, 100, 256, 1000, 4096, 5000, 20000, 1 << 20}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var e hpack.Encoder
		for range 2 { // the second connection has the first one's memory
			e.Init([]int{0, 50, 700, 4096, 10000, 1 << 20}[rng.IntN(6)], seed%2 == 0)
			var got, want []oracle.HeaderField
			d := oracle.NewDecoder(4096, func(f oracle.HeaderField) { got = append(got, f) })
			for block := range 60 {
				for rng.IntN(5) == 0 {
					size := sizes[rng.IntN(len(sizes))]
					e.Resize(size)
					d.SetAllowedMaxDynamicTableSize(size)
				}
				wire := e.Begin(nil)
				got, want = got[:0], want[:0]
				for range rng.IntN(20) {
					name, value := draw(rng)
					how := []hpack.Indexing{hpack.Once, hpack.Repeat, hpack.Repeat, hpack.Never}[rng.IntN(4)]
					want = append(want, oracle.HeaderField{
						Name: strings.ToLower(name), Value: value, Sensitive: how == hpack.Never,
					})
					if i := hpack.StaticIndex([]byte(name)); i != 0 && rng.IntN(2) == 0 {
						wire = e.AppendStatic(wire, i, []byte(value), how)
					} else {
						wire = e.AppendField(wire, []byte(name), []byte(value), how)
					}
				}
				if _, err := d.Write(wire); err != nil {
					t.Fatalf("seed %d, block %d: %v", seed, block, err)
				}
				if err := d.Close(); err != nil {
					t.Fatalf("seed %d, block %d: %v", seed, block, err)
				}
				expectFields(t, got, want)
			}
		}
	}
}

func TestWhatTheOracleEncodesIsDecoded(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var d hpack.Decoder
		for range 2 { // the second connection has the first one's memory
			most := []uint32{4096, 5000, 1 << 14, 1 << 16}[rng.IntN(4)]
			d.Init(int(most))
			var wire bytes.Buffer
			e := oracle.NewEncoder(&wire)
			e.SetMaxDynamicTableSizeLimit(most)
			for range 60 {
				if rng.IntN(5) == 0 {
					e.SetMaxDynamicTableSize(rng.Uint32N(most + 1))
				}
				wire.Reset()
				var want []oracle.HeaderField
				for range rng.IntN(20) {
					name, value := draw(rng)
					want = append(want, oracle.HeaderField{Name: name, Value: value, Sensitive: rng.IntN(10) == 0})
					if err := e.WriteField(want[len(want)-1]); err != nil {
						t.Fatal(err)
					}
				}
				memory := len(room)
				if rng.IntN(3) == 0 {
					memory = rng.IntN(500)
				}
				got, err := read(&d, wire.Bytes(), memory)
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if d.Size() != sizeOf(want) {
					t.Fatalf("seed %d: the size is %d, want %d", seed, d.Size(), sizeOf(want))
				}
				if d.TooLarge() != (len(got) < len(want)) || d.TooLarge() && memory > 500 {
					t.Fatalf("seed %d: %d of %d fields in %d bytes, and TooLarge says %v",
						seed, len(got), len(want), memory, d.TooLarge())
				}
				expectFields(t, got, want[:len(got)])
			}
		}
	}
}

// An update to a smaller size and back must be announced, and golang.org/x/net takes the two
// updates that this needs only while its table is empty.
func TestATableThatWasSmallerForAWhileIsEmpty(t *testing.T) {
	var e hpack.Encoder
	e.Init(4096, false)
	name, value := []byte("name"), []byte("value")
	first := e.AppendField(e.Begin(nil), name, value, hpack.Repeat)
	for _, c := range []struct {
		sizes []uint32
		want  string
	}{
		{nil, "be"},
		{[]uint32{1 << 20}, "be"},
		{[]uint32{1 << 20, 4096}, "be"},
		{[]uint32{100}, "3f45be"},
		{[]uint32{200}, "3fa901be"},
		{[]uint32{1000, 100, 200}, "203fa901" + fmt.Sprintf("%x", first)},
		{[]uint32{30}, "3e" + fmt.Sprintf("%x", append([]byte{0}, first[1:]...))},
	} {
		for _, size := range c.sizes {
			e.Resize(size)
		}
		got := fmt.Sprintf("%x", e.AppendField(e.Begin(nil), name, value, hpack.Repeat))
		if got != c.want {
			t.Errorf("after %v: %s, want %s", c.sizes, got, c.want)
		}
	}
}

func TestStatusesAreWrittenAsTheyAre(t *testing.T) {
	var e hpack.Encoder
	e.Init(4096, false)
	d := oracle.NewDecoder(4096, nil)
	for status := -1; status < 700; status++ {
		want := fmt.Sprint(status)
		if status < 100 || status > 599 {
			want = "500"
		}
		fields, err := d.DecodeFull(e.AppendStatus(e.Begin(nil), status))
		if err != nil || !slices.Equal(fields, []oracle.HeaderField{{Name: ":status", Value: want}}) {
			t.Errorf("%d is %v, %v", status, fields, err)
		}
	}
}

func TestStaticNamesAreFoundInAnyCase(t *testing.T) {
	for i := uint8(1); i <= hpack.Statics; i++ {
		name := hpack.StaticName(i)
		low := hpack.StaticIndex(name)
		if low == 0 || low > i || string(hpack.StaticName(low)) != string(name) {
			t.Errorf("%s, entry %d, is found at %d", name, i, low)
		}
		if got := hpack.StaticIndex(bytes.ToUpper(name)); got != low {
			t.Errorf("%s in capitals is found at %d, want %d", name, got, low)
		}
		for at := range name {
			other := bytes.Clone(name)
			for c := range 256 {
				other[at] = byte(c)
				if !bytes.EqualFold(other, name) && hpack.StaticIndex(other) == low {
					t.Errorf("%q is taken for %s", other, name)
				}
			}
		}
	}
	for _, name := range []string{
		"", "x", "accept_encoding", "access-control-allow-origins", strings.Repeat("a", 1000),
	} {
		if i := hpack.StaticIndex([]byte(name)); i != 0 {
			t.Errorf("%q is found at %d", name, i)
		}
	}
}
