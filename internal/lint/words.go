package lint

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// outdated are words and phrases that a reader of plain English stumbles over, and what to write
// instead. The words are written in halves so that this file may hold them.
var outdated = []struct{ pattern, instead string }{
	{`dea` + `r(er|est|ly)?`, "expensive"},
	{`fore` + `t(ell(s|ing)?|old)`, "predict"},
	{`rec` + `kon(s|ed|ing)?`, "compute, estimate"},
	{`men` + `d(s|ed|ing)?`, "fix"},
	{`sel` + `dom(er)?`, "rarely"},
	{`whe` + `nce|the` + `nce|hit` + `herto|hence` + `forth`, "from where, since then"},
	{`there` + `of|where` + `of|here` + `tofore|there` + `upon`, "of it, of which"},
	{`le` + `st`, "so that … not"},
	{`nau` + `ght|nou` + `ght|aug` + `ht`, "nothing, anything"},
	{`e` + `re|whi` + `lst|amon` + `gst|un` + `to|al` + `beit`, "before, while, among, to, although"},
	{`hee` + `d(s|ed|ing)?`, "respect, obey"},
	{`sha` + `ll`, "must, will"},
	{`need` + `ful`, "required"},
	{`(cannot|can not|could not) be to` + `ld`, "cannot be determined"},
	{`(told|tells?|telling) ap` + `art`, "distinguish"},
	{`gives fi` + `rst`, "is the bottleneck, saturates first"},
	{`requests de` + `ar`, "raises the cost per request"},
	{`should ga` + `in`, "expected gain"},
	{`(hold|holds|held|holding) aga` + `inst`, "compare with"},
	{`as no` + `ne or another is`, "empty or duplicate"},
	{`so of` + `ten \(`, "the number of runs"},
	{`in va` + `in`, "without effect"},
	{`beyond cou` + `nt`, "very many"},
}

var (
	// outdatedHere matches where a word begins. openings are the first two letters of what it may
	// match, and of more: of all that stands behind a parenthesis or a bar in the patterns.
	outdatedHere = regexp.MustCompile(`(?i)^(` + strings.Join(patterns(), "|") + `)`)
	openings     = openingsOf(regexp.MustCompile(`(?:^|[(|])([a-z]{2})`))
	// isNo finds a noun behind "is no". With "there" in front that is plain English, and so is a
	// comparison.
	isNo = regexp.MustCompile(`(?i)\b([a-z]+) (is|are|was|were) no ([a-z]+)`)
	// compared may follow "is no".
	compared = []string{"longer", "more", "less", "fewer", "larger", "smaller", "greater", "later",
		"earlier", "newer", "older", "higher", "lower", "better", "worse", "slower", "faster",
		"shorter", "wider", "different", "match", "such", "use"}
)

func patterns() []string {
	all := make([]string, 0, len(outdated))
	for _, o := range outdated {
		end := `\b`
		if strings.HasSuffix(o.pattern, `\(`) {
			end = ""
		}
		all = append(all, `(?:`+o.pattern+`)`+end)
	}
	return all
}

// longest is more than the number of bytes of any outdated phrase.
const longest = 40

func openingsOf(opening *regexp.Regexp) map[[2]byte]bool {
	all := map[[2]byte]bool{}
	for _, o := range outdated {
		for _, m := range opening.FindAllStringSubmatch(o.pattern, -1) {
			all[[2]byte{m[1][0], m[1][1]}] = true
		}
	}
	return all
}

// outdatedIn are the beginnings and ends of outdated words and phrases in a text. A regular
// expression that looked for them by itself in the whole text took 6 s of this package's tests.
func outdatedIn(text []byte) (found [][2]int) {
	isWord := func(c byte) bool {
		return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_'
	}
	for i := 0; i+1 < len(text); i++ {
		begins := i == 0 || !isWord(text[i-1])
		if !begins || !openings[[2]byte{text[i] | 0x20, text[i+1] | 0x20}] {
			continue
		}
		if m := outdatedHere.FindIndex(text[i:min(i+longest, len(text))]); m != nil {
			found = append(found, [2]int{i, i + m[1]})
			i += m[1] - 1
		}
	}
	return found
}

// plainEnglish finds outdated wording in code, comments, tests, scripts and documents.
func plainEnglish(name string, source []byte) []string {
	var broken []string
	line := func(at int) int { return 1 + bytes.Count(source[:at], []byte("\n")) }
	for _, m := range outdatedIn(source) {
		word := string(source[m[0]:m[1]])
		broken = append(broken, fmt.Sprintf("%s:%d: %q is not plain English: write %s", name,
			line(m[0]), word, instead(word)))
	}
	if !bytes.Contains(source, []byte(" no ")) {
		return broken
	}
	for _, m := range isNo.FindAllSubmatchIndex(source, -1) {
		start := bytes.LastIndexByte(source[:m[0]], '\n') + 1
		before := strings.ToLower(string(source[start:m[3]]))
		after := strings.ToLower(string(source[m[6]:m[7]]))
		if !strings.Contains(before, "there") && !slices.Contains(compared, after) {
			broken = append(broken, fmt.Sprintf("%s:%d: %q: write \"is not a\"", name, line(m[0]),
				source[m[0]:m[1]]))
		}
	}
	return broken
}

func instead(word string) string {
	for _, o := range outdated {
		if regexp.MustCompile(`(?i)^(` + o.pattern + `)$`).MatchString(word) {
			return o.instead
		}
	}
	return ""
}
