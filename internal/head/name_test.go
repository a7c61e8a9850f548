package head_test

import (
	"fmt"
	"strings"
	"testing"

	"plimsoll/internal/head"
)

// known calls f for every known name.
func known(f func(id head.ID, name string)) {
	for id := head.Alias + 1; int(id) < len(head.Text); id++ {
		f(id, head.Text[id])
	}
}

func TestKnownNamesAreFoundInEveryCase(t *testing.T) {
	known(func(id head.ID, name string) {
		for _, spelt := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			if got := head.Lookup([]byte(spelt)); got != id {
				t.Errorf("Lookup(%q) = %d, want %d", spelt, got, id)
			}
		}
	})
}

func TestEveryKnownNameHasASpellingAndASetBit(t *testing.T) {
	if len(head.Text) > 64 {
		t.Fatalf("%d names do not fit the set of a List", len(head.Text))
	}
	known(func(id head.ID, name string) {
		if name == "" || strings.HasSuffix(name, "-") {
			t.Errorf("name %d is spelt %q", id, name)
		}
	})
}

// A look-up that folds case with one OR must not take a byte that merely shares bits with a letter,
// a dash or a digit.
func TestNoOtherByteIsTakenForTheRightOne(t *testing.T) {
	known(func(id head.ID, name string) {
		for i := range name {
			for c := range 256 {
				changed := []byte(name)
				changed[i] = byte(c)
				want := head.Other
				switch {
				case strings.EqualFold(string(changed), name) && c < 0x80:
					want = id
				case c == '_' && name[i] == '-':
					want = head.Alias
				}
				if got := head.Lookup(changed); got != want && !isKnown(changed) {
					t.Fatalf("Lookup(%q) = %d, want %d", changed, got, want)
				}
			}
		}
	})
}

func isKnown(name []byte) (found bool) {
	known(func(_ head.ID, text string) { found = found || strings.EqualFold(text, string(name)) })
	return
}

func TestUnderscoreSpellingsOfKnownNamesAreAliases(t *testing.T) {
	for _, name := range []string{
		"X_Forwarded_For", "x_forwarded-for", "X-FORWARDED_PROTO", "Content_Length", "transfer_encoding", "x_request-id",
		"PROXY_AUTHORIZATION", "HTTP2_Settings",
	} {
		if got := head.Lookup([]byte(name)); got != head.Alias {
			t.Errorf("Lookup(%q) = %d, want Alias", name, got)
		}
	}
	for _, name := range []string{
		"", "_", "Host_", "_Host", "X_Forwarded_Fox", "X__Forwarded_For", "X_Custom_Name", "X-Forwarded-Fo_", "a", "Ho", "Te ",
		"X-Custom", strings.Repeat("x", 300), "Proxy-Authorization_", "C_okie",
	} {
		if got := head.Lookup([]byte(name)); got != head.Other {
			t.Errorf("Lookup(%q) = %d, want Other", name, got)
		}
	}
}

func TestEqualFold(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"", "", true}, {"a-B", "A-b", true}, {"a", "ab", false}, {"a_b", "a-b", false}, {"[", "{", false}, {"@", "`", false}} {
		if got := head.EqualFold([]byte(c.a), []byte(c.b)); got != c.want {
			t.Errorf("EqualFold(%q, %q) = %v", c.a, c.b, got)
		}
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	names := [][]byte{[]byte("Accept-Encoding"), []byte("X_Forwarded_For"), []byte("X-Custom"), []byte("sec-ch-ua-platform")}
	if n := testing.AllocsPerRun(100, func() {
		for _, name := range names {
			head.Lookup(name)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLookup(b *testing.B) {
	for _, name := range []string{"Host", "accept-encoding", "Proxy-Authorization", "X-Custom", "sec-ch-ua-platform", "X_Forwarded_For"} {
		b.Run(fmt.Sprint(name), func(b *testing.B) {
			text := []byte(name)
			for b.Loop() {
				head.Lookup(text)
			}
		})
	}
}
