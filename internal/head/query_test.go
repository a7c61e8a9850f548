package head_test

import (
	"fmt"
	"testing"

	"plimsoll/internal/head"
)

func TestNextParamPassesOverEmptyParameters(t *testing.T) {
	for query, want := range map[string]string{
		"":               "",
		"&&":             "",
		"a":              "[a= ]",
		"a=1":            "[a=1 ]",
		"&a=1&&b=&c&=d&": "[a=1 &b=&c&=d&][b= c&=d&][c= =d&][=d ]",
		"a=b=c":          "[a=b=c ]",
		"a%3Db=%26":      "[a%3Db=%26 ]",
	} {
		got := ""
		for rest := []byte(query); ; {
			name, value, after, ok := head.NextParam(rest)
			if !ok {
				break
			}
			got, rest = got+fmt.Sprintf("[%s=%s %s]", name, value, after), after
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", query, got, want)
		}
	}
}

func TestDecodedValuesOfAQuery(t *testing.T) {
	for encoded, plain := range map[string]string{
		"": "", "a": "a", "a+b": "a b", "%61%4a%4A": "aJJ", "%": "%", "%4": "%4", "%4g": "%4g", "100%": "100%", "%00": "\x00", "%2B": "+",
	} {
		if got := string(head.AppendDecoded([]byte("x"), []byte(encoded))); got != "x"+plain {
			t.Errorf("%q stands for %q, got %q", encoded, plain, got[1:])
		}
		if !head.DecodesTo([]byte(encoded), plain) || head.DecodesTo([]byte(encoded), plain+"x") {
			t.Errorf("%q is not compared rightly with %q", encoded, plain)
		}
		if plain != "" && head.DecodesTo([]byte(encoded), plain[:len(plain)-1]) {
			t.Errorf("%q counts as what it only begins with", encoded)
		}
	}
}
