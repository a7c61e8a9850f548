package report

import (
	"fmt"
	"html"
	"strings"
)

// markup is HTML. Texts become markup through fill alone, which escapes them.
//
// The pages used to be templates of html/template. Those call methods by name, and if a program can
// reach such a call, the linker keeps every exported method of every type.
type markup string

// constant is a text of this program. Go does not convert a variable to it implicitly, so a text
// from a run cannot become markup by mistake.
type constant string

// fill replaces a format's verbs by values. Markup is inserted as it is. Everything else is escaped
// for text and for an attribute value in double quotes. A run's text is safe nowhere else: not in a
// name, an address, a style or a script.
func fill(format constant, values ...any) markup {
	for i, v := range values {
		if _, is := v.(markup); !is {
			values[i] = html.EscapeString(fmt.Sprint(v))
		}
	}
	return markup(fmt.Sprintf(string(format), values...))
}

// each joins the markup of all entries of a list.
func each[T any](list []T, one func(T) markup) markup {
	var all strings.Builder
	for _, entry := range list {
		all.WriteString(string(one(entry)))
	}
	return markup(all.String())
}

// given is the markup of a text; empty if the text is.
func given(format constant, text string) markup {
	if text == "" {
		return ""
	}
	return fill(format, text)
}

// where returns markup if a condition holds.
func where(is bool, m markup) markup {
	if !is {
		return ""
	}
	return m
}

// section is a section with a heading; class may be empty.
func section(class, id, title string, parts ...markup) markup {
	body := each(parts, func(m markup) markup { return m })
	return fill(`<section aria-labelledby="h-%[1]s"%[2]s><h2 id="h-%[1]s">%[3]s</h2>
%[4]s</section>
`, id, given(` class="%s"`, class), title, body)
}

// col is the header of a text column, num that of a number column.
func col(name string) markup { return fill(`<th scope="col">%s</th>`, name) }

func num(name string) markup { return fill(`<th scope="col" class="n">%s</th>`, name) }

// table is a table that scrolls if it is too wide; class may be empty.
func table(label, class string, heads []markup, rows markup) markup {
	return fill(`<div class="scroll" tabindex="0" role="region" aria-label="%s"><table%s>
<thead><tr>%s</tr></thead>
<tbody>%s</tbody></table></div>
`, label, given(` class="%s"`, class), each(heads, func(m markup) markup { return m }), rows)
}

// plot is a place for a chart of the front end; label describes it for readers who cannot see it.
func plot(class, chart, label string) markup {
	return fill(`<figure class="%s" data-chart="%s" data-label="%s"></figure>
`, class, chart, label)
}

// lead says what a section shows.
func lead(says string) markup { return fill("<p class=\"lead\">%s</p>\n", says) }

// items is a list of texts.
func items(texts []string) markup {
	return fill(`<ul class="plain">%s</ul>`,
		each(texts, func(s string) markup { return fill("<li>%s</li>", s) }))
}
