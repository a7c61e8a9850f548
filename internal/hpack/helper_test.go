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

// read decodes a block into memory of a fixed size and copies what it finds.
func read(d *hpack.Decoder, block []byte, memory int) ([]oracle.HeaderField, error) {
	d.Begin(block)
	var fields []oracle.HeaderField
	var f hpack.Field
	start := make([]byte, 0, memory)
	dst := start
	for {
		out, ok, err := d.Next(&f, dst)
		switch {
		case cap(out) != cap(start) || memory > 0 && &out[:1][0] != &start[:1][0]:
			panic("Next left the memory it was given")
		case err != nil || !ok:
			return fields, err
		case hpack.StaticIndex(f.Name) != f.Index && strings.ToLower(string(f.Name)) == string(f.Name):
			panic(fmt.Sprintf("%q has index %d", f.Name, f.Index))
		}
		dst = out
		fields = append(fields, oracle.HeaderField{Name: string(f.Name), Value: string(f.Value), Sensitive: f.Sensitive})
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
