package hpack_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	oracle "golang.org/x/net/http2/hpack"

	"plimsoll/internal/hpack"
)

// bytesOf reads hexadecimal digits with white space between them.
func bytesOf(t testing.TB, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var room = make([]byte, 1<<20)

// read decodes a block into memory of this many bytes, at most those of room, and copies what it
// finds.
func read(d *hpack.Decoder, block []byte, memory int) ([]oracle.HeaderField, error) {
	d.Begin(block)
	var fields []oracle.HeaderField
	var f hpack.Field
	dst := room[:0:memory]
	for {
		out, ok, err := d.Next(&f, dst)
		switch {
		case cap(out) != memory || memory > 0 && &out[:1][0] != &room[0]:
			panic("Next left the memory it was given")
		case err != nil || !ok:
			return fields, err
		case indexOf(f.Name) != f.Index:
			panic(fmt.Sprintf("%q has index %d", f.Name, f.Index))
		}
		dst = out
		fields = append(fields, oracle.HeaderField{
			Name: string(f.Name), Value: string(f.Value), Sensitive: f.Sensitive,
		})
	}
}

// contents is a decoder's dynamic table, the newest entry first.
func contents(d hpack.Decoder) []oracle.HeaderField {
	var all []oracle.HeaderField
	for index := byte(62); ; index++ {
		f, err := read(&d, []byte{0x80 | index}, 4096)
		if err != nil {
			return all
		}
		all = append(all, f...)
	}
}

func sizeOf(fields []oracle.HeaderField) int {
	n := 0
	for _, f := range fields {
		n += int(f.Size())
	}
	return n
}

func lines(fields []oracle.HeaderField) string {
	var all []string
	for _, f := range fields {
		all = append(all, f.Name+": "+f.Value)
	}
	return strings.Join(all, "\n")
}

func expectFields(t *testing.T, got, want []oracle.HeaderField) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("fields are\n%v\nwant\n%v", got, want)
	}
}

// indexOf is the index that a Field of this name must have.
func indexOf(name []byte) uint8 {
	i := hpack.StaticIndex(name)
	if i != 0 && string(hpack.StaticName(i)) != string(name) {
		return 0
	}
	return i
}
