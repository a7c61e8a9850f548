package report_test

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	parse "golang.org/x/net/html"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/record"
	"plimsoll/internal/lab/report"
	"plimsoll/web"
)

// pages are all kinds of page whose every text is the same.
func pages(t *testing.T, text string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	made := func(name string, write func(w io.Writer) error) {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		all[name] = out.Bytes()
	}
	made("run", func(w io.Writer) error { return report.Write(w, saying(text), claiming(text)) })
	made("run without charts", func(w io.Writer) error {
		return report.WriteWith(w, saying(text), claiming(text), web.Assets{})
	})
	made("comparison", func(w io.Writer) error {
		return report.Compare(w, saying(text), saying(text+"2"))
	})
	made("flames", func(w io.Writer) error {
		return report.WriteFlames(w, text, claiming(text).Flames)
	})
	return all
}

// structure is a page without its texts: its elements in their order, with the names of their
// attributes.
func structure(t *testing.T, page []byte) (all []string) {
	t.Helper()
	for z := parse.NewTokenizer(bytes.NewReader(page)); ; {
		switch kind := z.Next(); kind {
		case parse.ErrorToken:
			if z.Err() != io.EOF {
				t.Fatal(z.Err())
			}
			return all
		case parse.TextToken:
		default:
			token := z.Token()
			tag := kind.String() + " " + token.Data
			for _, a := range token.Attr {
				tag += " " + a.Key
			}
			all = append(all, tag)
		}
	}
}

func TestNoTextChangesThePagesStructure(t *testing.T) {
	plain := pages(t, "plain")
	for _, text := range []string{
		evil, "</script>", "</title></style></svg></table>", "<!--", "]]>", `" autofocus onfocus="x`,
		"' onload='x", "&lt;b&gt;", "&#34; onload=&#34;x", "a\u2028b\u2029c", "a\x00<b", "\xff<b\xfe>",
		"%s %d %!s(MISSING) %%", "{{.}}", "javascript:alert(1)", "\n<b>\r\n", "+ADw-script+AD4-",
	} {
		for name, page := range pages(t, text) {
			got, want := structure(t, page), structure(t, plain[name])
			if !slices.Equal(got, want) {
				at := 0
				for at < min(len(got), len(want)) && got[at] == want[at] {
					at++
				}
				t.Errorf("%s, %q: %d elements, want %d; they differ from number %d on: %v",
					name, text, len(got), len(want), at, got[at:min(at+4, len(got))])
			}
		}
	}
}

func TestEveryPlaceOfAPageHasItsValueAndEveryValueAPlace(t *testing.T) {
	runs := lacking()
	runs["plain"] = plain().survey()
	for name, run := range runs {
		for which, d := range map[string]*diagnose.Diagnosis{
			"none": nil, "sick": sick(), "healthy": healthy(), "empty": {},
		} {
			for _, front := range []web.Assets{{}, web.Report()} {
				holds(t, name+", diagnosis "+which, run, d, front)
			}
		}
	}
}

func holds(
	t *testing.T, name string, run *record.Run, d *diagnose.Diagnosis, front web.Assets,
) {
	t.Helper()
	var out bytes.Buffer
	if err := report.WriteWith(&out, run, d, front); err != nil {
		t.Fatal(err)
	}
	page := strings.Replace(out.String(), front.Script, "", 1)
	if at := misfilled.FindStringIndex(page); at != nil {
		around := page[max(at[0]-80, 0):min(at[1]+40, len(page))]
		t.Errorf("%s: a value is missing, or one is too many: %s", name, around)
	}
}

// misfilled is what fmt makes of a verb without a value, and of a value without a verb. It begins
// with fixed text, so that a page is searched fast.
var misfilled = regexp.MustCompile(`%!\w?\(`)
