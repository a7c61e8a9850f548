package scenario

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// oracle is what encoding/json says that a path leads to.
func oracle(data []byte, path jsonPath) (v any, found, valid bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if !json.Valid(data) || d.Decode(&v) != nil {
		return nil, false, false
	}
	for _, k := range path {
		switch at := v.(type) {
		case map[string]any:
			if v, found = at[string(k.name)]; !found {
				return nil, false, true
			}
		case []any:
			if k.index < 0 || k.index >= len(at) {
				return nil, false, true
			}
			v = at[k.index]
		default:
			return nil, false, true
		}
	}
	return v, true, true
}

// decoded is what find gave, as encoding/json has it.
func decoded(t *testing.T, k jsonKind, raw []byte) (v any) {
	t.Helper()
	switch k {
	case jsonText:
		return string(unescape(nil, raw))
	case jsonNumber:
		return json.Number(raw)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %q", err, raw)
	}
	return v
}

func compare(t *testing.T, s *scan, data []byte, path jsonPath) {
	t.Helper()
	k, raw, valid := s.find(data, path)
	want, found, wantValid := oracle(data, path)
	if valid != wantValid {
		t.Fatalf("valid is %v, encoding/json says %v of %q", valid, wantValid, data)
	}
	if (k != jsonAbsent) != found {
		t.Fatalf("kind %d at %v of %q, encoding/json found %v %v", k, path, data, want, found)
	}
	if found {
		if got := decoded(t, k, raw); !reflect.DeepEqual(got, want) {
			t.Fatalf("%#v at %v of %q, encoding/json says %#v", got, path, data, want)
		}
	}
}

func FuzzJSONPath(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"data": {"token": "abc"}}`, "data.token"},
		{`[1, [2, {"a": -0.5e+3}]]`, "1.1.a"},
		{`{"a": 1, "a": {"b": 2}}`, "a.b"},
		{`{"a": {"b": 1}, "a": {}}`, "a.b"},
		{`{"\u0061\n": "\ud83d\ude00\ud83d x\\"}`, "a\n"},
		{`{"0": true, "1": null}`, "0"},
		{"{}", "0"},
		{"[]", "0"},
		{`{"a": 01}`, "a"},
		{`{"a": 1,}`, "a"},
		{`{"a" 1}`, "a"},
		{`"\u12`, "a"},
		{`{"a": tru}`, "a"},
		{"{\"a\": \"\x01\"}", "a"},
		{`[1 2]`, "0"},
		{`{"a": 1} {}`, "a"},
		{"", "a"},
		{`{"a": -}`, "a"},
		{`{"a": 1.}`, "a"},
		{`{"a": 1e}`, "a"},
		{`{"a\.b": 1}`, `a\.b`},
		{`{"a.b": 1}`, `a\.b`},
		{`{"a": "\ud83dx\ude00\u00e9"}`, "a"},
		{`{"a": "\ud83d\u0041"}`, "a"},
		{`[[[[[[1]]]]]]`, "0.0.0.0.0.0"},
		{" \t\r\n{ \"a\" : [ ] } ", "a"},
	} {
		f.Add([]byte(seed[0]), seed[1])
	}
	var s scan
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		path, err := parseJSONPath(text)
		// encoding/json turns bytes that are not UTF-8 into U+FFFD, and nests deeper: neither is
		// compared here.
		if err != nil || !utf8.Valid(data) ||
			strings.Count(string(data), "[")+strings.Count(string(data), "{") > maxDepth {
			return
		}
		compare(t, &s, data, path)
	})
}

func TestJSONThatIsTooDeepIsRefusedAndNotFollowed(t *testing.T) {
	var s scan
	path, err := parseJSONPath("a")
	if err != nil {
		t.Fatal(err)
	}
	deep := func(n int) []byte {
		return []byte(`{"a": ` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}")
	}
	if _, _, valid := s.find(deep(maxDepth), path); !valid {
		t.Error("JSON that is as deep as it may be is refused")
	}
	if _, _, valid := s.find(deep(maxDepth+1), path); valid {
		t.Error("JSON that is deeper than it may be is read")
	}
	if _, _, valid := s.find(bytes.Repeat([]byte("["), 1<<20), path); valid {
		t.Error("a million brackets are read")
	}
}

func TestFindingAValueDoesNotAlloc(t *testing.T) {
	var s scan
	var dst []byte
	data := []byte(`{"list": [1, {"deep": [true, null]}], "d\u0061ta": {"token": "a\u00e9\n\ud83d\ude00", "n": -12.5e3}}`)
	token, _ := parseJSONPath("data.token")
	n, _ := parseJSONPath("data.n")
	once := func() {
		k, raw, _ := s.find(data, token)
		dst = unescape(dst[:0], raw)
		if k2, raw, _ := s.find(data, n); k != jsonText || k2 != jsonNumber ||
			string(raw) != "-12.5e3" {
			t.Fatalf("%q %q", dst, raw)
		}
	}
	once()
	if string(dst) != "aé\n😀" {
		t.Errorf("%q", dst)
	}
	if n := testing.AllocsPerRun(1000, once); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFind(b *testing.B) {
	var s scan
	var items strings.Builder
	for i := range 20 {
		items.WriteString(`{"id":"` + strconv.Itoa(i) +
			`","name":"brass sextant","cents":18900,"left":12},`)
	}
	data := []byte(`{"items": [` + items.String() + `0], "token": "abc"}`)
	path, _ := parseJSONPath("token")
	b.Run("find", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			s.find(data, path)
		}
	})
	b.Run("json.Valid", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			json.Valid(data)
		}
	})
}
