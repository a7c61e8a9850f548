package hpack_test

import (
	"bytes"
	"strings"
	"testing"

	"plimsoll/internal/hpack"
)

// step is one block of an example: its fields, its bytes, and the dynamic table after it.
type step struct{ fields, wire, table string }

const (
	location = "location: https://www.example.com"
	private  = "cache-control: private"
	at21     = "date: Mon, 21 Oct 2013 20:13:21 GMT"
	at22     = "date: Mon, 21 Oct 2013 20:13:22 GMT"
	gzip     = "content-encoding: gzip"
	pair     = "custom-key: custom-value"
	cookie   = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"
)

func join(lines ...string) string { return strings.Join(lines, "\n") }

var (
	get    = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com"
	custom = join(":method: GET", ":scheme: https", ":path: /index.html",
		":authority: www.example.com", pair)
	noCache = "cache-control: no-cache\n:authority: www.example.com"
	found   = join(":status: 302", private, at21, location)
	moved   = join(":status: 307", private, at21, location)
	okay    = join(":status: 200", private, at22, location, gzip, cookie)
	table1  = join(location, at21, private, ":status: 302")
	table2  = join(":status: 307", location, at21, private)
	table3  = join(cookie, gzip, at22)
)

// examples are those of RFC 7541, appendix C.
var examples = []struct {
	name    string
	how     hpack.Indexing
	huffman bool
	size    uint32
	steps   []step
}{
	{"C.2.1", hpack.Repeat, false, 4096, []step{{
		"custom-key: custom-header", "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
		"custom-key: custom-header"}}},
	{"C.2.2", hpack.Once, false, 4096, []step{{
		":path: /sample/path", "040c 2f73 616d 706c 652f 7061 7468", ""}}},
	{"C.2.3", hpack.Never, false, 4096, []step{{
		"password: secret", "1008 7061 7373 776f 7264 0673 6563 7265 74", ""}}},
	{"C.2.4", hpack.Once, false, 4096, []step{{":method: GET", "82", ""}}},
	{"C.3", hpack.Repeat, false, 4096, []step{
		{get, "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", ":authority: www.example.com"},
		{get + "\ncache-control: no-cache", "8286 84be 5808 6e6f 2d63 6163 6865", noCache},
		{custom, "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
			pair + "\n" + noCache},
	}},
	{"C.4", hpack.Repeat, true, 4096, []step{
		{get, "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", ":authority: www.example.com"},
		{get + "\ncache-control: no-cache", "8286 84be 5886 a8eb 1064 9cbf", noCache},
		{custom, "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", pair + "\n" + noCache},
	}},
	{"C.5", hpack.Repeat, false, 256, []step{
		{found, `4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
			2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65
			2e63 6f6d`, table1},
		{moved, "4803 3330 37c1 c0bf", table2},
		{okay, `88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
			54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049
			5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31`, table3},
	}},
	{"C.6", hpack.Repeat, true, 256, []step{
		{found, `4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
			2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3`, table1},
		{moved, "4883 640e ffc1 c0bf", table2},
		{okay, `88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
			77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
			9587 3160 65c0 03ed 4ee5 b106 3d50 07`, table3},
	}},
}

func TestTheExamplesOfTheRFCAreDecoded(t *testing.T) {
	for _, example := range examples {
		t.Run(example.name, func(t *testing.T) {
			var d hpack.Decoder
			d.Init(4096)
			if example.size == 256 {
				if _, err := read(&d, bytesOf(t, "3fe101"), 0); err != nil {
					t.Fatal(err)
				}
			}
			for _, s := range example.steps {
				got, err := read(&d, bytesOf(t, s.wire), 4096)
				if err != nil || lines(got) != s.fields {
					t.Fatalf("fields are\n%s\nwant\n%s\n%v", lines(got), s.fields, err)
				}
				if d.Size() != sizeOf(got) || d.TooLarge() {
					t.Errorf("the size is %d, want %d", d.Size(), sizeOf(got))
				}
				if table := lines(contents(d)); table != s.table {
					t.Errorf("the table is\n%s\nwant\n%s", table, s.table)
				}
			}
		})
	}
}

func TestTheExamplesOfTheRFCAreEncoded(t *testing.T) {
	for _, example := range examples {
		t.Run(example.name, func(t *testing.T) {
			var e hpack.Encoder
			e.Init(4096, example.huffman)
			e.Resize(example.size)
			for i, s := range example.steps {
				var want []byte
				if i == 0 && example.size == 256 {
					want = bytesOf(t, "3fe101")
				}
				wire := s.wire
				if example.huffman {
					// The RFC writes 307 in the Huffman code, which is not shorter.
					wire = strings.Replace(wire, "4883 640e ff", "4803 3330 37", 1)
				}
				want = append(want, bytesOf(t, wire)...)
				got := e.Begin(nil)
				for line := range strings.SplitSeq(s.fields, "\n") {
					name, value, _ := strings.Cut(line[1:], ": ")
					got = e.AppendField(got, []byte(strings.ToUpper(line[:1]+name)), []byte(value), example.how)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("block %d is %x, want %x", i, got, want)
				}
			}
		})
	}
}

func TestWhatTheRFCForbidsIsAnError(t *testing.T) {
	for _, c := range []struct {
		name, wire string
		want       error
	}{
		{"index 0", "80", hpack.ErrIndex},
		{"an index of an empty dynamic table", "be", hpack.ErrIndex},
		{"a name of an empty dynamic table", "7e 01 61", hpack.ErrIndex},
		{"an index above all", "ffffffff7f", hpack.ErrIndex},
		{"an integer that does not end", "ffffffffffffffff", hpack.ErrInteger},
		{"an integer of six further bytes", "ff808080808000", hpack.ErrInteger},
		{"an index of a name that does not end", "7fffffffffffff", hpack.ErrInteger},
		{"a length that does not end", "41 ffffffffffffff", hpack.ErrInteger},
		{"a size that does not end", "3fffffffffffff", hpack.ErrInteger},
		{"an integer cut off", "ff80", hpack.ErrTruncated},
		{"no name", "40", hpack.ErrTruncated},
		{"half a name", "40 02 61", hpack.ErrTruncated},
		{"no value", "41", hpack.ErrTruncated},
		{"half a value", "41 02 61", hpack.ErrTruncated},
		{"a length above everything", "41 7f ffffffff7f", hpack.ErrTruncated},
		{"a table larger than announced", "3f e2 1f", hpack.ErrSize},
		{"an update behind a field", "82 20", hpack.ErrUpdate},
		{"eight bits of padding", "41 81 ff", hpack.ErrHuffman},
		{"nine bits of padding behind a letter", "41 82 1fff", hpack.ErrHuffman},
		{"padding of zeros", "41 81 00", hpack.ErrHuffman},
		{"EOS", "41 84 ffffffff", hpack.ErrHuffman},
		{"EOS and a letter", "41 85 fffffffc1f", hpack.ErrHuffman},
		{"a code cut off", "41 85 ff9fffffff", hpack.ErrHuffman},
		{"a name that is not a code", "40 81 ff 01 61", hpack.ErrHuffman},
		{"a name that is not a code, behind a field", "40 01 61 01 62 40 81 ff 01 61", hpack.ErrHuffman},
	} {
		for _, memory := range []int{0, 4096} {
			var d hpack.Decoder
			d.Init(4096)
			if _, err := read(&d, bytesOf(t, c.wire), memory); err != c.want {
				t.Errorf("%s with %d bytes: %v, want %v", c.name, memory, err, c.want)
			}
		}
	}
}
