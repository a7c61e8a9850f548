package tier

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/internal/cache/rules"
	"plimsoll/internal/head"
)

var testNow = rules.Instant{Mono: 9e9, Wall: 1_800_000_000e9}

// stored is what the rules make of a response with a body of so many bytes.
func stored(t testing.TB, body int, fields ...string) (rules.Stored, []byte) {
	t.Helper()
	var o rules.Options
	response := head.Response{Status: 200, Length: int64(body)}
	for i := 0; i < len(fields); i += 2 {
		response.Fields.Add([]byte(fields[i]), []byte(fields[i+1]))
	}
	request := head.Request{Method: []byte("GET")}
	var r rules.Request
	r.Read(&request)
	s, why := o.Judge(&r, &response, rules.Times{Sent: testNow, Received: testNow})
	if why != rules.MayStore {
		t.Fatalf("may not be stored: %v", why.Label())
	}
	block, ok := o.AppendBlock(nil, &s, &response.Fields)
	if !ok {
		t.Fatal("the block is too long")
	}
	return s, block
}

func testCodec(t testing.TB, above, longest int) *codec {
	t.Helper()
	c, err := newCodec(above, longest)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

func TestARecordComesBackAsItWas(t *testing.T) {
	c := testCodec(t, 100, 1<<20)
	rapid.Check(t, func(rt *rapid.T) {
		bytesOf := func(most int) *rapid.Generator[[]byte] { return rapid.SliceOfN(rapid.Byte(), 0, most) }
		body := bytes.Repeat(bytesOf(50).Draw(rt, "body"), rapid.IntRange(0, 100).Draw(rt, "times"))
		fields := []string{"Cache-Control", "max-age=60", "Etag", `"1"`}
		if rapid.Bool().Draw(rt, "encoded") {
			fields = append(fields, "Content-Encoding", "gzip")
		}
		meta, block := stored(t, len(body), fields...)
		r := Record{
			Key:   bytesOf(300).Draw(rt, "key"),
			Epoch: rapid.StringMatching("[0-9a-f]{0,16}").Draw(rt, "epoch"),
			Count: rapid.Int64Min(0).Draw(rt, "count"),
			Tags:  rapid.SliceOfN(bytesOf(9), 0, 5).Draw(rt, "tags"),
			Block: block, Body: body, Meta: meta, Cost: rapid.Int64Min(0).Draw(rt, "cost"),
		}
		if rapid.IntRange(0, 4).Draw(rt, "marker") == 0 {
			r = Record{Key: r.Key, Epoch: r.Epoch, Count: r.Count, Vary: []byte("accept-encoding")}
		}
		value := c.append([]byte("before"), &r, testNow)[len("before"):]
		got, outcome := c.read(value, r.Key, testNow)
		if outcome != Hit {
			rt.Fatalf("%+v is %s", r, outcome.Label())
		}
		if !bytes.Equal(got.Body, r.Body) || !bytes.Equal(got.Block, r.Block) ||
			!bytes.Equal(got.Vary, r.Vary) ||
			got.Epoch != r.Epoch || got.Count != r.Count || got.Cost != r.Cost || got.Meta != r.Meta ||
			len(got.Tags) != len(r.Tags) {
			rt.Fatalf("%+v\nbecomes\n%+v", r, got)
		}
		for i := range r.Tags {
			if !bytes.Equal(got.Tags[i], r.Tags[i]) {
				rt.Fatalf("tag %q becomes %q", r.Tags[i], got.Tags[i])
			}
		}
		if _, outcome := c.read(value, append(r.Key, 'x'), testNow); outcome != OtherKey {
			rt.Fatalf("for another key it is %s", outcome.Label())
		}
	})
}

// values are of every form that there is.
func values(t testing.TB, c *codec, key []byte) [][]byte {
	body := bytes.Repeat([]byte("body"), 20)
	meta, block := stored(t, len(body), "Cache-Control", "max-age=60", "Etag", `"1"`)
	plain := Record{Key: key, Epoch: "e", Count: 3, Tags: [][]byte{[]byte("shoes")}, Block: block,
		Body: body, Meta: meta}
	marker := Record{Key: key, Epoch: "e", Vary: []byte("accept")}
	c.above = 1000
	all := [][]byte{c.append(nil, &plain, testNow), c.append(nil, &marker, testNow)}
	c.above = 10
	return append(all, c.append(nil, &plain, testNow))
}

func TestADamagedRecordIsAMiss(t *testing.T) {
	key := []byte("\x00http://example.com/a\x00")
	c := testCodec(t, 10, 1<<20)
	for form, value := range values(t, c, key) {
		if _, outcome := c.read(value, key, testNow); outcome != Hit {
			t.Fatalf("form %d is %s", form, outcome.Label())
		}
		for at := range value {
			for bit := range 8 {
				bad := bytes.Clone(value)
				bad[at] ^= 1 << bit
				if _, outcome := c.read(bad, key, testNow); outcome == Hit {
					t.Errorf("form %d with bit %d of byte %d turned is read", form, bit, at)
				}
			}
			if _, outcome := c.read(value[:at], key, testNow); outcome == Hit {
				t.Errorf("the first %d bytes of form %d are read", at, form)
			}
		}
		if _, outcome := c.read(append(bytes.Clone(value), 0), key, testNow); outcome == Hit {
			t.Errorf("form %d with a byte behind it is read", form)
		}
	}
}

func TestARecordOfAnotherVersionOrTooLongIsNamedSo(t *testing.T) {
	key := []byte("k")
	c := testCodec(t, 10, 79)
	for form, value := range values(t, c, key) {
		if _, outcome := c.read(value, key, testNow); form != 1 && outcome != TooLong {
			t.Errorf("80 bytes of at most 79 are %s", outcome.Label())
		}
		value[len(magic)]++
		if _, outcome := c.read(value, key, testNow); outcome != OtherVersion {
			t.Errorf("another version is %s", outcome.Label())
		}
	}
}

// Those who can write to the Redis can make the checksum right. The reader must stand that.
func FuzzRead(f *testing.F) {
	key := []byte("k")
	c := testCodec(f, 10, 1<<16)
	for _, value := range values(f, c, key) {
		f.Add(value[len(magic)+1 : len(value)-checksumSize])
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		value := append([]byte(magic), version)
		value = seal(append(value, content...), 0)
		r, outcome := c.read(value, key, testNow)
		if outcome != Hit {
			return
		}
		if r.Vary == nil && (r.Meta.Length != int64(len(r.Body)) ||
			r.Meta.Status < 200 || len(r.Body) > 1<<16) {
			t.Errorf("%+v", r)
		}
		r.Meta.ETag(r.Block)
		r.Meta.ModifiedText(r.Block)
	})
}
