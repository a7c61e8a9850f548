package config

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What is shown of a configuration must not tell its secrets. Three things count as secrets:
//
//   - what the environment gave: a text that holds some of it is shown as the file has it, with
//     ${NAME} in place of the value;
//   - the value of a key tagged secret, and of an entry of a mapping whose name says what it is,
//     such as a header;
//   - in any text, what follows such a name ("?token=…", `"password": "…"`), the user
//     information of a URL and a bearer token.
//
// No list of keys decides, so a key that is added later is covered too.

// redacted stands in the place of a secret, and redactedPart within a text, where it must be good
// in a URL.
const (
	redacted     = "[redacted]"
	redactedPart = "redacted"
)

var (
	// credential finds the names of what is meant for one reader only.
	credential = regexp.MustCompile(`(?i)auth|cookie|token|secret|pass|pwd|key|credential|session|signature|bearer|jwt|(^|[^a-z])sig([^a-z]|$)`)
	// disclosures are the ways in which a text tells a secret. Every reload masks every text of its
	// configuration, and most do not have all that one of them needs.
	disclosures = []disclosure{
		{[]string{"@", ":"}, regexp.MustCompile(`(:)(//)([^/?#@\s]+)@`), false}, // the user information of a URL
		// A name and its value: as in a query, a form or a cookie; between quotes, as in JSON; as in
		// a header. "auth:9001" is an address.
		{[]string{"="}, regexp.MustCompile(`([\w.-]+)(=)([^\s"'&;,<>#]+)`), true},
		{[]string{`"'`, ":="}, regexp.MustCompile(`([\w.-]+)(["']?\s*[:=]\s*["'])([^"'\n]+)`), true},
		{[]string{":", space}, regexp.MustCompile(`([\w.-]+)(:\s+)([^\s"'][^"'\n]*)`), true},
		{[]string{"bB", space}, regexp.MustCompile(`(?i)\b(bearer)(\s+)([\w.~+/=-]{8,})`), false},
	}
	// references is a text that tells nothing itself. A fallback, as in ${NAME:-text}, would tell
	// something.
	references = regexp.MustCompile(`^(?i:(bearer|basic)\s+)?(\$\{[\w.]+\}|:)+$`)
)

// space is what \s stands for.
const space = " \t\n\f\r"

// disclosure finds secrets: they are the third group.
type disclosure struct {
	needs []string // one of the characters in each of these is in what is found
	find  *regexp.Regexp
	named bool // the first group is a name, which must be a credential's
}

// canBeIn says whether a text has all that the disclosure needs.
func (d *disclosure) canBeIn(text string) bool {
	for _, some := range d.needs {
		if !strings.ContainsAny(text, some) {
			return false
		}
	}
	return true
}

// sources are the texts, as the file has them, of the values that hold something of the
// environment: a tree in the shape of the configuration, where an item of a list has its number for
// a name. It has only the branches that lead to such values; nil has none.
type sources struct {
	text  string
	under map[string]*sources
}

// put notes the text of the value at p.
func (s *sources) put(p *path, text string) { s.make(p).text = text }

func (s *sources) make(p *path) *sources {
	if p == nil {
		return s
	}
	above, name := s.make(p.parent), p.name
	if p.index >= 0 {
		name = strconv.Itoa(p.index)
	}
	if above.under == nil {
		above.under = make(map[string]*sources)
	}
	if above.under[name] == nil {
		above.under[name] = new(sources)
	}
	return above.under[name]
}

// at is the branch of a key.
func (s *sources) at(name string) *sources {
	if s == nil {
		return nil
	}
	return s.under[name]
}

// item is the branch of an item of a list.
func (s *sources) item(i int) *sources {
	if s == nil {
		return nil
	}
	return s.at(strconv.Itoa(i))
}

// key is the branch of a mapping's key. Where a bare scalar stands in place of the mapping, it is
// the mapping's own.
func (s *sources) key(k *key) *sources {
	if k.scalar && s != nil && s.text != "" {
		return s
	}
	return s.at(k.name)
}

// source is the text as the file has it, if the environment gave some of it.
func (s *sources) source() (text string, found bool) {
	if s == nil || s.text == "" {
		return "", false
	}
	return s.text, true
}

// Shown is what may be shown of the i-th route: its match, and the location of its redirect if it
// is one.
func (c *Config) Shown(i int) (match, to string) {
	r, from := &c.Routes[i], c.sources.at("routes").item(i)
	match = r.shownMatch(from)
	if r.Redirect != nil {
		to = r.Redirect.To
		if text, found := from.at("redirect").at("to").source(); found {
			to = text
		}
	}
	return match, mask(to)
}

// shownMatch is the route's match without what the environment gave.
func (r *Route) shownMatch(from *sources) string {
	if text, found := from.at("match").source(); found {
		return mask(text)
	}
	return mask(r.Match)
}

// shown is a string as YAML shows it, before it is quoted. name is that of a mapping's entry, and
// empty for what is none.
func (k *key) shown(text, name string, from *sources) string {
	if len(k.enum) > 0 {
		return text
	}
	source, found := from.source()
	switch {
	case found:
		text = source
	case !k.template:
		text = strings.ReplaceAll(text, "${", "$${")
	}
	if k.secret || credential.MatchString(name) {
		if found && references.MatchString(text) {
			return text
		}
		return redacted
	}
	return mask(text)
}

// mask replaces the values in a text that a name or their place gives away.
func mask(text string) string {
	for i := range disclosures {
		if d := &disclosures[i]; d.canBeIn(text) {
			text = d.mask(text)
		}
	}
	return text
}

// mask leaves values that hold nothing but references.
func (d *disclosure) mask(text string) string {
	var out strings.Builder
	done := 0
	for _, m := range d.find.FindAllStringSubmatchIndex(text, -1) {
		if d.named && !credential.MatchString(text[m[2]:m[3]]) || references.MatchString(text[m[6]:m[7]]) {
			continue
		}
		out.WriteString(text[done:m[6]])
		out.WriteString(redactedPart)
		done = m[7]
	}
	out.WriteString(text[done:])
	return out.String()
}

// given are the variables of the environment that a configuration uses and that are set.
type given map[string]string

// shortestSecret is the length from which a value of the environment is replaced wherever it stands
// in an error. A shorter one would be found within words that have nothing to do with it.
const shortestSecret = 6

// Redact replaces what the environment gave by its ${NAME} in errors of this configuration,
// whichever check found them. It changes the list.
func (c *Config) Redact(wrong Errors) Errors {
	if len(wrong) > 0 && len(c.given) > 0 {
		clean := c.given.replacer()
		for i := range wrong {
			wrong[i].Problem = clean.Replace(wrong[i].Problem)
		}
	}
	return wrong
}

// replacer replaces values as they are, as %q writes them, and as clip cut them; the longest first.
func (g given) replacer() *strings.Replacer {
	names := slices.SortedFunc(maps.Keys(g), func(a, b string) int {
		return cmp.Or(len(g[b])-len(g[a]), strings.Compare(a, b))
	})
	var pairs []string
	for _, name := range names {
		value := g[name]
		if len(value) < shortestSecret {
			continue
		}
		quoted := strconv.Quote(value)
		pairs = append(pairs, value, "${"+name+"}", quoted[1:len(quoted)-1], "${"+name+"}")
		for n := min(len(value), maxQuoted); n >= shortestSecret; n-- {
			pairs = append(pairs, value[:n]+"…", "${"+name+"}…")
		}
	}
	return strings.NewReplacer(pairs...)
}
