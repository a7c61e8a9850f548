package exchange_test

import (
	"strings"
	"testing"

	"plimsoll/internal/exchange"
	"plimsoll/internal/head"
)

func cookies(values ...string) *head.List {
	l := &head.List{}
	l.Add([]byte("Accept"), []byte("session=no"))
	for _, v := range values {
		l.Add([]byte("cookie"), []byte(v))
	}
	return l
}

func TestCookie(t *testing.T) {
	const none = "<none>"
	for _, c := range []struct {
		fields []string
		want   string
	}{
		{nil, none},
		{[]string{""}, none},
		{[]string{"session=abc"}, "abc"},
		{[]string{"a=1; session=abc; b=2"}, "abc"},
		{[]string{"a=1;session=abc;b=2"}, "abc"},
		{[]string{"a=1; ;; \tsession=abc \t; b=2"}, "abc"},
		{[]string{"a=1", "b=2; session=abc"}, "abc"},
		{[]string{"session=first; session=second"}, "first"},
		{[]string{"session="}, ""},
		{[]string{"session"}, none},
		{[]string{"Session=abc"}, none},
		{[]string{"xsession=abc"}, none},
		{[]string{"sessions=abc"}, none},
		{[]string{`session="a=b"`}, `"a=b"`},
		{[]string{"a=session=no"}, none},
	} {
		got := exchange.Cookie(cookies(c.fields...), "session")
		if text := string(got); got == nil && c.want != none || got != nil && text != c.want {
			t.Errorf("%q: got %q, want %q", c.fields, got, c.want)
		}
	}
}

func TestCookieLooksAtABoundedNumber(t *testing.T) {
	crumbs := strings.Repeat("a=1;", 255)
	if got := exchange.Cookie(cookies(crumbs+"session=abc"), "session"); string(got) != "abc" {
		t.Errorf("the 256th cookie: %q", got)
	}
	if got := exchange.Cookie(cookies(crumbs+"a=1", "session=abc"), "session"); got != nil {
		t.Errorf("the 257th cookie: %q", got)
	}
}

func TestCookieDoesNotAllocate(t *testing.T) {
	l := cookies("a=1; b=2; session=abc")
	if n := testing.AllocsPerRun(100, func() { exchange.Cookie(l, "session") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCookie(b *testing.B) {
	l := cookies("_ga=GA1.1.1234567890.1700000000; theme=dark; session=0123456789abcdef")
	b.ReportAllocs()
	for b.Loop() {
		exchange.Cookie(l, "session")
	}
}
