package report

import (
	"fmt"
	"html"
	"strings"
)

// markup is HTML. Texts become markup through fill alone, which escapes them.
//
// The pages were templates of html/template before. Those call methods by their names, and in a
// program that can reach such a call the linker keeps every exported method of every type.
type markup string

// constant is a text of this program: Go converts no variable to it unasked, so nothing of a run
// can be taken for markup by mistake.
type constant string

// fill puts values in the place of a format's verbs: markup as it is, everything else escaped for
// text and for an attribute's value in double quotes. No other place is safe for a text of a run:
// no name, no address, no style and no script.
func fill(format constant, values ...any) markup {
	for i, v := range values {
		if _, is := v.(markup); !is {
			values[i] = html.EscapeString(fmt.Sprint(v))
		}
	}
	return markup(fmt.Sprintf(string(format), values...))
}

// each is the markup of all entries of a list.
func each[T any](list []T, one func(T) markup) markup {
	var all strings.Builder
	for _, entry := range list {
		all.WriteString(string(one(entry)))
	}
	return markup(all.String())
}

// given is the markup of a text, nothing if it is empty.
func given(format constant, text string) markup {
	if text == "" {
		return ""
	}
	return fill(format, text)
}

// where is markup on a condition.
func where(is bool, m markup) markup {
	if !is {
		return ""
	}
	return m
}

// section has a heading; class may be empty.
func section(class, id, title string, parts ...markup) markup {
	body := each(parts, func(m markup) markup { return m })
	return fill(`<section aria-labelledby="h-%[1]s"%[2]s><h2 id="h-%[1]s">%[3]s</h2>
%[4]s</section>
`, id, given(` class="%s"`, class), title, body)
}

// col is the head of a column of words, num that of a column of figures.
func col(name string) markup { return fill(`<th scope="col">%s</th>`, name) }

func num(name string) markup { return fill(`<th scope="col" class="n">%s</th>`, name) }

// table can be scrolled by those who cannot see all of it; class may be empty.
func table(label, class string, heads []markup, rows markup) markup {
	return fill(`<div class="scroll" tabindex="0" role="region" aria-label="%s"><table%s>
<thead><tr>%s</tr></thead>
<tbody>%s</tbody></table></div>
`, label, given(` class="%s"`, class), each(heads, func(m markup) markup { return m }), rows)
}

// plot is a place for a chart of the front end; label is for those who cannot see it.
func plot(class, chart, label string) markup {
	return fill(`<figure class="%s" data-chart="%s" data-label="%s"></figure>
`, class, chart, label)
}

// lead says what a section shows.
func lead(says string) markup { return fill("<p class=\"lead\">%s</p>\n", says) }

// items are a list of texts.
func items(texts []string) markup {
	return fill(`<ul class="plain">%s</ul>`,
		each(texts, func(s string) markup { return fill("<li>%s</li>", s) }))
}
