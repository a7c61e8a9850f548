package hpack_test

import (
	"strings"
	"testing"

	oracle "golang.org/x/net/http2/hpack"

	"plimsoll/internal/hpack"
)

// FuzzDecode reads data as the blocks of one connection, each behind a byte that is its length and
// says whether there is room for its fields.
func FuzzDecode(f *testing.F) {
	for _, example := range examples {
		var data []byte
		for _, s := range example.steps {
			wire := bytesOf(f, s.wire)
			data = append(append(data, byte(len(wire))), wire...)
		}
		f.Add(data)
	}
	f.Add([]byte{5, 0x20, 0x3f, 0xe1, 0x1f, 0x82, 4, 0x40, 1, 'a', 0, 0x81, 0xbe})
	f.Fuzz(func(t *testing.T, data []byte) {
		var d hpack.Decoder
		d.Init(4096)
		var want []oracle.HeaderField
		o := oracle.NewDecoder(4096, func(f oracle.HeaderField) { want = append(want, f) })
		for len(data) > 0 {
			n, memory := int(data[0]&0x7f), len(room)
			if data[0] >= 0x80 {
				memory = n / 2
			}
			block := data[1:][:min(n, len(data)-1)]
			data = data[1+len(block):]
			got, err := read(&d, block, memory)
			want = want[:0]
			_, wrong := o.Write(block)
			if wrong == nil {
				wrong = o.Close()
			}
			if stricter(err, wrong) {
				return
			}
			if (err == nil) != (wrong == nil) {
				t.Fatalf("%x: %v, and the oracle says %v", block, err, wrong)
			}
			if !d.TooLarge() && len(got) != len(want) || d.TooLarge() && memory == len(room) {
				t.Fatalf("%x: %v, want %v", block, got, want)
			}
			expectFields(t, got, want[:len(got)])
			if err != nil {
				return
			}
			if d.Size() != sizeOf(want) {
				t.Fatalf("%x: the size is %d, want %d", block, d.Size(), sizeOf(want))
			}
		}
	})
}

// stricter says whether one of two decoders refuses what the other need not.
func stricter(ours, theirs error) bool {
	switch {
	case ours == hpack.ErrInteger:
		return true // the oracle takes integers of up to nine further bytes
	case ours == hpack.ErrUpdate:
		return true // and updates anywhere while its table is empty
	case ours == nil && theirs != nil:
		// It takes but one while the table is not empty.
		return strings.Contains(theirs.Error(), "MUST occur at the beginning")
	}
	return false
}

// FuzzHuffman takes data for a Huffman code, and for a text.
func FuzzHuffman(f *testing.F) {
	for _, seed := range []string{
		"www.example.com", "\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff", "\x1f\xff", "",
		"\x00\x01\xfe\xff", "\xff\xff\xff\xff",
		"\xff\xff\xff\xfa\xff\xff\xff\xfb", strings.Repeat("0", 300), strings.Repeat("\n", 100),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		var d hpack.Decoder
		d.Init(4096)
		want, wrong := oracle.HuffmanDecodeToString(data)
		block := integer([]byte{0x41}, 0x80, len(data))
		block = append(block, data...)
		for _, memory := range []int{0, max(len(want)-1, 0), len(want), len(want) + 7, len(room)} {
			got, err := read(&d, block, memory)
			if (err == nil) != (wrong == nil) {
				t.Fatalf("%x: %v, and the oracle says %v", data, err, wrong)
			}
			if err != nil {
				continue
			}
			if d.TooLarge() != (memory < len(want)) || !d.TooLarge() && got[0].Value != want {
				t.Fatalf("%x in %d bytes: %q, want %q", data, memory, got, want)
			}
			if len(want)+42 <= 4096 && contents(d)[0].Value != want {
				t.Fatalf("%x in %d bytes leaves %q in the table, want %q",
					data, memory, contents(d)[0].Value, want)
			}
		}
		var e hpack.Encoder
		e.Init(4096, true)
		block = e.AppendField(nil, data, data, hpack.Repeat)
		fields, err := oracle.NewDecoder(4096, nil).DecodeFull(block)
		if err != nil || fields[0].Name != lower(data) || fields[0].Value != string(data) {
			t.Fatalf("%q is encoded as %q, %v", data, fields, err)
		}
	})
}

// integer appends an integer with a prefix of seven bits.
func integer(dst []byte, pattern byte, n int) []byte {
	if n < 127 {
		return append(dst, pattern|byte(n))
	}
	dst = append(dst, pattern|127)
	for n -= 127; n >= 128; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}

// lower makes ASCII letters lower-case, and leaves all other bytes as they are.
func lower(b []byte) string {
	low := []byte(string(b))
	for i, c := range low {
		if 'A' <= c && c <= 'Z' {
			low[i] += 'a' - 'A'
		}
	}
	return string(low)
}
