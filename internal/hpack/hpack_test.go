package hpack_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	oracle "golang.org/x/net/http2/hpack"

	"plimsoll/internal/hpack"
)

// A block of 10,000 bytes may refer to an entry as large as the table with every byte of it.
func TestABombIsCountedAndNotMade(t *testing.T) {
	value := bytes.Repeat([]byte{'b'}, 4096-32-1)
	bomb := append(integer([]byte{0x40, 1, 'a'}, 0, len(value)), value...)
	size := 4096 * 10001
	bomb = append(bomb, bytes.Repeat([]byte{0xbe}, 10000)...)
	var d hpack.Decoder
	d.Init(4096)
	got, err := read(&d, bomb, 10000)
	if err != nil || len(got) != 2 || got[0] != got[1] || !d.TooLarge() || d.Size() != size {
		t.Errorf("%d fields, size %d, want 2 and %d; %v", len(got), d.Size(), size, err)
	}
	memory := make([]byte, 0, 10000)
	if n := testing.AllocsPerRun(10, func() { drain(&d, bomb, memory) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	got, err = read(&d, []byte{0xbe}, 4096)
	if err != nil || len(got) != 1 || got[0].Value != string(value) {
		t.Errorf("the table is out of step: %v, %v", got, err)
	}
}

// A literal may take its name from the entry that it drives out, and be too large to be delivered.
func TestANameOutlivesItsEntry(t *testing.T) {
	for _, memory := range []int{0, 100, 4096} {
		var d hpack.Decoder
		d.Init(4096)
		name := strings.Repeat("n", 1500)
		block := append(integer([]byte{0x40}, 0, len(name)), name...)
		block = append(block, 1, 'v')
		if _, err := read(&d, block, memory); err != nil {
			t.Fatal(err)
		}
		for i, length := range []int{1000, 1500, 2000, 2500, 7, 0, 2564} {
			value := strings.Repeat(string(rune('a'+i)), length)
			block = append(integer([]byte{0x40 | 62}, 0, length), value...)
			if _, err := read(&d, block, memory); err != nil {
				t.Fatal(err)
			}
			if f := contents(d)[0]; f.Name != name || f.Value != value {
				t.Fatalf("with %d bytes, the entry of %d is %.20q: %.20q", memory, length, f.Name, f.Value)
			}
		}
	}
}

// An entry larger than the table empties it, and is delivered all the same.
func TestAnEntryLargerThanTheTableEmptiesIt(t *testing.T) {
	value := strings.Repeat("v", 4096)
	block := append(integer([]byte{0x40, 1, 'a', 1, 'b', 0x40, 1, 'c'}, 0, len(value)), value...)
	for memory, want := range map[int]int{4100: 2, 4098: 1, 0: 0} {
		var d hpack.Decoder
		d.Init(0)
		got, err := read(&d, block, memory)
		if err != nil || len(got) != want || want == 2 && got[1].Value != value {
			t.Errorf("%d fields in %d bytes, want %d; %v", len(got), memory, want, err)
		}
		if n := len(contents(d)); n != 0 {
			t.Errorf("the table has %d entries", n)
		}
	}
}

// What was delivered stays as it is, whatever the next blocks do to the table.
func TestFieldsDoNotAliasTheTable(t *testing.T) {
	var d hpack.Decoder
	var f hpack.Field
	d.Init(4096)
	read(&d, []byte("\x40\x03key\x05value"), 100)
	d.Begin([]byte{0xbe})
	if _, ok, err := d.Next(&f, make([]byte, 0, 100)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for range 100 {
		block := append(integer([]byte("\x40\x03yek"), 0, 1000), bytes.Repeat([]byte{'x'}, 1000)...)
		read(&d, block, 2000)
	}
	if string(f.Name) != "key" || string(f.Value) != "value" || cap(f.Name) != 3 || cap(f.Value) != 5 {
		t.Errorf("the field is now %q: %q", f.Name, f.Value)
	}
}

func TestAFieldThatWouldFillTheTableStaysOutOfIt(t *testing.T) {
	var e hpack.Encoder
	e.Init(4096, false)
	e.AppendField(nil, []byte("small"), []byte("v"), hpack.Repeat)
	large := make([]byte, 3000)
	if got := e.AppendField(nil, []byte("large"), large, hpack.Repeat); got[0] != 0 {
		t.Errorf("the large field begins with %x", got[0])
	}
	got := e.AppendField(nil, []byte("SMALL"), []byte("v"), hpack.Repeat)
	if !bytes.Equal(got, []byte{0xbe}) {
		t.Errorf("the small field is %x", got)
	}
}

// drain decodes a block and says how many fields were delivered.
func drain(d *hpack.Decoder, block, memory []byte) int {
	var f hpack.Field
	d.Begin(block)
	for n := 0; ; n++ {
		out, ok, err := d.Next(&f, memory)
		if err != nil {
			panic(err)
		}
		if !ok {
			return n
		}
		memory = out
	}
}

type field struct {
	name, value []byte
	how         hpack.Indexing
}

func fieldsOf(how hpack.Indexing, lines ...string) []field {
	var all []field
	for _, line := range lines {
		name, value, _ := strings.Cut(line[1:], ": ")
		all = append(all, field{[]byte(line[:1] + name), []byte(value), how})
	}
	return all
}

// request is what a browser sends, and response what a service answers.
var (
	request = fieldsOf(hpack.Repeat, ":method: GET", ":scheme: https", ":authority: shop.example.com",
		":path: /api/v1/items?page=2&sort=price", "accept-encoding: gzip, deflate, br, zstd",
		"user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
		"accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
		"cookie: session=4f2a9c1e77d0b3a8; theme=dark")
	response = append(fieldsOf(hpack.Repeat, "Content-Type: application/json; charset=utf-8",
		"Date: Mon, 21 Oct 2013 20:13:21 GMT", "Server: nginx/1.27.3", "X-Powered-By: Express"),
		fieldsOf(hpack.Once, "Content-Length: 18342")...)
)

func encode(e *hpack.Encoder, dst []byte, fields []field, how ...hpack.Indexing) []byte {
	dst = e.Begin(dst)
	for i := range fields {
		f := &fields[i]
		h := f.how
		if len(how) > 0 {
			h = how[0]
		}
		dst = e.AppendField(dst, f.name, f.value, h)
	}
	return dst
}

func TestNothingIsAllocatedInTheSteadyState(t *testing.T) {
	for _, huffman := range []bool{false, true} {
		var e hpack.Encoder
		var d hpack.Decoder
		wire, memory := make([]byte, 0, 4096), make([]byte, 0, 4096)
		changing := fieldsOf(hpack.Repeat, "Etag: 0000000000000000", "X-Request-Id: 0000000000000000")
		connection := func(blocks int) {
			e.Init(4096, huffman)
			d.Init(4096)
			for i := range blocks {
				for _, f := range changing {
					f.value[i%16]++
				}
				drain(&d, encode(&e, encode(&e, encode(&e, wire, request), response), changing), memory)
			}
		}
		connection(500)
		if n := testing.AllocsPerRun(3, func() { connection(100) }); n != 0 {
			t.Errorf("%v allocations, huffman %v", n, huffman)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, kind := range []struct {
		name    string
		how     hpack.Indexing
		huffman bool
	}{{"repeated", hpack.Repeat, true}, {"huffman", hpack.Once, true}, {"plain", hpack.Once, false}} {
		// The first block fills the table. The second is what a connection sends from then on, with
		// a path of its own.
		var e hpack.Encoder
		e.Init(4096, kind.huffman)
		fields := append([]field(nil), request...)
		fields[3].how = hpack.Once
		for i := range fields {
			fields[i].how = min(fields[i].how, kind.how)
		}
		first, then := encode(&e, nil, fields), encode(&e, nil, fields)
		b.Run(kind.name+"/ours", func(b *testing.B) {
			var d hpack.Decoder
			d.Init(4096)
			memory := make([]byte, 0, 4096)
			drain(&d, first, memory)
			b.ReportAllocs()
			for b.Loop() {
				if drain(&d, then, memory) != len(fields) {
					b.Fatal("not all fields")
				}
			}
		})
		b.Run(kind.name+"/x-net", func(b *testing.B) {
			n := 0
			d := oracle.NewDecoder(4096, func(oracle.HeaderField) { n++ })
			d.Write(first)
			b.ReportAllocs()
			for b.Loop() {
				n = 0
				d.Write(then)
				if d.Close(); n != len(fields) {
					b.Fatal("not all fields")
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	wire, once := make([]byte, 0, 4096), []hpack.Indexing{hpack.Once}
	for _, kind := range []struct {
		name    string
		how     []hpack.Indexing
		huffman bool
	}{
		{"repeated-plain", nil, false}, {"repeated-huffman", nil, true},
		{"once-plain", once, false}, {"once-huffman", once, true},
	} {
		b.Run(kind.name+"/ours", func(b *testing.B) {
			var e hpack.Encoder
			e.Init(4096, kind.huffman)
			encode(&e, wire, response, kind.how...)
			b.ReportAllocs()
			var block []byte
			for b.Loop() {
				block = encode(&e, e.AppendStatus(wire, 200), response, kind.how...)
			}
			b.ReportMetric(float64(len(block)), "wire")
		})
	}
	// The oracle indexes whatever is not sensitive, so the length is sensitive here.
	var fields []oracle.HeaderField
	for _, f := range response {
		fields = append(fields, oracle.HeaderField{
			Name: lower(f.name), Value: string(f.value), Sensitive: f.how == hpack.Once,
		})
	}
	for _, kind := range []string{"repeated-huffman", "once-huffman"} {
		b.Run(kind+"/x-net", func(b *testing.B) {
			var block bytes.Buffer
			e := oracle.NewEncoder(&block)
			b.ReportAllocs()
			for b.Loop() {
				block.Reset()
				e.WriteField(oracle.HeaderField{Name: ":status", Value: "200"})
				for _, f := range fields {
					f.Sensitive = f.Sensitive || kind == "once-huffman"
					e.WriteField(f)
				}
			}
			b.ReportMetric(float64(block.Len()), "wire")
		})
	}
}

// A static name may be spelled out. It is the same name then, also for those that refer to it
// later.
func TestAStaticNameThatIsSpelledOutHasItsIndex(t *testing.T) {
	const cookie = 32
	huffman := oracle.AppendHuffmanString(nil, "cookie")
	huffman = append([]byte{0x80 | byte(len(huffman))}, huffman...)
	for _, name := range [][]byte{append([]byte{6}, "cookie"...), huffman} {
		for _, memory := range []int{0, 100} {
			var d hpack.Decoder
			var f hpack.Field
			d.Init(4096)
			block := append(append([]byte{0x40}, name...), 1, 'a')
			if _, err := read(&d, block, memory); err != nil || d.Size() != 6+1+32 {
				t.Fatal(d.Size(), err)
			}
			for _, block := range [][]byte{{0xbe}, {0x7e, 1, 'a'}, {0x0f, 62 - 15, 1, 'a'}, block} {
				d.Begin(block)
				out, ok, err := d.Next(&f, make([]byte, 0, 10))
				if !ok || err != nil || f.Index != cookie || string(f.Value) != "a" ||
					&f.Name[0] != &hpack.StaticName(cookie)[0] || len(out) != 1 {
					t.Errorf("%x is %q: %q, index %d; %v", block, f.Name, f.Value, f.Index, err)
				}
			}
		}
	}
}

func TestLongIndexesAreWrittenAndRead(t *testing.T) {
	var e hpack.Encoder
	var d hpack.Decoder
	e.Init(hpack.Largest, false)
	e.Resize(hpack.Largest)
	d.Init(hpack.Largest)
	for round := range 2 {
		block := e.Begin(nil)
		for i := range 1500 {
			block = e.AppendField(block, fmt.Append(nil, "x-", i), nil, hpack.Repeat)
		}
		// An index has up to three bytes. A few fields are lost to others of their hash.
		if round == 1 && len(block) > 1500*4 {
			t.Errorf("%d bytes: the fields are not found again", len(block))
		}
		fields, err := read(&d, block, len(room))
		if err != nil || len(fields) != 1500 || fields[1499].Name != "x-1499" {
			t.Fatalf("round %d: %d fields, %v", round, len(fields), err)
		}
	}
}
